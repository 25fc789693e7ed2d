"""Leaks: each rule on a trace made by hand, and how reliably programs with leaks are distinguished from programs without."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.analyze.leaks.leaks import build_leaks, laplace
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Leak
from scalene_trace.analyze.trace import queries
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.formats.trace.columns import Masked
from scalene_trace.formats.trace.writer import write_trace
from tests.support.trace_builder import SECOND, TRACE_ID, TraceBuilder

APP, LIBRARY = "/home/me/app.py", "/usr/lib/python3.12/json/decoder.py"
MAIN, OTHER = (APP, "main", 10, 12), (APP, "other", 20, 22)
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load", 1, 3)
MS = SECOND // 1000


def leaks_of(builder: TraceBuilder, tmp_path: Path, **selection: Any) -> list[Leak]:
    found: list[Leak] = build_leaks([builder.write(tmp_path / "t.parquet")], Selection(**selection), {}).rows
    return found


def one_process(seconds: int = 10, **columns: Any) -> tuple[TraceBuilder, int, int]:
    builder = TraceBuilder()
    builder.settings["wall_ns"] = str(seconds * SECOND)
    process = builder.process(end_ns=seconds * SECOND, **columns)
    return builder, process, builder.thread(process, cpu_ns=0)


def growing(
    builder: TraceBuilder,
    stack: int | None,
    process: int = 1,
    seconds: int = 10,
    life: int | None = None,
    **columns: Any,
) -> None:
    """100 blocks of 10,007 bytes, evenly over the time, from 50 ms on."""
    for index in range(100):
        t_ns = (seconds * index * 10 + seconds * 5) * MS
        builder.alloc(t_ns, process, 1, stack, 10_007, life, **columns)


# Rule by rule


def test_the_rule_of_succession() -> None:
    # nothing known: one half; 18 that stayed: 95 %; 20 freed and none stayed: 1/22
    assert [laplace(0, 0), laplace(18, 0), laplace(20, 20)] == pytest.approx([0.5, 0.95, 1 / 22])


def test_a_line_that_keeps_all_it_allocates_leaks(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    builder.source(APP, "\n" * 11 + "    cache.append(work())\n")
    growing(builder, builder.stack((LIBRARY, "decode", 5, 7), MAIN), type="bytearray")
    (leak,) = leaks_of(builder, tmp_path)
    # judged at 9.8 s: those from 0.98 s to 8.82 s, which are 78 of 10,007 bytes within 7.84 s
    assert (leak.file, leak.line, leak.function, leak.first_line) == (APP, 12, "main", 10)
    assert (leak.mallocs, leak.frees, leak.probability) == (78, 0, pytest.approx(1 - 1 / 80))
    assert leak.bytes_per_s == pytest.approx(78 * 10_007 / 7.84)
    assert leak.allocations_per_s == pytest.approx(78 / 7.84)
    assert (leak.live_at_end_bytes, leak.error_bytes_per_s) == (1_000_700, 0)
    assert (leak.type, leak.allocator, leak.family) == ("bytearray", "malloc", "native")
    assert leak.source == "    cache.append(work())"
    # 98 were alive when judged, of 50 ms to 9.75 s of age: on average 9.8 - 4.9
    assert leak.age_s == pytest.approx(4.9)
    assert (leak.trend[0], leak.trend[-1]) == ((0.0, 0), (pytest.approx(9.8), 980_686))
    assert len(leak.trend) <= 100


def test_the_report_lists_leaks_by_line_and_by_function(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    growing(builder, builder.stack(MAIN))
    builder.alloc(1, process, thread, builder.stack(OTHER), 10_007, 5)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert report.leaks is not None
    (leak,) = report.leaks
    lines = {line.line: (line.leak_probability, line.leak_bytes_per_s) for line in report.lines}
    assert lines == {12: (leak.probability, leak.bytes_per_s), 22: (0, 0)}
    functions = {each.function: each.leak_bytes_per_s for each in report.functions}
    assert functions == {"main": leak.bytes_per_s, "other": 0}


def test_freed_memory_is_not_a_leak(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    growing(builder, builder.stack(MAIN), life=500 * MS)
    assert leaks_of(builder, tmp_path) == []


def test_arenas_are_not_searched_for_leaks(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    growing(builder, builder.stack(MAIN), allocator="arena", python=True)
    assert leaks_of(builder, tmp_path) == []


def test_frees_by_the_end_of_the_program_do_not_count(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(100):
        t_ns = index * 90 * MS
        builder.alloc(t_ns, process, thread, builder.stack(MAIN), 10_007, 9_900 * MS - t_ns)  # after 98 %
        builder.alloc(t_ns, process, thread, builder.stack(OTHER), 10_007, 9_300 * MS - t_ns, at_exit=True)
    assert [leak.line for leak in leaks_of(builder, tmp_path)] == [12, 22]
    # the interpreter began to take itself apart at 9.3 s: judged are those from 0.93 s to 8.37 s
    assert leaks_of(builder, tmp_path)[0].mallocs == sum(930 <= index * 90 < 8_370 for index in range(100))


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (lambda place: place < 0.5, "a cache that is full at half time"),
        (lambda place: place < 0.1, "start-up"),
        (lambda place: place > 0.5, "it only began at half time"),
        (lambda place: place > 0.9, "too young to judge"),
        (lambda place: 0.3 < place < 0.4 or 0.7 < place < 0.8, "two steps"),
    ],
)
def test_growth_that_is_not_steady_is_not_a_leak(kept: Callable[[float], bool], why: str, tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(1_000):
        if kept(index / 1_000):
            builder.alloc(index * 10 * MS, process, thread, builder.stack(MAIN), 10_007)
    assert leaks_of(builder, tmp_path) == [], why


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        # of 396 judged blocks, in 9 slices, the last third holds 29
        (lambda place: 0.25 < place < 0.62, 10, "it all but stopped; mean position 0.46"),
        # of 439 judged blocks, in 9 slices, the last third holds 88; mean position 0.36
        (lambda place: place < 0.41, 3, "it thins out"),
    ],
)
def test_growth_that_thins_out_is_not_a_leak(
    before: Callable[[float], bool], after: int, why: str, tmp_path: Path
) -> None:
    builder, process, thread = one_process()
    for index in range(1_000):
        if before(index / 1_000) or (index > 500 and index % after == 0):
            builder.alloc(index * 10 * MS, process, thread, builder.stack(MAIN), 10_007)
    assert leaks_of(builder, tmp_path) == [], why


def test_growth_from_a_clearance_on_is_not_a_leak(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(1_000):
        t_ns = index * 10 * MS
        life = 1_500 * MS - t_ns if t_ns < 500 * MS else None
        builder.alloc(t_ns, process, thread, builder.stack(MAIN), 100_003 if life else 10_007, life)
    # what was allocated within the first half second is given back at 1.5 s: 5 MB of the 15 MB
    assert leaks_of(builder, tmp_path) == []


def test_seventeen_survivors_are_too_few(tmp_path: Path) -> None:
    for count, expected in ((17, 0), (18, 1)):
        builder, process, thread = one_process()
        for index in range(count):
            builder.alloc(1 * SECOND + index * 7_800 // count * MS, process, thread, builder.stack(MAIN), 10_007)
        assert len(leaks_of(builder, tmp_path)) == expected


def test_a_process_of_less_than_four_seconds_is_too_short(tmp_path: Path) -> None:
    for seconds, expected in ((3, 0), (4, 1)):
        builder, _, _ = one_process(seconds)
        growing(builder, builder.stack(MAIN), seconds=seconds)
        assert len(leaks_of(builder, tmp_path)) == expected


def test_temporaries_on_the_line_do_not_hide_the_leak(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    stack = builder.stack(MAIN)
    growing(builder, stack, type="bytearray")
    for index in range(2_000):
        builder.alloc(index * 5 * MS, process, thread, stack, 10_007, 3 * MS, type="bytes")
    (leak,) = leaks_of(builder, tmp_path)
    assert (leak.mallocs, leak.frees, leak.type) == (78, 0, "bytearray")


def test_temporaries_of_another_size_do_not_hide_the_leak(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    growing(builder, builder.stack(MAIN))
    for index in range(2_000):
        builder.alloc(index * 5 * MS, process, thread, builder.stack(MAIN), 1_009, 3 * MS)
    (leak,) = leaks_of(builder, tmp_path)
    assert (leak.mallocs, leak.frees) == (78, 0)


def test_a_leak_of_many_sizes_beside_few_temporaries_is_one(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(100):
        t_ns = (index * 100 + 50) * MS
        builder.alloc(t_ns, process, thread, builder.stack(MAIN), 1_009 << index % 10)
        builder.alloc(t_ns, process, thread, builder.stack(MAIN), 33, 3 * MS)
    (leak,) = leaks_of(builder, tmp_path)
    # no size class alone has 18 of the 78
    assert (leak.mallocs, leak.frees) == (78, 0)


def test_imports_and_the_interpreter_itself_are_not_leaks(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    growing(builder, builder.stack((LIBRARY, "<module>", 1, 1), IMPORT, MAIN))
    growing(builder, builder.stack((LIBRARY, "decode", 5, 7)))
    growing(builder, None)
    assert leaks_of(builder, tmp_path) == []


def test_a_leak_of_less_than_one_percent_of_the_growth_is_left_out(tmp_path: Path) -> None:
    for growth, expected in ((78_000_000, 1), (79_000_000, 0)):
        builder, process, thread = one_process()
        growing(builder, builder.stack(MAIN), interval_bytes=2)
        builder.memory(1, process, thread, None, 50_000_003, 500_000_003)
        builder.memory(3 * SECOND, process, thread, None, 50_000_003, 20_000_003)
        builder.memory(9 * SECOND, process, thread, None, 50_000_003, 20_000_003 + growth)
        # 780,546 bytes stayed. What counts is the growth since the lowest moment, not the 500 MB of the start
        assert len(leaks_of(builder, tmp_path)) == expected


def test_where_the_footprint_shrank_the_peak_counts(tmp_path: Path) -> None:
    for peak, expected in ((78_000_000, 1), (79_000_000, 0)):
        builder, process, thread = one_process()
        growing(builder, builder.stack(MAIN), interval_bytes=2)
        builder.memory(1, process, thread, None, peak, peak)
        builder.memory(9 * SECOND, process, thread, None, -peak, 100_003)
        assert len(leaks_of(builder, tmp_path)) == expected


def test_what_set_a_maximum_is_evidence_without_a_size(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(20):
        columns: dict[str, Any] = {"interval_bytes": None, "maximum": True} if index % 2 else {}
        builder.alloc(1 * SECOND + index * 390 * MS, process, thread, builder.stack(MAIN), 10_007, **columns)
    (leak,) = leaks_of(builder, tmp_path)
    assert (leak.mallocs, leak.bytes_per_s) == (20, pytest.approx(10 * 10_007 / 7.84))


def test_lifetimes_that_were_not_followed_are_not_evidence(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    growing(builder, builder.stack(MAIN), life_interval_bytes=None, survived=None)
    assert leaks_of(builder, tmp_path) == []
    growing(builder, builder.stack(MAIN))
    assert [leak.mallocs for leak in leaks_of(builder, tmp_path)] == [78]


def test_processes_that_leak_at_the_same_line_are_one_leak(tmp_path: Path) -> None:
    builder, first, _ = one_process()
    second = builder.process(end_ns=10 * SECOND)
    for process in (first, second):
        growing(builder, builder.stack(MAIN), process)
    (leak,) = leaks_of(builder, tmp_path)
    assert (leak.mallocs, leak.bytes_per_s) == (156, pytest.approx(156 * 10_007 / 7.84))
    (alone,) = leaks_of(builder, tmp_path, processes=(second,))
    assert alone.mallocs == 78


def test_a_window_is_judged_like_a_whole_life(tmp_path: Path) -> None:
    builder, process, thread = one_process(20)
    for index in range(200):
        t_ns = index * 100 * MS
        builder.alloc(t_ns, process, thread, builder.stack(MAIN), 10_007, 1 * SECOND if index < 100 else None)
    assert leaks_of(builder, tmp_path) == []
    (leak,) = leaks_of(builder, tmp_path, from_s=10)
    # from 10.98 s to 18.82 s
    assert (leak.mallocs, leak.bytes_per_s) == (79, pytest.approx(79 * 10_007 / 7.84))
    assert leaks_of(builder, tmp_path, from_s=10, threads=(thread + 1,)) == []


def test_the_end_of_a_window_is_not_the_end_of_a_process(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings.pop("wall_ns", None)
    builder.thread(builder.process(end_ns=None), cpu_ns=0)
    growing(builder, builder.stack(MAIN))
    assert leaks_of(builder, tmp_path) == leaks_of(builder, tmp_path, to_s=10) == []
    builder.settings["wall_ns"] = str(10 * SECOND)
    assert len(leaks_of(builder, tmp_path, to_s=10)) == 1


def test_where_the_interpreter_ended_a_window_before_that_is_judged_at_its_own_end(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings.pop("wall_ns", None)
    process = builder.process(end_ns=None)
    thread = builder.thread(process, cpu_ns=0)
    builder.alloc(1, process, thread, builder.stack(OTHER), 100, 9 * SECOND + 600 * MS, at_exit=True)
    path = builder.write(tmp_path / "t.parquet")
    judged = []
    for to_s in (3, 5, None):
        with open_traces([path], Selection(to_s=to_s)) as traces:
            judged += [row["judged_ns"] for row in queries.rows(traces.connection, "process_moments")]
    assert judged == [None, 4_900 * MS, 9_600 * MS + 1]


def test_several_traces_are_added_up(tmp_path: Path) -> None:
    paths = []
    for seconds in (10, 20):
        builder, _, _ = one_process(seconds)
        growing(builder, builder.stack(MAIN), seconds=seconds)
        paths.append(builder.write(tmp_path / f"{seconds}.parquet"))
    (leak,) = build_leaks(paths, Selection(), {}).rows
    assert (leak.mallocs, leak.bytes_per_s) == (156, pytest.approx(156 * 10_007 / (7.84 + 15.68)))


def test_sorting_and_limiting(tmp_path: Path) -> None:
    builder, _, _ = one_process()
    growing(builder, builder.stack(MAIN))
    for _ in range(2):
        growing(builder, builder.stack(OTHER))
    path = builder.write(tmp_path / "t.parquet")
    assert [leak.line for leak in build_leaks([path], Selection(), {}).rows] == [22, 12]
    assert [leak.line for leak in build_leaks([path], Selection(), {}, sort="line").rows] == [12, 22]
    assert [leak.line for leak in build_leaks([path], Selection(), {}, limit=1).rows] == [22]


# Programs with and without leaks, drawn at random and sampled as the recorder samples


@dataclass(frozen=True)
class Blocks:
    """Blocks of a program: when they were allocated and freed (s; infinite = never), how large they are (bytes)."""

    t_s: np.ndarray[Any, Any]
    size: np.ndarray[Any, Any]
    end_s: np.ndarray[Any, Any]
    type: str | None = None
    allocator: str = "malloc"


Random = np.random.Generator
Program = Callable[[Random, float], list[Blocks]]


def arrivals(random: Random, run_s: float, rate: float, low: int, high: int) -> tuple[Any, Any]:
    """Times, at random and in order, and sizes (``low`` to ``high``) of allocations of ``rate`` bytes/s."""
    count = random.poisson(rate * run_s / ((low + high) / 2))
    ends = np.cumsum(random.exponential(size=count + 1))
    return ends[:-1] * (run_s / ends[-1]), random.integers(low, high + 1, count)


def never(t_s: Any) -> Any:
    return np.full(len(t_s), np.inf)


def one_megabyte(random: Random, run_s: float) -> list[Blocks]:
    """bytearrays of 1 to 100 KB, appended to a list whose own array grows by an eighth, each time anew."""
    t_s, size = arrivals(random, run_s, 1e6, 1_000, 100_000)
    lengths = list(
        itertools.takewhile(lambda n: n < len(t_s), itertools.accumulate(range(99), lambda n, _: n + (n >> 3) + 6))
    )
    grown_s = t_s[lengths]
    array = Blocks(grown_s, 8 * np.array([*lengths[1:], len(t_s)]), np.append(grown_s[1:], np.inf), allocator="realloc")
    return [Blocks(t_s, size, never(t_s)), array]


def fifth_of_a_megabyte(random: Random, run_s: float) -> list[Blocks]:
    t_s, size = arrivals(random, run_s, 2e5, 500, 20_000)
    return [Blocks(t_s, size, never(t_s))]


def native(random: Random, run_s: float) -> list[Blocks]:
    """malloc(4096), over and over; half as much is freed soon by the same line, in blocks of 100 bytes."""
    t_s, size = arrivals(random, run_s, 1e6, 4_096, 4_096)
    soon_s, small = arrivals(random, run_s, 5e5, 100, 100)
    return [Blocks(t_s, size, never(t_s)), Blocks(soon_s, small, soon_s + 1e-3)]


def cyclic(random: Random, run_s: float) -> list[Blocks]:
    """Objects with their dictionaries in cycles that nobody collects; the strings in between die at once."""
    t_s, size = arrivals(random, run_s, 4e5, 48, 48)
    soon_s, texts = arrivals(random, run_s, 4e6, 50, 120)
    node = Blocks(t_s, size, never(t_s), "app.Node", "pymalloc")
    attributes = Blocks(t_s, size * 2, never(t_s), "dict", "pymalloc")
    return [node, attributes, Blocks(soon_s, texts, soon_s + 1e-4, "str", "pymalloc")]


def lru_cache(random: Random, run_s: float) -> list[Blocks]:
    """Full after 2 to 60 % of the time; each new entry drops the oldest."""
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(5.5, 7), 100, 10_000)
    held = int(len(t_s) * random.uniform(0.02, 0.6))
    return [Blocks(t_s, size, np.append(t_s[held:], np.full(held, np.inf)))]


def sawtooth(random: Random, run_s: float) -> list[Blocks]:
    """A list that is cleared each 0.3 s to half of the time."""
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(5.5, 7), 100, 5_000)
    period_s = random.uniform(0.3, run_s / 2)
    phase_s = random.uniform(0, period_s)
    return [Blocks(t_s, size, phase_s + np.ceil((t_s - phase_s) / period_s) * period_s)]


def log_with_rotation(random: Random, run_s: float) -> list[Blocks]:
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(5, 6.5), 80, 400)
    turn_s = run_s * random.uniform(0.3, 0.97)
    return [Blocks(t_s, size, np.where(t_s < turn_s, turn_s, np.inf))]


def temporaries(random: Random, run_s: float) -> list[Blocks]:
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(7, 9), 100_000, 8_000_000)
    return [Blocks(t_s, size, t_s + random.uniform(1e-3, 0.5))]


def filling_cache(random: Random, run_s: float) -> list[Blocks]:
    """Results are kept less and less often, as most are known already."""
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(5.5, 7), 100, 5_000)
    is_new = random.random(len(t_s)) < np.exp(-t_s / (run_s * random.uniform(0.02, 0.2)))
    return [Blocks(t_s, size, np.where(is_new, np.inf, t_s + 1e-3))]


def start_up(random: Random, run_s: float) -> list[Blocks]:
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(6, 7), 100, 5_000)
    is_early = t_s < run_s * random.uniform(0.05, 0.5)
    return [Blocks(t_s[is_early], size[is_early], never(t_s[is_early]))]


def queue(random: Random, run_s: float) -> list[Blocks]:
    t_s, size = arrivals(random, run_s, 10 ** random.uniform(5.5, 7), 500, 20_000)
    return [Blocks(t_s, size, t_s + random.exponential(random.uniform(0.1, run_s / 3), len(t_s)))]


SEEDS = 200


@dataclass(frozen=True)
class Told:
    """What was found of programs that ran as one line each: the leaks, and the true rates (bytes/s) by line."""

    leaks: list[Leak]
    rates: dict[int, float]
    survivors: float


def told(program: Program, interval: int, tmp_path: Path, run_s: float = 25.0, seeds: int = SEEDS) -> Told:
    """Runs the program under each seed, as one line of one trace each, samples it and looks for leaks."""
    builder, process, thread = one_process(int(run_s))
    rows: dict[str, list[Any]] = {}
    rates, survivors = {}, 0
    first_s, last_s = 0.098 * run_s, 0.882 * run_s
    for seed in range(1, seeds + 1):
        random = np.random.default_rng(seed)
        stack = builder.stack((APP, f"program_{seed}", 10 * seed, 10 * seed))
        rates[10 * seed] = 0.0
        for blocks in program(random, run_s):
            is_kept = (blocks.t_s >= first_s) & (blocks.t_s < last_s) & (blocks.end_s >= 0.98 * run_s)
            rates[10 * seed] += blocks.size[is_kept].sum() / (last_s - first_s)
            is_sampled = random.random(len(blocks.t_s)) < -np.expm1(-blocks.size / interval)
            survivors += int((is_kept & is_sampled).sum())
            _append(rows, blocks, is_sampled, run_s, stack=stack)
    count = len(rows["type"])
    columns = {name: np.concatenate(values) if name != "type" else values for name, values in rows.items()}
    columns["lifetime_ns"] = Masked(columns["lifetime_ns"], columns.pop("alive"))
    columns["allocator"] = columns["allocator"].tolist()
    constant = {"process": np.int32(process), "thread": np.int32(thread), "interval_bytes": interval}
    constant |= {"life_interval_bytes": interval, "survived": 0, "at_exit": False, "python": False, "maximum": False}
    columns |= {name: np.full(count, value) for name, value in constant.items()}
    tables: dict[str, dict[str, Any]] = dict(builder.tables())
    write_trace(tmp_path / "t.parquet", TRACE_ID, [tables | {"alloc": columns}])
    return Told(build_leaks([tmp_path / "t.parquet"], Selection(), {}).rows, rates, survivors / seeds)


def _append(rows: dict[str, list[Any]], blocks: Blocks, is_sampled: Any, run_s: float, stack: int) -> None:
    t_s, size, end_s = blocks.t_s[is_sampled], blocks.size[is_sampled], blocks.end_s[is_sampled]
    is_alive = end_s >= run_s
    lifetimes = np.where(is_alive, 0, (np.where(is_alive, t_s, end_s) - t_s) * 1e9).astype(np.int64)
    columns = {"t_ns": (t_s * 1e9).astype(np.int64), "size_bytes": size, "usable_bytes": size, "lifetime_ns": lifetimes}
    columns |= {"alive": is_alive, "stack": np.full(len(t_s), stack, np.int32)}
    columns |= {"allocator": np.full(len(t_s), blocks.allocator)}
    for name, values in columns.items():
        rows.setdefault(name, []).append(values)
    rows.setdefault("type", []).extend([blocks.type] * len(t_s))


#: Leaking programs at sampling intervals; most of the time, 16 to 64 KiB is what --alloc-interval auto arrives at.
LEAKING: list[tuple[Program, int]] = [
    (one_megabyte, 16_384),
    (one_megabyte, 262_144),
    (fifth_of_a_megabyte, 16_384),
    (native, 65_536),
    (cyclic, 65_536),
]


@pytest.mark.samples
@pytest.mark.parametrize(("program", "interval"), LEAKING)
def test_leaks_are_found_with_their_rate(program: Program, interval: int, tmp_path: Path) -> None:
    found = told(program, interval, tmp_path)
    assert found.survivors >= 50
    assert len(found.leaks) >= 0.99 * SEEDS
    ratios = np.array([leak.bytes_per_s / found.rates[leak.line] for leak in found.leaks])
    errors = np.array([leak.error_bytes_per_s / leak.bytes_per_s for leak in found.leaks])
    # unbiased, and off by as much as the standard error says
    assert abs(ratios.mean() - 1) < 4 * errors.mean() / len(ratios) ** 0.5
    assert 0.8 < np.std((ratios - 1) / errors) < 1.2
    if found.survivors >= 150:
        assert np.mean(abs(ratios - 1) < 0.2) >= 0.98


@pytest.mark.samples
def test_thirty_survivors_are_enough(tmp_path: Path) -> None:
    found = told(one_megabyte, 600_000, tmp_path)
    assert 28 <= found.survivors <= 34
    assert len(found.leaks) >= 0.97 * SEEDS


INNOCENT: list[Program] = [lru_cache, sawtooth, log_with_rotation, temporaries, filling_cache, start_up, queue]


@pytest.mark.samples
@pytest.mark.parametrize("interval", [32_768, 524_288])
@pytest.mark.parametrize("program", INNOCENT)
def test_programs_without_leaks_have_none(program: Program, interval: int, tmp_path: Path) -> None:
    leaks = told(program, interval, tmp_path).leaks
    assert len(leaks) <= SEEDS // 200, [leak.line for leak in leaks]


@pytest.mark.samples
@pytest.mark.parametrize("seed", range(5))
def test_a_small_leak_is_found_under_a_large_start(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    builder, process, thread = one_process(25)
    for t_s, size in zip(*arrivals(random, 25, 2e5, 500, 20_000), strict=True):
        if random.random() < -np.expm1(-size / 16_384):
            builder.alloc(int(t_s * 1e9), process, thread, builder.stack(MAIN), int(size), interval_bytes=16_384)
    freed_s = random.uniform(0.5, 12)
    for index in range(500):
        builder.alloc(
            index * MS, process, thread, builder.stack(OTHER), 1_000_003, int(freed_s * 1e9), interval_bytes=2
        )
    builder.heap(500 * MS, process, 500_100_000)
    for second in range(1, 25):
        builder.heap(second * SECOND, process, 200_000 * second + 500_000_000 * (second < freed_s))
    (leak,) = leaks_of(builder, tmp_path)
    assert leak.line == 12
    assert leak.bytes_per_s == pytest.approx(2e5, rel=0.25)
