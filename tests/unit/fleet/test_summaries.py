"""A summary has the figures of the trace's own report, whatever is reduced beside it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalene_trace.analyze.exports.collapsed import collapsed
from scalene_trace.analyze.exports.shared.profile import read_profile
from scalene_trace.analyze.fleet import figures
from scalene_trace.analyze.fleet.reduce import Summary, summaries
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import DeviceCopies, Function, Line, Report, Totals, Waits
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.formats.errors import OutOfMemory, TraceDamaged, TraceMissing
from scalene_trace.formats.fleet.schema import OTHER_STACKS
from scalene_trace.formats.labels import labels_in
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.labels import labels_of
from tests.support import random_traces
from tests.support.example_traces import APP, HOSTILE, rich_trace, small_trace
from tests.support.page_traces import busy_trace, device_trace
from tests.support.trace_builder import SECOND, TraceBuilder, write_large_trace

PARTS = {each.name for kind in (Waits, DeviceCopies) for each in fields(kind)}
#: Fields of lines and functions that cannot be added up, or follow from others.
NO_FIGURES = {
    *("file", "line", "function", "first_line", "source", "ticks", "waits", "device_copies", "trend", "trend_class"),
    *("cpu_percent", "cpu_error_s", "cpu_percent_error", "growth_error_bytes", "python_alloc_fraction", "gpu_short"),
    *("alloc_error_bytes", "live_at_peak_error_bytes", "live_at_end_error_bytes", "copy_bytes_per_s", "gpu_percent"),
    *("leak_probability", "leak_bytes_per_s", "native_libraries", "callees", "cumulative_cpu_error_s"),
    *("cumulative_alloc_error_bytes", "cumulative_live_at_peak_error_bytes", "cumulative_live_at_end_error_bytes"),
}
#: The program of an installed package: nothing else is the user's there, while it is a library in every other trace.
PROGRAM = "/usr/lib/python3.12/site-packages/tool/__main__.py"


def installed_program(path: Path) -> Path:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.tick(SECOND, process, thread, builder.stack((PROGRAM, "<module>", 1, 7)))
    return builder.write(path)


def caller_of_it(path: Path) -> Path:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.tick(SECOND, process, thread, builder.stack((PROGRAM, "<module>", 1, 7), (APP, "main", 3, 4)))
    return builder.write(path)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("traces")
    makers = (small_trace, rich_trace, busy_trace, installed_program, caller_of_it, device_trace)
    found = [maker(folder / f"{place}.parquet") for place, maker in enumerate(makers)]
    found.append(write_large_trace(folder / "large.parquet", 3_000, 6_000))
    found.append(TraceBuilder().write(folder / "empty.parquet"))
    return found


@pytest.fixture(scope="module")
def reduced(paths: list[Path]) -> dict[Path, Summary]:
    return {each.path: each for each in summaries(paths)}


def expected(report: Report) -> Iterator[tuple[tuple[Any, ...], dict[str, float]]]:
    rows = (*report.lines, report.unattributed)
    grown = {} if report.totals.peak_bytes is None else {"growth_bytes": sum(each.growth_bytes or 0 for each in rows)}
    yield ("total",), of(report.totals) | unseen(report) | grown
    yield (
        ("line", None, None),
        {name: value for name, value in of(report.unattributed).items() if name not in unseen(report)},
    )
    for line in report.lines:
        yield ("line", line.file, line.line), of(line, report)
    for function in report.functions:
        yield ("function", function.file, function.function, function.first_line), of(function, report)


def unseen(report: Report) -> dict[str, float]:
    names = ("alloc_unseen_bytes", "live_unseen_bytes")
    return {name: value for name in names if (value := getattr(report.unattributed, name))}


def of(row: Line | Totals, report: Report | None = None) -> dict[str, float]:
    """All figures of a row that are not 0, and not those of the whole trace."""
    found = {name: value for name, value in vars(row).items() if name not in NO_FIGURES}
    found |= vars(row.waits) | vars(row.device_copies)
    whole = unseen(report) if report else {}
    return {name: value for name, value in found.items() if value and whole.get(name) != value}


def actual(summary: Summary) -> dict[tuple[Any, ...], dict[str, float]]:
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    names = list(summary.figures)
    for values in zip(*summary.figures.values(), strict=True):
        row = dict(zip(names, values, strict=True))
        key = {
            "total": ("total",),
            "line": ("line", row["file"], row["line"]),
            "function": ("function", row["file"], row["function"], row["first_line"]),
        }.get(row["scope"])
        if key is not None:
            assert row["metric"] not in found.setdefault(key, {})
            found[key][row["metric"]] = row["value"]
    return found


def test_every_figure_of_a_report_is_in_the_summary_or_is_known_not_to_add_up() -> None:
    figures_of_rows = {each.name for kind in (Function, Totals) for each in fields(kind)} - NO_FIGURES
    assert figures_of_rows == {*figures.ADDED, *figures.HIGHEST} - PARTS


def test_a_summary_has_the_figures_of_the_report_of_its_trace(paths: list[Path], reduced: dict[Path, Summary]) -> None:
    assert len(reduced) == len(paths) and not any(each.reason for each in reduced.values())
    for path in paths:
        report = build_report([path], Selection())
        wanted = {key: pytest.approx(row, rel=1e-9) for key, row in expected(report) if row}
        assert actual(reduced[path]) == wanted, path


@settings(max_examples=2, deadline=None)
@given(st.lists(random_traces.traces(), min_size=2, max_size=2))
def test_random_traces_have_their_own_figures_beside_each_other(builders: list[TraceBuilder]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [builder.write(Path(folder, f"{place}.parquet")) for place, builder in enumerate(builders)]
        for summary in summaries(paths):
            report = build_report([summary.path], Selection())
            wanted = {key: pytest.approx(row, rel=1e-9, abs=1e-12) for key, row in expected(report) if row}
            assert actual(summary) == wanted


def test_sums_of_squares_give_the_errors_of_the_report(paths: list[Path], reduced: dict[Path, Summary]) -> None:
    for path in (paths[1], paths[6]):
        report, rows = build_report([path], Selection()), reduced[path].figures
        variances = {
            (file, line): variance
            for scope, file, line, metric, variance in zip(
                *(rows[name] for name in ("scope", "file", "line", "metric", "variance")), strict=True
            )
            if scope == "line" and metric == "cpu_s"
        }
        whole = sum(variances.values())
        for line in report.lines:
            if line.cpu_s:
                unseen_s = 3 * whole / (report.totals.cpu_s or 1.0)
                error_s = (variances[line.file, line.line] + (unseen_s / 2) ** 2) ** 0.5
                assert error_s == pytest.approx(line.cpu_error_s)


def test_stacks_are_those_of_the_collapsed_export(paths: list[Path], reduced: dict[Path, Summary]) -> None:
    for path in (paths[1], paths[6]):
        rows = reduced[path].figures
        stacks = {stack: value for stack, value in zip(rows["stack"], rows["value"], strict=True) if stack is not None}
        lines = collapsed(read_profile([path], Selection(), ["cpu"]), "cpu").decode().splitlines()
        wanted = {stack: int(value) for stack, _, value in (line.rpartition(" ") for line in lines)}
        others = stacks.pop(OTHER_STACKS, 0.0)
        assert stacks.keys() <= wanted.keys()
        assert all(abs(value * 1e6 - wanted[stack]) <= 1.5 for stack, value in stacks.items())
        assert (sum(stacks.values()) + others) * 1e6 == pytest.approx(sum(wanted.values()), abs=2)


def test_the_row_of_a_trace_says_what_it_is_of(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["labels"] = (
        '{"version": "1.4.2", "service": "shop", "Bad": "x", "esc": "\\u001b", "long": "' + "y" * 257 + '"}'
    )
    builder.process()
    for text in ("request", "request", "load"):
        builder.add("mark", t_ns=SECOND, what="mark", text=text)
    builder.add("mark", t_ns=SECOND, what="set", text="cpu-interval=1ms")
    (summary,) = summaries([builder.write(tmp_path / "t.parquet")])
    assert summary.trace["labels"] == {"version": "1.4.2", "service": "shop"}
    assert summary.trace["marks"] == {"request": 2, "load": 1}
    assert (summary.trace["host"], summary.trace["processes"]) == ("builder", 1)
    assert summary.trace["start_ns"] == 1767323045_000006000 and summary.trace["wall_ns"] == 10 * SECOND


def test_what_was_paused_counts_neither_as_time_nor_as_marks(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.process()
    for t_ns in (SECOND, 3 * SECOND, 8 * SECOND):
        builder.add("mark", t_ns=t_ns, what="mark", text="request")
    builder.add("mark", t_ns=2 * SECOND, what="pause", text="sample 1s/10s", end_ns=5 * SECOND)
    builder.add("mark", t_ns=7 * SECOND, what="pause", text="sample 1s/10s")
    (summary,) = summaries([builder.write(tmp_path / "t.parquet")])
    assert (summary.trace["wall_ns"], summary.trace["recorded_ns"]) == (10 * SECOND, 4 * SECOND)
    assert summary.trace["marks"] == {"request": 1}


@pytest.mark.parametrize("value", ["a\u00a0b", "\u3000", "\U0001f468\u200d\U0001f469", "x" * 256, "é" * 128])
def test_labels_that_the_recorder_accepts_are_read(value: str) -> None:
    accepted = labels_of("--label", [f"a={value}"])
    assert accepted == {"a": value} == labels_in(json.dumps(accepted))


@pytest.mark.parametrize("value", ["", "a\nb", "\x85", "x" * 257, "é" * 129, "\udcff"])
def test_labels_that_the_recorder_refuses_are_left_out(value: str) -> None:
    with pytest.raises(UsageError):
        labels_of("--label", [f"a={value}"])
    assert labels_in(json.dumps({"a": value, "b": "kept"})) == {"b": "kept"}


def test_a_trace_has_at_most_64_labels() -> None:
    names = [f"a{number}" for number in range(65)]
    assert len(labels_of("--label", [f"{name}=x" for name in names[:64]])) == 64
    with pytest.raises(UsageError, match="65 labels"):
        labels_of("--label", [f"{name}=x" for name in names])
    assert len(labels_in(json.dumps(dict.fromkeys(names, "x")))) == 64


@pytest.mark.parametrize("text", [None, "", "[]", "[" * 100_000, '{"a": 1}', '"x"'])
def test_labels_that_are_none_are_left_out(text: str | None) -> None:
    assert labels_in(text) == {}


def test_a_damaged_trace_does_not_spoil_its_batch(tmp_path: Path) -> None:
    good = [small_trace(tmp_path / f"{place}.parquet") for place in range(3)]
    (tmp_path / "text.parquet").write_text("no trace")
    (tmp_path / "empty.parquet").touch()
    damaged = small_trace(tmp_path / "damaged.parquet")
    contents = bytearray(damaged.read_bytes())
    contents[100] ^= 1
    damaged.write_bytes(contents)
    missing = tmp_path / "missing.parquet"
    bad = [tmp_path / "text.parquet", tmp_path / "empty.parquet", damaged, missing]
    found = {each.path: each for each in summaries([good[0], bad[0], good[1], *bad[1:], good[2]])}
    assert found.keys() == {*good, *bad}
    assert all(found[path].reason is None and found[path].figures for path in good)
    assert all((found[path].reason or "").startswith(str(path)) for path in bad)


def test_a_trace_that_makes_the_analysis_fail_gets_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = small_trace(tmp_path / "good.parquet"), small_trace(tmp_path / "bad.parquet", function="bad")
    real = figures.figures

    def failing(report: Any, *arguments: Any) -> Any:
        if report.functions[0].function == "bad":
            raise KeyError("bad")
        return real(report, *arguments)

    monkeypatch.setattr("scalene_trace.analyze.fleet.reduce.figures", failing)
    found = {each.path: each for each in summaries([good, bad])}
    assert found[good].reason is None and "KeyError" in (found[bad].reason or "")


@pytest.mark.parametrize(
    ("failure", "is_passing"),
    [
        (OSError(28, "No space left on device"), True),
        (OutOfMemory(7), True),
        (TraceMissing(Path("t"), "stale file handle"), True),
        (duckdb.IOException("IO Error: Could not write: No space left on device"), True),
        (duckdb.IOException("IO Error: not enough bytes"), False),
        (TraceDamaged(Path("t"), "bits"), False),
        (KeyError("bug"), False),
    ],
)
def test_failures_of_the_system_are_no_findings_about_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, is_passing: bool
) -> None:
    if isinstance(failure, TraceMissing):
        failure.__cause__ = OSError(116, "Stale file handle")

    def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr("scalene_trace.analyze.fleet.reduce.open_traces", failing)
    assert [each.is_passing for each in summaries([tmp_path / "t.parquet"])] == [is_passing]


def test_long_names_of_a_hostile_trace_are_cut(tmp_path: Path) -> None:
    (summary,) = summaries([small_trace(tmp_path / "t.parquet", HOSTILE, HOSTILE * 3)])
    assert summary.reason is None
    assert max(len(name or "") for name in (*summary.figures["file"], *summary.figures["function"])) == 1000
