"""``scalene_trace.analyze.open``: the commands' answers from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scalene_trace.analyze
from scalene_trace.analyze import QueryRefused
from scalene_trace.formats.errors import TraceMissing
from tests.support.example_traces import APP, THIN, TOTALS, rich_trace, thin_trace

TABLES = ("lines", "functions", "leaks", "memory", "timeline", "threads", "processes", "libraries")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return rich_trace(tmp_path / "t.parquet")


def test_rows_are_records_tables_and_frames(trace: Path) -> None:
    lines = scalene_trace.analyze.open(trace).lines()
    assert (lines[0].file, lines[0].line, lines[0].cpu_s) == (APP, 5, pytest.approx(0.02))
    assert len(lines) == len(lines.arrow()) == len(lines.df()) == 3
    assert list(lines.df().columns) == lines.columns == lines.arrow().column_names
    assert lines.df()["cpu_s"].sum() == pytest.approx(0.031)
    assert [line.line for line in lines[1:]] == [4, 12]
    assert "<table" in lines._repr_html_()


def test_what_is_not_known_is_null_and_not_nothing(tmp_path: Path) -> None:
    table = scalene_trace.analyze.open(thin_trace("cpu only", tmp_path / "t.parquet")).lines().arrow()
    assert table.column("alloc_bytes").to_pylist() == [None]
    assert [str(table.schema.field(name).type) for name in ("alloc_bytes", "cpu_s", "file")] == [
        "int64",
        "double",
        "string",
    ]


@pytest.mark.parametrize("kind", THIN)
def test_every_table_of_a_thin_trace_can_be_had(kind: str, tmp_path: Path) -> None:
    analysis = scalene_trace.analyze.open(thin_trace(kind, tmp_path / "t.parquet"))
    for name in TABLES:
        rows = getattr(analysis, name)()
        assert rows.arrow().column_names == rows.columns, name
        assert len(rows.df()) == len(rows)


def test_the_selection_applies_and_traces_are_added_up(trace: Path) -> None:
    assert scalene_trace.analyze.open(trace, to_s=2).report().totals.cpu_s == pytest.approx(0.011)
    assert scalene_trace.analyze.open(trace, trace).report().totals.copy_bytes == 2 * TOTALS["copies"]
    assert scalene_trace.analyze.open(trace, exclude=["app.py"]).lines().columns[0] == "file"
    assert len(scalene_trace.analyze.open(trace, processes=[2]).processes()) == 1


def test_sql_gives_tuples_tables_and_frames(trace: Path) -> None:
    answer = scalene_trace.analyze.open(str(trace)).sql(
        "SELECT class, count(*) AS n FROM waits GROUP BY class ORDER BY class"
    )
    assert answer.rows() == [("gil", 1), ("sleep", 1)]
    assert answer.arrow().column_names == ["class", "n"]
    assert list(answer.df()["n"]) == [1, 1]


def test_sql_changes_nothing(trace: Path) -> None:
    before = trace.read_bytes()
    analysis = scalene_trace.analyze.open(trace)
    for statement in (f"COPY lines TO '{trace}'", "DROP VIEW lines", "FROM read_text('/etc/passwd')"):
        with pytest.raises(QueryRefused):
            analysis.sql(statement)
    assert trace.read_bytes() == before


def test_exports_are_those_of_the_command(trace: Path) -> None:
    contents = scalene_trace.analyze.open(trace).export("collapsed", metrics=["copies"])
    assert contents.decode().endswith(f"work ({APP}:4) {TOTALS['copies']}\n")


def test_impossible_requests_are_refused_with_a_reason(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceMissing, match="nothing"):
        scalene_trace.analyze.open(tmp_path / "nothing.parquet")
    analysis = scalene_trace.analyze.open(trace)
    calls: list[Any] = [
        scalene_trace.analyze.open,
        lambda: analysis.memory(by="file"),
        lambda: analysis.export("svg"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"at least one|one of"):
            call()


def test_the_function_keeps_its_name_whatever_is_imported() -> None:
    code = (
        "import scalene_trace.analyze, sys\n"
        "from scalene_trace.analyze.trace.traces import open_traces\n"
        "import scalene_trace.analyze.report.report\n"
        "print(callable(scalene_trace.analyze.open), sorted({'duckdb', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True []\n", done.stderr
