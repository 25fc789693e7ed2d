"""With a sample of every allocation (``--alloc-interval 1``), the trace agrees with the program to the byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build, library
from tests.support.recording import Json, Recording, analyze, json, line_of, lines_of, record, report, rows, target

EXACT = ["--alloc-interval", "1"]
GIB = 1 << 30
SCENARIOS = (
    "family",
    "resizing",
    "vector",
    "python_recursion",
    "c_recursion",
    "c_threads",
    "thread_destructors",
    "holes",
    "one_unmap_for_many",
    "fixed_over_a_mapping",
    "remapped",
    "reserved",
    "files",
    "loaded",
    "objects",
)
QUERY = """
SELECT a.t_ns, a.process, a.thread, size_bytes, usable_bytes, block_bytes, allocator, python, type, lifetime_ns,
    interval_bytes,    lifetime_ns IS NULL OR at_exit AS alive, l.file, l.line, l.function
FROM alloc_rows a LEFT JOIN stacks s ON s.trace = a.trace AND s.stack = a.stack
LEFT JOIN locations l ON l.trace = a.trace AND l.id = s.locations[1]
WHERE {where}
"""
Key = tuple[int, str, bool, int | None]


def allocations(trace: Path, where: str) -> list[Json]:
    """The rows of view ``alloc_rows`` that meet the condition, with the line that was executing."""
    done = analyze("sql", "--json", trace, QUERY.format(where=where))
    assert done.status == 0, done.stderr.decode()
    found: list[Json] = json.loads(done.stdout)["rows"]
    return found


def of_sizes(trace: Path, *sizes: int) -> list[Json]:
    """The allocations of these sizes, and the parts of mappings of these sizes."""
    wanted = ", ".join(map(str, sizes))
    return allocations(trace, f"size_bytes IN ({wanted}) OR block_bytes IN ({wanted})")


def key_of(row: Json) -> Key:
    """What tells rows apart in the truth of a program."""
    return row["size_bytes"], row["allocator"], row["python"], row["block_bytes"]


def peak(found: list[Json]) -> int:
    """The largest sum of sizes that were alive at once; what is freed at the moment of an allocation comes first."""
    events = [(row["t_ns"], row["size_bytes"]) for row in found]
    events += [
        (row["t_ns"] + row["lifetime_ns"], -row["size_bytes"]) for row in found if row["lifetime_ns"] is not None
    ]
    live = highest = 0
    for _, change in sorted(events):
        live += change
        highest = max(highest, live)
    return highest


@pytest.fixture(scope="module")
def exact(python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, list[Json]]:
    """All scenarios of ``exact.py`` in one recording, and its rows of every size that they look for."""
    folder = tmp_path_factory.mktemp("exact")
    library(folder, "constructed.c", "-DSIZE=1234577")
    program = [target("exact"), library(folder, "blocks.c")]
    done = record(folder / "t.parquet", program, python, EXACT)
    assert done.status == 0, done.stderr.decode()
    sizes = {size for told in done.facts.values() for size in told["watch"]}
    return done, of_sizes(done.trace, *sizes)


def watched(exact: tuple[Recording, list[Json]], scenario: str) -> tuple[Json, list[Json]]:
    """What a scenario says of itself, and its rows."""
    told = exact[0].facts[scenario]
    watch = set(told["watch"])
    return told, [row for row in exact[1] if watch & {row["size_bytes"], row["block_bytes"]}]


def by_key(found: list[Json], alive: bool) -> Counter[Key]:
    """Number of rows by what tells them apart; of those that are alive at the end alone, if asked."""
    return Counter(key_of(row) for row in found if row["alive"] or not alive)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_counts_bytes_peak_and_remainder_are_exact(exact: tuple[Recording, list[Json]], scenario: str) -> None:
    told, found = watched(exact, scenario)
    truth = {tuple(row[:4]): row[4:] for row in told["rows"]}
    assert by_key(found, alive=False) == {key: count for key, (count, _, _) in truth.items()}
    assert by_key(found, alive=True) == {key: alive for key, (_, alive, _) in truth.items() if alive}
    assert peak(found) == told["peak"]
    assert all(row["interval_bytes"] == 1 for row in found)
    for key, (_, _, usable) in truth.items():
        got = sum(row["usable_bytes"] for row in found if key_of(row) == key)
        assert got == usable if usable is not None else got >= sum(r["size_bytes"] for r in found if key_of(r) == key)


def test_the_program_did_what_it_is_there_for(exact: tuple[Recording, list[Json]]) -> None:
    assert exact[0].facts["resizing"]["more"] == {"in_place": True, "moved": True}


def test_each_call_is_on_its_line(exact: tuple[Recording, list[Json]]) -> None:
    _, found = watched(exact, "family")
    assert {row["allocator"]: row["line"] for row in found} == {
        row["allocator"]: line_of("exact", row["allocator"]) for row in found
    }
    assert len(found) == 9


def test_blocks_of_threads_belong_to_their_threads(exact: tuple[Recording, list[Json]]) -> None:
    _, found = watched(exact, "c_threads")
    assert set(Counter(row["thread"] for row in found).values()) == {100}
    assert len({row["thread"] for row in found}) == 100


def test_small_and_large_objects_are_there_once(exact: tuple[Recording, list[Json]]) -> None:
    """A bytes object has 33 bytes more than its length; those up to 512 come from pymalloc, in steps of 16."""
    lines = {line_of("exact", mark): mark for mark in ("bytes_100", "bytes_5000")}
    numbers = ", ".join(map(str, lines))
    found = allocations(exact[0].trace, f"l.file LIKE '%/exact.py' AND l.line IN ({numbers}) AND type = 'bytes'")
    rows = {lines[row["line"]]: row for row in found}
    assert len(found) == len(rows) == 2
    assert all(row["python"] and row["alive"] for row in found)
    small, large = rows["bytes_100"], rows["bytes_5000"]
    assert (small["allocator"], small["size_bytes"], small["usable_bytes"]) == ("pymalloc", 133, 144)
    assert (large["allocator"], large["size_bytes"]) == ("calloc", 5033)


def test_types_of_objects_are_known_and_other_blocks_have_none(
    python: Interpreter, exact: tuple[Recording, list[Json]]
) -> None:
    young = [row for row in exact[1] if row["size_bytes"] == 200_036]
    assert [(row["type"], row["line"]) for row in young] == 5 * [("bytes", line_of("exact", "died_young"))]
    assert {row["type"] for row in watched(exact, "python_recursion")[1]} == {"bytes"}
    assert {row["type"] for row in exact[1] if not row["python"]} == {None}
    where = f"l.file LIKE '%/exact.py' AND l.line = {line_of('exact', 'bytearray')} AND size_bytes > 1000"
    block = (3_000_062, "bytes") if python.version >= (3, 15) else (3_000_030, None)  # 3.15 keeps it in a bytes object
    assert [(row["size_bytes"], row["type"]) for row in allocations(exact[0].trace, where)] == [block]


def test_a_reservation_is_not_memory(exact: tuple[Recording, list[Json]]) -> None:
    heap = rows(exact[0].trace, "heap")
    assert max(heap, key=lambda row: row["t_ns"])["reserved_bytes"] == exact[0].facts["reserved"]["more"]["bytes"]
    assert max(row["footprint_bytes"] for row in heap) < GIB / 2


def test_exact_figures_of_a_report_have_no_error(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("spike")], python, EXACT)
    lines = lines_of(report(done.trace), target("spike"))
    found = {mark: lines[line_of("spike", mark)] for mark in ("stays", "spike", "after", "churn")}
    made = {"stays": 50_000_050, "spike": 400_000_042, "after": 20_000_036, "churn": 7 * 10_000_052}
    for mark, size in made.items():
        assert 0 <= found[mark]["alloc_bytes"] - size < 1000, "what the interpreter takes for the line itself is small"
        assert found[mark]["alloc_error_bytes"] == 0
    assert {mark: (row["live_at_peak_bytes"], row["live_at_end_bytes"]) for mark, row in found.items()} == {
        "stays": (50_000_050, 50_000_050),
        "spike": (400_000_042, 0),
        "after": (0, 20_000_036),
        "churn": (0, 0),
    }


def test_children_of_a_fork_do_not_end_what_their_parent_holds(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("fork_pool")], python, EXACT)
    pids = {row["process"]: row["pid"] for row in rows(done.trace, "process")}
    found = of_sizes(done.trace, 800_011, 1_200_007)
    seen = Counter((pids[row["process"]], row["size_bytes"], row["alive"]) for row in found)
    truth = Counter({(done.facts["parent"], 800_011, alive): 1 for alive in (True, False)})
    for child in done.facts["children"]:
        truth |= Counter({(child, 1_200_007, True): 3, (child, 1_200_007, False): 2})
    assert seen == truth
    wanted = {800_011: line_of("fork_pool", "parent"), 1_200_007: line_of("fork_pool", "child")}
    assert all(row["line"] == wanted[row["size_bytes"]] for row in found)


FORKS = """
import os
for child in range(4):
    kept = [bytearray(2003) for _ in range(10 + 17 * child)]
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        blocks = [bytearray(70_000 + number) for number in range(20)]
        os._exit(0)
