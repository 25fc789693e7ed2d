"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpreters import interpreters

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "formats": set(),
    "recorder": {"formats"},
    "analyze": {"formats"},
    "cli": {"formats", "recorder", "analyze"},
}
#: Third-party package: the files that may import it (a folder stands for all of its files).
THIRD_PARTY = {
    "duckdb": ["analyze"],
    "pyarrow": ["formats/trace/writer.py", "formats/trace/row_groups.py", "formats/trace/arrow.py"],
    "typer": ["cli"],
    "click": ["cli"],
    "rich": ["cli"],
    "pynvml": ["recorder"],
    "numpy": ["formats", "recorder", "analyze"],
    "cffi": ["formats"],
    "_cffi_backend": ["formats/spool/layout_ffi.py"],
}
SOURCES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))
C_SOURCES = sorted((ROOT / "shim" / "src").glob("*.[ch]"))


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The full name of the module that a ``from`` import names."""
    if node.level == 0:
        return node.module or ""
    package = ["scalene_trace", *path.relative_to(ROOT).parent.parts]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside functions, by full name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        words = name.split(".")
        if words[0] == "scalene_trace" and len(words) > 1 and words[1] != own:
            assert words[1] in MAY_IMPORT[own], f"{own} must not import {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_third_party_packages_stay_where_they_belong(path: Path) -> None:
    inside = str(path.relative_to(ROOT))
    for word in {name.split(".")[0] for name in imports(path)} - {"scalene_trace", ""}:
        if word in THIRD_PARTY:
            assert any(inside == place or inside.startswith(f"{place}/") for place in THIRD_PARTY[word]), word
        else:
            assert word in sys.stdlib_module_names, f"{word} is not among the dependencies"


def test_the_analysis_starts_without_pyarrow_and_the_recorder_without_duckdb() -> None:
    for module, unwanted in (("analyze", "pyarrow"), ("formats", "pyarrow"), ("recorder", "duckdb")):
        code = f"import sys, scalene_trace.{module}; print('{unwanted}' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n", module


PHRASE = re.compile(r"Context: (\w+)")


@pytest.mark.parametrize("path", C_SOURCES, ids=lambda path: path.name)
def test_contexts_are_named_in_the_fixed_phrase(path: Path) -> None:
    unknown = set(PHRASE.findall(path.read_text())) - {"signal", "malloc", "normal"}
    assert not unknown
    assert not re.search(r"\b[Cc]ontext:[^ ]|\bcontext: (signal|malloc|normal)\b", path.read_text())


#: What must not be called where a signal handler or malloc may be running: it allocates, locks or formats.
FORBIDDEN = re.compile(
    r"\b(malloc|calloc|realloc|free|printf|fprintf|snprintf|fopen|dlsym|dlopen|pthread_mutex_lock|syslog)\s*\("
)
DEFINITION = re.compile(
    r"/\*(?P<comment>(?:[^*]|\*(?!/))*?)\*/\n(?P<head>[^\n;{}#/][^\n;{}]*\([^;{}]*\)\s*)\{", re.MULTILINE
)


def marked_bodies(text: str) -> Iterator[tuple[str, str]]:
    """Head and body of the functions whose comment says that they run in a signal handler or inside malloc."""
    for found in DEFINITION.finditer(text):
        if re.search(r"Context: (signal|malloc)", found["comment"]):
            end = text.find("\n}", found.end())
            yield found["head"].strip(), text[found.end() : end]


@pytest.mark.parametrize("path", [path for path in C_SOURCES if path.suffix == ".c"], ids=lambda path: path.name)
def test_functions_of_signal_context_call_nothing_that_allocates_or_locks(path: Path) -> None:
    for head, body in marked_bodies(path.read_text()):
        code = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        calls = [
            call.group(1) for call in FORBIDDEN.finditer(code) if not code[: call.start()].endswith(("next.", "->"))
        ]
        assert not calls, f"{head}: {calls}"


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_sql_file_says_what_it_answers() -> None:
    files = sorted((ROOT / "analyze").rglob("*.sql"))
    assert files
    for path in files:
        lines = path.read_text().splitlines()
        assert lines[0].startswith("-- "), f"{path.name} does not open with what it answers"


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length in lines of every function of a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield f"{path.relative_to(ROOT)}:{node.name}", node.end_lineno - node.lineno + 1


def test_nine_functions_in_ten_are_shorter_than_45_lines_and_none_is_long() -> None:
    lengths = [each for path in SOURCES for each in functions(path)]
    assert sum(length > 45 for _, length in lengths) <= len(lengths) / 10
    assert [name for name, length in lengths if length > 100] == []


def test_no_python_file_outgrows_a_screenful_of_screens() -> None:
    assert [str(path) for path in SOURCES if len(path.read_text().splitlines()) > 500] == []


def test_at_least_two_interpreters_are_here() -> None:
    found = [each.full_name for each in interpreters()]
    assert len(found) >= 2, f"the tests must run on two versions of CPython from 3.10 to 3.13; found: {found}"


def test_the_wheel_serves_every_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    options = f"--config-settings=build-dir={tmp_path}/build"
    done = subprocess.run([*command, options], capture_output=True, text=True, env=os.environ | {"PATH": tools})
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    assert re.fullmatch(r"scalene_trace-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert "scalene_trace/shim/libscalene_shim.so" in names and "scalene_trace/formats/spool/spool.h" in names
    assert any(name.endswith(".sql") for name in names)
    assert "scalene_trace/analyze/html/assets/report.js" in names and not any("/web/" in name for name in names)
    assert {name.split("/")[0] for name in names} == {"scalene_trace", wheel.name.split("-py3")[0] + ".dist-info"}
