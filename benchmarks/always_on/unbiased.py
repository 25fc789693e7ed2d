"""Whether what ``--cpu-budget`` finds in its windows is right for all of the time.

Each of the ten programs of the Scalene papers runs with the budget and fully recorded; the CPU time of its lines
(those with less than a twentieth are one together) is compared by a chi-squared test of homogeneity. Ticks count as
independent (with a budget, the distance between two is longer than a window), and as so many equal ones as have the same
variance together: those of kernel time weigh less than others.

``--phases`` records a program whose two phases take turns and use the same CPU time, although one costs far more to record,
as many times as asked. The share of the costly phase should be a half: in the time of all windows, and in all ticks.

Noise of other programs changes neither CPU times nor places of windows, so nothing needs to be quiet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist, mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from overhead import LOOP, PROGRAMS, script
from support.environments import environment, save, tool, version_of

#: Lines with less of the CPU time are counted together: chi-squared does not hold for a handful of ticks.
_LEAST_SHARE = 0.05
#: Two phases with the same CPU time: one computes, the other allocates blocks that are sampled. Prints when each began, and the end.
PHASES = """
import sys, time
def computes(end):
    while time.process_time() < end:
        sum(range(2000))
def allocates(end):
    while time.process_time() < end:
        [bytearray(2000) for _ in range(200)]
end = time.process_time()
for turn in range(int(sys.argv[1])):
    for phase in (computes, allocates):
        end += float(sys.argv[2])
        print(phase.__name__, time.time(), flush=True)
        phase(end)
