"""Programs that do not leak: does the analysis report a leak in one of the ten pyperformance programs?

Each runs for about as many seconds as are asked for (a process of a few seconds is too short to be judged), recorded with
the default settings; library code counts as the program's own, as the benchmarks are installed packages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from environments import environment, save, tool
from overhead import PROGRAMS, run, script


@dataclass(frozen=True)
class Row:
    """One program: length of its recording, allocation samples, and what is reported as a leak."""

    program: str
    seconds: float
    samples: int
    leaks: list[str]


def measure(python: Path, program: str, seconds: float) -> Row:
    """One recording."""
    command = script(python, program)
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        first, count = run("bare", python, command, 0, output)
        times, _ = run("recorded", python, command, max(1, round(seconds * count / first.body_s)), output)
        ask = [tool("scalene-analyze"), "leaks", "--all", "--json", str(output)]
        told = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    found = [f"{each['file']}:{each['line']} ({each['bytes_per_s']:.0f} bytes/s)" for each in told["leaks"]]
    return Row(program, times.whole_s, told["traces"][0]["events"]["alloc"] or 0, found)


def table(rows: list[Row]) -> str:
    """The rows as text."""
    head = f"{'program':24} {'seconds':>8} {'samples':>8}  leaks that are reported"
    lines = [f"{row.program:24} {row.seconds:8.1f} {row.samples:8}  {', '.join(row.leaks) or 'none'}" for row in rows]
    return "\n".join([head, "-" * len(head), *lines])


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--short", action="store_true", help="nothing written")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    asked = parser.parse_args()
    python = environment(asked.python)
    rows = []
    for program in asked.programs:
        rows.append(measure(python, program, asked.seconds))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    if asked.short:
        print(table(rows))
        return 0
    save("false-leaks", {"python": python.parent.parent.name, "rows": [asdict(row) for row in rows]}, table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
