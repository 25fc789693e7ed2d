"""The queries over summaries: their headers, and what other engines would not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.fleet.opening import Fleet, open_fleet
from scalene_trace.analyze.fleet.selection import select_traces, selection_of
from scalene_trace.analyze.trace import queries
from scalene_trace.formats.fleet.writer import Batch

NAMES = sorted(queries.paths(queries.FLEET))
PARAMETERS: dict[str, dict[str, Any]] = {
    "traces_selected": {"names": ["a"], "values": [["b"]], "hosts": ["c"], "since_ns": 1, "until_ns": 2, "per": "m"},
    "traces_of_line": {"file": "a.py", "line": 3, "metric": "cpu_s"},
    "figure_parts": {"scope": "line"},
    "figure_sums": {"by": "cpu_s", "most": 3},
    "figure_hosts": {"scope": "line", "by": "cpu_s"},
    "label_compared": {"label": "version"},
    "peers_compared": {"labels": ["version"]},
    "texts_compared": {"metrics": ["cpu_s"]},
    "cells_compared": {"metric": "cpu_s", "shown_by": ["cpu_s"], "of_host": True},
    "lines_numbered": {"metric": "cpu_s", "codes": [(1 << 32) + 1]},
}
#: Tables that questions read, each made by a query after those before it.
TABLES = {
    "figure_parts": "figure_parts",
    "compared_traces": "days_compared",
    "compared_cells": "cells_numbered",
    "compared_texts": "texts_compared",
    "compared_sums": "parts_summed",
    "compared_places": "places_compared",
    "compared_lines": "lines_numbered",
}
#: What Spark does not know. (Views are made by DuckDB: the folder opening may use what it has.)
ONLY_DUCKDB = re.compile(r"\bASOF\b|\bBY NAME\b|\bEXCLUDE\b|\bCOLUMNS\(|\bGROUP BY ALL\b|\bFILTER\b|\bQUALIFY\b")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    batch = Batch()
    batch.add({"trace_id": "a" * 32, "path": "a.parquet", "size_bytes": 1, "mtime_ns": 1}, {}, 0o600)
    batch.publish(folder, "2026-11-28")
    with open_fleet(folder, has_copies=True) as opened:
        select_traces(opened, selection_of())
        for side in ("before_traces", "after_traces"):
            select_traces(opened, selection_of(), side)
        for table, query in TABLES.items():
            sql = f"CREATE TEMP TABLE {table} AS {queries.body(query)}"
            opened.connection.raw.execute(sql, PARAMETERS.get(query))
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_parameters_and_columns(name: str, fleet: Fleet) -> None:
    header, parameters = queries.header(name), PARAMETERS.get(name, {})
    assert [each.name for each in header.parameters] == list(parameters)
    cursor = fleet.connection.execute(queries.body(name), parameters or None)
    assert [column[0] for column in cursor.description or ()] == [column.name for column in header.columns]


@pytest.mark.parametrize("name", NAMES)
def test_the_header_lists_what_the_query_reads(name: str) -> None:
    body = queries.body(name)
    within = set(re.findall(r"(\w+) AS \(", body))
    named = {each for each in re.findall(r"(?<!DISTINCT )\b(?:FROM|JOIN) (\w+)", body) if each not in within}
    assert list(queries.header(name).reads) == sorted(named)


def test_the_questions_run_on_other_engines() -> None:
    paths = queries.paths(queries.FLEET)
    asked = {name: Path(path).read_text() for name, path in paths.items() if path.parent.name != "opening"}
    assert len(asked) > 5
    assert {name: found[0] for name, text in asked.items() if (found := ONLY_DUCKDB.search(text))} == {}


def test_names_are_not_those_of_other_queries() -> None:
    others = {*queries.paths(queries.VIEWS), *queries.paths(queries.STATEMENTS)}
    assert others & set(NAMES) == set()
