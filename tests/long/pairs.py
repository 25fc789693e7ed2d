"""One run against one run of an unchanged program: does the comparison name a line that changed?

Each program is recorded ``--recordings`` times with the default settings, one program after the other in turns, and each
recording is compared with the next one of its program. Counted are the summaries that name a line, the lines that were
judged better or worse, and the totals that were. All of them are false alarms.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

from scalene_trace.analyze.diff.compare import Asked, compare
from scalene_trace.analyze.diff.results import Diff
from scalene_trace.analyze.diff.runs import Run, read_run
from scalene_trace.analyze.trace.selection import Selection
from tests.support.dated_results import write_result
from tests.support.paths import ROOT
from tests.support.recording import tool
from tests.support.simulated_runs import JUDGED
from tests.support.target_environments import version_of

#: Threads, waits, native code, memory that stays and copies, in about a second.
MIXED = """
import hashlib, json, queue, threading, time, zlib

def compress(waiting, done):
    while (text := waiting.get()) is not None:
        done.append(zlib.compress(text, 6))

def squares(count):
    return sum(number * number % 7 for number in range(count))

waiting, done, kept, lock = queue.Queue(20), [], [], threading.Lock()
threads = [threading.Thread(target=compress, args=(waiting, done)) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(150):
    squares(30_000)
    rows = [{"id": n, "name": str(n * number)} for n in range(400)]
    text = json.dumps(rows).encode()
    hashlib.sha256(text * 40).digest()
    waiting.put(text * 8)
    kept.append(bytearray(400_000))
    copied = bytes(kept[-1])
    with lock:
        time.sleep(0.002)
for thread in threads:
    waiting.put(None)
for thread in threads:
    thread.join()
"""
NINE_LINES = [str(ROOT / "benchmarks" / "programs" / "nine_lines.py"), "--rounds", "300"]
#: A place in a sentence: a file's name with a line.
PLACE = re.compile(r"\S+:\d+\b")


@dataclass
class Row:
    """The comparisons of one program."""

    program: str
    recordings: int
    cpu_s: list[float] = field(default_factory=list)
    comparisons: int = 0
    naming: list[str] = field(default_factory=list)
    tested: int = 0
    lines: list[str] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)

    def add(self, diff: Diff) -> None:
        """Counts one comparison."""
        self.comparisons += 1
        self.tested += diff.statistics.tests
        self.naming += [diff.summary] if PLACE.search(diff.summary) else []
        self.lines += [
            f"line {line.line} {name}"
            for line in diff.lines
            for name, change in line.changes.items()
            if change is not None and change.verdict in JUDGED
        ]
        self.totals += [name for name, each in diff.totals.items() if each is not None and each.verdict in JUDGED]


def record(program: Sequence[str], python: str, folder: Path) -> Run:
    """Records a program once, and reduces the trace."""
    trace = folder / "t.parquet"
    command = [*tool("scalene-record"), "-o", str(trace), "--python", python, *program]
    subprocess.run(command, check=True, capture_output=True)
    run = read_run(trace, Selection())
    trace.unlink()
    return run


def measure(programs: dict[str, list[str]], recordings: int, python: str, folder: Path) -> list[Row]:
    """Records and compares the programs in turns."""
    runs: dict[str, list[Run]] = {name: [] for name in programs}
    for _ in range(recordings):
        for name, program in programs.items():
            runs[name].append(record(program, python, folder))
    rows = []
    for name, each in runs.items():
        row = Row(name, len(each), [round(run.totals.figures["cpu_s"].value, 3) for run in each])
        for before, after in pairwise(each):
            row.add(compare([before], [after], Asked()))
        rows.append(row)
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    text = [f"load of the machine at the end: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores", ""]
    head = f"{'program':12} {'comparisons':>11} {'tested figures':>14} {'summaries with a line':>21} {'lines judged':>12} {'totals judged':>13}  CPU time of a run"
    text += [head, "-" * len(head)]
    for row in rows:
        spread = f"{mean(row.cpu_s):.2f} s ± {stdev(row.cpu_s) / mean(row.cpu_s):.0%}, {min(row.cpu_s):.2f} to {max(row.cpu_s):.2f} s"
        text.append(
            f"{row.program:12} {row.comparisons:11} {row.tested:14} {len(row.naming):21} {len(row.lines):12}"
            f" {len(row.totals):13}  {spread}"
        )
    for row in rows:
        named = [f"{what} ({count})" for what, count in Counter(row.lines + row.totals).most_common(6)]
        text += [f"judged in {row.program}: {', '.join(named)}"] if named else []
        text += [f"summary of {row.program}: {each}" for each in row.naming[:6]]
    return "\n".join(text)


def main() -> int:
    """Measures and writes the result. Returns 1 if a summary names a line in more than one comparison of a hundred."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=101, help="of each program (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="interpreter to record (default: the one running)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    asked = parser.parse_args()
    with TemporaryDirectory() as name:
        mixed = Path(name) / "mixed.py"
        mixed.write_text(MIXED)
        rows = measure({"nine_lines": NINE_LINES, "mixed": [str(mixed)]}, asked.recordings, asked.python, Path(name))
    text = table(rows)
    print(text)
    if not asked.print_only:
        write_result("pairs", {"python": version_of(asked.python), "rows": [asdict(row) for row in rows]}, text)
    return int(any(len(row.naming) > row.comparisons / 100 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
