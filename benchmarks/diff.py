"""Does `scalene-analyze diff` find what changed, and nothing else?

Recordings of ``programs/nine_lines.py``, a tick every ms of CPU time (at one each 0.2 ms, ticks are a third of the time):
as it is, and with its busy line 20 % and 40 % slower. The three take turns, so that a machine that changes its speed
changes all. Compared are 20 pairs and 20 times three
against three of recordings of the same program (how many have a false alarm in them), five against five (is the slower
line found, and how often is something else said to have changed) and single pairs.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

from scalene_trace.analyze.diff.compare import Asked, compare
from scalene_trace.analyze.diff.results import Diff
from scalene_trace.analyze.diff.runs import Run, read_run
from scalene_trace.analyze.trace.selection import Selection
from support.environments import ROOT, save, tool, version_of

PROGRAM = ROOT / "benchmarks" / "programs" / "nine_lines.py"
BUSY = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), start=1) if "# LINE: busy" in text)
TIMES = 20


@dataclass(frozen=True)
class Row:
    """One way to compare: in how many of the comparisons the busy line was found, and something else was."""

    slower_percent: int
    runs: int
    comparisons: int
    found: int
    other: int
    says_it_cannot_tell: int
    alarms: list[str]


def record(slower: int, python: str, rounds: int, folder: Path) -> Run:
    """Records the program once and reduces the trace."""
    trace = folder / "t.parquet"
    program = [str(PROGRAM), "--slower", str(slower), "--rounds", str(rounds)]
    options = ["-o", str(trace), "--python", python, "--cpu-interval", "1ms"]
    subprocess.run([tool("scalene-record"), *options, *program], check=True, capture_output=True)
    run = read_run(trace, Selection())
    trace.unlink()
    trace.with_name("t.old.parquet").unlink(missing_ok=True)
    return run


def changed(diff: Diff) -> tuple[bool, list[str]]:
    """Was the busy line said to be slower; what else was said to have changed? (The totals have the busy line in them.)"""
    sure = [
        (line.line, name)
        for line in diff.lines
        for name, change in line.changes.items()
        if change and change.verdict in ("better", "worse")
    ]
    is_found = (BUSY, "cpu_s") in sure
    totals = [name for name, change in diff.totals.items() if change and change.verdict in ("better", "worse")]
    others = [f"line {line} {name}" for line, name in sure if line != BUSY or name != "cpu_s"]
    return is_found, others + [f"all {name}" for name in totals if not (is_found and name in ("cpu_s", "wall_s"))]


def judge(before: list[Run], after: list[Run], slower: int, count: int, draw: random.Random) -> Row:
    """TIMES comparisons of ``count`` runs on a side, drawn anew each time."""
    found = other = cannot = 0
    alarms: list[str] = []
    for _ in range(TIMES):
        if slower:
            old, new = draw.sample(before, count), draw.sample(after, count)
        else:
            drawn = draw.sample(before, 2 * count)
            old, new = drawn[:count], drawn[count:]
        diff = compare(old, new, Asked())
        is_found, others = changed(diff)
        alarms += others
        found, other, cannot = found + is_found, other + bool(others), cannot + bool(diff.advice)
    return Row(slower, count, TIMES, found, other, cannot, alarms)


def cpu_of_lines(run: Run) -> dict[int, float]:
    """CPU seconds by line of the program, of one recording."""
    return {line: round(row.figures["cpu_s"].value, 4) for (_, line), row in sorted(run.rows.items()) if line}


def table(rows: list[Row], ticks: int, whole: list[float]) -> str:
    """The rows as text. ``whole``: CPU seconds of each recording of the program as it is."""
    head = f"{'slower %':>8} {'runs a side':>11} {'comparisons':>11} {'busy line found':>15} {'something else':>14} {'says it cannot tell':>19}  what"
    load = f"load of the machine at the end: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
    differ = f"{stdev(whole) / mean(whole):.1%} from run to run, {min(whole):.2f} to {max(whole):.2f} s"
    lines = [
        f"the busy line has about {ticks} ticks a run; {load}",
        f"CPU time of the program as it is differs by {differ}",
    ]
    lines += ["", head, "-" * len(head)]
    for row in rows:
        found = f"{row.found}" if row.slower_percent else "-"
        alarms = row.other + (row.found if not row.slower_percent else 0)
        named = ", ".join(f"{name} ({count})" for name, count in Counter(row.alarms).most_common(4))
        lines.append(
            f"{row.slower_percent:8} {row.runs:11} {row.comparisons:11} {found:>15} {alarms:14} {row.says_it_cannot_tell:19}  {named}".rstrip()
        )
    busy = f"line {BUSY} is the busy one: that it allocates more when it does more is no false alarm, but counts as something else"
    return "\n".join([*lines, "", busy])


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=20, help="of each of the three programs; twice of the first")
    parser.add_argument("--rounds", type=int, default=1100)
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure (default: the one running)")
    parser.add_argument("--short", action="store_true", help="nothing written")
    asked = parser.parse_args()
    runs: dict[int, list[Run]] = {0: [], 20: [], 40: []}
    with TemporaryDirectory() as name:
        for _ in range(asked.recordings):
            for slower in (0, 20, 0, 40):
                runs[slower].append(record(slower, asked.python, asked.rounds, Path(name)))
    busy = [row.figures["cpu_s"].value for run in runs[0] for (_, line), row in run.rows.items() if line == BUSY]
    draw = random.Random(1_999_993)
    ways = [(0, 1), (0, 3), (0, 5), (20, 1), (20, 3), (20, 5), (40, 1)]
    rows = [judge(runs[0], runs[slower], slower, count, draw) for slower, count in ways]
    whole = [run.totals.figures["cpu_s"].value for run in runs[0]]
    text = table(rows, round(1e3 * mean(busy)), whole)
    recorded = {str(slower): [cpu_of_lines(run) for run in each] for slower, each in runs.items()}
    if asked.short:
        print(text)
        return 0
    save("diff", {"python": version_of(asked.python), "rows": [asdict(row) for row in rows], "cpu_s": recorded}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
