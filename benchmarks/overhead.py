"""What recording costs: the ten programs of the Scalene papers, bare and recorded in alternation.

A round runs a program once under each way (bare, recorded, ...), in an order that turns from round to round; a
slowdown is the ratio of two times of one round. The table gives medians and ranges over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from support.environments import ROOT, Spread, add_peers, environment, save, spread, tool

LOOP = ROOT / "benchmarks" / "programs" / "pyperf_loop.py"
#: Program of pyperformance: folder and arguments.
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "async_tree_none": ("async_tree", ["none"]),
    "async_tree_io": ("async_tree", ["io"]),
    "async_tree_cpu_io_mixed": ("async_tree", ["cpu_io_mixed"]),
    "async_tree_memoization": ("async_tree", ["memoization"]),
    "docutils": ("docutils", []),
    "fannkuch": ("fannkuch", []),
    "mdp": ("mdp", []),
    "pprint": ("pprint", []),
    "raytrace": ("raytrace", []),
    "sympy": ("sympy", []),
}
RECORDED: dict[str, list[str]] = {"recorded": [], "cpu only": ["--no-memory"]}


@dataclass(frozen=True)
class Times:
    """One run: seconds and CPU seconds of the program's body, seconds of the whole process, size of what was written."""

    body_s: float
    cpu_s: float
    whole_s: float
    bytes: int


@dataclass(frozen=True)
class Row:
    """A program under one way of running it, against bare runs of the same rounds."""

    program: str
    way: str
    iterations: int
    bare_body_s: Spread
    body: Spread
    body_cpu: Spread
    whole: Spread
    trace_bytes: int
    events: dict[str, int]
    losses: dict[str, int]


def prefix(way: str, python: Path, output: Path) -> list[str]:
    """The command line in front of the program."""
    peers = {
        "scalene": [str(python), "-m", "scalene", "run", "-o", str(output), "---"],
        "memray": [str(python), "-m", "memray", "run", "-q", "-f", "-o", str(output)],
        "py-spy": [str(python.parent / "py-spy"), "record", "-f", "raw", "-o", str(output), "--", str(python)],
    }
    if way in RECORDED:
        return [tool("scalene-record"), "-o", str(output), "--python", str(python), *RECORDED[way]]
    return peers.get(way, [str(python)])


def script(python: Path, program: str) -> list[str]:
    """The benchmark's script and its arguments."""
    folder, arguments = PROGRAMS[program]
    code = "import pyperformance, pathlib; print(pathlib.Path(pyperformance.__file__).parent)"
    home = Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    return [str(home / "data-files" / "benchmarks" / f"bm_{folder}" / "run_benchmark.py"), *arguments]


def run(way: str, python: Path, command: list[str], iterations: int, output: Path) -> tuple[Times, int]:
    """One run; its times and its iterations. Leaves what was recorded at ``output``."""
    output.unlink(missing_ok=True)
    result = output.with_suffix(".json")
    line = [*prefix(way, python, output), str(LOOP), str(result), str(iterations), *command]
    start = time.perf_counter()
    env = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env)
    whole_s = time.perf_counter() - start
    if done.returncode != 0 or not result.exists():
        raise SystemExit(f"{' '.join(line)}\nreturned {done.returncode}\n{done.stderr}")
    told = json.loads(result.read_text())
    result.unlink()
    return Times(told["body_s"], told["cpu_s"], whole_s, output.stat().st_size if output.exists() else 0), told[
        "iterations"
    ]


def facts(trace: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Events and losses of a trace of ours."""
    done = subprocess.run(
        [tool("scalene-analyze"), "info", "--json", trace], capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)["traces"][0]
    return told["events"], {each["name"]: each["count"] for each in told["losses"]}


def measure(python: Path, program: str, ways: list[str], rounds: int, seconds: float) -> list[Row]:
    """All rounds of one program."""
    command, times = script(python, program), {way: [] for way in ["bare", *ways]}
    seen: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        first, count = run("bare", python, command, 0, output)
        iterations = max(1, round(seconds * count / first.body_s))
        for number in range(rounds):
            order = list(times) if number % 2 == 0 else list(times)[::-1]
            for way in order:
                times[way].append(run(way, python, command, iterations, output)[0])
                if way in RECORDED and way not in seen:
                    seen[way] = facts(output)
    return [row_of(program, way, iterations, times, seen.get(way, ({}, {}))) for way in ways]


def row_of(
    program: str, way: str, iterations: int, times: dict[str, list[Times]], seen: tuple[dict[str, int], dict[str, int]]
) -> Row:
    """Ratios of one way to the bare runs of the same rounds."""
    pairs = list(zip(times[way], times["bare"], strict=True))
    return Row(
        program=program,
        way=way,
        iterations=iterations,
        bare_body_s=spread([each.body_s for each in times["bare"]]),
        body=spread([ours.body_s / bare.body_s for ours, bare in pairs]),
        body_cpu=spread([ours.cpu_s / bare.cpu_s for ours, bare in pairs]),
        whole=spread([ours.whole_s / bare.whole_s for ours, bare in pairs]),
        trace_bytes=int(median(each.bytes for each in times[way])),
        events=seen[0],
        losses=seen[1],
    )


def table(rows: list[Row], ways: list[str]) -> str:
    """The rows as text, with the median over the programs under each way."""
    head = f"{'program':24} {'way':9} {'bare s':>7} {'slowdown of the body':>24} {'of its CPU time':>24} {'of the process':>24} {'trace kB':>9} {'ticks':>7} {'memory':>7}"
    lines = [head, "-" * len(head)]
    for row in rows:
        lines.append(
            f"{row.program:24} {row.way:9} {row.bare_body_s.median:7.2f} {row.body!s:>24} {row.body_cpu!s:>24} {row.whole!s:>24}"
            f" {row.trace_bytes / 1000:9.1f} {row.events.get('cpu') or 0:7} {row.events.get('memory') or 0:7}"
        )
    for way in ways:
        mine = [row for row in rows if row.way == way]
        body, cpu, whole = (median(getattr(row, name).median for row in mine) for name in ("body", "body_cpu", "whole"))
        worst = max(row.body.median for row in mine)
        lines.append(
            f"median over {len(mine)} programs, {way}: body {body:.3f}, CPU {cpu:.3f}, process {whole:.3f}; worst body {worst:.3f}"
        )
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a bare run")
    parser.add_argument("--short", action="store_true", help="one round of one second, nothing written")
    parser.add_argument("--cpu-only", action="store_true", help="also recorded with --no-memory")
    parser.add_argument("--peers", action="store_true", help="also under scalene, memray and py-spy")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    return parser.parse_args()


def main() -> int:
    """Measures and writes the result."""
    asked = options()
    python = environment(asked.python)
    rounds, seconds = (1, 1.0) if asked.short else (asked.rounds, asked.seconds)
    ways = ["recorded", *(["cpu only"] if asked.cpu_only else []), *(add_peers(python) if asked.peers else [])]
    rows = []
    for program in asked.programs:
        rows += measure(python, program, ways, rounds, seconds)
        print("\n".join(table(rows[-len(ways) :], ways).splitlines()[2 : 2 + len(ways)]), flush=True)
    if asked.short:
        print(table(rows, ways))
        return 0
    result = {
        "python": str(python.parent.parent.name),
        "rounds": rounds,
        "seconds": seconds,
        "rows": [asdict(row) for row in rows],
    }
    save("overhead", result, table(rows, ways))
    return 0


if __name__ == "__main__":
    sys.exit(main())
