"""How right sampled allocation figures are: every line, at several intervals, against a recording of every allocation.

The ten pyperformance programs of overhead.py (one turn each) and the three of ``programs/``. The truth is one recording
with ``--alloc-interval 1``; a program whose allocations overflow its spool, or keep such a recording busy for longer than
``--exact-limit``, is recorded some times at FINE_BYTES instead, and the error of that counts too. Judged are lines that expect at least LEAST samples (fewer have no error to speak of):
how many of their figures, over all runs, lie within 3 standard errors as printed (percent), and whether the total is
unbiased.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from overhead import LOOP, PROGRAMS, script
from support.environments import ROOT, environment, save, tool, version_of

HEAVY = ("many_objects", "growing_blocks", "big_blocks")
INTERVALS = ("auto", "1KiB", "64KiB", "4MiB")
FINE_BYTES = 2048
FINE_RUNS = 4
LEAST = 8
STANDARD_ERRORS = 3
#: An estimate lacks what no sample fell on, which no error can tell: this share of the truth is let pass.
UNSEEN = 0.001
#: Whose code counts as the program's own.
SELECTED = ["--include", "*/site-packages/*"]
Place = tuple[str, int]


@dataclass(frozen=True)
class Figure:
    """An estimate and its standard error, in bytes."""

    value: float
    error: float


@dataclass(frozen=True)
class Run:
    """Figures of one recording by line: allocated in all, and alive at the peak. ``complete``: nothing was lost."""

    allocated: dict[Place, Figure]
    live: dict[Place, Figure]
    interval_bytes: float
    complete: bool


@dataclass(frozen=True)
class Row:
    """One program at one interval. ``within``: percent of figures within 3 standard errors; ``bias``: of the total, in
    percent, with its standard error; ``interval_bytes``: the largest that was in force.
    """

    program: str
    interval: str
    truth: str
    interval_bytes: float
    lines: int
    figures: int
    within: float | None
    bias: float
    bias_error: float
    live_lines: int
    live_figures: int
    live_within: float | None
    live_bias: float
    live_bias_error: float


def output_of(command: list[str], limit_s: float | None = None, **environ: str) -> str:
    """stdout of a command, which must succeed; TimeoutError when it had to be ended."""
    process = subprocess.Popen(
        command,
        text=True,
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # the recorder passes it on to the program
        process.communicate()
        raise TimeoutError(f"{' '.join(command)} took longer than {limit_s} s") from None
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nreturned {process.returncode}\n{errors}")
    return output


@cache
def command_of(program: str, python: str, scale: float) -> tuple[str, ...]:
    """What follows the interpreter. pyperf_loop.py takes the name of a result file, which nobody reads here."""
    if program in HEAVY:
        return str(ROOT / "benchmarks" / "programs" / f"{program}.py"), str(scale)
    return str(LOOP), os.devnull, "1", *script(environment(python), program)


def record(program: str, interval: str, python: str, scale: float, trace: Path, limit_s: float | None = None) -> Run:
    """Records a program once."""
    used = python if program in HEAVY else str(environment(python))
    options = ["-o", str(trace), "--python", used, "--alloc-interval", interval, "--cpu-interval", "1s", "--no-source"]
    command = [tool("scalene-record"), *options, *command_of(program, python, scale)]
    output_of(command, limit_s, PYTHONHASHSEED="0")
    run = read(trace)
    trace.unlink()
    return run


def rows_of(trace: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over a trace."""
    rows: list[dict[str, Any]] = json.loads(
        output_of([tool("scalene-analyze"), "sql", *SELECTED, "--json", str(trace), sql])
    )["rows"]
    return rows


def read(trace: Path) -> Run:
    """The figures of a trace, with the errors that are printed."""
    told = json.loads(output_of([tool("scalene-analyze"), "memory", *SELECTED, "--json", str(trace)]))
    rows = [(place_of(row), row) for row in told["memory"]]
    widest = rows_of(trace, "SELECT max(interval_bytes) AS widest FROM alloc_rows")[0]["widest"] or 0
    lost = {loss["name"] for loss in told["traces"][0]["losses"] if loss["severity"] != "info"}
    return Run(
        {place: Figure(row["alloc_bytes"], row["alloc_error_bytes"]) for place, row in rows},
        {place: Figure(row["live_at_peak_bytes"], row["live_at_peak_error_bytes"]) for place, row in rows},
        widest,
        not lost & {"spool_full", "alloc_table_full", "unmapped_chunk"},
    )


def place_of(row: dict[str, Any]) -> Place:
    """File and line of a row of a report."""
    return row["file"], row["line"]


def mean_of(runs: list[dict[Place, Figure]]) -> dict[Place, Figure]:
    """The mean of several runs by line, with its error."""
    nothing, count = Figure(0.0, 0.0), len(runs)
    found = {}
    for place in {place for run in runs for place in run}:
        mine = [run.get(place, nothing) for run in runs]
        error = math.sqrt(sum(figure.error**2 for figure in mine)) / count
        found[place] = Figure(sum(figure.value for figure in mine) / count, error)
    return found


