"""Imports lead to files of the checkout, and arrows between files and folders go one way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.import_graph import INSTALLED_AS, PACKAGES, all_imports, circles, file_arrows, folder_arrows
from tests.support.paths import ROOT

#: Every folder of the package, from the bottom to the top: a file may import from its own folder and from those above it
#: in this list.
ORDER = (
    "formats",
    "formats/cpython",
    "formats/spool",
    "formats/trace/parquet",
    "formats/trace/bounds",
    "formats/trace",
    "formats/fleet",
    "recorder",
    "recorder/folder",
    "recorder/rights",
    "recorder/control",
    "recorder/convert/keyed",
    "recorder/convert/native",
    "recorder/convert/survey",
    "recorder/convert/kinds",
    "recorder/convert",
    "recorder/spool",
    "recorder/sampling",
    "recorder/attached",
    "recorder/attached/memory",
    "recorder/rotate",
    "recorder/upload",
    "recorder/run",
    "recorder/host",
    "analyze/results",
    "analyze/trace/making",
    "analyze/trace",
    "analyze/labels",
    "analyze/leaks",
    "analyze/findings",
    "analyze/report",
    "analyze/user_sql",
    "analyze/diff",
    "analyze/exports/shared",
    "analyze/exports",
    "analyze/check",
    "analyze/html",
    "analyze/fleet",
    "analyze/fleet/compare",
    "analyze/send",
    "analyze",
    "cli/render",
    "cli/render/report",
    "cli/render/fleet",
    "cli/analyze/shared",
    "cli/live",
    "cli/fleet",
    "cli/analyze",
    "cli/record",
    "cli/testing",
    "cli/notebook",
    "cli",
)
#: Package: the packages that it may import, whatever the order of folders allows.
MAY_IMPORT = {
    "formats": set(),
    "recorder": {"formats"},
    "analyze": {"formats"},
    "cli": {"formats", "recorder", "analyze"},
}
#: Third-party package: the files that may import it (a folder stands for all of its files).
THIRD_PARTY = {
    "duckdb": ["analyze"],
    "pyarrow": [
        "formats/trace/writer.py",
        "formats/trace/row_groups.py",
        "formats/trace/arrow.py",
        "formats/trace/bounds/list_texts.py",
        "formats/fleet/writer.py",
        "formats/fleet/reader.py",
        "formats/fleet/remote.py",
    ],
    "pyspark": ["analyze/fleet/spark.py"],
    "sqlglot": ["analyze/fleet/spark.py"],
    "anyio": ["cli/analyze/mcp.py"],
    "mcp": ["cli/analyze/mcp.py"],
    "pydantic": ["cli/analyze/mcp.py"],
    "pytest": ["cli/testing"],
    "IPython": ["cli/notebook", "cli/top_level.py"],
    "textual": ["cli/live"],
    "rich": ["cli/live"],
    "typer": ["cli"],
    "click": ["cli"],
    "pynvml": ["recorder"],
    "numpy": ["formats", "recorder", "analyze"],
    "cffi": ["formats"],
    "_cffi_backend": ["formats/spool/layout_ffi.py"],
}


def unresolved(root: Path) -> list[str]:
    """Imports of the package's own modules that a reader (or a tool) cannot follow by path."""
    return [
        str(each)
        for each in all_imports(root)
        if (each.is_relative and each.target is None) or each.name.split(".")[0] == INSTALLED_AS
    ]


def against_the_order(root: Path, order: tuple[str, ...]) -> list[str]:
    """Imports from a folder into one that stands later in the order; folders that the order lacks."""
    place = {Path(folder): number for number, folder in enumerate(order)}
    arrows = folder_arrows(root)
    missing = {folder for arrow in arrows for folder in arrow} - place.keys()
    wrong = [
        each for (lower, upper), all_ in arrows.items() if place.get(lower, 0) < place.get(upper, 0) for each in all_
    ]
    return [f"{folder} is not in ORDER" for folder in sorted(missing)] + [str(each) for each in wrong]


def between_packages(root: Path, may_import: Mapping[str, set[str]]) -> list[str]:
    """Imports of a package that the importing package must not use."""
    return [
        str(each)
        for each in all_imports(root)
        if each.target
        and each.target.parts[0] != each.source.parts[0]
        and each.target.parts[0] not in may_import[each.source.parts[0]]
    ]


def misplaced_third_party(root: Path, places: Mapping[str, list[str]]) -> list[str]:
    """Imports of packages that are no dependencies, or that this file must not use."""
    found = []
    for each in all_imports(root):
        word = each.name.split(".")[0]
        if each.is_relative or word in sys.stdlib_module_names or word == INSTALLED_AS:
            continue
        if not any(each.source.is_relative_to(place) for place in places.get(word, ())):
            found.append(str(each))
    return found


def test_every_import_of_the_package_resolves_by_path() -> None:
    assert unresolved(ROOT) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(file_arrows(ROOT)) == []


def test_arrows_between_folders_go_one_way() -> None:
    assert against_the_order(ROOT, ORDER) == []


