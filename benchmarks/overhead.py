"""What recording costs: the ten programs of the Scalene papers, bare and recorded in alternation.

A round runs a program once under each way (bare, recorded, ...), in an order that turns from round to round; a
slowdown is the ratio of two times of one round. The table gives medians and ranges over the rounds. Several
interpreters are measured in the same rounds, so that they can be compared.

Differences below a hundredth are lost in the noise of other programs. ``--instructions`` counts what the shim executes in
a program whose recording stays paused, as a part of all instructions of one more iteration (valgrind).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from support.attached import run_attached
from support.callgrind import instructions
from support.callgrind import prefix as counted
from support.environments import ROOT, Spread, environment, save, spread, tool, version_of

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
RECORDED: dict[str, list[str]] = {
    "recorded": [],
    "cpu only": ["--no-memory"],
    "paused": ["--pause-at-start"],
    "exact": ["--alloc-interval", "1"],
}
#: From outside, with --pid.
ATTACHED = "attached"


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

    python: str
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
    if way in RECORDED:
        return [tool("scalene-record"), "-o", str(output), "--python", str(python), *RECORDED[way]]
    return [str(python)]


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
    if way == ATTACHED:
        done = run_attached(line, output, env)
    else:
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


def measure(pythons: Sequence[Path], program: str, ways: list[str], rounds: int, seconds: float) -> list[Row]:
    """All rounds of one program, under each interpreter."""
    runs = [Runs(python, program, ways) for python in pythons]
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        for each in runs:
            each.calibrate(seconds, output)
        for number in range(rounds):
            for each in runs if number % 2 == 0 else runs[::-1]:
                each.add_round(number, output)
    return [each.row(way) for each in runs for way in ways]


class Runs:
    """The runs of one program under one interpreter."""

    def __init__(self, python: Path, program: str, ways: list[str]) -> None:
        self.python, self.program, self.command = python, program, script(python, program)
        self.times: dict[str, list[Times]] = {way: [] for way in ["bare", *ways]}
        self.seen: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        self.iterations = 1

    def calibrate(self, seconds: float, output: Path) -> None:
        """Runs it once, to choose iterations for that many seconds."""
        first, count = run("bare", self.python, self.command, 0, output)
        self.iterations = max(1, round(seconds * count / first.body_s))

    def add_round(self, number: int, output: Path) -> None:
        """Runs it once under each way."""
        order = list(self.times) if number % 2 == 0 else list(self.times)[::-1]
        for way in order:
            self.times[way].append(run(way, self.python, self.command, self.iterations, output)[0])
            if way in (*RECORDED, ATTACHED) and way not in self.seen:
                self.seen[way] = facts(output)

    def row(self, way: str) -> Row:
        """Ratios of one way to the bare runs of the same rounds."""
        pairs = list(zip(self.times[way], self.times["bare"], strict=True))
        events, losses = self.seen.get(way, ({}, {}))
        return Row(
            python=version_of(str(self.python)),
            program=self.program,
            way=way,
            iterations=self.iterations,
            bare_body_s=spread([each.body_s for each in self.times["bare"]]),
            body=spread([ours.body_s / bare.body_s for ours, bare in pairs]),
            body_cpu=spread([ours.cpu_s / bare.cpu_s for ours, bare in pairs]),
            whole=spread([ours.whole_s / bare.whole_s for ours, bare in pairs]),
            trace_bytes=int(median(each.bytes for each in self.times[way])),
            events=events,
            losses=losses,
        )


def table(rows: list[Row]) -> str:
    """The rows as text, with the median over the programs under each interpreter and way."""
    head = f"{'program':24} {'Python':7} {'way':9} {'bare s':>7} {'slowdown of the body':>24} {'of its CPU time':>24} {'of the process':>24} {'trace kB':>9} {'ticks':>7} {'memory':>7}"
    lines = [head, "-" * len(head), *map(line_of, rows)]
    for python, way in dict.fromkeys((row.python, row.way) for row in rows):
        mine = [row for row in rows if (row.python, row.way) == (python, way)]
        body, cpu, whole = (median(getattr(row, name).median for row in mine) for name in ("body", "body_cpu", "whole"))
        worst = max(row.body.median for row in mine)
        lines.append(
            f"median over {len(mine)} programs, {python}, {way}: body {body:.3f}, CPU {cpu:.3f}, process {whole:.3f}; worst body {worst:.3f}"
        )
    return "\n".join(lines)


def line_of(row: Row) -> str:
    """A row as text."""
    return (
        f"{row.program:24} {row.python:7} {row.way:9} {row.bare_body_s.median:7.2f} {row.body!s:>24} {row.body_cpu!s:>24} {row.whole!s:>24}"
        f" {row.trace_bytes / 1000:9.1f} {row.events.get('cpu') or 0:7} {row.events.get('memory') or 0:7}"
    )


def count(python: Path, program: str) -> float:
    """The shim's part of the instructions of an iteration, in a recording that stays paused."""
    sums: list[tuple[int, int]] = []
    with TemporaryDirectory() as folder:
        for iterations in (1, 2):
            found, output = Path(folder) / f"{iterations}.callgrind", Path(folder) / "t.parquet"
            recorder = [tool("scalene-record"), "-o", str(output), "--pause-at-start"]
            loop = [str(LOOP), str(output.with_suffix(".json")), str(iterations), *script(python, program)]
            subprocess.run([*recorder, *counted(found), str(python), *loop], capture_output=True, check=True)
            each = instructions(found)
            sums.append((each["libscalene_shim.so"], each.total()))
    (ours, all_of_them), (ours_of_two, all_of_two) = sums
    return (ours_of_two - ours) / (all_of_two - all_of_them)


