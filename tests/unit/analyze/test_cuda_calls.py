"""CUDA calls by line, on hand-written traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.diff.compare import Asked, compare, read_sides
from scalene_trace.analyze.diff.gates import GateError, parsed
from scalene_trace.analyze.html.comparison import comparison_document
from scalene_trace.analyze.report import reduction
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import DeviceCopies, Line, Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.diff import diff_text
from scalene_trace.cli.render.markdown import diff_markdown
from scalene_trace.cli.render.report import report_text
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
LIBRARY = "/usr/lib/python3/site-packages/torch/__init__.py"


class Built:
    """A process of two threads with a stack for each of three lines, the last in a library that line 10 calls."""

    def __init__(self) -> None:
        self.builder = TraceBuilder()
        self.process = self.builder.process(end_ns=9 * SECOND)
        self.thread = self.builder.thread(self.process, SECOND)
        self.ten = self.builder.stack((APP, "train", 1, 10))
        self.eleven = self.builder.stack((APP, "train", 1, 11))
        self.inside = self.builder.stack((LIBRARY, "cpu", 5, 50), (APP, "train", 1, 10))

    def copy(self, stack: int | None, direction: str, size: int, t_ns: int = SECOND) -> Built:
        spent = {"calls": 2, "duration_ns": 3 * MS, "span_ns": 4 * MS}
        self.builder.add("device_copy", **self._common(stack, t_ns), direction=direction, bytes=size, **spent)
        return self

    def sync(self, stack: int | None, duration_ns: int) -> Built:
        spent = {"calls": 1, "duration_ns": duration_ns, "span_ns": duration_ns}
        self.builder.add("device_sync", **self._common(stack, SECOND), **spent)
        return self

    def block(self, stack: int | None, size: int, t_ns: int, life_ns: int | None) -> Built:
        own = {"bytes": size, "lifetime_ns": life_ns, "allocator": "malloc"}
        self.builder.add("device_alloc", **self._common(stack, t_ns), **own)
        return self

    def report(self, folder: Path, selection: Selection | None = None) -> Report:
        return build_report([self.builder.write(folder / "t.parquet")], selection or Selection())

    def _common(self, stack: int | None, t_ns: int) -> dict[str, int | None]:
        return {"t_ns": t_ns, "process": self.process, "thread": self.thread, "stack": stack}


def at(report: Report, number: int) -> Line:
    (found,) = (line for line in report.lines if line.line == number)
    return found


def test_directions_add_up_per_line_and_in_all(tmp_path: Path) -> None:
    built = Built().copy(1, "h2d", 1_003).copy(1, "d2h", 5).copy(2, "h2d", 7).copy(None, "unified", 11)
    report = built.report(tmp_path)
    assert at(report, 10).device_copies == DeviceCopies(1_003, 5, 0, 0, 0)
    assert (at(report, 10).device_copy_bytes, at(report, 10).device_copy_s) == (1_008, pytest.approx(0.006))
    assert at(report, 11).device_copies == DeviceCopies(7, 0, 0, 0, 0)
    assert report.unattributed.device_copies == DeviceCopies(0, 0, 0, 0, 11)
    assert report.totals.device_copies == DeviceCopies(1_010, 5, 0, 0, 11)
    assert report.totals.device_copy_bytes == 1_026


def test_what_a_library_copies_is_its_callers(tmp_path: Path) -> None:
    built = Built()
    report = built.copy(built.inside, "d2h", 1_003).copy(built.ten, "d2h", 5).report(tmp_path)
    assert [(line.file, line.line, line.device_copy_bytes) for line in report.lines] == [(APP, 10, 1_008)]
    (function,) = report.functions
    assert (function.function, function.device_copy_bytes, function.cpu_s) == ("train", 1_008, 0)


def test_waits_for_a_device_are_seconds(tmp_path: Path) -> None:
    report = Built().sync(1, 1_500 * MS).sync(1, 250 * MS).report(tmp_path)
    assert (at(report, 10).device_sync_s, report.totals.device_sync_s) == (1.75, 1.75)
    assert report.totals.device_copy_bytes == 0 and report.totals.device_peak_bytes is None


def test_memory_counts_for_who_has_it_at_the_peak(tmp_path: Path) -> None:
    """t:       1 s    2 s          3 s                  4 s
    held:      100    100 + 50     50 + 70 (100 freed)  70 + 20: the peak is at 2 s, 150 bytes."""
    built = Built().block(1, 100, SECOND, 2 * SECOND).block(2, 50, 2 * SECOND, 2 * SECOND)
    built.block(1, 70, 3 * SECOND, None).block(2, 20, 4 * SECOND, None)
    report = built.report(tmp_path)
    assert report.totals.device_peak_bytes == 150
    assert (at(report, 10).device_live_at_peak_bytes, at(report, 11).device_live_at_peak_bytes) == (100, 50)
    assert (at(report, 10).device_alloc_bytes, at(report, 11).device_alloc_bytes) == (170, 70)


def test_the_end_of_a_process_ends_its_blocks(tmp_path: Path) -> None:
    """The first process ends at 9 s with 100 bytes; another takes 60 at 10 s: together never 160."""
    built = Built().block(1, 100, SECOND, None)
    second = built.builder.process(t_ns=9 * SECOND)
    thread = built.builder.thread(second, SECOND)
    built.builder.add(
        "device_alloc", t_ns=10 * SECOND, process=second, thread=thread, stack=2,
        bytes=60, lifetime_ns=None, allocator="malloc",
    )  # fmt: skip
    report = built.report(tmp_path)
    assert report.totals.device_peak_bytes == 100
    assert (at(report, 10).device_live_at_peak_bytes, at(report, 11).device_live_at_peak_bytes) == (100, 0)


def test_a_window_takes_what_began_in_it(tmp_path: Path) -> None:
    built = Built().copy(1, "h2d", 1_003, SECOND).copy(1, "h2d", 5, 3 * SECOND).block(1, 100, SECOND, SECOND)
    built.block(1, 30, 3 * SECOND, SECOND)
    report = built.report(tmp_path, Selection(from_s=2.5))
    assert (at(report, 10).device_copy_bytes, at(report, 10).device_alloc_bytes) == (5, 30)
    assert report.totals.device_peak_bytes == 30


def test_several_traces_add_up_and_the_highest_peak_counts(tmp_path: Path) -> None:
    first = Built().copy(1, "h2d", 1_003).block(1, 100, SECOND, None).builder.write(tmp_path / "a.parquet")
    other = Built().copy(1, "d2d", 5).block(1, 30, SECOND, None).builder.write(tmp_path / "b.parquet")
    report = build_report([first, other], Selection())
    assert at(report, 10).device_copies == DeviceCopies(1_003, 0, 5, 0, 0)
    assert (report.totals.device_peak_bytes, report.totals.device_alloc_bytes) == (100, 130)


def sides(folder: Path, *after: tuple[int, str, int]) -> tuple[Path, Path]:
    """A trace that copies 100 MB on line 10 and waits 2 s there, and one that does ``after`` (stack, direction, bytes)."""
    built = Built().copy(1, "h2d", 100_000_007).sync(1, 2 * SECOND), Built()
    for copy in after:
        built[1].copy(*copy)
    for each in built:
        each.builder.settings["features"] = '["cpu", "wait", "copy"]'
    return built[0].builder.write(folder / "a.parquet"), built[1].builder.write(folder / "b.parquet")


def test_a_diff_compares_copies_and_waits_with_a_gate_for_each(tmp_path: Path) -> None:
    before, after = sides(tmp_path, (1, "h2d", 250_000_019), (2, "d2h", 5_000_011))
    runs = read_sides([before], [after], Asked())
    diff = compare(*runs, Asked(gates=(parsed("gpu-copy > 50%"), parsed("gpu-wait > 1s"))))
    copied, waited = diff.totals["device_copy_bytes"], diff.totals["device_sync_s"]
    assert copied and waited
    assert (copied.before, copied.after, copied.verdict) == (100_000_007, 255_000_030, "worse")
    assert (waited.before, waited.after, waited.verdict) == (2.0, 0.0, "better")
    lines = {line.line: line.change("device_copy_bytes") for line in diff.lines}
    assert (lines[10].before, lines[10].after) == (100_000_007, 250_000_019)
    assert (lines[11].before, lines[11].after) == (None, 5_000_011)
    assert [gate.failed for gate in diff.gates] == [True, False]
    text = "\n".join(diff_text(diff, Screen(width=120)))
    assert "GPU copy" in text and "255 MB" in text and "GPU wait" in text
    assert "GPU copy" in "\n".join(diff_markdown(diff))
    page = comparison_document(diff, runs, Selection())["diff"]
    assert page["totals"]["device_copy_bytes"][:3] == [100_000_000, 255_000_000, "worse"], "to six digits"
    assert {"device_copy_bytes", "device_sync_s"} <= {name for name, *_ in page["measures"]}


def test_a_side_that_could_have_copied_and_did_not_has_zero(tmp_path: Path) -> None:
    diff = compare(*read_sides(*([path] for path in sides(tmp_path)), Asked()), Asked())
    copied = diff.totals["device_copy_bytes"]
    assert copied and (copied.before, copied.after, copied.verdict) == (100_000_007, 0, "better")


def test_a_diff_of_programs_without_a_gpu_says_null(tmp_path: Path) -> None:
    _, after = sides(tmp_path)
    runs = read_sides([after], [after], Asked())
    diff = compare(*runs, Asked())
    assert (diff.totals["device_copy_bytes"], diff.totals["device_sync_s"], diff.totals["gpu_s"]) == (None, None, None)
    with pytest.raises(GateError, match="was not recorded on both sides"):
        compare(*runs, Asked(gates=(parsed("gpu-copy > 1MB"),)))


def test_a_line_that_only_a_later_batch_of_traces_asks_a_device_for_is_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "batches_of", lambda paths, cores: ([[path] for path in paths], cores))
    first, second = Built(), Built()
    first.builder.tick(SECOND, first.process, first.thread, first.ten)
    second.copy(second.ten, "h2d", 1_000_003)
    paths = [built.builder.write(tmp_path / f"{n}.parquet") for n, built in enumerate((first, second))]
    line = at(build_report(paths, Selection()), 10)
    assert (line.ticks, line.cpu_s, line.device_copy_bytes) == (1, pytest.approx(0.01), 1_000_003)


def test_without_a_call_all_is_none_and_nothing_is_said(tmp_path: Path) -> None:
    built = Built()
    built.builder.tick(SECOND, built.process, built.thread, built.ten)
    report = built.report(tmp_path)
    assert (at(report, 10).device_copy_bytes, at(report, 10).device_copies) == (None, DeviceCopies())
    assert (report.totals.device_peak_bytes, report.traces[0].events["device_copy"]) == (None, None)
    assert "evice" not in "\n".join(report_text(report, Screen()))


def test_the_report_says_it_once_there_was_a_call(tmp_path: Path) -> None:
    built = Built().copy(1, "h2d", 3_000_000).copy(2, "d2h", 2_000_000).copy(2, "h2d", 10)
    report = built.block(2, 9_000_000, SECOND, None).sync(1, 1_500 * MS).report(tmp_path)
    text = "\n".join(report_text(report, Screen(width=120)))
    assert "Devices     9.0 MB  peak; copies and waits: 3.0 MB to, 2.0 MB from, 1.50 s waiting" in text
    rows = [
        line.split() for line in text.splitlines() if "app.py:1" in line and "•" not in line and " in " not in line
    ][:2]
    assert rows[0][:4] == ["0.0", "MB", "2.0", "MB"] and rows[0][4:6] == ["9.0", "MB"]
    assert rows[1][:2] == ["3.0", "MB"] and rows[1][2:4] == ["1.50", "s"]
