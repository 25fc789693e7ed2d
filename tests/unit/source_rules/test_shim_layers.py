"""The layers of shim/: includes go downwards, calls follow includes, and no folders form a circle.

The declared order is ``SHIM_LAYERS`` in shim/CMakeLists.txt, the highest layer first. Every rule is a function from the
root of a source tree to the violations found there, so that each is also shown to find a planted one.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.arm64_machine import COMPILER, has_libc
from tests.support.paths import ROOT

SHIM = ROOT / "shim"
#: More files directly in one folder are hard to find one's way in.
MOST_FILES = 15
#: Lists that are included in the middle of a declaration, so they need not compile on their own.
X_MACROS = ("inside/core/interposed.h", "inside/cuda/call_list.h")
#: Headers of one processor, and Debian's compiler for it. arch.h includes that of the processor it is compiled for.
OF_PROCESSOR = {
    "shared/arch/aarch64.h": ("aarch64", COMPILER),
    "shared/arch/x86_64.h": ("x86_64", "x86_64-linux-gnu-gcc"),
}
#: In shim/ but in no layer: the unit tests include everything.
OUTSIDE = "tests"

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
#: A definition at the beginning of a line: attributes, type, name, parameters, and the brace of the body.
FUNCTION = re.compile(r"^(?!static|typedef|struct \w+ \{|#|return)([A-Za-z_][^\n;{}()=]*[ *])(\w+)\([^;{}]*\) \{", re.M)
VARIABLE = re.compile(
    r"^(?!static|extern|typedef|#|return)[A-Za-z_][\w *()]*?[ *](\w+)(?:\[[^\]\n]*\])?(?: = [^\n]*)?;", re.M
)


@dataclass(frozen=True)
class Tree:
    """A source tree: its layers, the lowest first, and the text of its files by path, without comments."""

    layers: list[str]
    files: dict[str, str]

    def rank(self, folder: str) -> int:
        """The position of a layer. What lies outside of shim/ (formats) is below all of them."""
        return self.layers.index(folder) if folder in self.layers else -1


def folder_of(path: str) -> str:
    """The layer that a file belongs to."""
    return str(Path(path).parent)


def read_tree(shim: Path) -> Tree:
    """The tree below a copy of shim/."""
    declared = re.search(r"set\(SHIM_LAYERS\n(.*?)\)", (shim / "CMakeLists.txt").read_text(), re.DOTALL)
    assert declared, "CMakeLists.txt declares no SHIM_LAYERS"
    layers = [line.split("#")[0].strip(" )") for line in declared[1].splitlines()]
    files = {
        str(path.relative_to(shim)): COMMENT.sub(" ", path.read_text())
        for path in sorted(shim.rglob("*.[ch]"))
        if path.relative_to(shim).parts[0] != OUTSIDE
    }
    return Tree([layer for layer in reversed(layers) if layer], files)


def arrows(tree: Tree) -> Iterator[tuple[str, str]]:
    """Including file and included path, for each include of another folder."""
    for path, text in tree.files.items():
        yield from ((path, name) for name in INCLUDE.findall(text) if folder_of(name) != folder_of(path))


def undeclared_folders(tree: Tree) -> list[str]:
    """Folders with sources that are in no layer: nothing would be checked of them."""
    return sorted({f"{folder_of(path)} is in no layer" for path in tree.files if folder_of(path) not in tree.layers})


def upward_includes(tree: Tree) -> list[str]:
    """Includes that point to a higher layer, or from one side (program, recorder) to the other."""
    found = []
    for path, name in arrows(tree):
        other_side = {path.split("/")[0], name.split("/")[0]} == {"inside", "watch"}
        if tree.rank(folder_of(name)) > tree.rank(folder_of(path)) or other_side:
            found.append(f"{path} includes {name}")
    return found


def circles(tree: Tree) -> list[str]:
    """Folders that include each other, directly or through others, whatever the declared order."""
    below: dict[str, set[str]] = {}
    for path, name in arrows(tree):
        below.setdefault(folder_of(path), set()).add(folder_of(name))

    def reachable(folder: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(below.get(folder, ()))
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += below.get(each, ())
        return seen

    return [f"{folder} includes itself through others" for folder in sorted(below) if folder in reachable(folder)]


def definitions(tree: Tree) -> dict[str, str]:
    """Defining file of each function and variable that other files can use. The libc functions that we export are not
    ours to declare."""
    found = {}
    for path, text in tree.files.items():
        if path.endswith(".c"):
            for head, name in FUNCTION.findall(text):
                if "EXPORT" not in head:
                    found[name] = path
            found |= dict.fromkeys(VARIABLE.findall(text), path)
    return found


def declaring_headers(tree: Tree, name: str, folder: str) -> set[str]:
    """Headers of the folder in which the name stands as a declaration."""
    declaration = re.compile(rf"^(?!#)[A-Za-z_][^\n;{{}}=]*[ *]{name}(?:\[[^\]]*\])?(?:\(|;)", re.MULTILINE)
    return {
        path
        for path, text in tree.files.items()
        if path.endswith(".h") and folder_of(path) == folder and declaration.search(text)
    }


def hidden_uses(tree: Tree) -> list[str]:
    """Uses of another folder's function or variable that no include announces."""
    defined, found = definitions(tree), []
    headers = {name: declaring_headers(tree, name, folder_of(path)) for name, path in defined.items()}
    for path, text in tree.files.items():
        own = {"static " + name for name in re.findall(r"^static [^\n;{}()=]*[ *](\w+)\(", text, re.MULTILINE)}
        code = TEXT.sub('""', re.sub(r"(?:->|\.|struct |enum )\s*\w+", " ", text))
        included = set(INCLUDE.findall(text))
        for name in sorted(set(re.findall(r"\b\w+\b", code)) & set(defined)):
            if folder_of(defined[name]) == folder_of(path) or f"static {name}" in own:
                continue
            if not headers[name]:
                found.append(f"{path} uses {name}, which no header of {folder_of(defined[name])} declares")
            elif path.endswith(".c") and not headers[name] & included and calls(code, name):
                found.append(f"{path} calls {name} without including {' or '.join(sorted(headers[name]))}")
    return found


