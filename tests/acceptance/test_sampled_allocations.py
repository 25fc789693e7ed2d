"""Sampled allocation figures against a recording of every allocation, line by line, at several intervals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import ROOT
from tests.support.recording import Json, analyze, figure, line_of, lines_of, record, report, run, target
from tests.support.target_environments import recorded_interpreters

pytestmark = pytest.mark.samples

BENCHMARK = ROOT / "benchmarks" / "sampling.py"
PYTHONS = recorded_interpreters()
PROGRAMS = {
    name: PYTHONS[index % len(PYTHONS)] for index, name in enumerate(("many_objects", "growing_blocks", "big_blocks"))
}
RUNS = "6"


@pytest.fixture(scope="module", params=PROGRAMS)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Interpreter, list[Json]]:
    """What ``benchmarks/sampling.py`` says of a program: a row for each interval."""
    output, python = tmp_path_factory.mktemp("sampling") / "rows.json", PROGRAMS[request.param]
    command = [
        sys.executable,
        BENCHMARK,
        "--programs",
        request.param,
        "--runs",
        RUNS,
        "--scale",
        "0.5",
        "--output",
        output,
    ]
    done = run([*command, "--python", python.path], timeout_s=600)
    assert done.status == 0, done.stderr.decode()
    return python, json.loads(output.read_text())


@pytest.mark.long
@pytest.mark.parametrize("what", ["", "live_"], ids=["allocated", "live"])
def test_figures_of_lines_lie_within_three_standard_errors(measured: tuple[Interpreter, list[Json]], what: str) -> None:
    python, rows = measured
    assert [row["interval"] for row in rows] == ["auto", "1KiB", "64KiB", "4MiB"]
    assert {row["truth"] for row in rows} == {"exact"}
    figures = sum(row[f"{what}figures"] for row in rows)
    inside = sum(row[f"{what}figures"] * (row[f"{what}within"] or 0) for row in rows) / figures
    figure(f"{what}figures of {rows[0]['program']} within 3 errors", python, inside, 95, "percent")
    assert figures >= 60 and inside >= 95


@pytest.mark.long
@pytest.mark.parametrize("what", ["", "live_"], ids=["allocated", "live"])
def test_totals_are_unbiased_at_every_interval(measured: tuple[Interpreter, list[Json]], what: str) -> None:
    for row in measured[1]:
        limit = 4 * row[f"{what}bias_error"] + 0.1
        figure(
            f"{what}bias of {row['program']} at {row['interval']}", measured[0], row[f"{what}bias"], limit, "percent"
        )
        assert abs(row[f"{what}bias"]) <= limit, row


def test_the_allocation_that_makes_the_peak_is_alive_at_it(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("spike")], python)
    lines = lines_of(report(done.trace), target("spike"))
    live = {mark: lines[line_of("spike", mark)]["live_at_peak_bytes"] for mark in ("stays", "spike", "after", "churn")}
    assert live == {
        "stays": pytest.approx(50_000_050, rel=0.01),
        "spike": pytest.approx(400_000_042, rel=0.01),
        "after": 0,
        "churn": 0,
    }


def test_large_blocks_are_exact_and_what_has_no_sample_has_a_bound(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("kept_blocks")], python)
    assert done.status == 0, done.stderr.decode()
    rows = {row["line"]: row for row in report(done.trace, command="memory")["memory"]}
    lines = lines_of(report(done.trace), target("kept_blocks"))
    kept = {"arrays": 200_000_005, "once": 61_000_001, "received": 100_000_002}
    for mark, size in kept.items():
        row = rows[line_of("kept_blocks", mark)]
        assert row["alloc_bytes"] == pytest.approx(size, rel=0.01), mark
        assert row["live_at_end_bytes"] == pytest.approx(size, rel=0.01), mark
    bounds = [row["alloc_unseen_bytes"] for row in rows.values()]
    figure("largest bound of a line of kept blocks", python, max(bounds) / 1e6, 60, "MB")
    assert min(bounds) > 0 and max(rows[line_of("kept_blocks", mark)]["alloc_unseen_bytes"] for mark in kept) < 4e6
    assert all(row["alloc_error_bytes"] > 0 and row["live_at_end_error_bytes"] > 0 for row in rows.values())
    few = lines.get(line_of("kept_blocks", "few"))
    assert few is None or abs(few["alloc_bytes"] - 9 * 433) <= 2 * few["alloc_error_bytes"]
    shown = analyze("memory", done.trace).stdout.decode().splitlines()
    assert " 0.0 MB" not in next(line for line in shown if "LINE: received" in line)


def test_two_printed_errors_hold_figures_of_random_programs(tmp_path: Path) -> None:
    """The short form of ``benchmarks/random_lines.py``: some 150 figures, of which 95 % are expected to be inside."""
    output = tmp_path / "figures.json"
    options = ["--count", "6", "--seed", "1000", "--output", output]
    done = run([sys.executable, ROOT / "benchmarks" / "random_lines.py", *options], timeout_s=600)
    assert done.status == 0, done.stderr.decode()
    found = json.loads(output.read_text())
    inside = 100 * sum(each["is_inside"] for each in found) / len(found)
    figure("figures of random lines within two errors", PYTHONS[0], inside, 88, "percent")
    assert len(found) >= 60 and inside >= 88, [each for each in found if not each["is_inside"]]
