"""Programs that have mappings without reserve, whose threads therefore have an event of page faults."""

from __future__ import annotations

from pathlib import Path

from tests.support.native import build
from tests.support.recording import record


def test_a_raw_child_keeps_what_it_maps_where_its_parent_had_the_events_pages(tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [build(tmp_path, "raw_child.c")], None)
    assert (done.status, done.stdout, done.stderr) == (0, b"0\n", b"")
