"""From the records of suspended tasks to the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import SpoolBuilder

MS = 1_000_000


def tasks_of(builder: SpoolBuilder, folder: Path) -> list[dict[str, Any]]:
    return rows(tables_of(builder, folder)["task"])


def test_a_suspension_is_of_the_process_that_it_names_not_of_the_watcher(tmp_path: Path) -> None:
    builder = SpoolBuilder().start(1).start(2).task(7 * MS, 40 * MS, process=2, thread=9, task=5)
    tables = tables_of(builder, tmp_path)
    (task,) = rows(tables["task"])
    assert (task["t_ns"], task["duration_ns"], task["span_ns"]) == (7 * MS, 40 * MS, 40 * MS)
    assert (task["process"], task["thread"], task["task"], task["name"], task["stack"]) == (2, 9, 5, None, None)
    assert [row["process"] for row in rows(tables["process"])] == [1, 2]


def test_names_are_put_together_from_text_and_number(tmp_path: Path) -> None:
    builder = SpoolBuilder().start().type(11, b"worker-").type(12, "für-".encode()).type(13, b"")
    for prefix, number in ((11, 3), (11, -1), (12, 0), (13, 7), (99, 1)):
        builder.task(0, MS, name=prefix, number=number)
    assert [row["name"] for row in tasks_of(builder, tmp_path)] == ["worker-3", "worker-", "für-0", "7", None]


def test_a_task_may_stand_for_several(tmp_path: Path) -> None:
    (task,) = tasks_of(SpoolBuilder().start().task(0, 40 * MS, suspended_ns=160 * MS), tmp_path)
    assert (task["duration_ns"], task["span_ns"]) == (160 * MS, 40 * MS)


@pytest.mark.parametrize(
    "damage", [{"suspended_ns": -1}, {"end_ns": 1}, {"process": 2**31}, {"task": 2**31}, {"number": -2}]
)
def test_impossible_suspensions_are_discarded_and_counted(damage: dict[str, int], tmp_path: Path) -> None:
    builder = SpoolBuilder().start().task(0, 40 * MS, **damage).task(50 * MS, 20 * MS)
    tables = tables_of(builder, tmp_path)
    assert [row["duration_ns"] for row in rows(tables["task"])] == [20 * MS]
    assert {row["name"]: row["count"] for row in rows(tables["loss"])}["damaged_records"] == 1
