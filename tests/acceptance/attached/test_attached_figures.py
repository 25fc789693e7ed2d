"""A process that was attached to: lines within 3 points of the program's stopwatch, the split into Python and native time
within 5, waits within 3 %."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.observed_program import attached, observed_by, record_attached
from tests.support.recording import (
    Json,
    figure,
    hold_median,
    line_of,
    lines_of,
    native_percent,
    report,
    target,
)
from tests.support.timed_functions import PROGRAM, times_of, truth_of, worst_error

WITHIN_PERCENT = 3
WITHIN_POINTS = 3
SPLIT_WITHIN_POINTS = 5
#: Native functions in turn with as much Python; 700 samples. Pieces of 20 us are shorter than it takes to read the stack after
#: the sample, so the instruction must be that of the sample. On 3.15, sorted() with a keyword is called where the bytecode loop
#: keeps the next instruction elsewhere.
HALVES = ("zlib_200us", "sorted_200us", "keyword_200us", "sorted_20us", "min_20us")


def error_percent(what: str, python: Interpreter, found_s: float, true_s: float) -> float:
    """The error, which is printed too."""
    error = 100 * (found_s / true_s - 1)
    figure(f"attached, {what}", python, error, WITHIN_PERCENT, "percent")
    return error


def wait_on(found: Json, mark: str) -> float:
    """The waiting time of the line, 0 where the report lacks it: an error of 100 percent, which is held like any other."""
    row = lines_of(found, target("waits")).get(line_of("waits", mark))
    return float(row["wait_s"]) if row else 0.0


@pytest.mark.measures
def test_four_ways_of_waiting_are_on_their_lines(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record_attached(trace, [target("waits"), "four", "4"], python)
        found = report(trace)
        return {
            name: error_percent(f"asleep in {name}", python, wait_on(found, name), true_s)
            for name, true_s in done.facts.items()
        }

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures
def test_four_threads_of_pure_python_wait_for_the_gil(python: Interpreter, tmp_path: Path) -> None:
    loop = range(line_of("waits", "compute-first"), line_of("waits", "compute-last") + 1)

    def measure(trace: Path) -> dict[str, float]:
        watches = record_attached(trace, [target("waits"), "gil", "3"], python).facts.values()
        lines = lines_of(report(trace), target("waits"))
        found_s = sum(row["waits"]["gil_s"] for number, row in lines.items() if number in loop)
        true_s = sum(watch["wall_s"] - watch["run_s"] - watch["delay_s"] for watch in watches)
        return {"for the GIL": error_percent("for the GIL", python, found_s, true_s)}

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures_alone
@pytest.mark.parametrize("name", ["native", "kernel", "waits"])
def test_functions_have_their_share(python: Interpreter, tmp_path: Path, name: str) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record_attached(trace, [PROGRAM, name], python, "--cpu-interval", "1ms")
        rows = report(trace, "--all-lines")["lines"]
        lines = times_of(rows, name)
        error = worst_error(truth_of(done.stdout.decode())["functions"], lines)
        figure(f"attached, functions of {name}", python, error, WITHIN_POINTS, "points")
        return {name: error}

    hold_median(measure, tmp_path, WITHIN_POINTS)


@pytest.mark.measures_alone
def test_half_is_native_and_half_is_python(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record_attached(trace, [target("halves"), "0.7", *HALVES], python, "--cpu-interval", "1ms")
        found = {row["function"]: row for row in report(trace, "--all-lines")["functions"]}
        errors = {name: native_percent(found[name]) - done.facts[name] for name in HALVES}
        for name, error in errors.items():
            figure(f"attached, split, {name}", python, error, SPLIT_WITHIN_POINTS, "points")
        return errors

    hold_median(measure, tmp_path, SPLIT_WITHIN_POINTS)


@pytest.mark.measures_alone
def test_the_start_of_a_burst_is_not_missed(any_python: Interpreter, tmp_path: Path) -> None:
    """Work of 6 ms, then a pause: three functions in turn, with a third each."""

    def measure(trace: Path) -> dict[str, float]:
        with observed_by(any_python) as program, attached(trace, program.pid, "--cpu-interval", "1ms") as recorder:
            program.tell("bursts")
            recorder.stop()
        found = {row["function"]: row["cpu_s"] for row in report(trace)["functions"]}
        three = [found[name] for name in ("first", "second", "third")]
        return {"first": 100 * three[0] / sum(three) - 100 / 3}

    hold_median(measure, tmp_path, 8)
