"""`fleet diff`, `fleet trend` and `fleet outliers` on written summaries: figures, lines of two versions, messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalene_trace.analyze.fleet.compare.lines import VersionLine, same_lines
from scalene_trace.analyze.fleet.compare.units import Units
from scalene_trace.analyze.results.fleet_comparison import (
    FleetDiff,
    FleetOutliers,
    FleetTrend,
    HostCompared,
    TrendPoint,
)
from tests.support.command_line import Ran, fields_of
from tests.support.simulated_fleet import (
    TICK_S,
    FleetPlan,
    MonthPlan,
    simulated,
    simulated_month,
    slower,
    write_rare,
    write_units,
)

Run = Callable[..., Ran]
SIDES = ("--before", "version=1", "--after", "version=2")


def fleet_of(folder: Path, units: Units) -> Path:
    write_units(folder, units)
    return folder


def test_a_slower_line_is_named_at_its_place_in_both_versions(tmp_path: Path, run: Run) -> None:
    units = simulated(np.random.default_rng(1), slower(FleetPlan(hosts=8, own=0.0), 1.3))
    document = run("fleet", "diff", *SIDES, "--json", fleet_of(tmp_path, units)).json
    assert list(document) == ["schema", *fields_of(FleetDiff)]
    line = document["lines"][0]
    assert (line["status"], line["source"], line["line"], line["before_line"]) == ("same", "work(0)", 8, 5)
    change = line["changes"]["cpu_s"]
    assert change["verdict"] == "worse" and change["low"] < 1.3 < change["high"]
    # The cost is per recorded hour, and each host was recorded for one.
    before = units.side_numbers == 0
    assert change["before"] == pytest.approx(units.values[0, before].sum() / before.sum())
    assert (change["hosts_before"], change["hosts_after"], change["pairs"]) == (8, 8, 0)
    assert [each["verdict"] for each in (row["changes"]["cpu_s"] for row in document["lines"])].count("worse") == 1
    assert document["sides"][0]["traces"] == document["sides"][1]["traces"] == 8
    text = " ".join(run("fleet", "diff", *SIDES, tmp_path).out.split())
    assert "1 line is worse: shop.py:8 (CPU time +" in text and "/app/shop.py:8 (was 5) work(0)" in text
    assert run("fleet", "diff", *SIDES, "--limit", "3", "--json", tmp_path).json["lines"][0] == line


def test_small_lines_are_compared_as_one_and_totals_hold_them(tmp_path: Path, run: Run) -> None:
    shares = [0.5, 0.3, 0.19, *[0.0005] * 20]
    units = simulated(np.random.default_rng(1), FleetPlan(shares, hosts=4, ticks=200_000))
    document = run("fleet", "diff", *SIDES, "--json", fleet_of(tmp_path, units)).json
    assert document["statistics"]["other_lines"] == {"cpu_s": 20}
    assert len(document["lines"]) == 3
    total = document["totals"]["cpu_s"]["before"]
    assert total == pytest.approx(units.values[:, units.side_numbers == 0].sum() / 4)


def test_sides_can_be_times_and_need_an_exposure(tmp_path: Path, run: Run) -> None:
    units = simulated(np.random.default_rng(1), FleetPlan(hosts=5))
    fleet_of(tmp_path, units)
    split = run("fleet", "diff", "--split", "2024-10-10", "--json", tmp_path).json
    assert [side["traces"] for side in split["sides"]] == [5, 5]
    # Weekdays and traffic are in no range of a total.
    assert split["together"] == 0 and "different times" in split["summary"] and "Use --per NAME" in split["summary"]
    assert "recorded at different times" in " ".join(run("fleet", "diff", *SIDES, tmp_path).out.split())
    per = run("fleet", "diff", *SIDES, "--per", "order", "--json", tmp_path).json
    assert "Use --per" not in per["summary"] and "Compare the same weekdays." in per["summary"]
    assert per["unit"] == "order"
    assert per["totals"]["cpu_s"]["after"] == pytest.approx(units.values[:, units.side_numbers == 1].sum() / 50)
    ran = run("fleet", "diff", *SIDES, "--per", "request", tmp_path)
    assert ran.code == 2 and "No trace of the two sides has a known host and the mark request." in ran.err


@pytest.mark.parametrize(
    ("metric", "beside"),
    [("gc_s", "cpu_s"), ("disk_s", "wait_s"), ("copy_bytes", "alloc_unseen_bytes"), ("gpu_s", "cpu_s")],
)
def test_traces_that_recorded_none_of_a_metric_count(metric: str, beside: str, tmp_path: Path, run: Run) -> None:
    write_rare(tmp_path, metric, beside)
    document = run("fleet", "diff", *SIDES, "--metric", metric, "--json", tmp_path).json
    total = document["totals"][metric]
    # A tenth of the traces of ten minutes has 6: that is 3.6 an hour, and half of it after.
    assert (total["before"], total["after"]) == pytest.approx((3.6, 1.8))
    assert total["ratio"] == pytest.approx(0.5) and total["verdict"] == "better"
    trend = run("fleet", "trend", "--by", "version", "--metric", metric, "--json", tmp_path).json
    assert "With less than 8 values of version it is unknown" in trend["notes"][0]
    assert [(point["value"], point["traces"]) for point in trend["total"]["points"]] == [
        (pytest.approx(3.6), 120),
        (pytest.approx(1.8), 120),
    ]


def test_hosts_without_any_count_in_the_total_only(tmp_path: Path, run: Run) -> None:
    # Of 20 traces on different hosts, ten have some before, five after.
    write_rare(tmp_path, "gc_s", "cpu_s", (2, 4), traces=1, hosts=20, days_apart=0)
    document = run("fleet", "diff", *SIDES, "--metric", "gc_s", "--json", tmp_path).json
    assert document["together"] == 1 and "different times" not in document["summary"]
    total, line = document["totals"]["gc_s"], document["lines"][0]["changes"]["gc_s"]
    assert (total["hosts_before"], line["hosts_before"], line["hosts_after"]) == (20, 10, 5)
    assert (total["ratio"], line["ratio"]) == (pytest.approx(0.5, rel=0.03), pytest.approx(1, rel=0.03))
    peers = run("fleet", "outliers", "--metric", "gc_s", "--json", tmp_path).json
    assert [(group["hosts"], group["spread"] is None) for group in peers["peers"]] == [(10, False), (5, True)]
    assert all(row["value"] > 0 for row in peers["rows"])


def test_a_metric_of_no_line_is_compared_as_a_whole(tmp_path: Path, run: Run) -> None:
    write_rare(tmp_path, "peak_rss_bytes", "cpu_s", (1, 1), traces=1, hosts=20, is_on_line=False)
    for command in (("diff", *SIDES), ("trend", "--by", "version")):
        assert run("fleet", *command, "--metric", "peak_rss_bytes", "--json", tmp_path).code == 0
    rows = run("fleet", "outliers", "--metric", "peak_rss_bytes", "--json", tmp_path).json["rows"]
    assert len(rows) == 40 and rows[0]["ratio"] == pytest.approx(1.1, rel=0.2) and rows[0]["ratio"] > 1.05


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diff",), "A comparison needs two sides."),
        (("diff", "--before", "version=1"), "A comparison needs two sides."),
        (
            ("diff", "--before", "version=1", "--after", "version=3"),
            "The labels are service=shop, version=1, version=2.",
        ),
        (("diff", "--before", "version=1", "--after", "service=shop"), "3 of their traces in common"),
        (("diff", *SIDES, "--where", "version=2"), "The label version is in --where and in a side."),
        (("diff", *SIDES, "--metric", "gpu_s"), "No selected trace has the metric gpu_s. Metrics: cpu_s."),
        (("diff", *SIDES, "--metric", "growth_bytes"), "Compare live_at_end_bytes."),
        (("diff", "--split", "yesterday"), "yesterday"),
        (
            ("trend", "--by", "region"),
            "No selected trace has the label region and a known host and length. The labels are",
        ),
        (("trend", "--where", "version=9"), "No selected trace has a known day, host and length. The labels are"),
        (("outliers", "--by", "region"), "No selected trace has the label region. The labels are"),
    ],
)
def test_a_wrong_request_says_what_there_is(words: tuple[str, ...], message: str, tmp_path: Path, run: Run) -> None:
    fleet_of(tmp_path, simulated(np.random.default_rng(1), FleetPlan([0.6, 0.4], hosts=3)))
    ran = run("fleet", *words, tmp_path)
    assert ran.code == 2 and message in ran.err


def test_few_hosts_are_not_enough_data(tmp_path: Path, run: Run) -> None:
    fleet_of(tmp_path, simulated(np.random.default_rng(1), slower(FleetPlan(hosts=2), 3.0)))
    document = run("fleet", "diff", *SIDES, "--json", tmp_path).json
    assert document["summary"].startswith("Not enough data: 2 hosts before, 2 hosts after")
    assert (
        document["totals"]["cpu_s"]["verdict"]
        == document["lines"][0]["changes"]["cpu_s"]["verdict"]
        == "not enough data"
    )
    assert "2 groups have less than 8 hosts" in run("fleet", "outliers", tmp_path).out


def test_a_step_is_shown_at_its_day(tmp_path: Path, run: Run) -> None:
    month = simulated_month(np.random.default_rng(1), MonthPlan(hosts=4, days=12, at=6, step=1.5))
    write_units(tmp_path, month, days=month.side_numbers)
    document = run("fleet", "trend", "--json", tmp_path).json
    assert list(document) == ["schema", *fields_of(FleetTrend)]
    points = document["total"]["points"]
    assert list(points[0]) == fields_of(TrendPoint) and len(points) == 12 and points[0]["hosts"] == 4
    (step,) = document["total"]["steps"]
    assert step["name"] == points[6]["name"] and step["low"] < 1.5 < step["high"]
    assert points[3]["value"] == pytest.approx(month.values[0, month.side_numbers == 3].sum() / 4)
    text = " ".join(run("fleet", "trend", tmp_path).out.split())
    assert f"from {step['name']}" in text and "Lines that changed" in text


def test_an_odd_host_is_named(tmp_path: Path, run: Run) -> None:
    units = simulated(np.random.default_rng(1), FleetPlan(hosts=12))
    values = units.values.copy()
    values[:, 3] *= 3
    fleet_of(tmp_path, replace(units, values=np.round(values / TICK_S) * TICK_S))
    document = run("fleet", "outliers", "--json", tmp_path).json
    assert list(document) == ["schema", *fields_of(FleetOutliers)]
    row = document["rows"][0]
    assert list(row) == fields_of(HostCompared)
    assert (row["host"], row["verdict"], row["file"]) == ("host-3", "worse", None) and 2 < row["ratio"] < 4.5
    assert [each["verdict"] for each in document["rows"]].count("worse") == 1
    assert "host-3" in run("fleet", "outliers", tmp_path).out


def line(place: int, version: str, number: int, text: str | None, function: str = "f", first: int = 1) -> VersionLine:
    return VersionLine(place, version, "app.py", function, first, number, text)


def test_lines_are_the_same_by_text_then_by_distance() -> None:
    before = [line(1, "1", 2, "a()"), line(2, "1", 3, "b()"), line(3, "1", 4, "a()"), line(4, "1", 5, "gone()")]
    after = [
        *(line(5, "2", 13, "a()", first=11), line(6, "2", 15, "a()", first=11), line(7, "2", 17, "new()", first=11)),
        line(8, "2", 15, "b(1)", "g", 11),
        line(9, "3", 13, "b(2)", first=11),
    ]
    found = same_lines(before, after)
    pairs = {tuple(each.place for each in old): tuple(each.place for each in new) for old, new in found}
    # The second a() is the second one again; b() was edited at the same distance from the start; the rest is new or gone.
    assert pairs[1,] == (5,) and pairs[3,] == (6,) and pairs[2,] == (9,) and pairs[4,] == ()
    assert sorted(new for old, new in pairs.items() if not old) != []
    without = same_lines([line(1, "1", 5, None)], [line(2, "2", 15, None, first=11)])
    assert [(len(old), len(new)) for old, new in without] == [(1, 1)]


def test_a_line_of_one_version_is_the_same_on_both_sides_of_a_time() -> None:
    first, second = line(1, "1", 2, "a()"), line(2, "1", 4, "a()")
    # After the time, the first a() cost nothing: the second one is still the second.
    assert same_lines([first, second], [second]) == [([first], []), ([second], [second])]