def truth_of(program: str, python: str, scale: float, folder: Path, limit_s: float) -> tuple[str, Run]:
    """The exact figures, or those of a very fine interval, and which of both they are."""
    with suppress(TimeoutError):
        exact = record(program, "1", python, scale, folder / "exact.parquet", limit_s)
        if exact.complete:
            return "exact", exact
    fine = [record(program, str(FINE_BYTES), python, scale, folder / "fine.parquet") for _ in range(FINE_RUNS)]
    means = (mean_of([run.allocated for run in fine]), mean_of([run.live for run in fine]))
    return f"{FINE_BYTES // 1024} KiB", Run(*means, FINE_BYTES, all(run.complete for run in fine))


def agrees(truth: Figure, found: Figure) -> bool:
    """Whether an estimate lies within 3 standard errors of the truth."""
    error = math.hypot(found.error, truth.error)
    return abs(found.value - truth.value) <= STANDARD_ERRORS * error + UNSEEN * truth.value


def judge(
    truth: dict[Place, Figure], runs: list[dict[Place, Figure]], interval: float
) -> tuple[int, int, float | None, float, float]:
    """Lines judged, figures, percent of them within 3 standard errors; bias of the total in percent, and its error.

    That error is made of the printed ones.
    """
    nothing = Figure(0.0, 0.0)
    lines = [place for place, figure in truth.items() if figure.value >= LEAST * interval]
    inside = [agrees(truth[place], run.get(place, nothing)) for place in lines for run in runs]
    whole = sum(figure.value for figure in truth.values()) or 1.0
    totals = [100 * (sum(figure.value for figure in run.values()) / whole - 1) for run in runs]
    error = 100 / whole * math.sqrt(sum(figure.error**2 for run in runs for figure in run.values())) / len(runs)
    return len(lines), len(inside), 100 * sum(inside) / len(inside) if inside else None, statistics.mean(totals), error


def measure(program: str, python: str, scale: float, intervals: list[str], runs: int, limit_s: float) -> list[Row]:
    """All recordings of one program, two at a time: no time is measured."""
    rows = []
    with TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        kind, truth = truth_of(program, python, scale, folder, limit_s)
        for interval in intervals:
            traces = [folder / f"{interval}-{number}.parquet" for number in range(runs)]
            found = list(pool.map(lambda trace, i=interval: record(program, i, python, scale, trace), traces))
            widest = max(run.interval_bytes for run in found)
            allocated = judge(truth.allocated, [run.allocated for run in found], widest)
            live = judge(truth.live, [run.live for run in found], widest)
            rows.append(Row(program, interval, kind, widest, *allocated, *live))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def percent(share: float | None) -> str:
    """A share as the table shows it."""
    return "–" if share is None else f"{share:.1f}"


def table(rows: list[Row]) -> str:
    """The rows as text."""
    head = (
        f"{'program':24} {'interval':>8} {'truth':>6} {'widest KiB':>10}"
        f" | {'lines':>5} {'figures':>7} {'within %':>8} {'bias %':>16}"
        f" | {'live: lines':>11} {'figures':>7} {'within %':>8} {'bias %':>16}"
    )
    lines = [head, "-" * len(head)]
    for row in rows:
        bias, live_bias = (
            f"{mean:+.2f} ± {error:.2f}"
            for mean, error in ((row.bias, row.bias_error), (row.live_bias, row.live_bias_error))
        )
        lines.append(
            f"{row.program:24} {row.interval:>8} {row.truth:>6} {row.interval_bytes / 1024:10.0f}"
            f" | {row.lines:5} {row.figures:7} {percent(row.within):>8} {bias:>16}"
            f" | {row.live_lines:11} {row.live_figures:7} {percent(row.live_within):>8} {live_bias:>16}"
        )
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*PROGRAMS, *HEAVY]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--intervals", nargs="+", default=list(INTERVALS), metavar="SIZE")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--exact-limit", type=float, default=600.0, metavar="S", help="for one exact recording")
    parser.add_argument("--scale", type=float, default=1.0, help="length of the three programs of ours")
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure (default: the one running)")
    parser.add_argument("--output", type=Path, help="write the rows as JSON there, and no dated result")
    return parser.parse_args()


def main() -> int:
    """Measures and writes the result."""
    asked = options()
    rows = []
    for program in asked.programs:
        rows += measure(program, asked.python, asked.scale, asked.intervals, asked.runs, asked.exact_limit)
    if asked.output:
        asked.output.write_text(json.dumps([asdict(row) for row in rows]))
        return 0
    result = {"python": version_of(asked.python), "runs": asked.runs, "rows": [asdict(row) for row in rows]}
    save("sampling", result, table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
