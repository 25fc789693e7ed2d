"""Programs that have mappings without reserve, whose threads therefore have an event of page faults."""

from __future__ import annotations

from pathlib import Path

from tests.support import perf_events
from tests.support.interpreters import Interpreter
from tests.support.native import build, library
from tests.support.recording import losses, record, report, target


def test_a_raw_child_keeps_what_it_maps_where_its_parent_had_the_events_pages(tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [build(tmp_path, "raw_child.c")], None)
    assert (done.status, done.stdout, done.stderr) == (0, b"0\n", b"")


def test_page_faults_are_observed_after_the_program_has_closed_the_events(python: Interpreter, tmp_path: Path) -> None:
    """The events of one thread get the numbers that those of the other one had."""
    perf_events.needed()
    program = [target("closed_events"), library(tmp_path, "reserving_lines.c")]
    done = record(tmp_path / "t.parquet", program, python, ["--cpu-interval", "1ms"])
    assert done.status == 0, done.stderr.decode()
    found = losses(report(done.trace))
    assert len(done.facts["records"]) == 2 and min(done.facts["records"]) >= 10
    assert found["perf_closed"] == 2 and not {"perf_silent", "faults_unseen", "engine_posix"} & found.keys()


def test_events_leave_the_program_the_memory_that_it_may_lock(python: Interpreter, tmp_path: Path) -> None:
    program = [target("limited_memory"), library(tmp_path, "reserving_lines.c")]
    done = record(tmp_path / "t.parquet", program, python)
    assert done.status == 0, done.stderr.decode()
    assert done.facts["bytes"] <= 65536 / 64
    assert losses(report(done.trace))["faults_unseen"] >= 8
