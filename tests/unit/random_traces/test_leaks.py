"""Leak candidates and cells, growth curves, and the parts of a resident set against a second computation, on random traces."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace import queries
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from tests.support.random_allocations import ALLOCATORS, described
from tests.support.random_traces import frames_of, oracle_owner, selections, traces, within
from tests.support.trace_builder import MS, SECOND, Row, TraceBuilder

APP, TOOL, LIBRARY = "/home/me/app.py", "/home/me/tool.py", "/usr/lib/python3.12/json/decoder.py"
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load", 1, 3)
FEATURES = '["cpu", "memory", "alloc"]'
#: What a hundredth of a process's time on a line adds up to.
SUMS = ("mallocs", "frees", "kept_bytes", "kept_variance", "kept_squares", "made", "change_bytes", "alive", "age_s", "end_bytes", "end_variance")  # fmt: skip

places = st.tuples(st.sampled_from((APP, TOOL)), st.sampled_from("fg"), st.sampled_from((1, 20)), st.integers(30, 32))
moments = st.integers(0, 9 * SECOND)


@st.composite
def leaky_traces(draw: st.DrawFn) -> TraceBuilder:
    """One or two processes with runs of allocations, of which each n-th is freed; every other stack meets a library."""
    builder = TraceBuilder()
    builder.settings["features"] = FEATURES
    if draw(st.integers(0, 4)) == 4:
        del builder.settings["wall_ns"]
    inner = st.sampled_from(((), ((LIBRARY, "decode", 1, 9),)))
    outer = st.sampled_from((((APP, "<module>", 1, 40),), (), (IMPORT, (APP, "<module>", 1, 41))))
    stacks = [builder.stack(*draw(inner), draw(places), *draw(outer)) for _ in range(draw(st.integers(1, 4)))]
    some_stack = st.sampled_from([*stacks, *stacks, None])
    for index in range(draw(st.integers(1, 2))):
        start_ns, length_s = draw(st.integers(0, 2)) * SECOND * index, draw(st.sampled_from((8, 10, 12, None, 3)))
        process = builder.process(start_ns, end_ns=length_s and start_ns + length_s * SECOND)
        exit_ns = start_ns + draw(st.sampled_from((9, 11, 7, 5, 2))) * SECOND
        for thread in (builder.thread(process, cpu_ns=0) for _ in range(2)):
            for _ in range(draw(st.integers(1, 3))):
                _run(draw, builder, process, thread, draw(some_stack), (start_ns, exit_ns))
    return builder


def _run(
    draw: st.DrawFn, builder: TraceBuilder, process: int, thread: int, stack: int | None, lived: tuple[int, int]
) -> None:
    """``lived``: when the process began, and when its interpreter began to take itself apart."""
    allocator, is_python = draw(st.sampled_from(ALLOCATORS))
    interval = draw(st.sampled_from((1, 4_096, 65_536, None)))
    sizes = draw(st.sampled_from(((4_096,), (512, 513, 70_001), (24, 1_999_993))))
    columns: Row = {"allocator": allocator, "python": is_python, "type": draw(st.sampled_from((None, "dict", "list")))}
    columns |= {"interval_bytes": interval, "survived": draw(st.none() | st.just(1)), "block_bytes": None}
    columns["life_interval_bytes"] = draw(st.sampled_from((interval, interval, None)))
    first_ns, step_ns = draw(st.integers(0, SECOND)), draw(st.integers(20, 40) | st.integers(1, 40)) * 5 * MS
    nth, life_ns = draw(st.sampled_from((0, 45, 25, 2, 1))), draw(st.integers(1, 3 * SECOND))
    at_exit = draw(st.sampled_from((False, False, True)))
    for number in range(draw(st.sampled_from((60, 45, 19, 17, 1)))):
        t_ns = lived[0] + first_ns + number * step_ns
        is_freed = nth > 0 and number % nth == 0
        is_exit = is_freed and at_exit and t_ns <= lived[1]
        builder.alloc(
            t_ns, process, thread, stack, sizes[number % len(sizes)],
            lived[1] - t_ns if is_exit else life_ns if is_freed else None, at_exit=is_exit, **columns,
        )  # fmt: skip


def asked(builder: TraceBuilder, selection: Selection, *names: str) -> tuple[list[Row], ...]:
    """The rows of these queries."""
    with tempfile.TemporaryDirectory() as folder:
        path = builder.write(Path(folder) / "t.parquet")
        with open_traces([path], selection) as opened:
            return tuple(queries.rows(opened.connection, name) for name in names)


# The second computation


def judged_time(builder: TraceBuilder, selection: Selection, process: Row) -> tuple[int, int] | None:
    """From when a process is looked at, and when what is alive has survived; None = it is not judged."""
    wall = builder.settings.get("wall_ns")
    end = process["end_ns"] if process["end_ns"] is not None else wall and int(wall)
    start = max(process["t_ns"], selection.from_ns or 0)
    ends = [row["t_ns"] + row["lifetime_ns"] for row in allocations_of(builder, process) if row["at_exit"]]
    if end is None and not ends:
        return None
    if end is None and selection.to_ns is None:
        return (start, min(ends)) if min(ends) - start >= 4 * SECOND else None
    stop = min(each for each in (end, selection.to_ns) if each is not None)
    if min([stop, *ends]) - start < 4 * SECOND:
        return None
    return start, min([start + (98 * (stop - start) + 50) // 100, *ends])


def allocations_of(builder: TraceBuilder, process: Row) -> list[Row]:
    return [row for row in builder.rows.get("alloc", []) if row["process"] == process["process"]]


def lives(builder: TraceBuilder, selection: Selection) -> list[Row]:
    """The allocations that may be judged, with their line, place, and what became of them."""
    found = []
    for process in builder.rows["process"]:
        time = judged_time(builder, selection, process)
        if time is not None and process["process"] in (selection.processes or [process["process"]]):
            chosen = Selection(to_s=selection.to_s, threads=selection.threads)
            rows = map(described, within(allocations_of(builder, process), chosen))
            found += [_life(builder, row, *time) for row in rows if row["t_ns"] >= time[0]]
    return [row for row in found if row["owner"] and not row["is_import"] and row["allocator"] != "arena"]


def _life(builder: TraceBuilder, row: Row, start: int, judged: int) -> Row:
    frames, length = frames_of(builder, row["stack"]), judged - start
    owner = next((frame for frame in frames if frame[0] in (APP, TOOL)), None)
    end = row["end_ns"] if row["end_ns"] is not None and row["end_ns"] < judged else None
    is_followed = any(row[name] is not None for name in ("life_interval_bytes", "lifetime_ns", "survived"))
    return row | {
        "owner": owner and (owner[0], owner[3]),
        "function": owner and owner[1:3],
        "is_import": any(frame[0].startswith("<frozen importlib._bootstrap") for frame in frames),
        "share": (row["t_ns"] - start) / length,
        "place": min(100 * (row["t_ns"] - start) // length, 100),
        "end_place": None if end is None else 100 * (end - start) // length,
        "age_s": (judged - row["t_ns"]) / 1e9,
        "is_followed": is_followed,
        "bytes": (row["live"] or 0.0) * row["size_bytes"],
        "family": family(row),
    }


def family(row: Row) -> str:
    known = {"pymalloc": "pools", "mmap": "mapping", "mprotect": "mapping", "chunk": "frames", "arena": "arenas"}
    return known.get(row["allocator"], "python" if row["python"] else "native")


def oracle_candidates(rows: list[Row]) -> set[tuple[str, int]]:
    """The lines of which enough survived, and of which some part has few enough frees."""
    found = set()
    for owner in {row["owner"] for row in rows}:
        own = [row for row in rows if row["owner"] == owner and row["is_followed"]]
        judged = [row for row in own if 0.1 <= row["share"] < 0.9]
        survivors = [row for row in judged if row["end_place"] is None]
        late = [row for row in survivors if row["share"] >= 0.63]
        if (
            len(survivors) >= 18
            and len(late) >= 2
            and _has_kept_part([row for row in own if 0.1 <= row["share"] <= 0.9])
        ):
            found.add(owner)
    return found


def _has_kept_part(rows: list[Row]) -> bool:
    """Is there a part of a line that passes the rule of succession?"""
    keys: list[Any] = [
        lambda row: (),
        lambda row: (row["family"], row["allocator"]),
        lambda row: (row["family"], row["allocator"], row["type"]),
    ]
    parts = [part for key in keys for part in _parts(rows, key)]
    for part in _parts(rows, keys[-1]):
        classes = _parts(part, lambda row: row["size_bytes"].bit_length())
        parts.append([row for each in classes if _frees(each) <= 0.05 * len(each) for row in each])
    return any((_frees(part) + 1) / (len(part) + 2) <= 0.0501 for part in parts)


def _parts(rows: list[Row], key: Any) -> list[list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())


def _frees(rows: list[Row]) -> int:
    return sum(row["end_place"] is not None for row in rows)


def oracle_cells(rows: list[Row], candidates: set[tuple[str, int]]) -> dict[Any, dict[str, float]]:
    """The sums of every cell; frees are where they happened."""
    cells: dict[Any, dict[str, float]] = defaultdict(lambda: dict.fromkeys(SUMS, 0.0))
    for row in rows:
        if row["owner"] in candidates:
            key = (*row["owner"], *row["function"], row["family"], row["allocator"], row["type"])
            key += (row["size_bytes"].bit_length() - 1, row["process"])
            _count(cells[*key, row["place"]], row)
            if row["end_place"] is not None:
                cells[*key, row["end_place"]]["change_bytes"] -= row["bytes"]
    return cells


def _count(cell: dict[str, float], row: Row) -> None:
    is_judged, is_alive = row["is_followed"] and 10 <= row["place"] < 90, row["end_place"] is None
    count = (row["live"] or 0.0) / row["parts"]
    variance = row["bytes"] * max((row["live"] or 0.0) - 1, 0.0) * row["size_bytes"] * row["parts"]
    cell["change_bytes"] += row["bytes"]
    cell["end_bytes"] += row["bytes"] * (row["end_ns"] is None)
    cell["end_variance"] += variance * (row["end_ns"] is None)
    cell["mallocs"] += is_judged
    cell["frees"] += is_judged and not is_alive
    cell["made"] += is_judged * count
    if is_alive and row["place"] < 100:
        cell["alive"] += count
        cell["age_s"] += count * row["age_s"]
    if is_judged and is_alive:
        cell["kept_bytes"] += row["bytes"]
        cell["kept_squares"] += row["bytes"] ** 2
        cell["kept_variance"] += variance


@given(leaky_traces(), st.just(Selection()) | selections)
def test_leak_candidates_and_cells_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    candidates, cells = asked(builder, selection, "leak_candidates", "leak_cells")
    rows = lives(builder, selection)
    expected = oracle_candidates(rows)
    event(f"{len(expected)} candidates")
    assert {(row["file"], row["line"]) for row in candidates} == expected
    wanted = oracle_cells(rows, expected)
    found: dict[Any, dict[str, float]] = defaultdict(lambda: dict.fromkeys(SUMS, 0.0))
    keys = ("file", "line", "function", "first_line", "family", "allocator", "type", "size_class", "process", "place")
    for cell in cells:
        for name in SUMS:
            found[tuple(cell[key] for key in keys)][name] += cell[name]
    assert set(found) == set(wanted)
    for key, sums in wanted.items():
        for name in SUMS:
            assert found[key][name] == pytest.approx(sums[name], rel=1e-9, abs=1e-3), (key, name)


def test_a_line_that_keeps_all_but_one_is_a_candidate_of_the_second_computation_too() -> None:
    builder = TraceBuilder()
    builder.settings["features"] = FEATURES
    process = builder.process(end_ns=10 * SECOND)
    thread, stack = builder.thread(process, cpu_ns=0), builder.stack((APP, "f", 1, 30))
    for number in range(45):
        life_ns = SECOND if number == 0 else None
        builder.alloc(number * 200 * MS, process, thread, stack, 4_096, life_ns, block_bytes=None, type=None)
    rows = lives(builder, Selection())
    assert oracle_candidates(rows) == {(APP, 30)} and len(oracle_cells(rows, {(APP, 30)})) == 45


@given(traces(), selections)
def test_growth_curves_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    (rows,) = asked(builder, selection, "line_trends")
    expected = []
    for sample in within(builder.rows.get("memory", []), selection):
        owner = oracle_owner(builder, sample["stack"])
        if owner is not None:
            expected.append((*owner, sample["t_ns"], sample["net_bytes"]))
    assert sorted((row["file"], row["line"], row["t_ns"], row["net_bytes"]) for row in rows) == sorted(expected)
    assert [row["t_ns"] for row in rows] == sorted(row["t_ns"] for row in rows)
    assert all(row["of_line"] and row["of_function"] for row in rows), "there is but one trace"
    frames = {(frame[0], frame[1], frame[2], frame[3] or frame[2]) for s in builder.stack_ids.values() for frame in frames_of(builder, s)}  # fmt: skip
    assert {(row["file"], row["function"], row["first_line"], row["line"]) for row in rows} <= frames


@given(traces(), selections)
def test_a_lines_curve_ends_at_its_growth_and_keeps_its_peak(builder: TraceBuilder, selection: Selection) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = build_report([builder.write(Path(folder) / "t.parquet")], selection)
    for line in report.lines:
        own = [
            row for row in within(builder.rows.get("memory", []), selection)
            if oracle_owner(builder, row["stack"]) == (line.file, line.line)
        ]  # fmt: skip
        levels, level = [0], 0
        for row in sorted(own, key=lambda row: row["t_ns"]):
            level += row["net_bytes"]
            levels.append(level)
        if line.trend and len({row["t_ns"] for row in own}) == len(own):
            assert line.trend[-1][1] == levels[-1]
            assert max(0, *(size for _, size in line.trend)) == max(levels)


@given(st.lists(traces(), min_size=2, max_size=3), selections)
def test_of_several_traces_a_curve_is_that_of_the_one_with_the_greatest_change(
    builders: list[TraceBuilder], selection: Selection
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [builder.write(Path(folder) / f"{number}.parquet") for number, builder in enumerate(builders)]
        report = build_report(paths, selection)
    changes: defaultdict[Any, list[int]] = defaultdict(list)
    for builder in builders:
        by_key: defaultdict[Any, int] = defaultdict(int)
        for sample in within(builder.rows.get("memory", []), selection):
            if (owner := oracle_owner(builder, sample["stack"])) is not None:
                frame = next(each for each in frames_of(builder, sample["stack"]) if each[0] == owner[0])
                by_key[owner] += sample["net_bytes"]
                by_key[frame[:3]] += sample["net_bytes"]
        for key, change in by_key.items():
            changes[key].append(change)
    shown = {(line.file, line.line): line.trend for line in report.lines}
    shown |= {(each.file, each.function, each.first_line): each.trend for each in report.functions}
    for key, trend in shown.items():
        assert [points[1] for points in (trend or [])[-1:]] == [max(each, key=abs) for each in [changes[key]] if each]


def test_a_curve_that_falls_counts_like_one_that_rises_and_the_first_of_equals_is_shown(tmp_path: Path) -> None:
    paths = []
    for number, changes in enumerate(((5, 7, 1), (-9, -7, 2))):
        builder = TraceBuilder()
        builder.settings["features"] = FEATURES
        process = builder.process(end_ns=10 * SECOND)
        thread = builder.thread(process, cpu_ns=0)
        for line, change in enumerate(changes, start=11):
            builder.memory(
                line * SECOND // 2, process, thread, builder.stack((APP, f"f{line}", line, line)), change, 100
            )
        paths.append(builder.write(tmp_path / f"{number}.parquet"))
    report = build_report(paths, Selection())
    assert {line.line: line.trend[-1][1] for line in report.lines if line.trend} == {11: -9, 12: 7, 13: 2}
    assert {each.function: each.trend[-1][1] for each in report.functions if each.trend} == {
        "f11": -9,
        "f12": 7,
        "f13": 2,
    }


# The resident set and its parts


@st.composite
def resident_traces(draw: st.DrawFn) -> TraceBuilder:
    """Up to four processes, some gone early, with readings of the resident set and of the heap."""
    builder = TraceBuilder()
    for index in range(draw(st.integers(1, 4))):
        start_ns = draw(st.integers(0, 3 * SECOND)) if index else 0
        end_ns = draw(st.none() | st.integers(start_ns, 11 * SECOND))
        process = builder.process(start_ns, end_ns=end_ns)
        last_ns = 10 * SECOND if end_ns is None else end_ns - 1
        shared = draw(st.sampled_from((None, 0, 7_000_003)))
        for t_ns in draw(st.lists(st.integers(start_ns, max(last_ns, start_ns)), max_size=6, unique=True)):
            rss = draw(st.integers(0, 3)) * 10_000_019
            builder.add("rss", t_ns=t_ns, process=process, rss_bytes=rss, shared_bytes=shared)
        near_end = st.integers(max(last_ns - 15 * MS, start_ns), max(last_ns, start_ns))
        told = st.one_of(st.integers(start_ns, max(last_ns, start_ns)), near_end)
        for t_ns in draw(st.lists(told, max_size=5, unique=True)):
            _heap(draw, builder, t_ns, process)
    return builder


def _heap(draw: st.DrawFn, builder: TraceBuilder, t_ns: int, process: int) -> None:
    """Parts that may contradict each other, as counters read one after the other do."""
    size = st.integers(0, 50_000_000)
    names = ("python", "mapped", "untouched", "reserved", "arena", "pool")
    shared = draw(st.none() | size)
    builder.heap(t_ns, process, draw(size), shared_mapped=shared, **{name: draw(size) for name in names})


def oracle_reconciliation(builder: TraceBuilder, selection: Selection) -> list[Row]:
    """Peak and end of the resident set, with its parts."""
    ends = [row["end_ns"] for row in builder.rows["process"] if row["end_ns"] is not None]
    last_end = max(ends, default=None)
    chosen = [r for r in builder.rows["process"] if r["process"] in (selection.processes or [r["process"]])]
    times = {row["t_ns"] for row in builder.rows.get("rss", []) if row["process"] in {r["process"] for r in chosen}}
    times |= {row["end_ns"] for row in chosen if row["end_ns"] is not None and row["end_ns"] < (last_end or 0)}
    start, stop = selection.from_ns or 0, selection.to_ns or 10**18
    levels = {
        t: sum(r["rss_bytes"] for r, _ in _readings(builder, chosen, t, last_end)) for t in times if start <= t < stop
    }
    known = {t_ns: level for t_ns, level in levels.items() if level > 0}
    if not known:
        return []
    peak_ns = min(known, key=lambda t_ns: (-known[t_ns], t_ns))
    return [
        _parts_at(builder, chosen, moment, t_ns, last_end) for moment, t_ns in (("peak", peak_ns), ("end", max(known)))
    ]


def _readings(builder: TraceBuilder, chosen: list[Row], t_ns: int, last_end: int | None) -> list[tuple[Row, Row]]:
    """The last reading of each process that is there, and the process."""
    found = []
    for process in chosen:
        is_there = process["end_ns"] is None or process["end_ns"] > t_ns or process["end_ns"] == last_end
        own = [r for r in builder.rows.get("rss", []) if r["process"] == process["process"] and r["t_ns"] <= t_ns]
        if is_there and process["t_ns"] <= t_ns and own:
            found.append((max(own, key=lambda row: row["t_ns"]), process))
    return found


def _parts_at(builder: TraceBuilder, chosen: list[Row], moment: str, t_ns: int, last_end: int | None) -> Row:
    sums: Row = defaultdict(int, moment=moment, t_s=t_ns / 1e9, shared_bytes=None)
    unknown = False
    for reading, process in _readings(builder, chosen, t_ns, last_end):
        sums["processes"] += 1
        sums["rss_bytes"] += reading["rss_bytes"]
        if reading["shared_bytes"] is not None:
            sums["shared_bytes"] = (sums["shared_bytes"] or 0) + reading["shared_bytes"]
        heap = _closest(builder, process, reading["t_ns"])
        if heap:
            sums["pool_bytes"] += heap["pool_bytes"]
            sums["python_bytes"] += max(heap["python_bytes"] - heap["pool_bytes"], 0)
            sums["native_bytes"] += max(heap["footprint_bytes"] - heap["python_bytes"] - heap["mapped_bytes"], 0)
            shared, in_files = heap["shared_mapped_bytes"], reading["shared_bytes"]
            own = heap["mapped_bytes"] - heap["untouched_bytes"] - ((shared or 0) if in_files is not None else 0)
            sums["mapped_bytes"] += max(own, 0)
            unknown |= shared is None
            sums["shared_mapped_bytes"] += 0 if shared is None or in_files is None else min(shared, in_files)
            sums["unused_bytes"] += max(heap["arena_bytes"] - heap["pool_bytes"], 0)
            sums["reserved_bytes"] += heap["reserved_bytes"]
    if unknown:
        sums["shared_mapped_bytes"] = None
    return sums


def _closest(builder: TraceBuilder, process: Row, read_ns: int) -> Row | None:
    """Of what the process reported last before the reading, first after it, and last before it outside its last 10 ms: with
    a like footprint, before its last 10 ms, and the closest, in this order."""
    told = [row for row in builder.rows.get("heap", []) if row["process"] == process["process"]]
    memory = [row for row in builder.rows.get("memory", []) if row["process"] == process["process"]]
    before = [row for row in [*told, *memory] if row["t_ns"] <= read_ns]
    held = max(before, key=lambda row: row["t_ns"])["footprint_bytes"] if before else None
    end_ns = process["end_ns"] if process["end_ns"] is not None else math.inf
    step = int(builder.settings["memory_threshold_bytes"])

    def badness(row: Row) -> tuple[bool, bool, int, int]:
        is_other = held is not None and abs(row["footprint_bytes"] - held) > step
        return is_other, row["t_ns"] > end_ns - 10 * MS, abs(row["t_ns"] - read_ns), row["t_ns"]

    early = [row["t_ns"] for row in told if row["t_ns"] <= read_ns]
    late = [row["t_ns"] for row in told if row["t_ns"] > read_ns]
    running = [t_ns for t_ns in early if t_ns <= end_ns - 10 * MS]
    times = {max(early, default=None), min(late, default=None), max(running, default=None)}
    return min((row for row in told if row["t_ns"] in times), key=badness, default=None)


@given(resident_traces(), selections)
def test_the_parts_of_the_resident_set_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    (rows,) = asked(builder, selection, "reconciliation")
    expected = oracle_reconciliation(builder, selection)
    assert [row["moment"] for row in rows] == [row["moment"] for row in expected]
    for row, sums in zip(rows, expected, strict=True):
        assert row == {name: sums[name] for name in row}