def calls(code: str, name: str) -> bool:
    """Is there a call of the function, rather than a local variable of that name?"""
    return re.search(rf"\b{name}\(", code) is not None


def crowded_folders(tree: Tree) -> list[str]:
    """Folders with too many files directly in them."""
    counts = [(layer, sum(folder_of(path) == layer for path in tree.files)) for layer in tree.layers]
    return [f"{layer} has {count} files" for layer, count in counts if count > MOST_FILES]


RULES = [undeclared_folders, upward_includes, circles, hidden_uses, crowded_folders]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_shim_keeps_the_rule(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule(read_tree(SHIM)) == []


def test_the_rules_see_the_whole_shim() -> None:
    tree = read_tree(SHIM)
    assert len(tree.layers) >= 10 and len(tree.files) >= 80
    assert len(definitions(tree)) >= 200 and "spool" in definitions(tree) and "spool_claim" in definitions(tree)
    assert len(list(arrows(tree))) >= 200


def plant(folder: Path, **files: str) -> Tree:
    """A tree of two layers, upper above lower, with the given files beside those that keep the rules."""
    sound = {
        "CMakeLists.txt": "set(SHIM_LAYERS\n  upper # calls\n  lower) # is called\n",
        "lower/low.h": "int low(void);\nextern int state;\n",
        "lower/low.c": '#include "lower/low.h"\nint state;\nint low(void) {\n  return state;\n}\n',
        "upper/up.h": "int up(void);\n",
        "upper/up.c": '#include "upper/up.h"\n#include "lower/low.h"\nint up(void) {\n  return low() + state;\n}\n',
    }
    for name, text in (sound | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_tree(folder)


def test_nothing_is_found_in_a_tree_that_keeps_the_rules(tmp_path: Path) -> None:
    tree = plant(tmp_path)
    assert [rule(tree) for rule in RULES] == [[]] * len(RULES)


def test_a_planted_upward_include_is_found(tmp_path: Path) -> None:
    tree = plant(tmp_path, **{"lower/more.c": '#include "upper/up.h"\n'})
    assert upward_includes(tree) == ["lower/more.c includes upper/up.h"]
    assert circles(tree) == ["lower includes itself through others", "upper includes itself through others"]


def test_a_planted_circle_through_a_third_folder_is_found(tmp_path: Path) -> None:
    third = {"third/a.h": "", "third/a.c": '#include "upper/up.h"\n', "lower/more.c": '#include "third/a.h"\n'}
    tree = plant(tmp_path, **third)
    assert len(circles(tree)) == 3
    assert undeclared_folders(tree) == ["third is in no layer"]


def test_a_planted_include_of_the_other_side_is_found(tmp_path: Path) -> None:
    text = "set(SHIM_LAYERS\n  watch\n  inside/core)\n"
    tree = plant(
        tmp_path, **{"CMakeLists.txt": text, "inside/core/a.h": "", "watch/w.c": '#include "inside/core/a.h"\n'}
    )
    assert upward_includes(tree) == ["watch/w.c includes inside/core/a.h"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"lower/bare.c": "void bare(void) {\n}\n", "upper/x.c": "void x(void) {\n  bare();\n}\n"},
            "no header of lower",
        ),
        (
            {"lower/bare.c": "int hidden;\n", "upper/x.c": "extern int hidden;\nint y(void) {\n  return hidden;\n}\n"},
            "hidden",
        ),
        (
            {"upper/x.c": "int low(void);\nint x(void) {\n  return low();\n}\n"},
            "calls low without including lower/low.h",
        ),
        (
            {"lower/more.c": "int up(void);\nint more(void) {\n  return up();\n}\n"},
            "calls up without including upper/up.h",
        ),
    ],
)
def test_a_planted_hidden_use_is_found(tmp_path: Path, files: dict[str, str], words: str) -> None:
    found = hidden_uses(plant(tmp_path, **files))
    assert len(found) == 1 and words in found[0]


