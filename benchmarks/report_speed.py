"""Wall time of ``scalene-analyze`` on a large trace: a real recording of at least 400,000 ticks.

The trace is recorded once (docutils, 50 us interval) and kept under ``build/bench``. Each way of asking is a whole
process, imports included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from environments import BUILD, environment, save, spread, tool
from overhead import LOOP, script

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


def ticks_of(trace: Path) -> int:
    """CPU ticks in a trace."""
    done = subprocess.run(
        [tool("scalene-analyze"), "info", "--json", trace], capture_output=True, text=True, check=True
    )
    found: int = json.loads(done.stdout)["traces"][0]["events"]["cpu"]
    return found


def make_trace(python: Path, ticks: int) -> int:
    """Records until there are enough ticks, with more iterations each time; how many there are."""
    iterations = 2
    while not TRACE.exists() or ticks_of(TRACE) < ticks:
        iterations *= 2
        loop = [str(LOOP), str(BUILD / "large.json"), str(iterations), *script(python, "docutils")]
        command = [tool("scalene-record"), "-o", str(TRACE), "--python", str(python), "--cpu-interval", "50us", *loop]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        TRACE.with_name("large.old.parquet").unlink(missing_ok=True)
    return ticks_of(TRACE)


def measure(arguments: list[str]) -> float:
    """Wall seconds of a whole process."""
    start = time.perf_counter()
    subprocess.run([tool("scalene-analyze"), *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ticks", type=int, default=400_000)
    parser.add_argument("--python", help="interpreter to record (default: the one running)")
    asked = parser.parse_args()
    ticks = make_trace(environment(asked.python), asked.ticks)
    lines, found = [f"{ticks} ticks, {TRACE.stat().st_size / 1e6:.1f} MB; median and range in seconds"], {}
    for name, arguments in WAYS.items():
        extra = [str(TRACE), COUNT] if name == "sql" else [str(TRACE)]
        times = [measure([*arguments, *extra]) for _ in range(asked.rounds)]
        found[name] = asdict(spread(times))
        lines.append(f"{name:16} {spread(times)}")
    result = {"ticks": ticks, "trace_bytes": TRACE.stat().st_size, "rounds": asked.rounds, "seconds": found}
    save("report-speed", result, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
