"""How often the comparisons of a fleet claim what is not there, and find what is; and what they take for 10,000 traces.

Figures are simulated (``tests/support/simulated_fleet.py``): an hour of each host, in which a tenth of a core is used, so 36,000
ticks of 10 ms, Poisson; hosts differ by 10 % on all lines together and by 1 % on each line, unless a row says otherwise. A run
without a change is a false alarm if any line or the total is called better or worse. With one, the line must be called worse.
Months have 30 days, hosts that differ by 10 %, by 5 % from day to day, and days that differ by 2 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from tempfile import TemporaryDirectory

import numpy as np

from scalene_trace.analyze.fleet.compare.change_points import steps_of
from scalene_trace.analyze.fleet.compare.levels import levels_of
from scalene_trace.analyze.fleet.compare.outliers import WHOLE, compared_hosts, judge_hosts
from scalene_trace.analyze.fleet.compare.units import Units
from support.environments import ROOT, save, tool
from tests.support.simulated_fleet import (
    FLEETS,
    MONTHS,
    TICK_S,
    FleetPlan,
    MonthPlan,
    claims,
    simulated,
    simulated_month,
    slower,
)

#: More fleets than the tests have.
MORE = {
    "5 hosts a side": FleetPlan(hosts=5),
    "10 hosts a side": FleetPlan(hosts=10),
    "50 hosts a side": FleetPlan(hosts=50),
    "2 % on each line": FleetPlan(own=0.02),
    "3 % on each line": FleetPlan(own=0.03),
    "2 lines": FleetPlan([0.5, 0.5]),
    "hosts differ by 30 %": FleetPlan(spread=0.3),
    "hosts do not differ": FleetPlan(spread=0.0),
    "a tenth of the ticks": FleetPlan(ticks=3_600),
}
MORE_MONTHS = {
    "days differ by 5 %": MonthPlan(of_day=0.05),
    "weekends 10 % quieter": MonthPlan(week=0.1),
    "weekends 30 % quieter": MonthPlan(week=0.3),
    "90 days": MonthPlan(days=90),
}
COMMANDS = {
    "diff, one metric": ["diff", "--before", "version=1.4.0", "--after", "version=1.4.1", "--metric", "cpu_s"],
    "diff, all metrics": ["diff", "--before", "version=1.4.0", "--after", "version=1.4.1"],
    "trend": ["trend"],
    "outliers": ["outliers", "--by", "version"],
}


@dataclass(frozen=True)
class Row:
    """Shares in percent. ``false``: runs with a false alarm; ``found``: runs that found the change; ``more``: the change twice as
    large (diff); ``other``: runs with the change in which a line that did not change was claimed."""

    kind: str
    name: str
    runs: int
    false: float
    found: float
    more: float | None = None
    other: float | None = None


def diff_row(name: str, plan: FleetPlan, runs: int) -> Row:
    """5 % and 10 % on one line."""
    random = np.random.default_rng(20_261_128)
    false = found = more = other = 0
    for _ in range(runs):
        false += bool(claims(simulated(random, plan)))
        claimed = claims(simulated(random, slower(plan)))
        found += claimed.get(0) == "worse"
        other += bool(claimed.keys() - {0, "total"})
        more += claims(simulated(random, slower(plan, 1.1))).get(0) == "worse"
    return Row("diff", name, runs, *(100 * each / runs for each in (false, found, more, other)))


def trend_row(name: str, plan: MonthPlan, runs: int) -> Row:
    """A step of 10 % in the middle, which must be found within a day."""
    random = np.random.default_rng(20_261_128)
    false = found = 0
    for _ in range(runs):
        levels = levels_of(simulated_month(random, plan), 0)
        false += levels is not None and bool(steps_of(levels))
        levels = levels_of(simulated_month(random, replace(plan, step=1.1)), 0)
        found += levels is not None and any(abs(step.index - plan.at) <= 1 for step in steps_of(levels))
    return Row("trend", name, runs, 100 * false / runs, 100 * found / runs)


def outliers_row(hosts: int, factor: float, of_line: float, runs: int) -> list[Row]:
    """A host that is so many times as slow, and a line that is so on another host."""
    random = np.random.default_rng(20_261_128)
    false = whole = line = 0
    for _ in range(runs):
        units = one_side(simulated(random, FleetPlan(hosts=hosts)))
        false += bool(odd(units))
        values = units.values.copy()
        values[:, 0] *= factor
        values[0, 2] *= of_line
        found = odd(replace(units, values=np.round(values / TICK_S) * TICK_S))
        whole += found.get((0, WHOLE)) == "worse"
        line += found.get((2, 0)) == "worse"
    return [
        Row("outliers", f"{hosts} hosts, one {factor:g} times as slow", runs, 100 * false / runs, 100 * whole / runs),
        Row(
            "outliers", f"{hosts} hosts, a line {of_line:g} times as slow", runs, 100 * false / runs, 100 * line / runs
        ),
    ]


def one_side(units: Units) -> Units:
    """The hosts before."""
    keep = units.side_numbers == 0
    cells = units.exposure[keep], units.hosts[keep], units.side_numbers[keep]
    return Units(units.values[:, keep], units.variances[:, keep], *cells)


def odd(units: Units) -> dict[tuple[int, int], str]:
    """The verdicts other than noise, by host and line."""
    sums = units.values.sum(axis=1)
    found, _ = compared_hosts(units, sums >= 0.01 * sums.sum())
    judged = zip(found, judge_hosts(found), strict=True)
    return {(each.cell, each.row): verdict for each, (verdict, _) in judged if verdict != "noise"}


def speeds(traces: int, tries: int, written: str | None = None) -> Iterable[tuple[str, float, float, int]]:
    """By command the wall and CPU seconds of a whole process, and its largest resident set (bytes); of the fastest try.
    ``written``: a folder with the summaries of so many traces, by write_large; None = they are made."""
    with TemporaryDirectory() as temporary:
        folder = written or temporary
        # In a process of its own: a child's largest resident set is at least what its parent has when it starts it.
        code = f"from pathlib import Path; from tests.support.simulated_fleet import write_large; print(write_large(Path({folder!r}), {traces}))"
        if not written:
            subprocess.run([sys.executable, "-c", code], check=True)
        for name, words in COMMANDS.items():
            best: tuple[str, float, float, int] | None = None
            for _ in range(tries):
                start = time.perf_counter()
                child = subprocess.Popen([tool("scalene-analyze"), "fleet", *words, folder], stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(child.pid, 0)
                if status:
                    raise SystemExit(f"{name} failed")
                wall_s = time.perf_counter() - start
                found = (name, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
                best = found if best is None or wall_s < best[1] else best
            if best is not None:
                yield best


def times_text(times: Iterable[tuple[str, float, float, int]], traces: int, tries: int) -> list[str]:
    """What the commands take, as lines of text."""
    head = f"{traces:,} traces, on {os.cpu_count()} cores: wall, CPU, largest resident set; the best of {tries}"
    return [head, *(f"{name:20} {wall:6.2f} s {cpu:6.2f} s {size / 2**20:6.0f} MiB" for name, wall, cpu, size in times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--tries", type=int, default=3, help="of each command; the fastest counts (default: 3)")
    parser.add_argument("--only-times", action="store_true", help="only what the commands take")
    parser.add_argument(
        "--written", help="with --only-times: a folder with the summaries, by simulated_fleet.write_large"
    )
    arguments = parser.parse_args()
    if arguments.only_times:
        times = list(speeds(arguments.traces, arguments.tries, arguments.written))
        save(
            "fleet-comparison-times", {"times": times}, "\n".join(times_text(times, arguments.traces, arguments.tries))
        )
        return
    rows: list[Row] = []
    for name, plan in (FLEETS | MORE).items():
        rows.append(diff_row(name, plan, arguments.runs if name in FLEETS else arguments.runs // 3))
        print(rows[-1], flush=True)
    for name, month in (MONTHS | MORE_MONTHS).items():
        rows.append(trend_row(name, month, arguments.runs if name in MONTHS else arguments.runs // 3))
        print(rows[-1], flush=True)
    for hosts, factor, of_line in ((8, 3.0, 1.5), (20, 2.0, 1.3), (50, 1.6, 1.2)):
        rows += outliers_row(hosts, factor, of_line, arguments.runs // 3)
        print(*rows[-2:], sep="\n", flush=True)
    times = list(speeds(arguments.traces, arguments.tries))
    text = [f"{'question':9} {'fleet':38} {'runs':>5} {'false':>7} {'found':>7} {'twice':>7} {'other':>7}"]
    for row in rows:
        figures = [
            f"{each:6.1f}%" if each is not None else " " * 7 for each in (row.false, row.found, row.more, row.other)
        ]
        text.append(f"{row.kind:9} {row.name:38} {row.runs:5} {' '.join(figures)}".rstrip())
    text += ["", *times_text(times, arguments.traces, arguments.tries)]
    save("fleet-comparisons", {"rows": [asdict(row) for row in rows], "times": times}, "\n".join(text))


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
