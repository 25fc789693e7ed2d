"""The summary sentence of a comparison, and the limits of its formulae."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.analyze.diff.compare import Asked, LengthError, compare
from scalene_trace.analyze.diff.gates import GateError, parsed
from scalene_trace.analyze.diff.results import Change, Diff, LineChange, Statistics
from scalene_trace.analyze.diff.runs import Run, RunRow
from scalene_trace.analyze.diff.significance import Figure
from scalene_trace.analyze.diff.summary import summary_of
from scalene_trace.cli.render.diff import diff_text, shown_change, shown_range
from scalene_trace.cli.render.markdown import diff_markdown
from scalene_trace.cli.render.text import Screen
from tests.support.simulated_runs import APP, PROGRAM, compared, cpu_figure, simulated_run, trace_info
from tests.support.trace_builder import MS, TraceBuilder

MB = 1e6


def run_of(ticks: Mapping[int, int], seconds: float = 30.0, **totals: float) -> Run:
    """A run with exactly so many ticks a line, and such other figures of the whole."""
    rows = {(APP, line): RunRow("main", 1, {"cpu_s": cpu_figure(count)}) for line, count in ticks.items()}
    whole = {"cpu_s": cpu_figure(sum(ticks.values()))} | {name: Figure(value) for name, value in totals.items()}
    return Run(trace_info(), seconds, rows, RunRow(figures={"cpu_s": Figure(0.0)}), RunRow(figures=whole), {})


def cpu_of(diff: Diff) -> Change:
    change = diff.totals["cpu_s"]
    assert change is not None
    return change


@pytest.mark.parametrize("turned", [False, True])
def test_where_several_runs_have_no_cpu_time_there_is_an_answer(turned: bool) -> None:
    sides = [run_of({10: 300, 11: 100})], [run_of({10: 0}), run_of({10: 0})]
    diff = compared(*reversed(sides)) if turned else compared(*sides)
    assert cpu_of(diff).verdict == ("worse" if turned else "better")
    expected = "CPU time rose from zero, mostly from " if turned else "CPU time fell to zero, mostly from "
    assert diff.summary.startswith(expected)


def test_a_tick_where_there_was_none_has_no_percentage() -> None:
    diff = compared([run_of({10: 0})], [run_of({10: 1})])
    assert cpu_of(diff).verdict == "noise"
    assert diff.summary == "No significant change of CPU time: none before, 0.01 s after, which noise explains."


def test_a_peak_does_not_sink_because_the_run_was_longer() -> None:
    gates = tuple(parsed(text) for text in ("peak>+5%", "peak>+20MB"))
    sides = [run_of({10: 500}, 10.0, peak_bytes=100 * MB)], [run_of({10: 500}, 20.0, peak_bytes=150 * MB)]
    diff = compare(*sides, Asked(per_second=True, gates=gates))
    peak = diff.totals["peak_bytes"]
    assert peak is not None and (peak.before_per_s, peak.after_per_s) == (None, None)
    assert (peak.ratio, peak.verdict) == (pytest.approx(1.5), "worse")
    assert [gate.text for gate in diff.gates] == ["peak>+5%: +50.0 %, exceeded", "peak>+20MB: +50.0 MB, exceeded"]
    assert all(gate.failed for gate in diff.gates)


def test_by_the_second_the_line_is_named_whose_rate_changed() -> None:
    sides = [run_of({10: 4_000, 11: 1_000}, 10.0)], [run_of({10: 4_000, 11: 4_000}, 40.0)]
    diff = compare(*sides, Asked(per_second=True))
    assert diff.summary.startswith("2.5× less CPU time per second, almost all from app.py:10.")
    assert diff.lines[0].line == 10 and compare(*sides, Asked()).lines[0].line == 11


def test_what_is_sure_but_small_is_not_called_noise() -> None:
    sides = [
        [run_of({line: round(factor * 40_000) for line in (10, 11, 12, 13, 14)}) for _ in range(5)]
        for factor in (1.0, 1.045)
    ]
    diff = compare(*sides, Asked(gates=(parsed("cpu>+2%"),)))
    assert cpu_of(diff).verdict == "noise" and diff.gates[0].failed
    assert diff.summary.startswith("No relevant change of CPU time: +4.5 % (95 %: +3 % to +6 %).")


def test_the_median_is_one() -> None:
    sides = [[run_of({10: 100 * seconds}) for seconds in each] for each in ((10,) * 5, (15, 15, 15, 15, 26))]
    diff = compared(*sides)
    assert cpu_of(diff).ratio == pytest.approx(1.72) and diff.summary.startswith("Median 1.5× slower")


@pytest.mark.parametrize("median", [0.9, 0.999, 1.0, 1.004, None])
def test_a_median_without_a_clear_direction_is_not_mentioned(median: float | None) -> None:
    worse = Change(10.0, 29.4, ratio=2.94, low=1.5, high=5.0, p=0.001, verdict="worse")
    better = Change(29.4, 10.0, ratio=0.34, low=0.2, high=0.7, p=0.001, verdict="better")
    statistics = Statistics(5, 5, 1, {}, [], None, {})
    assert summary_of({"cpu_s": worse}, [], {}, statistics, median).startswith("2.9× slower")
    other_way = 1 / median if median else None
    assert summary_of({"cpu_s": better}, [], {}, statistics, other_way).startswith("2.9× faster")


@pytest.mark.parametrize("tests", [1, 2])
def test_what_was_tested_alone_is_not_said_to_be_unsure_beside_others(tests: int) -> None:
    change = Change(10.0, 11.0, ratio=1.1, low=1.01, high=1.2, p=0.025, verdict="noise")
    said = summary_of({"cpu_s": change}, [], {}, Statistics(1, 1, tests, {}, [], None, {}))
    assert said.endswith("at the 1 % level." if tests == 1 else "at the 1 % level after adjusting for 2 tests.")


@pytest.mark.parametrize("unknown", [(0,), (1,), (0, 1)])
def test_runs_of_unknown_duration_are_not_compared_per_second(unknown: tuple[int, ...]) -> None:
    sides = [[run_of({10: 500 + 100 * side}, 0.0 if side in unknown else 10.0)] for side in (0, 1)]
    with pytest.raises(LengthError, match="no known duration"):
        compare(*sides, Asked(per_second=True))
    change = cpu_of(compare(*sides, Asked()))
    assert change.before == pytest.approx(5.0) and change.after == pytest.approx(6.0)
    known = [None if side in unknown else pytest.approx(0.5 + 0.1 * side) for side in (0, 1)]
    assert [change.before_per_s, change.after_per_s] == known


def _windows(run: Run) -> Run:
    """The run as one of 100 s, which a cycle has paused for the rest of the time, with memory in proportion."""
    peak = {"live_at_peak_bytes": Figure(10 * MB * run.window_s)}
    rows = {place: replace(row, figures={**row.figures, **peak}) for place, row in run.rows.items()}
    return replace(run, rows=rows, recorded_share=run.window_s / 100, has_cycle=True)


def test_recordings_of_a_part_of_the_time_are_compared_per_second() -> None:
    before, after = (_windows(run_of({10: ticks}, ticks / 500, live_at_peak_bytes=0)) for ticks in (5_000, 10_000))
    diff = compare([before], [after], Asked(gates=(parsed("cpu>+5%"),)))
    assert diff.query["per_second"] is True and not diff.gates[0].failed
    assert cpu_of(diff).ratio == pytest.approx(1.0)
    assert "compared per second of it. What was alive at the peak is not judged" in diff.summary
    assert diff.lines[0].change("live_at_peak_bytes").verdict is None
    with pytest.raises(GateError, match="per second"):
        compare([before], [after], Asked(gates=(parsed("cpu>+5s"),)))
    # Blocks of record() are compared as wholes: how long they take is what is asked.
    blocks = compare([replace(before, has_cycle=False)], [replace(after, has_cycle=False)], Asked())
    assert cpu_of(blocks).ratio == pytest.approx(2.0) and "totals are of the rest" in blocks.summary


def test_the_detectable_change_of_uneven_lines_is_detected() -> None:
    """What the lines differ by among themselves counts in the claim as it does in the test."""
    random = np.random.default_rng(11)
    ticks = {line: 5 * count for line, count in PROGRAM.items()}
    found, claims = 0, []
    for _ in range(25):
        sides = simulated_run(random, ticks, spread=0.1), simulated_run(random, ticks, spread=0.1)
        claim = compared([sides[0]], [sides[1]]).statistics.detectable_ratio
        assert claim is not None
        claims.append(claim)
        before = round(sides[0].rows[APP, 10].figures["cpu_s"].value * 100)
        counts = {line: round(row.figures["cpu_s"].value * 100) for (_, line), row in sides[1].rows.items()}
        slower = run_of(counts | {10: round(1.1 * claim * before)})
        (row,) = (row for row in compared([sides[0]], [slower]).lines if row.line == 10)
        found += row.change("cpu_s").verdict == "worse"
    assert found >= 13, (found, claims)


def test_rates_are_shown_per_second() -> None:
    slow, fast = (Change(1e6, 3e6, 1e5, 3e5, 2e6, low=low, high=high) for low, high in ((1.8e5, 2.2e5), (1.8e7, 2.2e7)))
    assert (shown_change(slow, True), shown_range(slow, Screen(), True)) == ("+0.2 MB/s", "+0.2 to +0.2 MB/s")
    assert (shown_change(slow), shown_range(fast, Screen(), True)) == ("+2.0 MB", "+18 to +22 MB/s")
    assert shown_range(fast, Screen()) == "+18 to +22 MB"


def test_growth_per_second_has_a_range_per_second() -> None:
    sides = [run_of({10: 500}, 10.0, growth_bytes=size * MB) for size in (100, 300)]
    growth = compare([sides[0]], [sides[1]], Asked(per_second=True)).totals["growth_bytes"]
    assert growth is not None and growth.low is not None and growth.high is not None
    assert growth.moved(True) == pytest.approx(20 * MB) and growth.low < 20 * MB < growth.high < 25 * MB
    assert growth.difference == pytest.approx(200 * MB)


@pytest.mark.parametrize(
    "settings",
    [
        {"memory_threshold_bytes": "²", "wall_ns": "1" + "0" * 170, "command": "[" * 100_000},
        {"memory_threshold_bytes": "1" * 5_000, "wall_ns": "1" + "0" * 400},
        {"memory_threshold_bytes": "1" + "0" * 200, "wall_ns": "-5"},
        {"features": "[" * 100_000},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_invalid_settings_are_taken_for_absent(settings: dict[str, str], run: Any, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    stack = builder.stack((APP, "main", 1, 2))
    builder.tick(MS, process, thread, stack)
    builder.memory(MS, process, thread, stack, 11_000_003, 11_000_003)
    builder.settings |= settings
    path = builder.write(tmp_path / "t.parquet")
    for command in (["diff", path, path], ["report", path], ["info", path]):
        assert run(*command).code == 0, command


def test_what_was_not_tested_says_so() -> None:
    """Lines below 1 % of the total, and the parts of CPU time; not lines of one side."""
    diff = compared([run_of({10: 5_000, 11: 4_000, 12: 30, 13: 20})], [run_of({10: 5_000, 11: 4_000, 12: 31, 14: 20})])
    changes = {line.place[1]: line.change("cpu_s") for line in diff.lines}
    assert [changes[line].shown_verdict for line in (10, 12)] == ["noise", "not tested"]
    assert changes[12].p is None and changes[12].verdict is None
    text = list(diff_text(diff, Screen(120)))
    (row,) = [line for line in text if "app.py:10" in line]
    assert "not tested" not in row
    assert (
        Change(1.0, None).shown_verdict == ""
        and Change(1.0, 2.0, difference=1.0, verdict="worse").shown_verdict == "worse"
    )


def test_two_single_runs_name_no_unchanged_line() -> None:
    """The total is slower for certain, and of no line it is certain: most of the difference may be noise of one line."""
    sides = {10: 150} | dict.fromkeys((11, 12, 13), 150), {10: 240} | dict.fromkeys((11, 12, 13), 180)
    single = compared([run_of(sides[0])], [run_of(sides[1])])
    assert cpu_of(single).verdict == "worse" and not any(line.is_judged for line in single.lines)
    assert single.summary.startswith("1.30× slower.")
    one_line = compared([run_of({10: 2_000, 11: 2_000})], [run_of({10: 9_000, 11: 2_000})])
    assert "app.py:10" in one_line.summary


def test_different_programs_are_said_to_be_so_first() -> None:
    line = LineChange("added", "/b.py", 3, "main", "x()", None, None, None, None, {"cpu_s": Change(None, 9.0)})
    gone = LineChange("removed", None, None, None, None, "/a.py", 3, "main", "y()", {"cpu_s": Change(1.0, None)})
    same = LineChange("same", "/a.py", 3, "main", "y()", "/a.py", 3, "main", "y()", {})
    cpu = Change(1.0, 9.0, difference=8.0, ratio=9.0, low=5.0, high=15.0, p=0.0001, verdict="worse")
    statistics = Statistics(1, 1, 1, {}, [], None, {})
    said = summary_of({"cpu_s": cpu}, [line, gone], {}, statistics)
    assert said.startswith("No line with samples is in both versions") and said.endswith(" 9.0× slower.")
    for lines in ([line, gone, same], [line], [gone], []):
        assert "No line with samples" not in summary_of({"cpu_s": cpu}, lines, {}, statistics)


def test_a_range_that_leaves_everything_open_is_unknown() -> None:
    change = Change(1.0, 0.0, difference=-1.0, ratio=0.0, low=0.01, high=30.0, p=0.9, verdict="noise")
    assert shown_range(change, Screen()) == "unknown"
    assert (
        shown_range(Change(1.0, 9.0, ratio=9.0, low=2.0, high=30.0, p=0.9, verdict="noise"), Screen()) == "from +100 %"
    )


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        (("same", "edited"), "No line changed by more than noise explains."),
        (("same", "removed"), "No line that is in both versions changed by more than noise explains."),
        (("added", "same"), "No line that is in both versions changed by more than noise explains."),
    ],
)
def test_a_line_that_was_removed_is_not_said_to_be_as_it_was(statuses: tuple[str, str], said: str) -> None:
    diff = compared([run_of({10: 500, 11: 9})], [run_of({10: 500, 11: 9})])
    lines = [replace(line, status=status) for line, status in zip(diff.lines, statuses, strict=True)]
    diff = replace(diff, lines=lines)
    assert said in list(diff_text(diff, Screen(120))) and said in list(diff_markdown(diff))


MEASURED = ("cpu_s", "wall_s", "wait_s", "peak_bytes", "alloc_bytes", "live_at_peak_bytes", "growth_bytes", "gpu_s")


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
def test_a_range_holds_its_estimate_whatever_was_counted(counts: tuple[int, int]) -> None:
    """Few samples or none on a side, sizes that differ a lot, runs that disagree."""
    random = np.random.default_rng(20_261_130)

    def figures() -> dict[str, Figure]:
        weights = {name: 10.0 ** random.integers(-3, 3) for name in MEASURED}
        samples = {name: int(random.choice([0, 1, 2, 9, 100])) for name in MEASURED}
        return {name: Figure(n * weights[name], n * weights[name] ** 2) for name, n in samples.items()}

    def run() -> Run:
        rows = {(APP, line): RunRow("main", 1, figures()) for line in range(10, 30)}
        nothing = RunRow(figures=dict.fromkeys(MEASURED, Figure(0.0)))
        events = dict.fromkeys(trace_info().events, 1)
        return Run(replace(trace_info(), events=events), 30.0, rows, nothing, RunRow(figures=figures()), {})

    screen, seen = Screen(), 0
    for _ in range(20):
        diff = compared(*([run() for _ in range(count)] for count in counts))
        changes = [diff.totals, *(line.changes for line in diff.lines)]
        for name, change in (pair for each in changes for pair in each.items()):
            if change is None or change.low is None or not (change.before or change.after):
                continue
            seen += 1
            estimate = change.difference if name == "growth_bytes" else change.ratio
            if estimate is None:
                assert change.before == 0 and change.high is None
                continue
            assert change.high is None or change.low <= estimate <= change.high, (name, change)
            shown = shown_range(change, screen)
            if change.ratio is not None and " to " in shown:
                low, high = (float(part) for part in shown.removesuffix(" %").split(" to "))
                assert low <= round(100 * (change.ratio - 1), 1) <= high, (shown, change)
    assert seen > 500
