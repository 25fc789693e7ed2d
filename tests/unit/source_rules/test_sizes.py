"""Functions, files and folders stay small enough to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.import_graph import PACKAGES, python_files
from tests.support.paths import ROOT

MOST_LINES_OF_A_FUNCTION = 100
#: Nine functions in ten are at most as long.
USUAL_LINES_OF_A_FUNCTION = 45
MOST_LINES_OF_A_FILE = 500
MOST_FILES_OF_A_FOLDER = 15
SOURCE_SUFFIXES = {".py", ".c", ".h", ".sql", ".js", ".mjs", ".ts", ".css"}
#: Folders that are kept by subject, with as many subjects as there are.
MAY_HAVE_MORE_FILES = ("analyze/sql",)


def functions(root: Path, path: Path) -> Iterator[tuple[str, int]]:
    """Name and length in lines of every function of a Python file."""
    for node in ast.walk(ast.parse((root / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield f"{path}:{node.name}", node.end_lineno - node.lineno + 1


def long_functions(root: Path) -> list[str]:
    """The functions that are too long; all above the usual length if these are more than one in ten."""
    lengths = [each for path in python_files(root) for each in functions(root, path)]
    found = [name for name, length in lengths if length > MOST_LINES_OF_A_FUNCTION]
    unusual = [name for name, length in lengths if length > USUAL_LINES_OF_A_FUNCTION]
    return found + (unusual if len(unusual) > len(lengths) / 10 else [])


def long_files(root: Path) -> list[str]:
    """The Python files with too many lines."""
    return [
        str(path) for path in python_files(root) if len((root / path).read_text().splitlines()) > MOST_LINES_OF_A_FILE
    ]


def full_folders(root: Path) -> list[str]:
    """The folders with too many source files directly in them."""
    counts: dict[Path, int] = {}
    for package in (*PACKAGES, "shim", "benchmarks", "examples", "docs"):
        for path in (root / package).rglob("*"):
            folder = path.relative_to(root).parent
            if path.suffix in SOURCE_SUFFIXES and path.is_file() and "tests" not in folder.parts:
                counts[folder] = counts.get(folder, 0) + 1
    return [
        f"{folder}: {count} files"
        for folder, count in sorted(counts.items())
        if count > MOST_FILES_OF_A_FOLDER and not any(folder.is_relative_to(each) for each in MAY_HAVE_MORE_FILES)
    ]


def test_functions_are_short() -> None:
    assert long_functions(ROOT) == []


def test_files_are_short() -> None:
    assert long_files(ROOT) == []


def test_folders_are_small() -> None:
    assert full_folders(ROOT) == []


# ---- each rule finds a violation ----


def function(name: str, lines: int) -> str:
    return f"def {name}():\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([100, *[3] * 9], []),
        ([101, *[3] * 9], ["recorder/a.py:f0"]),
        ([46, 46, *[45] * 8], ["recorder/a.py:f0", "recorder/a.py:f1"]),
    ],
)
def test_a_planted_long_function_is_found(tmp_path: Path, lengths: list[int], found: list[str]) -> None:
    (tmp_path / "recorder").mkdir()
    text = "".join(function(f"f{number}", lines) for number, lines in enumerate(lengths))
    (tmp_path / "recorder/a.py").write_text(text)
    assert long_functions(tmp_path) == found


def test_a_planted_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "cli/render").mkdir(parents=True)
    (tmp_path / "cli/render/a.py").write_text("x = 1\n" * 500)
    assert long_files(tmp_path) == []
    (tmp_path / "cli/render/a.py").write_text("x = 1\n" * 501)
    assert long_files(tmp_path) == ["cli/render/a.py"]


@pytest.mark.parametrize("folder", ["shim/shared", "recorder/run", "analyze/html/web/src"])
def test_a_planted_full_folder_is_found(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for number in range(15):
        (tmp_path / folder / f"f{number}.c").touch()
    assert full_folders(tmp_path) == []
    (tmp_path / folder / "one_more.h").touch()
    assert full_folders(tmp_path) == [f"{folder}: 16 files"]