print("end", time.time())
"""


def record(budget: str | None, python: Path, command: list[str], output: Path) -> str:
    """What the recorded program prints."""
    options = ["--cpu-budget", budget] if budget else []
    line = [tool("scalene-record"), "-o", str(output), "--python", str(python), *options, *command]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\nreturned {done.returncode}\n{done.stderr}")
    return done.stdout


def analyzed(query: str, trace: Path) -> Any:
    """The answer of one of our commands."""
    words = ["report", "--all"] if query == "report" else [query]
    line = [tool("scalene-analyze"), *words, "--json", str(trace)]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


def seconds_by(kind: str, name: str, trace: Path) -> Counter[str]:
    """CPU seconds of each of the "functions" or "lines" of the trace, by file and the column ``name``."""
    rows = analyzed("report", trace)[kind]
    return Counter({f"{each['file']}:{each[name]}": each["cpu_s"] for each in rows if each["cpu_s"]})


def equal_ticks(trace: Path) -> float:
    """The number of equal ticks whose sum has the same relative variance (Kish's effective sample size)."""
    sums = "sum(user_s + system_s) ** 2 / sum((user_s + system_s) ** 2)"
    line = [tool("scalene-analyze"), "sql", "--json", str(trace), f"SELECT {sums} AS ticks FROM cpu_ticks"]
    told = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    return float(told["rows"][0]["ticks"] or 0.0)


def above(chi_squared: float, degrees: int) -> float:
    """The probability of a larger chi-squared by chance (Wilson and Hilferty 1931)."""
    if not degrees:
        return 1.0
    spread = 2 / (9 * degrees)
    return 1 - NormalDist().cdf(((chi_squared / degrees) ** (1 / 3) - (1 - spread)) / spread**0.5)


def compared(ours: Counter[str], ticks: float, theirs: Counter[str], others: float) -> tuple[float, int, float]:
    """Chi-squared of the two samples, its degrees of freedom, and the largest difference of shares in percent."""
    sums = ours.total() or 1.0, theirs.total() or 1.0
    pooled = {name: (ours[name] * ticks / sums[0] + theirs[name] * others / sums[1]) for name in {*ours, *theirs}}
    named = {name for name, count in pooled.items() if count >= _LEAST_SHARE * (ticks + others)}
    shares = [(ours[name] / sums[0], theirs[name] / sums[1]) for name in sorted(named)]
    rest = tuple(1 - sum(each[side] for each in shares) for side in (0, 1))
    if max(rest) > 1e-6:
        shares.append((rest[0], rest[1]))
    chi_squared = sum((p - q) ** 2 * ticks * others / (p * ticks + q * others) for p, q in shares)
    return chi_squared, len(shares) - 1, max(100 * abs(p - q) for p, q in shares)


def measure(program: str, python: Path, budget: str, seconds: float, rounds: int) -> dict[str, Any]:
    """One program, recorded in both ways for about as long."""
    with TemporaryDirectory() as folder:
        output, result = Path(folder) / "t.parquet", Path(folder) / "result.json"
        command = [str(LOOP), str(result)]
        subprocess.run([python, *command, "0", *script(python, program)], check=True, capture_output=True)
        first = json.loads(result.read_text())
        count = str(max(1, round(seconds * first["iterations"] / first["body_s"])))
        seen: dict[str | None, Counter[str]] = {budget: Counter(), None: Counter()}
        ticks: dict[str | None, float] = dict.fromkeys(seen, 0.0)
        recorded_s = whole_s = 0.0
        for _ in range(rounds):
            for way in seen:
                record(way, python, [*command, count, *script(python, program)], output)
                told = analyzed("info", output)["traces"][0]
                seen[way] += seconds_by("lines", "line", output)
                ticks[way] += equal_ticks(output)
                if way:
                    whole_s += told["wall_s"]
                    recorded_s += told["wall_s"] - told["paused_s"]
    chi_squared, degrees, largest = compared(seen[budget], ticks[budget], seen[None], ticks[None])
    figures = {"length_s": whole_s, "recorded_percent": 100 * recorded_s / whole_s}
    figures |= {"ticks": ticks[budget], "ticks_of_whole": ticks[None]}
    return {"program": program} | figures | {"chi_squared": chi_squared, "degrees": degrees, "largest_percent": largest}


def line_of(row: dict[str, Any]) -> str:
    """A row as text."""
    figures = f"{row['length_s']:8.0f} {row['recorded_percent']:10.2f} {row['ticks']:6.0f} {row['ticks_of_whole']:9.0f}"
    chance = above(row["chi_squared"], row["degrees"])
    return f"{row['program']:24} {figures} {row['largest_percent']:9.1f} {row['chi_squared']:8.1f} {row['degrees']:8} {chance:8.3f}"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text."""
    head = f"{'program':24} {'length s':>8} {'recorded %':>10} {'ticks':>6} {'all ticks':>9} {'apart %':>9} {'chi2':>8} {'degrees':>8} {'p':>8}"
    sums = [sum(row[name] for row in rows) for name in ("chi_squared", "degrees", "ticks")]
    last = f"together: chi2 {sums[0]:.1f} with {sums[1]} degrees of freedom, p = {above(sums[0], sums[1]):.3f}, {sums[2]:.0f} ticks"
    return "\n".join([head, "-" * len(head), *map(line_of, rows), last])


def overlap(windows: list[tuple[float, float]], begin: float, end: float) -> float:
    """Seconds of the windows within a stretch of time."""
    return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in windows)


def run_of_phases(python: Path, budget: str, turns: int, length_s: float) -> dict[str, Any]:
    """Recorded seconds, and CPU seconds of ticks, of both phases; and the number of ticks."""
    with TemporaryDirectory() as folder:
        program, output = Path(folder) / "phases.py", Path(folder) / "t.parquet"
        program.write_text(PHASES)
        printed = record(budget, python, [str(program), str(turns), str(length_s)], output)
        edges = [(name, float(at)) for name, at in (line.split() for line in printed.splitlines())]
        told, seen = analyzed("info", output), seconds_by("functions", "function", output)
    begun, wall_s = datetime.fromisoformat(told["traces"][0]["started_at"]).timestamp(), told["traces"][0]["wall_s"]
    pauses = sorted((each["t_s"], each["end_s"] or wall_s) for each in told["marks"] if each["what"] == "pause")
    windows = [(begun + end, begun + begin) for (_, end), (begin, _) in pairwise(pauses)]
    recorded, elapsed = Counter[str](), Counter[str]()
    for (name, begin), (_, end) in pairwise(edges):
        recorded[name] += overlap(windows, begin, end)
        elapsed[name] += end - begin
    ticks = {name: sum(cpu_s for each, cpu_s in seen.items() if name in each) for name in elapsed}
    count = told["traces"][0]["events"]["cpu"] or 0
    return {"elapsed_s": elapsed, "recorded_s": recorded, "ticks_s": ticks, "ticks": count, "windows": len(windows)}


def share(found: dict[str, float], elapsed: dict[str, float] | None = None) -> float:
    """Share of the costly phase; of recorded parts of the time, if that is given."""
    rates = {name: found[name] / (elapsed[name] if elapsed else 1) for name in ("allocates", "computes")}
    return rates["allocates"] / (sum(rates.values()) or 1)


def phases(python: Path, budget: str, runs: int, turns: int, length_s: float) -> None:
    """Writes the result of all runs."""
    found = []
    for number in range(runs):
        found.append(run_of_phases(python, budget, turns, length_s))
        last = found[-1]
        told = f"{share(last['recorded_s'], last['elapsed_s']):.3f} of recorded parts, {share(last['ticks_s']):.3f} of {last['ticks']} ticks"
        print(f"{number + 1}: {told}, {last['windows']} windows", flush=True)
    by_time = [share(each["recorded_s"], each["elapsed_s"]) for each in found]
    by_ticks = [share(each["ticks_s"]) for each in found]
    lines = [
        f"{runs} runs of {2 * turns} phases with {length_s:g} s of CPU time each, budget {budget}; should be 0.500:"
    ]
    for name, shares in (("recorded part of the time", by_time), ("CPU time of ticks", by_ticks)):
        error = stdev(shares) / len(shares) ** 0.5
        lines.append(f"costly phase by {name}: {mean(shares):.3f}, standard error {error:.3f}")
    lines.append(f"{sum(each['windows'] for each in found)} windows, {sum(each['ticks'] for each in found)} ticks")
    facts = {"python": version_of(str(python)), "budget": budget, "turns": turns, "phase_s": length_s}
    save(f"budget-phases-{length_s:g}s", facts | {"runs": found}, "\n".join(lines))


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--budget", default="0.5%")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=180.0, help="length of a run")
    parser.add_argument("--phases", type=int, metavar="RUNS", default=0, help="only record the program with two phases")
    parser.add_argument("--turns", type=int, default=30, help="of its two phases")
    parser.add_argument("--phase-seconds", type=float, default=2.0, help="CPU time of a phase")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    asked = parser.parse_args()
    python = environment(asked.python)
    if asked.phases:
        phases(python, asked.budget, asked.phases, asked.turns, asked.phase_seconds)
        return 0
    rows = []
    for program in asked.programs:
        rows.append(measure(program, python, asked.budget, asked.seconds, asked.rounds))
        print(line_of(rows[-1]), flush=True)
    facts = {"python": version_of(str(python)), "budget": asked.budget, "rounds": asked.rounds}
    save("budget-shares", facts | {"rows": rows}, table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
