"""Wall time of ``scalene-analyze`` on large traces; each way of asking is a whole process, imports included.

Three inputs: a real recording of at least 400,000 ticks (docutils, 50 us interval), recorded once and kept under
``build/bench``; an hour made by the tests' builder (400,000 ticks and 720,000 allocation samples); and a hundred traces of
400,000 ticks as one report, with the largest resident set of the process: the builder's, which have 5,000 stacks, and that
recording, with tens of thousands of deep ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from overhead import LOOP, script
from support.environments import BUILD, ROOT, environment, save, spread, tool

TRACE = BUILD / "large.parquet"
WAYS = {
    "report": ["report"],
    "report --json": ["report", "--json"],
    "functions": ["functions"],
    "timeline": ["timeline"],
    "info": ["info"],
    "sql": ["sql"],
    "html": ["html", "-o", "-"],
}
COUNT = "SELECT count(*) FROM cpu_ticks"
HOUR, MANY = BUILD / "hour.parquet", BUILD / "ticks.parquet"
MANY_TRACES = 100


def ticks_of(trace: Path) -> int:
    """CPU ticks in a trace."""
    done = subprocess.run(
        [tool("scalene-analyze"), "info", "--json", trace], capture_output=True, text=True, check=True
    )
    found: int = json.loads(done.stdout)["traces"][0]["events"]["cpu"]
    return found


def make_trace(python: Path, ticks: int) -> int:
    """Records until there are enough ticks, with more iterations each time; how many there are."""
    iterations, found = 4, ticks_of(TRACE) if TRACE.exists() else 0
    while found < ticks:
        loop = [str(LOOP), str(BUILD / "large.json"), str(iterations), *script(python, "docutils")]
        command = [tool("scalene-record"), "-o", str(TRACE), "--python", str(python), "--cpu-interval", "50us", *loop]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        TRACE.with_name("large.old.parquet").unlink(missing_ok=True)
        found = ticks_of(TRACE)
        iterations = math.ceil(1.05 * iterations * ticks / max(found, 1))
    return found


def measure(arguments: list[str]) -> float:
    """Wall seconds of a whole process."""
    start = time.perf_counter()
    subprocess.run([tool("scalene-analyze"), *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def make_hour(path: Path, allocations: int) -> None:
    """An hour of a program by the tests' builder, in a process of its own."""
    code = f"import pathlib; from tests.support.trace_builder import write_large_trace; write_large_trace(pathlib.Path({str(path)!r}), allocations={allocations})"
    if not path.exists():
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def measure_many(trace: Path) -> tuple[float, int]:
    """Wall seconds and largest resident set (bytes) of a report over so many times the trace."""
    start = time.perf_counter()
    command = [tool("scalene-analyze"), "report", *[str(trace)] * MANY_TRACES]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def measure_more(rounds: int, found: dict[str, object]) -> list[str]:
    """The hour, and a hundred traces; adds to ``found``."""
    make_hour(HOUR, 720_000)
    make_hour(MANY, 0)
    times = [measure(["report", str(HOUR)]) for _ in range(rounds)]
    found["hour: report"] = asdict(spread(times))
    lines = ["400,000 ticks and 720,000 allocation samples:", f"{'report':16} {spread(times)}"]
    for name, trace in (("made", MANY), ("recorded", TRACE)):
        many = [measure_many(trace) for _ in range(rounds)]
        taken, size = spread([wall_s for wall_s, _ in many]), max(size for _, size in many)
        found[f"{MANY_TRACES} {name} traces: report"] = asdict(taken)
        found[f"{MANY_TRACES} {name} traces: resident bytes"] = size
        lines.append(f"{MANY_TRACES} {name} traces of 400,000 ticks: largest resident set {size / 2**20:.0f} MiB")
        lines.append(f"{'report':16} {taken}")
    return lines


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ticks", type=int, default=400_000)
    parser.add_argument("--python", help="interpreter to record (default: the one running)")
    asked = parser.parse_args()
    ticks = make_trace(environment(asked.python), asked.ticks)
    lines, found = (
        [f"{ticks} ticks, {TRACE.stat().st_size / 1e6:.1f} MB; median and range in seconds"],
        dict[str, object](),
    )
    for name, arguments in WAYS.items():
        extra = [str(TRACE), COUNT] if name == "sql" else [str(TRACE)]
        times = [measure([*arguments, *extra]) for _ in range(asked.rounds)]
        found[name] = asdict(spread(times))
        lines.append(f"{name:16} {spread(times)}")
    lines += measure_more(asked.rounds, found)
    result = {"ticks": ticks, "trace_bytes": TRACE.stat().st_size, "rounds": asked.rounds, "seconds": found}
    save("report-speed", result, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
