"""Attached from outside (``--pid``): how far functions are off, and what it costs the program.

Six programs of a fixed amount of work measure their own functions (``targets/timed_functions.py``). In each round a
program runs bare, and attached to from its start, with passes every 10 ms and every 1 ms. The error is that of the function, with all its lines, whose share of the
time differs most from the program's stopwatch of the same run, in points. The slowdown is the ratio of the wall times of a
round. ``python -m tests.long.attached [--versions 3.13] [--rounds 5]`` prints medians and ranges, and writes a dated result
into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.dated_results import write_result
from tests.support.interpreters import Interpreter, interpreters
from tests.support.observed_program import record_attached
from tests.support.recording import bare, report
from tests.support.timed_functions import NAMES, PROGRAM, spread, truth_of, worst_error

Figures = dict[str, list[float]]


def attached(python: Interpreter, name: str, folder: Path, interval: str) -> tuple[float, float]:
    """Wall time, and the largest error in points."""
    done = record_attached(folder / "t.parquet", [PROGRAM, name], python, "--cpu-interval", interval)
    found = report(done.trace, "--all-lines")["lines"]
    truth = truth_of(done.stdout.decode())
    waits = name == "waits"
    lines = {
        row["line"]: row["cpu_s"] + (row["wait_s"] if waits else 0) for row in found if row["file"] == str(PROGRAM)
    }
    return truth["wall_s"], worst_error(truth["functions"], lines)


def measure(python: Interpreter, rounds: int) -> dict[str, Figures]:
    """Slowdowns and errors in points, by program."""
    found: dict[str, Figures] = {}
    for name in NAMES:
        figures = found[name] = {"slowdown": [], "error": [], "error at 1 ms": []}
        for number in range(rounds):
            with TemporaryDirectory() as folder:
                alone_s = alone(python, name) if number % 2 else 0.0
                wall_s, error = attached(python, name, Path(folder), "10ms")
                alone_s = alone_s or alone(python, name)
                _, fine_error = attached(python, name, Path(folder), "1ms")
            figures["slowdown"].append(wall_s / alone_s)
            figures["error"].append(error)
            figures["error at 1 ms"].append(fine_error)
        print(python.full_name, name, {what: spread(values) for what, values in figures.items()}, flush=True)
    return found


def alone(python: Interpreter, name: str) -> float:
    """Wall time of a bare run."""
    wall_s: float = truth_of(bare([PROGRAM, name], python).stdout.decode())["wall_s"]
    return wall_s


def table(found: dict[str, dict[str, Figures]]) -> str:
    """The figures as text."""
    columns = ("slowdown", "error", "error at 1 ms")
    lines = ["slowdown, and largest error in points", f"{'':18}" + "".join(f"{each:>24}" for each in columns)]
    for version, programs in found.items():
        for name, each in programs.items():
            lines.append(f"{version:8} {name:9}" + "".join(f"{spread(each[what]):>24}" for what in columns))
    medians = {
        what: [statistics.median(each[what]) for programs in found.values() for each in programs.values()]
        for what in columns
    }
    for what, values in medians.items():
        lines.append(f"{what}: median {statistics.median(values):.3f}, worst {max(values):.3f}")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", help="minor versions, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--print-only", action="store_true", help="write no result")
    asked = parser.parse_args(words)
    wanted = set(asked.versions.split(",")) if asked.versions else None
    chosen = [each for each in interpreters() if wanted is None or each.name in wanted]
    found = {each.full_name: measure(each, asked.rounds) for each in chosen}
    text = table(found)
    print(text)
    if not asked.print_only:
        write_result("attached", {"rounds": asked.rounds, "figures": found}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
