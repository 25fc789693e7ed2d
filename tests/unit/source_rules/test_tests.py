"""Tests import from tests/support (and a short form the program of tests/long that it stands for), never from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

MOST_FILES_OF_A_FOLDER = 20
IMPORT = re.compile(r"^\s*(?:from|import) tests\.?([\w.]*)(?: import (\w+))?", re.MULTILINE)
#: Folder below the checkout: the folders of ``tests`` that its files may import.
MAY_IMPORT = {
    "tests/support": {"support"},
    "tests/long": {"support"},
    "tests/unit": {"support"},
    "tests/integration": {"support", "long"},
    "tests/acceptance": {"support", "long"},
    "benchmarks": {"support"},
}


def foreign_imports(root: Path) -> Iterator[str]:
    """Imports of modules of ``tests`` that the importing file must not use."""
    for folder, allowed in MAY_IMPORT.items():
        for path in sorted((root / folder).rglob("*.py")):
            for module, name in IMPORT.findall(path.read_text()):
                if (module or name).split(".")[0] not in allowed:
                    yield f"{path.relative_to(root)} imports tests.{module or name}"


def full_folders(root: Path) -> list[str]:
    """The folders with too many test files."""
    folders = {path.parent for path in (root / "tests").rglob("test_*.py")}
    return [
        str(each.relative_to(root)) for each in sorted(folders) if len([*each.glob("*.py")]) > MOST_FILES_OF_A_FOLDER
    ]


def test_no_test_imports_a_test() -> None:
    assert list(foreign_imports(ROOT)) == []


def test_every_test_file_is_in_a_folder_of_its_kind() -> None:
    kinds = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert kinds == {"unit", "integration", "acceptance"}
    assert full_folders(ROOT) == []


@pytest.mark.parametrize(
    "line",
    [
        "from tests.unit.analyze.test_gpu import gpu_trace",
        "    from tests.acceptance import test_cpu_split",
        "import tests.integration.record.test_control",
        "from tests import conftest",
    ],
)
@pytest.mark.parametrize("file", ["tests/unit/a/test_x.py", "tests/support/x.py", "benchmarks/x.py"])
def test_a_planted_import_is_found(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("from tests.support.recording import record\nfrom tests.support import native\n")
    assert list(foreign_imports(tmp_path)) == []
    (tmp_path / file).write_text(f"{line}\n")
    assert len(list(foreign_imports(tmp_path))) == 1


def test_a_planted_full_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests/unit").mkdir(parents=True)
    for number in range(21):
        (tmp_path / f"tests/unit/test_{number}.py").touch()
    assert full_folders(tmp_path) == ["tests/unit"]