def count_all(pythons: Sequence[Path], programs: Sequence[str]) -> None:
    """Counts and writes the result."""
    asked = [(python, program) for python in pythons for program in programs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what else runs changes no count
        found = list(pool.map(lambda each: count(*each), asked))
    shares = {(version_of(str(python)), program): share for (python, program), share in zip(asked, found, strict=True)}
    lines = [f"{program:24} {python:7} {100 * share:7.3f} %" for (python, program), share in shares.items()]
    text = "\n".join(["the shim's part of all instructions of an iteration, while paused", *lines])
    text += f"\nmedian {100 * median(shares.values()):.3f} %, worst {100 * max(shares.values()):.3f} %"
    rows = [{"python": key[0], "program": key[1], "share": share} for key, share in shares.items()]
    save("paused", {"rows": rows}, text)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a bare run")
    parser.add_argument("--short", action="store_true", help="one round of one second, nothing written")
    parser.add_argument("--cpu-only", action="store_true", help="also recorded with --no-memory")
    parser.add_argument("--paused", action="store_true", help="only with --pause-at-start, never resumed")
    parser.add_argument("--exact", action="store_true", help="only with --alloc-interval 1")
    parser.add_argument("--attached", action="store_true", help="only attached to from outside (--pid)")
    parser.add_argument("--instructions", action="store_true", help="counted instead of timed, paused (valgrind)")
    parser.add_argument(
        "--python", action="append", help="interpreter to measure (default: the one running); repeatable"
    )
    return parser.parse_args()


def main() -> int:
    """Measures and writes the result."""
    asked = options()
    pythons = [environment(each) for each in asked.python or [None]]
    if asked.instructions:
        count_all(pythons, asked.programs)
        return 0
    rounds, seconds = (1, 1.0) if asked.short else (asked.rounds, asked.seconds)
    chosen = {"paused": asked.paused, "exact": asked.exact, ATTACHED: asked.attached}
    only = next((way for way, wanted in chosen.items() if wanted), "")
    ways = [only] if only else ["recorded", *(["cpu only"] if asked.cpu_only else [])]
    rows: list[Row] = []
    for program in asked.programs:
        rows += measure(pythons, program, ways, rounds, seconds)
        print("\n".join(map(line_of, rows[-len(ways) * len(pythons) :])), flush=True)
    if asked.short:
        print(table(rows))
        return 0
    result = {
        "pythons": [version_of(str(python)) for python in pythons],
        "rounds": rounds,
        "seconds": seconds,
        "rows": [asdict(row) for row in rows],
    }
    save(f"overhead-{only}" if only in (ATTACHED, "exact") else "overhead", result, table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
