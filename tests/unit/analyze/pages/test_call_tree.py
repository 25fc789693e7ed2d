"""The call tree of a page: that its numbers in arrays are what a plain loop over stacks finds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scalene_trace.analyze.html import calls, series
from scalene_trace.analyze.html.bins import Bins
from scalene_trace.analyze.trace.native import NativeFrames
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import REPORT_TABLES, open_traces
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP, LIB = "/home/me/app.py", "/usr/lib/python3.12/queue.py"
CUT = "[outer frames not recorded]"
#: Numbers that differ in their first, a middle, the last or no byte.
NUMBERS = st.sampled_from([1, 2, 255, 256, 257, 65_536, 2**24, 2**31, 2**32 - 1])
Frames = tuple[int, ...]


@given(st.lists(st.lists(NUMBERS, max_size=6).map(tuple), max_size=30))
def test_paths_share_the_nodes_of_what_they_begin_with(stacks: list[Frames]) -> None:
    parents, numbers, ends = calls.tree([calls.path_of(each) for each in stacks])
    shown = [tuple(walked(int(end), parents.tolist(), numbers.tolist())) for end in ends]
    assert shown == stacks
    begins = {each[:length] for each in stacks for length in range(1, len(each) + 1)}
    # depth-first order is that of the sorted beginnings
    assert [tuple(walked(node, parents.tolist(), numbers.tolist())) for node in range(1, len(parents))] == sorted(
        begins
    )
    assert parents[0] == calls.NONE and numbers[0] == 0


def walked(node: int, parents: Sequence[int], numbers: Sequence[int]) -> Iterator[int]:
    """The numbers from the outermost call to ``node``."""
    if node > 0:
        yield from walked(parents[node], parents, numbers)
        yield numbers[node]


@given(st.lists(st.lists(st.integers(1, 9), max_size=4).map(tuple), max_size=20), st.randoms(use_true_random=False))
def test_only_locations_that_occur_remain(stacks: list[Frames], random_: random.Random) -> None:
    names: list[calls.Location] = [(None, str(number), 0, 0) for number in range(1, 10)]
    keys = random_.sample(range(-100, 100), len(stacks))
    ends = series.Index.of_pairs(np.array(keys, np.int64), np.arange(len(keys)))
    made = calls.joined([calls.path_of(each) for each in stacks], ends, names, 3)
    assert {each[1] for each in made.locations} == {str(number) for each in stacks for number in each}
    assert [shown(made, key) for key in keys] == [[str(number) for number in each] for each in stacks]
    assert made.short == 3 and made.places[0] == calls.NONE


def shown(made: calls.Calls, key: int) -> list[str | None]:
    """The functions on the stack of a key."""
    (node,) = made.nodes.of(np.array([key])).tolist()
    places = (place for place in walked(node, made.parents.tolist(), made.places.tolist()))
    return [made.locations[place][1] for place in places]


#: Keys that are close to each other, and far.
KEYS = st.integers(-5, 9) | st.integers(-(2**62), 2**62 - 1)


@given(st.dictionaries(KEYS, st.integers(0, 9), max_size=9), st.lists(KEYS, max_size=9))
@example({-5: 1, 9: 2, 0: 3, 2: 4}, [-6, 10, 3, 2**62])  # a table
def test_an_index_is_a_dictionary_in_arrays(numbers: dict[int, int], others: list[int]) -> None:
    index = series.Index.of_pairs(np.array([*numbers], np.int64), np.array([*numbers.values()], np.int64))
    asked = [*numbers, *others]
    assert index.of(np.array(asked, np.int64), 7).tolist() == [numbers.get(each, 7) for each in asked]


@given(st.lists(st.lists(st.tuples(st.integers(-1, 6), st.integers(-9, 9)), max_size=20), min_size=1, max_size=3))
def test_keys_are_in_order_of_their_largest_share(tables: list[list[tuple[int, int]]]) -> None:
    costs: dict[int, float] = {}
    for table in tables:
        sums: dict[int, int] = {}
        for key, value in table:
            sums[key] = sums.get(key, 0) + abs(value)
        for key, value in sums.items():
            costs[key] = max(costs.get(key, 0), value / (sum(sums.values()) or 1))
    costs.pop(-1, None)
    made = [figures([key for key, _ in table], [value for _, value in table]) for table in tables]
    keys, order = calls.by_cost(made)
    assert keys.tolist() == sorted(costs)
    assert keys[order].tolist() == sorted(costs, key=lambda key: (-costs[key], key))


def test_keys_of_one_cost_are_in_their_own_order() -> None:
    keys = random.Random(1).sample(range(10_000), 2_000)
    distinct, order = calls.by_cost([figures(keys, [1.0 + key % 3 for key in keys])])
    assert distinct[order].tolist() == sorted(keys, key=lambda key: (-(key % 3), key))


def figures(keys: list[int], values: list[float]) -> series.BinnedFigures:
    """Figures in one bin."""
    rows = np.array(keys, np.int64)
    return series.BinnedFigures(rows, np.zeros_like(rows), {"x": np.array(values, float)})


def random_trace(path: Path, seed: int) -> Path:
    """Stacks of any depth in the user's files and others, some cut, some with unknown frames, with and without natives."""
    random_, builder = random.Random(seed), TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, SECOND)
    builder.add("module", id=1, path="/x/fast.so", **{"class": "extension"})
    for native in range(1, 7):
        parent = random_.choice([None, *range(1, native)])
        builder.add("native", id=native, parent=parent, module=1, offset=16 * native, gap=False)
        builder.add("symbol", module=1, start_offset=16 * native, end_offset=16 * native + 1, name=f"native_{native}")
    stacks: list[int | None] = [None]
    for _ in range(40):
        depth = random_.choice([0, 1, 2, 3, 9])
        places = [(random_.choice([APP, LIB, LIB]), random_.choice("fgh")) for _ in range(depth)]
        stacks.append(builder.stack(*((file, name, 1, random_.randrange(1, 4)) for file, name in places)))
    for row in builder.rows["stack"]:
        row["truncated"] = random_.random() < 0.2
        row["locations"] = [each if random_.random() < 0.9 else 999 for each in row["locations"]] or None
    for t_ns in range(MS, 400 * MS, MS):
        called = {"native": random_.choice([None, *range(1, 7)]), "pc_class": "interpreter", "opcode": "CALL"}
        builder.tick(t_ns, process, thread, random_.choice(stacks), **called | {"vectorcall": True, "pc_module": 1})
    return builder.write(path)


