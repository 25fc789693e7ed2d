"""CPU shares of the lines of random programs: do two of the printed errors hold the truth?

Each program (``--seed``, a number each) has lines that compute in Python and in C, for random times that differ by up to a
hundredfold, in a random order. It measures each of them with the thread's clock and is recorded with the default
interval. Every line that the report shows is judged: its CPU time and its share of all lines' time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.dated_results import write_result
from tests.support.recording import tool
from tests.support.target_environments import version_of

ERRORS = 2
PROGRAM_NAME = "program.py"
#: What a line does for about n microseconds.
DEEDS = {
    "for n in ranges[{k}]: x = x * 3 % 7919": 25,
    "sum(floats[{k}])": 250,
    "sorted(floats[{k}])": 40,
    "digest(data[{k}])": 1,
    "[str(n) for n in ranges[{k}]]": 9,
    "while x < {n} * 12: x += 1": 1,
}
HEAD = """
import hashlib, json, random, time
clock, draw, digest, x = time.thread_time, random.Random(3).random, hashlib.sha256, 0
sizes, took = {sizes}, [0.0] * {lines}
ranges = [range(size) for size in sizes]
floats = [[draw() for _ in range(min(size, 200_000))] for size in sizes]
data = [bytes(800 * min(size, 10_000)) for size in sizes]
"""


@dataclass(frozen=True)
class Figure:
    """A line of a program: its CPU time in the report, the printed error, and the truth (seconds), and the same for its
    percentage of all CPU time."""

    seed: int
    line: int
    value: float
    error: float
    truth: float
    percent: float
    percent_error: float
    true_percent: float
    ticks: int

    @property
    def is_inside(self) -> bool:
        return abs(self.value - self.truth) <= ERRORS * self.error

    @property
    def share_is_inside(self) -> bool:
        return abs(self.percent - self.true_percent) <= ERRORS * self.percent_error


def program_of(seed: int) -> tuple[str, list[int]]:
    """The source of a program, and the lines that are measured."""
    draw = random.Random(seed)
    count, seconds = draw.randint(4, 16), draw.uniform(0.5, 2.5)
    deeds = [draw.choice(list(DEEDS)) for _ in range(count)]
    microseconds = [math.exp(draw.uniform(math.log(100), math.log(10_000))) for _ in range(count)]
    sizes = [max(1, round(us * DEEDS[deed])) for us, deed in zip(microseconds, deeds, strict=True)]
    text = HEAD.format(sizes=sizes, lines=count).strip().splitlines()
    text += [f"order, draw = list(range({count})), random.Random({seed})"]
    text += [f"while sum(took) < {seconds:.2f}:", "    deed = draw.choice(order)"]
    numbers = []
    for k, deed in enumerate(deeds):
        text += [f"    if deed == {k}:", "        x = 0; start = clock()", "        " + deed.format(k=k, n=sizes[k])]
        numbers.append(len(text))
        text += [f"        took[{k}] += clock() - start"]
    return "\n".join([*text, "print(json.dumps(took))"]) + "\n", numbers


def measure(seed: int, python: str) -> list[Figure]:
    """The figures of one program."""
    source, numbers = program_of(seed)
    with TemporaryDirectory() as name:
        program, trace = Path(name) / PROGRAM_NAME, Path(name) / "t.parquet"
        program.write_text(source)
        command = [*tool("scalene-record"), "-o", str(trace), "--python", python, "--no-memory", str(program)]
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        report = build_report([trace], Selection())
    truth = dict(zip(numbers, json.loads(out.splitlines()[-1]), strict=True))
    lines = {each.line: each for each in report.lines if Path(each.file or "").name == PROGRAM_NAME}
    whole = sum(each.cpu_s for each in report.lines)
    found = []
    for number, seconds in truth.items():
        line = lines.get(number)
        if line is None or line.cpu_error_s is None or line.cpu_percent_error is None or line.cpu_percent is None:
            continue
        share = 100 * seconds / whole
        found.append(
            Figure(
                seed,
                number,
                line.cpu_s,
                line.cpu_error_s,
                seconds,
                line.cpu_percent,
                line.cpu_percent_error,
                share,
                line.ticks or 0,
            )
        )
    return found


def table(found: list[Figure]) -> str:
    """By number of ticks: figures, and percent of them that two printed errors hold."""
    head = f"{'ticks':>12} {'lines':>6} {'seconds inside %':>17} {'percent inside %':>17} {'median error %':>15}"
    texts = [head, "-" * len(head)]
    for least, most in ((0, 3), (4, 10), (11, 30), (31, 100), (101, 10**9), (0, 10**9)):
        mine = [each for each in found if least <= each.ticks <= most]
        if mine:
            errors = sorted(100 * each.error / each.value for each in mine if each.value)
            inside = [
                100 * sum(flags) / len(mine)
                for flags in zip(*((f.is_inside, f.share_is_inside) for f in mine), strict=True)
            ]
            span = f"{least} to {most}" if most < 10**9 else f"{least} on"
            middle = f"{errors[len(errors) // 2]:.0f}" if errors else ""
            texts.append(f"{span:>12} {len(mine):6} {inside[0]:17.1f} {inside[1]:17.1f} {middle:>15}")
    return "\n".join(texts)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=110)
    parser.add_argument("--seed", type=int, default=1, help="number of the first program")
    parser.add_argument("--python", default=sys.executable, help="interpreter to record (default: the one running)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    with ThreadPoolExecutor(2) as pool:
        found = [each for part in pool.map(lambda seed: measure(seed, chosen.python), seeds) for each in part]
    if chosen.print_only:
        print(table(found))
        return 0
    outside = [asdict(each) for each in found if not (each.is_inside and each.share_is_inside)]
    result = {"python": version_of(chosen.python), "programs": chosen.count, "lines": len(found)}
    write_result("shares", result | {"outside": outside}, table(found))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
