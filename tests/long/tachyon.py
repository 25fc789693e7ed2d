"""Beside Tachyon, the sampling profiler of CPython 3.15: what each costs a program, and how far its functions are off.

Six programs of a fixed amount of work measure their own functions (``targets/timed_functions.py``). In each round a
program runs bare, under scalene-record with everything on (by default, and with Tachyon's interval), and under Tachyon: by
default (1 kHz, the main thread) and at its fastest rate with all threads. The slowdown is a ratio of wall times within a round. The error is that of the function,
with all its lines, whose share of the time differs most from the program's stopwatch of the same run, in points; time of
Tachyon's samples belongs to the innermost frame in the program's file. ``python -m tests.long.tachyon`` prints medians
and ranges, and writes a dated result into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.dated_results import write_result
from tests.support.interpreters import interpreters
from tests.support.recording import tool
from tests.support.timed_functions import NAMES, PROGRAM, Lines, spread, truth_of, worst_error

#: The first version that has Tachyon.
FIRST = (3, 15)
Figures = dict[str, dict[str, list[float]]]


def output_of(command: list[str]) -> str:
    """Runs a command; its stdout. Ends the benchmark when it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nreturned {done.returncode}\n{done.stderr}")
    return done.stdout


def bare(python: str, name: str, folder: Path) -> tuple[str, Lines]:
    """The program alone."""
    return output_of([python, str(PROGRAM), name]), {}


def ours(*options: str) -> Callable[[str, str, Path], tuple[str, Lines]]:
    """This project with these options."""

    def run(python: str, name: str, folder: Path) -> tuple[str, Lines]:
        trace = str(folder / "t.parquet")
        out = output_of([*tool("scalene-record"), "-o", trace, *options, "--python", python, str(PROGRAM), name])
        rows = json.loads(output_of([*tool("scalene-analyze"), "report", "--json", "--all-lines", trace]))["lines"]
        mine = [row for row in rows if row["file"] == str(PROGRAM)]
        return out, {row["line"]: row["cpu_s"] + (row["wait_s"] if name == "waits" else 0.0) for row in mine}

    return run


def tachyon(*options: str) -> Callable[[str, str, Path], tuple[str, Lines]]:
    """Tachyon with these options."""

    def run(python: str, name: str, folder: Path) -> tuple[str, Lines]:
        stacks = folder / "stacks.txt"
        command = [python, "-m", "profiling.sampling", "run", *options, "--collapsed", "-o", str(stacks)]
        out = output_of([*command, str(PROGRAM), name])
        found: Lines = {}
        for row in stacks.read_text().splitlines():
            frames, _, samples = row.rpartition(" ")
            mine = [frame for frame in frames.split(";") if frame.rpartition(":")[0].startswith(f"{PROGRAM.name}:")]
            if mine:
                line = int(mine[-1].rpartition(":")[2])
                found[line] = found.get(line, 0.0) + int(samples)
        return out, found

    return run


METHODS = {
    "bare": bare,
    "scalene-trace, 10 ms": ours(),
    "scalene-trace, 1 ms": ours("--cpu-interval", "1ms"),
    "Tachyon, 1 ms": tachyon(),
    "Tachyon, fastest": tachyon("-r", "1000khz", "-a"),
}


def measure(python: str, rounds: int) -> dict[str, Figures]:
    """Wall times and errors by program and method."""
    found: dict[str, Figures] = {}
    for name in NAMES:
        figures = found[name] = {method: {"wall_s": [], "error": []} for method in METHODS}
        for _ in range(rounds):
            for method, run in METHODS.items():
                with TemporaryDirectory() as folder:
                    out, lines = run(python, name, Path(folder))
                truth = truth_of(out)
                figures[method]["wall_s"].append(truth["wall_s"])
                if lines:
                    figures[method]["error"].append(worst_error(truth["functions"], lines))
        print(name, {method: spread(each["wall_s"]) for method, each in figures.items()}, flush=True)
    return found


def table(found: dict[str, Figures]) -> str:
    """Slowdown and error, medians and ranges."""
    others = [method for method in METHODS if method != "bare"]
    lines = [f"{'':10}" + "".join(f"{method:>26}" for method in others), "wall time as a multiple of bare"]
    for name, figures in found.items():
        alone = figures["bare"]["wall_s"]
        ratios = [[w / b for w, b in zip(figures[method]["wall_s"], alone, strict=True)] for method in others]
        lines.append(f"{name:10}" + "".join(f"{spread(each):>26}" for each in ratios))
    lines.append("error of the worst function, in points")
    for name, figures in found.items():
        lines.append(f"{name:10}" + "".join(f"{spread(figures[method]['error']):>26}" for method in others))
    return "\n".join(lines)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    asked = parser.parse_args()
    python = next((each for each in interpreters() if each.version >= FIRST), None)
    if python is None:
        raise SystemExit("this needs CPython 3.15")
    found = measure(str(python.path), asked.rounds)
    text = f"CPython {python.full_name}, {asked.rounds} rounds: medians and ranges\n{table(found)}"
    print(text)
    if not asked.print_only:
        write_result("tachyon", {"python": python.full_name, "programs": found}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