def test_packages_import_only_those_below() -> None:
    assert between_packages(ROOT, MAY_IMPORT) == []


def test_third_party_packages_stay_where_they_belong() -> None:
    assert misplaced_third_party(ROOT, THIRD_PARTY) == []


def test_the_analysis_starts_without_pyarrow_and_the_recorder_without_duckdb() -> None:
    group = "scalene_trace.cli.fleet.group"
    pairs = (("analyze", "pyarrow"), ("formats", "pyarrow"), ("recorder", "duckdb"), ("cli.analyze.command", group))
    for module, unwanted in pairs:
        code = f"import sys, scalene_trace.{module}; print('{unwanted}' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n", module


def test_the_recorder_imports_nothing_that_only_some_recordings_need() -> None:
    """The user waits for what is imported before the program starts, and for all of it after a short program."""
    slow = "'secrets', 'concurrent.futures', 'logging', 'scalene_trace.formats.trace.bounds.limits'"
    code = f"""if True:
        import sys, scalene_trace.cli.record.command, scalene_trace.recorder.run.record as record
        before = [each for each in (*({slow}), 'numpy', 'pyarrow', 'typer') if each in sys.modules]
        record.prepare_converter()
        record.load_converter()
        print(before, [each for each in ({slow}) if each in sys.modules])"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[] []\n"


def test_the_recorder_has_data_classes_of_its_own() -> None:
    """The standard ones take 0.5 ms each. Uploads, which a recording seldom has, need more of them."""
    modules = [each for each in (ROOT / "recorder").rglob("*.py") if each.parent.name != "upload"]
    assert [each.name for each in modules if "from dataclasses import" in each.read_text()] == []


# ---- each rule finds a violation ----


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout that keeps every rule."""
    for folder in (*PACKAGES, "recorder/run", "recorder/folder"):
        (tmp_path / folder).mkdir(exist_ok=True, parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "formats/errors.py").write_text("class TraceError(Exception): ...\n")
    (tmp_path / "recorder/folder/text.py").write_text("from ...formats.errors import TraceError\nimport numpy as np\n")
    (tmp_path / "recorder/run/record.py").write_text("from ..folder import text\nfrom ..folder.text import np\n")
    return tmp_path


def add(path: Path, text: str) -> None:
    path.write_text((path.read_text() if path.exists() else "") + text)


def violations(root: Path) -> list[str]:
    """What all rules find."""
    found = unresolved(root) + against_the_order(root, ORDER) + between_packages(root, MAY_IMPORT)
    return found + misplaced_third_party(root, THIRD_PARTY) + [str(circle) for circle in circles(file_arrows(root))]


def test_a_checkout_that_keeps_the_rules_has_no_violation(checkout: Path) -> None:
    assert violations(checkout) == []
    assert len(all_imports(checkout)) == 4


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("recorder/run/record.py", "from ..folders import text\n", "recorder.folders.text"),
        ("recorder/run/record.py", "from scalene_trace.formats.errors import TraceError\n", "scalene_trace.formats"),
        ("recorder/run/record.py", "import scalene_trace.formats.errors\n", "scalene_trace.formats.errors"),
        ("recorder/folder/text.py", "from ..run import record\n", "imports recorder.run.record"),
        ("recorder/folder/text.py", "def f():\n    from ..run.record import np\n", "imports recorder.run.record"),
        ("recorder/folder/new.py", "from . import newer\n", None),
        (
            "formats/errors.py",
            "from ..recorder.folder import text\n",
            "formats/errors.py:2 imports recorder.folder.text",
        ),
        ("analyze/a.py", "from ..recorder.folder import text\n", "analyze/a.py:1 imports recorder.folder.text"),
        ("cli/new/a.py", "from ...recorder.folder import text\n", "cli/new is not in ORDER"),
        ("recorder/run/record.py", "import duckdb\n", "recorder/run/record.py:3 imports duckdb"),
        ("recorder/run/record.py", "from requests import get\n", "imports requests.get"),
    ],
)
def test_a_planted_import_is_found(checkout: Path, file: str, text: str, found: str | None) -> None:
    (checkout / file).parent.mkdir(exist_ok=True)
    (checkout / "recorder/folder/newer.py").touch()
    add(checkout / file, text)
    seen = violations(checkout)
    assert not seen if found is None else any(found in each for each in seen), seen


@pytest.mark.parametrize("guard", ["", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "])
def test_a_planted_circle_of_files_is_found(checkout: Path, guard: str) -> None:
    add(checkout / "recorder/run/a.py", "from . import b\n")
    add(checkout / "recorder/run/b.py", "from .c import x\n")
    add(checkout / "recorder/run/c.py", f"{guard}from .a import b\nx = 1\n")
    assert circles(file_arrows(checkout)) == [[Path(f"recorder/run/{name}.py") for name in "abc"]]
    (checkout / "recorder/run/c.py").write_text("def f():\n    from .a import b\nx = 1\n")
    assert circles(file_arrows(checkout)) == []