def test_a_planted_crowd_is_found(tmp_path: Path) -> None:
    tree = plant(tmp_path, **{f"lower/file_{number}.c": "" for number in range(MOST_FILES)})
    assert crowded_folders(tree) == [f"lower has {MOST_FILES + 2} files"]


def compiler_of(header: str) -> str | None:
    """The compiler for the processor of a header: for most, that of this machine. None if there is none here, or none with
    the headers of a C library."""
    processor, cross_compiler = OF_PROCESSOR.get(header, (platform.machine(), ""))
    found = shutil.which("cc" if processor == platform.machine() else cross_compiler)
    return found if found and has_libc(found) else None


def broken_headers(shim: Path, headers: list[str]) -> list[str]:
    """Headers that do not compile on their own. Those of another processor count where a compiler for it is here."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    options = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-fsyntax-only",
        "-Werror",
        "-I",
        str(shim),
        "-I",
        str(ROOT),
        "-x",
        "c",
        "-",
    ]
    broken = []
    for name in headers:
        compiler = compiler_of(name)
        if compiler:
            done = subprocess.run([compiler, *options], input=f'#include "{name}"\n', text=True, capture_output=True)
            broken += [name] if done.returncode else []
    return broken


def test_every_header_compiles_on_its_own(tmp_path: Path) -> None:
    headers = [path for path in read_tree(SHIM).files if path.endswith(".h") and path not in X_MACROS]
    assert len(headers) > 40
    assert broken_headers(SHIM, headers) == []
    (tmp_path / "needs.h").write_text("size_t length(void);\n")
    assert broken_headers(tmp_path, ["needs.h"]) == ["needs.h"]


def test_the_headers_of_processors_are_those_that_are_there_and_a_broken_one_is_found(tmp_path: Path) -> None:
    own = [path for path in read_tree(SHIM).files if folder_of(path) == "shared/arch"]
    assert sorted(own) == sorted([*OF_PROCESSOR, "shared/arch/arch.h"])
    assert [name for name, (processor, _) in OF_PROCESSOR.items() if processor == platform.machine()]
    (tmp_path / "shared/arch").mkdir(parents=True)
    for name in OF_PROCESSOR:
        (tmp_path / name).write_text("size_t length(void);\n")
    assert broken_headers(tmp_path, [*OF_PROCESSOR]) == [name for name in OF_PROCESSOR if compiler_of(name)]


def test_other_processors_are_refused_by_the_compiler_and_by_cmake(tmp_path: Path) -> None:
    compiler, cmake = (
        shutil.which("cc"),
        shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"),
    )
    if not compiler or not cmake:
        pytest.skip("no C compiler or no cmake")
    compile_it = [compiler, "-U__x86_64__", "-fsyntax-only", "-I", str(SHIM), str(SHIM / "shared" / "base.h")]
    done = subprocess.run(compile_it, capture_output=True, text=True)
    assert done.returncode != 0 and "supports Linux on x86-64 and arm64 only" in done.stderr
    other = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"]
    done = subprocess.run([cmake, "-S", SHIM, "-B", tmp_path, *other], capture_output=True, text=True)
    assert done.returncode != 0 and "this is Linux on riscv64" in " ".join(done.stderr.split())
