"""The files beside the spool in a recording's folder; entries that the recorder cannot have written are ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.formats.dataclass import asdict
from scalene_trace.recorder.folder.facts import Facts, read_facts, write_facts
from scalene_trace.recorder.folder.files import FACTS_NAME
from scalene_trace.recorder.folder.marks import Mark, read_marks

FACTS = Facts("ab" * 16, "/t.parquet", ["a.py", "\udcff"], None, "/", True, True, {"hostname": "h"})


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_facts(tmp_path, FACTS)
    assert read_facts(tmp_path) == FACTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("trace_id", 5),
        ("trace_id", "\ud800"),
        ("trace_id", "ab" * 80),
        ("output", None),
        ("output", "/t\0.parquet"),
        ("command", 7),
        ("command", ["a", 7]),
        ("command_code", 7),
        ("cwd", ["/"]),
        ("sources", "yes"),
        ("argv", None),
        ("host", []),
        ("host", {"hostname": 5}),
    ],
)
def test_damaged_facts_are_replaced_by_neutral_ones(name: str, value: Any, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / FACTS_NAME).write_text(json.dumps(asdict(FACTS) | {name: value}))
    found = read_facts(folder)
    assert found == Facts(found.trace_id, str(tmp_path / "x.parquet"), [], None, "/", False, False, {})
    assert len(found.trace_id) == 32 and found.trace_id != FACTS.trace_id


def test_facts_that_are_nested_without_end_are_replaced_by_neutral_ones(tmp_path: Path) -> None:
    (tmp_path / FACTS_NAME).write_text("[" * 100_000)
    assert read_facts(tmp_path).host == {}


@pytest.mark.parametrize("pid", ["x", [], 2**70, None, 1.5])
def test_a_mark_with_damaged_numbers_is_kept_without_them(pid: Any, tmp_path: Path) -> None:
    lines = [{"what": "mark", "t_ns": 5, "text": "a", "id": pid, "pid": pid}, {"what": "end", "t_ns": 9, "id": pid}]
    path = tmp_path / "marks"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_marks(path) == [Mark(5, "mark", "a", 9, None)]