@pytest.mark.parametrize("most", [0, 1, 12, 1_000])
@pytest.mark.parametrize("seed", range(3))
def test_stacks_keep_their_frames_or_the_line_that_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(series, "MAX_STACKS", most)
    with open_traces([random_trace(tmp_path / "t.parquet", seed)], Selection(), REPORT_TABLES) as traces:
        tables, _ = series.cpu_and_wait_figures(traces.connection, Bins(0, SECOND, 1))
        made = calls.calls_of(traces.connection, tables)
        execute = traces.connection.execute
        places = {
            each: (file, name) for each, file, name in execute("SELECT id, file, function FROM locations").fetchall()
        }
        rows = execute("SELECT stack, truncated, locations FROM stacks").fetchall()
        natives = NativeFrames(traces.connection)
    stacks: dict[int, list[tuple[str | None, str]]] = {
        stack: [(None, CUT)] * is_cut + [places[each] for each in reversed(frames or []) if each in places]
        for stack, is_cut, frames in rows
    }
    distinct, order = calls.by_cost(tables)
    keys = distinct[order].tolist()
    whole = list(dict.fromkeys(key & series.STACK_MASK for key in keys))[:most]
    for number, key in enumerate(keys):
        stack, native = key & series.STACK_MASK, key >> series.NATIVE_SHIFT
        frames = stacks.get(stack, [])
        if stack not in whole:
            frames = [each for each in frames if each[0] == APP][-1:] or frames[-1:]
        below = [name for name, _ in natives.called(native)] if number < most and native else []
        assert shown(made, key) == [name for _, name in frames] + below, (number, key)
    assert made.short == len({key & series.STACK_MASK for key in keys} & stacks.keys() - set(whole))
    assert any(key >> series.NATIVE_SHIFT for key in keys) and any(
        each[:1] == [(None, CUT)] for each in stacks.values()
    )
