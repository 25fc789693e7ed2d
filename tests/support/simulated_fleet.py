"""Invented figures of a fleet: hosts that differ, ticks that are random, and a line that became slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from scalene_trace.analyze.diff.measures import LEAST_SHARE
from scalene_trace.analyze.diff.results import NOISE
from scalene_trace.analyze.fleet.compare.judge import Effect, judged, judged_total, verdicts
from scalene_trace.analyze.fleet.compare.units import Units
from scalene_trace.formats.fleet.schema import FIGURE_COLUMNS
from scalene_trace.formats.fleet.writer import ARROW_SCHEMA, Batch

#: The metrics of the lines that are written.
METRICS = ("cpu_s", "wait_s", "alloc_bytes", "live_at_peak_bytes", "live_at_end_bytes", "copy_bytes")
#: CPU time of a tick, in seconds, and the ticks of a host: an hour in which a tenth of one core is used.
TICK_S, TICKS = 0.01, 36_000


def busy_lines(count: int) -> list[float]:
    """The shares of so many lines, of which one has a tenth and the others have ever less (Zipf's law)."""
    rest = [1 / (rank + 2) for rank in range(count - 1)]
    return [0.1, *(0.9 * each / sum(rest) for each in rest)]


@dataclass(frozen=True)
class FleetPlan:
    """What a fleet is like. ``shares``: of each line, in the cost of a host; the first line is the one that changes.

    ``hosts``: so many on each side; ``paired``: they are the same on both. ``spread``: relative standard deviation of what
    all lines of a host share; ``own``: of each line on each host by itself. ``effect``: ratio of the first line after to
    before. ``unequal``: the longest recording of a host is so many times the shortest; ``after_exposure``: those after are so
    many times as long. ``broken``: so many times slower is one host. ``partly``: lines that only run on ``part`` of the hosts.
    ``scatter``: the deviation of the second line on each host.
    """

    shares: Sequence[float] = field(default_factory=lambda: busy_lines(24))
    hosts: int = 20
    paired: bool = False
    spread: float = 0.1
    own: float = 0.01
    effect: float = 1.0
    unequal: float = 1.0
    after_exposure: float = 1.0
    broken: float = 1.0
    partly: tuple[int, ...] = ()
    part: float = 0.6
    scatter: float = 0.0
    ticks: int = TICKS


#: Fleets of different structure, by name.
FLEETS = {
    "24 lines": FleetPlan(),
    "4 lines": FleetPlan([0.1, 0.4, 0.3, 0.2]),
    "300 lines": FleetPlan(busy_lines(300)),
    "one line with 80 %": FleetPlan([0.8, *[0.2 / 23] * 23]),
    "the same hosts": FleetPlan(paired=True),
    "unequal exposure": FleetPlan(unequal=10.0, after_exposure=3.0),
    "one host 3 times as slow": FleetPlan(broken=3.0),
    "run by some hosts": FleetPlan(partly=(0, 1, 2)),
    "one line that scatters": FleetPlan(scatter=0.5),
}


def simulated(random: np.random.Generator, plan: FleetPlan) -> Units:
    """The CPU time, in seconds, of each line on each host, before and after."""
    lines, hosts = len(plan.shares), plan.hosts
    cells = 2 * hosts
    is_after = np.arange(cells) >= hosts
    numbers = np.arange(cells) % hosts if plan.paired else np.arange(cells)
    speeds = np.exp(random.normal(0, plan.spread, cells))[numbers]
    speeds[np.flatnonzero(numbers == 0)] *= plan.broken
    own = np.full((lines, 1), plan.own)
    own[1] = max(plan.own, plan.scatter)
    factors = np.exp(random.normal(0, 1, (lines, cells)) * own)
    for line in plan.partly:
        factors[line] *= (random.random(cells) < plan.part)[numbers]
    exposure = np.exp(random.uniform(0, np.log(plan.unequal), cells)) * np.where(is_after, plan.after_exposure, 1.0)
    expected = np.array(plan.shares)[:, None] * plan.ticks * exposure * speeds * factors
    expected[0] *= np.where(is_after, plan.effect, 1.0)
    values = random.poisson(expected) * TICK_S
    return Units(values, values * TICK_S, exposure, numbers, is_after.astype(np.int64))


def slower(plan: FleetPlan, effect: float = 1.05) -> FleetPlan:
    """The same fleet, whose first line became slower."""
    return replace(plan, effect=effect)


def claims(units: Units) -> dict[int | str, str]:
    """The verdicts other than noise, by line or "total": of the lines with a hundredth of the cost, as ``fleet diff`` gives them."""
    sums = units.values.sum(axis=1)
    chosen = sums >= LEAST_SHARE * sums.sum()
    whole = replace(
        units,
        values=units.values.sum(axis=0, keepdims=True),
        variances=units.variances.sum(axis=0, keepdims=True),
    )
    effects: dict[int | str, Effect | None] = {"total": judged_total(whole).effect}
    lines = judged(units, chosen).lines
    effects |= {row: lines[row].effect for row in np.flatnonzero(chosen).tolist()}
    known = {name: effect for name, effect in effects.items() if effect is not None}
    found = zip(known, verdicts(list(known.values())), strict=True)
    return {name: verdict for name, (verdict, _) in found if verdict != NOISE}


def write_units(folder: Path, units: Units, metric: str = "cpu_s", days: Sequence[int] | None = None) -> None:
    """Writes a batch with a trace for each cell: version 1 before, version 2 after, which has three lines more at the start of
    the file. ``days``: of the cells; None = one after the other. An exposure of 1 is a recorded hour; each trace
    has ten marks."""
    batch = Batch()
    for cell in range(len(units.exposure)):
        is_after = days is None and bool(units.side_numbers[cell])
        day_ns = 86_400 * 10**9 * (20_001 + int(cell if days is None else days[cell]))
        trace = {
            "trace_id": f"{cell:032x}",
            "path": f"{cell}.parquet",
            "host": f"host-{units.hosts[cell]}",
            "labels": {"version": "2" if is_after else "1", "service": "shop"},
            "start_ns": day_ns,
            "wall_ns": round(units.exposure[cell] * 3.6e12),
            "losses": 0,
            "marks": {"order": 10},
        }
        batch.add(trace, figures_of(units.values[:, cell], units.variances[:, cell], metric, 3 * is_after), 0o644)
    batch.publish(folder, "2026-11-28")


def write_rare(
    folder: Path,
    metric: str,
    beside: str,
    every: tuple[int, int] = (10, 20),
    traces: int = 20,
    hosts: int = 6,
    is_on_line: bool = True,
    days_apart: int = 1,
) -> None:
    """Writes a batch with so many traces of ten minutes for each of so many hosts before, and others after: each has 60 of
    ``beside``, and of ``metric`` the first of ``every`` so many, by side, has 6 (± 10 %), be it on a line or not."""
    batch = Batch()
    for number in range(2 * hosts * traces):
        is_after = number >= hosts * traces
        host, count = number // traces, number % (hosts * traces)
        columns = figures_of([60.0], [0.6], beside)
        if count % every[is_after] == 0:
            rare = figures_of([6.0 * (0.9 + 0.2 * (count // every[is_after] % 2))], [0.0], metric)
            if not is_on_line:
                rare = {name: column[:1] for name, column in rare.items()}
            columns = {name: column + rare[name] for name, column in columns.items()}
        trace = {"trace_id": f"{number:032x}", "path": f"{number}.parquet", "host": f"host-{host}", "losses": 0}
        labels = {"version": "2" if is_after else "1"}
        day_ns = (20_000 + days_apart * is_after) * 86_400 * 10**9
        batch.add(trace | {"labels": labels, "start_ns": day_ns, "wall_ns": 600 * 10**9}, columns, 0o644)
    batch.publish(folder, "2026-11-28")


@dataclass(frozen=True)
class MonthPlan:
    """A month of a fleet. ``spread``: between hosts; ``of_host``: of a host from day to day; ``of_day``: of all hosts; ``week``:
    by this part weekends are quieter. From the day ``at`` on, the line costs ``step`` times as much. ``churn``: hosts are there
    for this part of the time."""

    hosts: int = 20
    days: int = 30
    spread: float = 0.1
    of_host: float = 0.05
    of_day: float = 0.02
    step: float = 1.0
    at: int = 15
    week: float = 0.0
    churn: float = 0.0
    ticks: int = TICKS // 10


#: Months of different structure, by name.
MONTHS = {
    "20 hosts": MonthPlan(),
    "5 hosts": MonthPlan(hosts=5),
    "hosts that come and go": MonthPlan(hosts=40, churn=0.5),
    "few ticks": MonthPlan(ticks=200),
    "quiet weekends": MonthPlan(week=0.05),
}


def simulated_month(random: np.random.Generator, plan: MonthPlan) -> Units:
    """The CPU time, in seconds, of one line on each host on each day."""
    hosts, days = np.repeat(np.arange(plan.hosts), plan.days), np.tile(np.arange(plan.days), plan.hosts)
    if plan.churn:
        start = random.integers(-plan.days, plan.days, plan.hosts)[hosts]
        here = (days >= start) & (days < start + plan.days * plan.churn) | (hosts < 3)
        hosts, days = hosts[here], days[here]
    of_days = np.exp(random.normal(0, plan.of_day, plan.days))
    of_days *= np.where(np.arange(plan.days) >= plan.at, plan.step, 1.0)
    of_days *= np.where(np.arange(plan.days) % 7 >= 5, 1 - plan.week, 1.0)
    factors = np.exp(random.normal(0, plan.spread, plan.hosts))[hosts] * of_days[days]
    values = random.poisson(plan.ticks * factors * np.exp(random.normal(0, plan.of_host, len(hosts)))) * TICK_S
    return Units(values[None], values[None] * TICK_S, np.ones(len(hosts)), hosts, days)


def figures_of(
    values: Sequence[float], variances: Sequence[float], metric: str, moved: int = 0
) -> dict[str, list[object]]:
    """The figures of one trace: its total, and those lines that have any."""
    columns: dict[str, list[object]] = {column.name: [] for column in FIGURE_COLUMNS}

    def add(**row: object) -> None:
        for name, column in columns.items():
            column.append(row.get(name))

    add(scope="total", metric=metric, value=float(np.sum(values)))
    for line, (value, variance) in enumerate(zip(values, variances, strict=True)):
        if value:
            place = {"file": "/app/shop.py", "line": 10 * (line // 10) + line + 5 + moved, "function": f"f{line // 10}"}
            text = {"first_line": 20 * (line // 10) + 1 + moved, "text": f"work({line})"}
            add(scope="line", metric=metric, value=float(value), variance=float(variance), **place, **text)
    return columns


def write_large(folder: Path, traces: int, hosts: int = 500, lines: int = 160) -> int:
    """Writes the summaries of so many traces of an hour, in ten batches: six metrics of each line, of two versions, one after the
    other in thirty days. Returns the number of rows of figures."""
    random = np.random.default_rng(1)
    shares, speeds = np.array(busy_lines(lines)), np.exp(random.normal(0, 0.1, hosts))
    found = 0
    for number in range(10):
        batch = Batch()
        for trace in range(number * traces // 10, (number + 1) * traces // 10):
            is_after, host = trace * 2 // traces, int(random.integers(hosts))
            expected = shares * TICKS / 10 * speeds[host] * np.where(np.arange(lines) == 0, 1 + 0.05 * is_after, 1)
            columns: dict[str, list[object]] = {column.name: [] for column in FIGURE_COLUMNS}
            for metric in METRICS:
                unit = (
                    1e6 if metric.endswith("_bytes") else 1.0
                )  # so that sums of bytes are whole numbers, as in traces
                values = random.poisson(expected) * TICK_S + 0.001
                found_of = figures_of(values * unit, values * TICK_S * unit**2, metric, 3 * is_after)
                for name, column in found_of.items():
                    columns[name] += column
            start_ns = (1_790_000_000 + trace * 30 * 86_400 // traces) * 10**9
            row = {"trace_id": f"{trace:032x}", "path": f"{trace}.parquet", "host": f"worker-{host:04}", "losses": 0}
            labels = {"version": f"1.4.{is_after}", "service": "shop"}
            batch.add(row | {"labels": labels, "start_ns": start_ns, "wall_ns": 3600 * 10**9}, columns, 0o644)
        found += batch.rows
        batch.publish(folder, "2026-11-28")
    return found


def write_hosts(folder: Path, hosts: int = 10_000, traces: int = 11, lines: int = 160, batch_of: int = 1_000) -> int:
    """Writes the summaries of so many traces of ten minutes of each host, in batches of ``batch_of``: six metrics of each line. With
    the numbers given here, these are 10^8 figures. Returns their number."""
    random = np.random.default_rng(2)
    expected = np.tile(np.array(busy_lines(lines)) * TICKS / 60, len(METRICS))
    units = np.repeat([1e6 if metric.endswith("_bytes") else 1.0 for metric in METRICS], lines)
    figures = summary_of_lines(lines)
    speeds, found = np.exp(random.normal(0, 0.1, hosts)), 0
    for first in range(0, hosts * traces, batch_of):
        batch = Batch()
        for trace in range(first, min(first + batch_of, hosts * traces)):
            host, start_s = trace % hosts, 1_790_000_000 + trace // hosts * 600
            ticks = random.poisson(expected * speeds[host]) + 1
            values = {"value": ticks * TICK_S * units, "variance": ticks * (TICK_S * units) ** 2}
            # A total is the sum of its lines; it comes after them.
            sums = {name: value.reshape(len(METRICS), lines).sum(axis=1) for name, value in values.items()}
            table = figures
            for name, value in values.items():
                place = table.schema.get_field_index(name)
                table = table.set_column(place, table.field(place), pa.array(np.concatenate([value, sums[name]])))
            row = {"trace_id": f"{trace:032x}", "path": f"{trace}.parquet", "host": f"worker-{host:05}", "losses": 0}
            labels = {"version": f"1.4.{host % 3}", "service": "shop"}
            batch.add_table(row | {"labels": labels, "start_ns": start_s * 10**9, "wall_ns": 600 * 10**9}, table, 0o644)
        found += batch.rows
        batch.publish(folder, "2026-11-29")
    return found


def summary_of_lines(lines: int) -> pa.Table:
    """The figures of a trace whose values are not known yet: each metric of each line, then the totals."""
    rows: list[dict[str, object]] = []
    for metric in METRICS:
        for line in range(lines):
            place = {"file": f"/app/module_{line % 20}.py", "line": 3 * line + 5, "function": f"function_{line // 5}"}
            text = {"first_line": 15 * (line // 5) + 2, "text": f"result_{line} = work({line}, limit)"}
            rows.append({"scope": "line", "metric": metric, **place, **text})
    rows += [{"scope": "total", "metric": metric} for metric in METRICS]
    fields = [ARROW_SCHEMA.field(column.name) for column in FIGURE_COLUMNS]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))