"""


def test_the_first_allocations_of_a_forked_child_are_there(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", ["-c", FORKS], python, EXACT)
    sizes = [70_001 + number for number in range(20)]  # a bytearray has a byte more than it is asked for
    seen = Counter(row["size_bytes"] for row in rows(done.trace, "alloc"))
    assert {size: seen[size] for size in sizes} == dict.fromkeys(sizes, 4)


MANY_WAYS = """
import asyncio, os, signal, threading

def made(name):
    return type(name, (), {"__slots__": ("value",)})

Looped, Threaded, Kept, Deep, Handled, Awaited = map(made, ("Looped", "Threaded", "Kept", "Deep", "Handled", "Awaited"))

def make(kind, count):
    for _ in range(count):
        kind()

def deep(depth):
    deep(depth - 1) if depth else make(Deep, 700)

async def task():
    await asyncio.sleep(0)
    make(Awaited, 10)

async def tasks():
    await asyncio.gather(*(task() for _ in range(50)))

make(Looped, 5000)
threads = [threading.Thread(target=make, args=(Threaded, 3000)) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
kept = list(Kept() for _ in range(2000))
deep(600)
asyncio.run(tasks())
signal.signal(signal.SIGUSR1, lambda *_: make(Handled, 10))
for _ in range(20):
    os.kill(os.getpid(), signal.SIGUSR1)
for child in range(3):
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        make(Looped, 1000 + child)
        os._exit(0)
make(Looped, 111)
"""


def test_objects_are_counted_wherever_they_are_made(python: Interpreter, tmp_path: Path) -> None:
    """In loops, threads, generators, 600 calls, tasks, signal handlers and forked children, by type."""
    done = record(tmp_path / "t.parquet", ["-c", MANY_WAYS], python, EXACT)
    truth = {"Threaded": 12_000, "Kept": 2000, "Deep": 700, "Awaited": 500, "Handled": 200}
    found = allocations(done.trace, "type IN ('Looped', 'Threaded', 'Kept', 'Deep', 'Awaited', 'Handled')")
    seen = Counter(row["type"] for row in found)
    assert {name: seen[name] for name in truth} == truth
    assert sorted(Counter(row["process"] for row in found if row["type"] == "Looped").values()) == [
        1000,
        1001,
        1002,
        5111,
    ]
    assert Counter(row["alive"] for row in found if row["type"] == "Kept") == {True: 2000}


def test_short_lived_code_and_classes_keep_their_own_names(any_python: Interpreter, tmp_path: Path) -> None:
    """Their addresses are used again and again, and stacks and types are cached by address."""
    done = record(tmp_path / "t.parquet", [target("short_code"), "300"], any_python, EXACT)
    rounds, first, step = (done.facts[name] for name in ("rounds", "first", "step"))
    where = f"size_bytes BETWEEN {first} AND {first + rounds * step} AND (size_bytes - {first}) % {step} = 0"
    where += " AND l.file LIKE '%made\\_%' ESCAPE '\\'"  # the interpreter may ask for such a size too
    found = allocations(done.trace, where)
    assert Counter((row["size_bytes"], Path(row["file"]).name) for row in found) == {
        (first + step * number, f"made_{number}.py"): done.facts["blocks"] for number in range(rounds)
    }
    made = allocations(done.trace, "type LIKE 'Made_%' AND NOT alive")
    sizes = {int(row["type"].removeprefix("Made_")): row["size_bytes"] for row in made}
    assert len(made) == rounds and {size - step * number for number, size in sizes.items()} == {sizes[0]}


@pytest.mark.parametrize("way", ["linked", "preloaded"])
def test_a_constructor_that_runs_before_the_program_is_recorded(
    way: str, any_python: Interpreter, tmp_path: Path
) -> None:
    made = library(tmp_path, "constructed.c", "-DSIZE=1600009")
    trace = tmp_path / "t.parquet"
    if way == "linked":
        done = record(trace, [build(tmp_path, "uses_constructed.c", made, f"-Wl,-rpath,{tmp_path}")], options=EXACT)
    else:
        done = record(trace, ["-c", "print(1)"], any_python, EXACT, {"LD_PRELOAD": str(made)})
    assert done.stdout == b"1\n", done.stderr.decode()
    found = of_sizes(trace, 1_600_009, 1_600_011)
    processes = {row["process"] for row in found}
    assert Counter((row["size_bytes"], row["alive"]) for row in found) == {
        (1_600_009, True): len(processes),
        (1_600_011, False): len(processes),
    }
    assert len(processes) == 1
