"""From wait records to the table; impossible records are discarded and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.recorder.sampling.watcher import Watcher
from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import C, SpoolBuilder

MS = 1_000_000


def waits_of(builder: SpoolBuilder, folder: Path) -> list[dict[str, Any]]:
    return rows(tables_of(builder, folder)["wait"])


def test_a_wait_is_of_the_process_that_it_names_not_of_the_watcher(tmp_path: Path) -> None:
    builder = SpoolBuilder().start(1).start(2).wait(7 * MS, 40 * MS, process=2, thread=9, syscall=202, looks=5)
    tables = tables_of(builder, tmp_path)
    (wait,) = rows(tables["wait"])
    assert (wait["t_ns"], wait["duration_ns"], wait["span_ns"]) == (7 * MS, 40 * MS, 40 * MS)
    assert (wait["process"], wait["thread"], wait["class"]) == (2, 9, "sleep")
    assert (wait["syscall"], wait["looks"], wait["stack"]) == (202, 5, None)
    assert [row["process"] for row in rows(tables["process"])] == [1, 2]


def test_a_wait_with_pauses_spans_more_than_it_lasts(tmp_path: Path) -> None:
    gil = {"wait_class": C["WAIT_GIL"], "waited_ns": 30 * MS, "stack": 77}
    (wait,) = waits_of(SpoolBuilder().start().wait(0, 50 * MS, **gil), tmp_path)
    assert (wait["duration_ns"], wait["span_ns"], wait["class"], wait["syscall"]) == (30 * MS, 50 * MS, "gil", None)


@pytest.mark.parametrize(
    "damage", [{"wait_class": 9}, {"waited_ns": 41 * MS}, {"waited_ns": -1}, {"end_ns": 1}, {"process": 2**31}]
)
def test_impossible_waits_are_discarded_and_counted(damage: dict[str, int], tmp_path: Path) -> None:
    builder = SpoolBuilder().start().wait(0, 40 * MS, **damage).wait(50 * MS, 20 * MS, wait_class=C["WAIT_DISK"])
    tables = tables_of(builder, tmp_path)
    assert [row["class"] for row in rows(tables["wait"])] == ["disk"]
    assert {"name": "damaged_records", "count": 1} in [
        {name: row[name] for name in ("name", "count")} for row in rows(tables["loss"])
    ]


def test_a_spool_that_cannot_be_watched_is_a_failure_and_nothing_else(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "spool")
    watcher.start()
    watcher.stop()
    assert watcher.failures == 1
