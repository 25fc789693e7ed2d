"""Attached from outside (``--pid``): how far functions, the split and waits are off, and what it costs the program.

Six programs of a fixed amount of work measure their own functions (``targets/timed_functions.py``). In each round a
program runs bare, and attached to from its start, with passes every 10 ms and every 1 ms (``--only lines``: 1 ms
alone). The error is that of the function, with all its lines, whose share of the time differs most from the program's
stopwatch of the same run, in points. The slowdown is the ratio of the wall times of a round. Of the split, halves.py
knows the truth: Python in turn with zlib, hashlib, sorted, numpy or min, in pieces of 20 us to 2 ms; kernel time,
``timed_functions.py kernel``, one function of which is a system call alone: the part of its time that is not the
kernel's is an error. (urandom() of newer C libraries makes its numbers outside of the kernel.) Of waits, ``waits.py``
knows it. ``python -m tests.long.attached [--versions 3.13] [--rounds 5]`` prints medians and ranges, and writes a dated
result into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.dated_results import write_result
from tests.support.interpreters import Interpreter
from tests.support.observed_program import record_attached
from tests.support.recording import bare, line_of, lines_of, native_percent, report, target
from tests.support.target_environments import recorded_interpreters
from tests.support.timed_functions import NAMES, PROGRAM, spread, times_of, truth_of, worst_error

Figures = dict[str, list[float]]
#: One program for each length: code objects whose names are as long as those of earlier ones in their place are taken for
#: them on 3.10, since nothing has asked for the names' hashes.
LENGTHS_US = (20, 200, 2000)
KINDS = ("zlib", "hashlib", "sorted", "numpy", "min")
#: Of each pair of kind and length.
SECONDS = "3"
#: The function of timed_functions.py that is a system call.
CALL = "zeros"


def attached(python: Interpreter, name: str, folder: Path, interval: str) -> tuple[float, float]:
    """Wall time, and the largest error in points."""
    done = record_attached(folder / "t.parquet", [PROGRAM, name], python, "--cpu-interval", interval)
    found = report(done.trace, "--all-lines")["lines"]
    truth = truth_of(done.stdout.decode())
    return truth["wall_s"], worst_error(truth["functions"], times_of(found, name))


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


def measure_lines(python: Interpreter, rounds: int) -> dict[str, Figures]:
    """Errors in points at 1 ms, by program."""
    found: dict[str, Figures] = {}
    for name in NAMES:
        errors = found.setdefault(name, {}).setdefault("error at 1 ms", [])
        for _ in range(rounds):
            with TemporaryDirectory() as folder:
                errors.append(attached(python, name, Path(folder), "1ms")[1])
        print(python.full_name, name, spread(errors), flush=True)
    return found


def halves(python: Interpreter, rounds: int) -> dict[str, list[float]]:
    """Errors of the native share in points, by pair of function and length of a piece."""
    found: dict[str, list[float]] = {}
    for length_us in LENGTHS_US * rounds:
        names = [f"{kind}_{length_us}us" for kind in KINDS]
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "t.parquet"
            done = record_attached(trace, [target("halves"), SECONDS, *names], python, "--cpu-interval", "1ms")
            shares = {row["function"]: row for row in report(trace, "--all-lines")["functions"]}
        for name in names:
            found.setdefault(name, []).append(native_percent(shares[name]) - done.facts[name])
    return found


def of_kernel(python: Interpreter, rounds: int) -> dict[str, list[float]]:
    """The part of the time in a system call that was not counted as the kernel's, in points."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "t.parquet"
            record_attached(trace, [PROGRAM, "kernel"], python, "--cpu-interval", "1ms")
            rows = report(trace, "--all-lines")["functions"]
        for row in rows:
            if row["function"] == CALL:
                found.setdefault(row["function"], []).append(100 * row["system_s"] / row["cpu_s"] - 100)
    return found


def waits(python: Interpreter, rounds: int) -> dict[str, list[float]]:
    """Errors of the time in each of four ways of waiting, in percent."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "t.parquet"
            done = record_attached(trace, [target("waits"), "four", "4"], python)
            lines = lines_of(report(trace), target("waits"))
        for name, true_s in done.facts.items():
            found.setdefault(name, []).append(100 * (lines[line_of("waits", name)]["wait_s"] / true_s - 1))
    return found


def split(python: Interpreter, rounds: int) -> dict[str, Figures]:
    """All errors of the split, and of waits."""
    found = {"native": halves(python, rounds), "kernel": of_kernel(python, rounds), "waits": waits(python, rounds)}
    for kind, figures in found.items():
        print(python.full_name, kind, {name: spread(values) for name, values in figures.items()}, flush=True)
    return found


def alone(python: Interpreter, name: str) -> float:
    """Wall time of a bare run."""
    wall_s: float = truth_of(bare([PROGRAM, name], python).stdout.decode())["wall_s"]
    return wall_s


def table(found: dict[str, dict[str, Figures]], more: dict[str, dict[str, Figures]]) -> str:
    """The figures as text."""
    measured = {what for programs in found.values() for each in programs.values() for what in each}
    columns = [what for what in ("slowdown", "error", "error at 1 ms") if what in measured]
    lines = ["slowdown, and largest error in points", f"{'':18}" + "".join(f"{each:>24}" for each in columns)]
    for version, programs in found.items():
        for name, each in programs.items():
            lines.append(f"{version:8} {name:9}" + "".join(f"{spread(each[what]):>24}" for what in columns))
    medians = {
        what: [statistics.median(each[what]) for programs in found.values() for each in programs.values()]
        for what in columns
    }
    for what, values in medians.items() if found else ():
        lines.append(f"{what}: median {statistics.median(values):.3f}, worst {max(values):.3f}")
    for version, kinds in more.items():
        for kind, figures in kinds.items():
            lines += [f"{version:8} {kind:7} {name:16}{spread(values):>28}" for name, values in figures.items()]
            middle = {name: statistics.median(values) for name, values in figures.items()}
            worst = max(middle, key=lambda name: abs(middle[name]))
            lines.append(f"{version:8} {kind:7} worst median {middle[worst]:+.2f} ({worst})")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", help="minor versions, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("functions", "lines", "split"), help="only one part of it")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    asked = parser.parse_args(words)
    wanted = set(asked.versions.split(",")) if asked.versions else None
    chosen = [each for each in recorded_interpreters() if wanted is None or each.name in wanted]
    of_programs = measure_lines if asked.only == "lines" else measure
    found = {each.full_name: of_programs(each, asked.rounds) for each in chosen if asked.only != "split"}
    more = {each.full_name: split(each, asked.rounds) for each in chosen if asked.only in (None, "split")}
    text = table(found, more)
    print(text)
    if not asked.print_only:
        write_result(
            "-".join(filter(None, ("attached", asked.only))),
            {"rounds": asked.rounds, "figures": found, "split": more},
            text,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
