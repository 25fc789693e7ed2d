"""What ``--cpu-budget`` keeps: the ten programs of the Scalene papers, bare and with a budget in alternation.

A round runs a program bare, with the budget and fully recorded, in an order that turns. What recording costs is told by four
figures: the CPU time of the program's body against the bare run of the round (medians and ranges; noise of other programs is
above a hundredth), the recorder's own CPU time while the program ran, of the time that it ran, and the cost that the trace
itself names. Whether what is found is right, ``unbiased.py`` measures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from overhead import LOOP, PROGRAMS, script
from support.environments import Spread, environment, save, spread, tool, version_of

_WAYS = ("bare", "budget", "whole")
_COST = re.compile(
    r"cost ([\d.]+) % \(in the program ([\d.]+) % .*the recorder ([\d.]+) s\), recorded ([\d.]+) % .*cpu-interval=([\d.]+ms)"
)


@dataclass(frozen=True)
class Row:
    """A program with the budget. Times in seconds; ``said_percent``: the cost that the traces name; ``in_program_percent``: of
    it, in the program, of its CPU time; ``own_percent``: CPU time of the recorder while the program ran, of that time;
    ``recorded_percent``: of the time."""

    program: str
    bare_s: float
    body_cpu: Spread
    whole_cpu: Spread
    said_percent: float
    in_program_percent: float
    own_percent: float
    recorded_percent: float
    interval: str
    ticks: int


def run(way: str, budget: str, python: Path, command: list[str], output: Path) -> tuple[dict[str, Any], float]:
    """One run: what the loop says, and how long it took."""
    result = output.with_suffix(".json")
    options = ["--cpu-budget", budget] if way == "budget" else []
    recorder = [tool("scalene-record"), "-o", str(output), "--python", str(python), *options]
    line = [*(recorder if way != "bare" else [str(python)]), str(LOOP), str(result), *command]
    begun_s = time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\nreturned {done.returncode}\n{done.stderr}")
    return json.loads(result.read_text()), time.monotonic() - begun_s


def known(trace: Path) -> tuple[list[float], str, int]:
    """The last cost that the trace names: its four numbers, and the interval; and the number of ticks."""
    line = [tool("scalene-analyze"), "info", "--json", str(trace)]
    told = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    found = [_COST.search(mark["text"]) for mark in told["marks"] if mark["what"] == "set"]
    last = next((each for each in reversed(found) if each), None)
    numbers = [float(each) for each in last.groups()[:4]] if last else [0.0] * 4
    return numbers, last.group(5) if last else "", told["traces"][0]["events"]["cpu"] or 0


def measure(program: str, python: Path, budget: str, rounds: int, seconds: float) -> Row:
    """All rounds of one program."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        first, _ = run("bare", budget, python, ["0", *script(python, program)], output)
        count = str(max(1, round(seconds * first["iterations"] / first["body_s"])))
        told: dict[str, list[dict[str, Any]]] = {way: [] for way in _WAYS}
        ticks, costs, interval = 0, list[list[float]](), ""
        for number in range(rounds):
            for way in _WAYS if number % 2 == 0 else _WAYS[::-1]:
                told[way].append(run(way, budget, python, [count, *script(python, program)], output)[0])
                if way == "budget":
                    numbers, interval, events = known(output)
                    ticks += events
                    costs.append([*numbers, told[way][-1]["body_s"]])
        ratios = {
            way: spread([ours["cpu_s"] / bare["cpu_s"] for ours, bare in zip(told[way], told["bare"], strict=True)])
            for way in _WAYS[1:]
        }
        said, within, own_s, recorded, body_s = (median(each) for each in zip(*costs, strict=True))
        return Row(
            program,
            median(each["body_s"] for each in told["bare"]),
            ratios["budget"],
            ratios["whole"],
            said,
            within,
            100 * own_s / body_s,
            recorded,
            interval,
            ticks,
        )


def kept(program: str, python: Path, budget: str, seconds: float) -> dict[str, Any]:
    """What the trace says of one run with the budget. Its length in seconds, else percent."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        first, _ = run("bare", budget, python, ["0", *script(python, program)], output)
        count = str(max(1, round(seconds * first["iterations"] / first["body_s"])))
        told, _ = run("budget", budget, python, [count, *script(python, program)], output)
        (said, within, own_s, recorded), _, ticks = known(output)
    figures = {"said": said, "in_program": within, "own": 100 * own_s / told["body_s"], "recorded": recorded}
    return {"program": program, "length_s": told["body_s"], "ticks": ticks} | figures


def kept_line(row: dict[str, Any]) -> str:
    """The row as text."""
    figures = " ".join(f"{row[name]:9.2f}" for name in ("said", "in_program", "own", "recorded"))
    return f"{row['program']:24} {row['length_s']:8.1f} {figures} {row['ticks']:6}"


def line_of(row: Row) -> str:
    """A row as text."""
    return (
        f"{row.program:24} {row.bare_s:6.2f} {row.body_cpu!s:>24} {row.whole_cpu!s:>24} {row.said_percent:6.2f}"
        f" {row.in_program_percent:8.2f} {row.own_percent:7.2f} {row.recorded_percent:8.1f} {row.interval:>8} {row.ticks:6}"
    )


def table(rows: list[Row], budget: str) -> str:
    """The rows as text."""
    head = f"{'program':24} {'bare s':>6} {'CPU time with budget':>24} {'fully recorded':>24} {'said %':>6} {'inside %':>8}"
    head += f" {'own %':>7} {'recorded':>8} {'interval':>8} {'ticks':>6}"
    cpu, whole = (median(getattr(row, name).median for row in rows) for name in ("body_cpu", "whole_cpu"))
    last = (
        f"median over {len(rows)} programs with {budget}: CPU time {cpu:.4f} (fully recorded {whole:.4f}), said cost "
    )
    last += f"{median(row.said_percent for row in rows):.2f} %, worst {max(row.said_percent for row in rows):.2f} %"
    return "\n".join([head, "-" * len(head), *map(line_of, rows), last])


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--budget", default="0.5%")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a bare run")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    parser.add_argument("--kept", action="store_true", help="only run each program once with the budget")
    parser.add_argument("--rows", type=Path, help="add the rows to this file of JSON lines, and write no result")
    asked = parser.parse_args()
    python = environment(asked.python)
    facts = {"python": version_of(str(python)), "budget": asked.budget, "seconds": asked.seconds}
    if asked.kept:
        runs = []
        print(
            head
            := f"{'program':24} {'length s':>8} {'cost %':>9} {'inside %':>9} {'own %':>9} {'recorded':>9} {'ticks':>6}"
        )
        for program in asked.programs:
            runs.append(kept(program, python, asked.budget, asked.seconds))
            print(kept_line(runs[-1]), flush=True)
        save("budget-kept", facts | {"rows": runs}, "\n".join([head, "-" * len(head), *map(kept_line, runs)]))
        return 0
    rows = []
    for program in asked.programs:
        rows.append(measure(program, python, asked.budget, asked.rounds, asked.seconds))
        print(line_of(rows[-1]), flush=True)
        if asked.rows:
            with asked.rows.open("a") as file:
                file.write(json.dumps(asdict(rows[-1])) + "\n")
    if asked.rows and len(asked.programs) < len(PROGRAMS):
        return 0
    save("budget", facts | {"rounds": asked.rounds, "rows": [asdict(row) for row in rows]}, table(rows, asked.budget))
    return 0


if __name__ == "__main__":
    sys.exit(main())
