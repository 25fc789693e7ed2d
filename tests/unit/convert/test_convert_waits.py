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


def test_a_wait_refers_to_its_native_stack(tmp_path: Path) -> None:
    """libc's poll, called by a library. The watcher itself has written the image of the library."""
    builder = SpoolBuilder().start()
    builder.module(0x1000, 0x2000, "/lib/libc.so.6", pc_class=C["PC_SUPPORT"], image=7)
    builder.module(0x5000, 0x6000, "/lib/libpq.so.5", process=C["PROCESS_WATCHER"], image=8)
    builder.native(1, image=8, address=0x30).native(2, parent=1, image=7, address=0x10)
    builder.wait(0, 40 * MS, native=2).wait(50 * MS, 20 * MS).wait(80 * MS, 20 * MS, native=99)
    tables = tables_of(builder, tmp_path)
    inner, unknown, lost = (row["native"] for row in rows(tables["wait"]))
    native = {row["id"]: row for row in rows(tables["native"])}
    paths = {row["id"]: row["path"] for row in rows(tables["module"])}
    assert (unknown, lost) == (None, None)
    outer = native[inner]["parent"]
    assert [paths[native[each]["module"]] for each in (inner, outer)] == ["/lib/libc.so.6", "/lib/libpq.so.5"]
    assert [row["process"] for row in rows(tables["process"])] == [1]
    (loss,) = [row for row in rows(tables["loss"]) if row["name"] == "unresolved_native"]
    assert loss["count"] == 1


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
