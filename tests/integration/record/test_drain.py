"""Long recordings: the spool is drained while the program runs, and converted in batches."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pytest

from scalene_trace.formats.dataclass import asdict
from scalene_trace.formats.spool.chunks import CHUNK_BYTES, CHUNK_SLOTS, SLOT_BYTES, Offers, part_chunks
from scalene_trace.formats.spool.layout import ffi, struct_dtype
from scalene_trace.formats.spool.reader import Spool, read_records
from scalene_trace.formats.trace.writer import write_trace
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from scalene_trace.recorder.folder.files import FACTS_NAME
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool import drain as drain_module
from scalene_trace.recorder.spool import spool_file
from scalene_trace.recorder.spool.drain import Drain
from scalene_trace.recorder.spool.spool_file import FULL_AHEAD, SpoolFile
from tests.support.conversion import facts, rows, with_stack
from tests.support.interpreters import Interpreter
from tests.support.recording import environment, record, run, target, tool
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder
from tests.support.spool_writer import NAMESPACE, C, Writer, ticks_of, turn


@pytest.fixture
def space(tmp_path: Path) -> SpoolFile:
    made = SpoolFile(tmp_path / "spool", Settings())
    made.offer_ahead()
    return made


@pytest.fixture
def drain(space: SpoolFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drain:
    monkeypatch.setattr(drain_module, "FEWEST_CHUNKS", 0)
    monkeypatch.setattr(drain_module, "_RETRY_S", 0.0)
    return Drain(space, tmp_path / "spool")


LITTLE_ROOM = 300


@pytest.fixture
def drain_with_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SpoolFile, Drain]:
    """A spool of few chunks, and its drain."""
    monkeypatch.setattr(spool_file, "most_chunks", lambda: LITTLE_ROOM)
    space = SpoolFile(tmp_path / "spool", Settings())
    space.offer_ahead()
    return space, Drain(space, tmp_path / "spool")


def test_chunks_are_drained_and_offered_again(space: SpoolFile, drain: Drain, tmp_path: Path) -> None:
    writer = Writer(space)
    for _ in range(20):
        for _ in range(60):
            writer.fill()
        while len(space.in_use) > 0 or space.header.offered - space.header.taken < 100:
            turn(space, drain)
    assert space.header.offered >= 1_200 and space.header.chunks_used < 2 * FULL_AHEAD
    assert space.failures == 0
    drain.close()
    assert ticks_of(space, tmp_path) == list(range(1_200 * (CHUNK_SLOTS - 1)))
    size = sum(path.stat().st_size for path in tmp_path.glob("spool.part*"))
    assert 0 < size < 1_200 * CHUNK_BYTES / 3
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_few_chunks_stay_in_the_spool(space: SpoolFile, tmp_path: Path) -> None:
    drain, writer = Drain(space, tmp_path / "spool"), Writer(space)
    for _ in range(drain_module.FEWEST_CHUNKS - 1):
        writer.fill()
    turn(space, drain)
    assert drain.parts == 0
    writer.fill()
    turn(space, drain)
    assert drain.parts == 1


def test_chunks_with_every_allocation_stay_longer_and_are_not_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "FEWEST_EXACT_CHUNKS", fewest := drain_module.FEWEST_CHUNKS + 10)
    monkeypatch.setattr(drain_module, "_PLENTY_BYTES", 0)
    space = SpoolFile(tmp_path / "spool", Settings(alloc_interval_bytes=1))
    space.offer_ahead()
    drain, writer = Drain(space, tmp_path / "spool"), Writer(space)
    for _ in range(fewest - 1):
        writer.fill()
    turn(space, drain)
    assert drain.parts == 0
    writer.fill()
    turn(space, drain)
    drain.close()
    size, drained = sum(path.stat().st_size for path in tmp_path.glob("spool.part*")), fewest - len(space.in_use)
    assert size > drained * (CHUNK_BYTES - SLOT_BYTES) > 0


def test_on_a_small_disk_they_do_not_stay_and_are_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "_PLENTY_BYTES", 1 << 60)
    space = SpoolFile(tmp_path / "spool", Settings(alloc_interval_bytes=1))
    space.offer_ahead()
    drain, writer = Drain(space, tmp_path / "spool"), Writer(space)
    for _ in range(drain_module.FEWEST_CHUNKS):
        writer.fill()
    turn(space, drain)
    drain.close()
    size = sum(path.stat().st_size for path in tmp_path.glob("spool.part*"))
    assert 0 < size < (drain_module.FEWEST_CHUNKS - len(space.in_use)) * CHUNK_BYTES / 3


def test_a_turn_offers_chunks_while_it_drains(
    space: SpoolFile, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that records every allocation takes hundreds of chunks in the time of a turn."""
    writer, store = Writer(space), drain._store
    taken_in_turn = iter([FULL_AHEAD - 70])

    def store_slowly(process: int, offer: int, slots: bytes) -> bool:
        for _ in range(next(taken_in_turn, 0)):
            writer.fill()
        return store(process, offer, slots)

    monkeypatch.setattr(drain, "_store", store_slowly)
    for _ in range(65):
        writer.fill()
    space.notice_taken()
    drain.turn()
    assert space.header.offered - space.header.taken >= FULL_AHEAD // 2
    assert sorted(space.notice_taken()) == list(range(65, FULL_AHEAD - 5)) and len(space.in_use) <= FULL_AHEAD - 5
    while space.in_use:
        turn(space, drain)
    drain.close()
    assert ticks_of(space, tmp_path) == list(range((FULL_AHEAD - 5) * (CHUNK_SLOTS - 1)))


def test_a_chunk_with_an_unfinished_record_waits_for_it(space: SpoolFile, drain: Drain, tmp_path: Path) -> None:
    writer = Writer(space)
    slot = writer.fill(unfinished=700)
    other = writer.fill(closed=False, count=10)
    for _ in range(3):
        turn(space, drain)
    assert set(space.in_use) == {slot, other} and drain.parts == 0
    writer.publish(slot, 700)
    for _ in range(3):
        turn(space, drain)
    assert set(space.in_use) == {other} and drain.parts == 1
    assert ticks_of(space, tmp_path) == list(range(CHUNK_SLOTS - 1 + 10))


def dead_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_dead_process_left_is_drained_as_far_as_it_was_written(
    space: SpoolFile, drain: Drain, tmp_path: Path
) -> None:
    pid = dead_pid()
    Writer(space, pid=pid).fill(closed=False, count=10, unfinished=4)
    elsewhere = Writer(space, process=2, pid=pid, namespace=NAMESPACE + 1).fill(closed=False, count=5)
    nowhere = Writer(space, process=3, pid=pid, namespace=0).fill(closed=False, count=5)
    for _ in range(3):
        turn(space, drain)
    assert set(space.in_use) == {elsewhere, nowhere}, "a pid of another namespace says nothing"
    assert len(ticks_of(space, tmp_path)) == 9 + 5 + 5


@pytest.mark.parametrize("by_cut", [False, True])
def test_what_a_process_publishes_just_before_its_end_is_drained(
    by_cut: bool, space: SpoolFile, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, copies = Writer(space), tmp_path / "spool.part00009"
    slot = writer.fill(unfinished=700)

    def dies(_: object) -> bool:
        writer.publish(slot, 700)
        return True

    monkeypatch.setattr(drain, "_is_dead", dies)
    if by_cut:
        space.notice_taken()
        drain.cut(copies, lambda: 2**62, lambda *_: None)
        assert set(drain.skipped.values()) == {CHUNK_SLOTS - 1}
        space.release(slot)
    else:
        turn(space, drain)
        drain.close()
    assert ticks_of(space, tmp_path) == list(range(CHUNK_SLOTS - 1))


def test_a_cut_copies_what_its_records_refer_to_from_behind_it(space: SpoolFile, drain: Drain, tmp_path: Path) -> None:
    """One thread writes the frame of a stack between two of its own records, of which one is younger than the cut; another
    thread's record of before the cut may refer to it."""
    before, beside = Writer(space), Writer(space)
    before.fill(count=3, closed=False)
    beside.number = 1000
    slot = beside.fill(count=4, closed=False)
    node = ffi().new("struct record_node *", {"head": C["RECORD_NODE"] | 1 << 16, "hash": 7})
    os.pwrite(space.descriptor, bytes(ffi().buffer(node)), beside.offset(slot) + 2 * SLOT_BYTES)
    space.notice_taken()
    until_ns = int(space.header.start_mono_ns) + 500
    drain.cut(tmp_path / "copies", lambda: until_ns, lambda *_: None)
    found = read_records([chunk for chunk, _ in part_chunks(tmp_path / "copies", 0, 1 << 20, Offers())])
    assert len(found.bulk["tick"].records) == 3
    assert found.bulk["node"].records["hash"].tolist() == [7]
    assert list(drain.skipped.values()) == [3], "what comes later has it too"


def test_a_full_disk_loses_nothing_that_was_written(
    space: SpoolFile, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, real, room = Writer(space), os.pwrite, 30_000

    def limited(descriptor: int, data: bytes, offset: int) -> int:
        if descriptor == space.descriptor:
            return real(descriptor, data, offset)
        if offset >= room:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: room - offset], offset)

    monkeypatch.setattr(drain_module.os, "pwrite", limited)
    for _ in range(50):
        writer.fill()
    for _ in range(100):
        turn(space, drain)
    assert 0 < len(space.in_use) < 50
    assert ticks_of(space, tmp_path) == list(range(50 * (CHUNK_SLOTS - 1)))
    room = 10**9
    while space.in_use:
        turn(space, drain)
    assert ticks_of(space, tmp_path) == list(range(50 * (CHUNK_SLOTS - 1)))


# ---- snapshots ----


def test_draining_goes_on_while_a_snapshot_is_read(
    tmp_path: Path, drain_with_little_room: tuple[SpoolFile, Drain]
) -> None:
    """The program writes three times what the spool holds during two passes over the recording. Both see the chunks that
    the recording had at first, and the rest is there in the end."""
    space, drain = drain_with_little_room
    writer = Writer(space)

    def write(chunks: int) -> None:
        for _ in range(chunks):
            while space.header.offered - space.header.taken < 2:
                turn(space, drain)
            writer.fill()
        turn(space, drain)

    write(300)
    still_open = writer.fill(closed=False, count=10)
    space.notice_taken()
    seen, switch_s = writer.number, sys.getswitchinterval()
    with drain.pinned() as view:
        spool = Spool(tmp_path / "spool", view=view)
        for _ in range(2):
            found = []
            for batch in spool.batches():
                found.append(batch.bulk["tick"].records["t_ns"] - space.header.start_mono_ns)
                with drain.pinned():  # by another thread, which looks ahead
                    assert sys.getswitchinterval() < switch_s
                write(100)
            assert np.array_equal(np.sort(np.concatenate(found)), np.arange(seen))
    assert sys.getswitchinterval() == switch_s
    assert writer.number > seen + 3 * LITTLE_ROOM * (CHUNK_SLOTS - 1)
    for _ in range(20):
        turn(space, drain)
    assert still_open in space.in_use and len(space.in_use) < drain_module.FEWEST_CHUNKS
    assert ticks_of(space, tmp_path) == list(range(writer.number))


# ---- conversion in batches ----


#: Kinds of samples, and a field of each that holds a size.
SAMPLE_SIZES = {
    "copy": "bytes",
    "memory": "net_bytes",
    "heap": "footprint_bytes",
    "tick": "user_ns",
    "gc": "collected",
}


def long_recording(seed: int) -> SpoolBuilder:
    """Two processes over many small chunks: allocations that are named, freed in parts or whole, now and then a chunk
    before they are said to begin, or never; and samples of all other kinds."""
    rng = np.random.default_rng(seed)
    builder = with_stack(SpoolBuilder().start(1).start(2, cause=C["CAUSE_FORK"], parent=1))
    builder.type(5, b"dict").type(6, b"list")
    lives = {process: lives_of(2 * process, rng, 300) for process in (1, 2)}
    for at in range(60):
        process = 1 + at % 2
        found = [(kind, fields) for when, kind, fields in lives[process] if when == at // 2]
        found += [(kind, each) for kind in SAMPLE_SIZES for each in samples(kind, 2 * process, at, rng)]
        builder.new_chunk(process)
        for kind, fields in found:
            builder.add(kind, process, **fields)
    return builder


def lives_of(thread: int, rng: np.random.Generator, count: int) -> list[tuple[int, str, dict[str, int]]]:
    """Records of ``count`` allocations, each with the chunk and the kind that it belongs to."""
    found = []
    for number in range(1, count + 1):
        begin = int(rng.integers(0, 30))
        end = min(begin + int(rng.choice([-1, 0, 1, 10, 100])), 100)
        common = {"id": number, "thread": thread, "stack": int(rng.choice([10, 20]))}
        size = {"size_bytes": int(rng.integers(1, 5_000)), "interval_bytes": int(rng.choice([1, 4096]))}
        t_ns = {"t_ns": START_MONO_NS + 1000 * begin + number}
        found.append((begin, "alloc", common | t_ns | size | {"usable_bytes": size["size_bytes"] + 7}))
        if begin < end:
            found.append((int(rng.integers(begin, end)), "note", note(number, rng)))
        for when in sorted(rng.integers(begin, max(begin, end) + 1, int(rng.integers(0, 3)) * (begin <= end)).tolist()):
            part = {"flags": C["FREE_PART"], "bytes": int(rng.integers(1, 600))}
            found.append((when, "free", common | part | {"t_ns": START_MONO_NS + 1000 * when + 500}))
        found.append((max(end, 0), "free", common | {"t_ns": START_MONO_NS + 1000 * max(end, begin) + 900}))
    return found


def note(number: int, rng: np.random.Generator) -> dict[str, int]:
    """What becomes known of an allocation: its type, and that it stands for more."""
    flags = C["NOTE_TYPE"] | C["NOTE_THINNED"] * int(rng.integers(0, 2))
    return {"id": number, "flags": flags, "type": int(rng.choice([5, 6])), "interval_bytes": 8192}


def samples(kind: str, thread: int, at: int, rng: np.random.Generator) -> list[dict[str, int]]:
    """Some samples of another kind; ``at``: in which chunk."""
    found = []
    for _ in range(int(rng.integers(0, 9))):
        # Counts of collections are differences, so that those of a process must be in the order of its chunks.
        t_ns = START_MONO_NS + 1000 * at + int(rng.integers(0, 1_000 if kind == "gc" else 3_000))
        found.append({"t_ns": t_ns, SAMPLE_SIZES[kind]: int(rng.integers(1, 10**7))})
        if kind != "heap":
            found[-1]["thread"] = thread + int(rng.integers(0, 2))
        if kind in ("tick", "memory", "copy"):
            found[-1]["stack"] = int(rng.choice([0, 10, 20]))
    return found


def contents_of(path: Path, tmp_path: Path, batch_chunks: int) -> dict[str, Counter[str]]:
    """The rows of every kind, without order, as converted in batches."""
    conversion = Conversion(Spool(path, batch_chunks), facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "rss")
    found: dict[str, Counter[str]] = {}
    for tables in conversion.tables():
        for kind, table in tables.items():
            found.setdefault(kind, Counter()).update(map(repr, rows(table)))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_give_the_same_rows(seed: int, tmp_path: Path) -> None:
    builder = long_recording(seed)
    path = builder.write(tmp_path / "recording" / "spool", drained=(0, 20, 61)[seed % 3])
    whole = contents_of(path, tmp_path, 10_000)
    assert sum(whole["alloc"].values()) > 200 and len(list(Spool(path, 7).batches())) > 8
    for batch_chunks in (1, 7, 50):
        assert contents_of(path, tmp_path, batch_chunks) == whole


def test_a_trace_of_many_parts_is_one_table(tmp_path: Path) -> None:
    path = long_recording(1).write(tmp_path / "recording" / "spool")
    conversion = Conversion(Spool(path, 20), facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "rss")
    write_trace(tmp_path / "t.parquet", "ab" * 16, conversion.tables())
    count = f"SELECT count(*) FILTER (kind IN ('cpu', 'memory', 'alloc', 'copy')) FROM '{tmp_path / 't.parquet'}'"
    assert duckdb.sql(count).fetchall() == [(conversion.events,)]


# Killed before the last batch of four: one row group is in the file then, when the thread that writes it has ended, and more
# than a batch waits for the next one.
KILLED = """
import os, sys, threading
from pathlib import Path
from scalene_trace.recorder.convert import convert, finish

def tables(self, real=convert.Conversion.tables):
    batches = 0
    for each in real(self):
        batches += "cpu" in each
        if batches == 4:
            [each.join() for each in threading.enumerate() if each.name == "row group"]
            os.kill(os.getpid(), 9)
        yield each

convert.Conversion.tables = tables
finish.recover(Path(sys.argv[1]), None)
"""


def test_what_waits_when_the_conversion_is_killed_is_recovered(tmp_path: Path) -> None:
    folder, ticks = tmp_path / "t.parquet.spool", np.zeros(200_003, struct_dtype("record_tick"))
    ticks["t_ns"] = START_MONO_NS + np.arange(200_003)
    ticks["thread"], ticks["user_ns"] = 1, 10_000_000
    SpoolBuilder().start(1).bulk("tick", ticks).write(folder / "spool", drained=150)
    (folder / FACTS_NAME).write_text(json.dumps(asdict(facts(tmp_path))))
    assert run([sys.executable, "-c", KILLED, folder]).status == 128 + 9
    (unfinished,) = folder.glob("*.tmp")
    assert unfinished.stat().st_size > 5_000  # whole row groups; a trace without one has four bytes
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]
    assert run([*tool("scalene-record"), "--recover", folder]).status == 0
    stored = duckdb.sql(f"SELECT t_ns FROM '{tmp_path / 't.parquet'}' WHERE kind = 'cpu'").fetchnumpy()["t_ns"]
    assert np.array_equal(stored, np.arange(200_003)) and not folder.exists()


# ---- the whole ----


# The import of the converter takes until after the program's end, and any other import of numpy waits for it.
SLOW_IMPORT = """
import sys, time

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("numpy.core", "numpy._core"):
            assert "numpy" in sys.modules
            sys.meta_path.remove(Slow)
            time.sleep(2)

sys.meta_path.insert(0, Slow)
from scalene_trace.cli.record.command import main
status = main()
assert Slow not in sys.meta_path
sys.exit(status)
"""


def test_the_program_is_served_while_the_recorder_imports(any_python: Interpreter, tmp_path: Path) -> None:
    forks = "import os\nfor _ in range(600):\n    os.waitpid(os.fork() or os._exit(0), 0)"
    options = ["-o", tmp_path / "t.parquet", "--python", any_python.path]
    done = run([sys.executable, "-c", SLOW_IMPORT, *options, "-c", forks])
    assert (done.status, done.stderr) == (0, b"")
    found = duckdb.sql(f"SELECT kind, count(*) FROM '{tmp_path / 't.parquet'}' GROUP BY 1").fetchall()
    assert dict(found)["process"] == 601 and "loss" not in dict(found)


# Each snapshot takes two seconds longer than it would, in Python code, which competes for the GIL with the thread that
# drains.
SLOW_SNAPSHOTS = """
import time
from scalene_trace.recorder.run.load import prepare_converter
prepare_converter()
from scalene_trace.recorder.convert import convert

def tables(self, real=convert.Conversion.tables):
    yield from real(self)
    until = time.monotonic() + 2
    while self._outcome.ended_by == "snapshot" and time.monotonic() < until:
        sum(range(1000))

convert.Conversion.tables = tables
from scalene_trace.cli.record.command import main
main()
"""
#: ulimit -f: room for 118 chunks. The program below takes at most 120 per second.
LITTLE_FILES_BYTES = 8 << 20
ROUNDS = 100
STEADY_BLOCKS = f"""
import ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
malloc, free = libc.malloc, libc.free
free.argtypes = [ctypes.c_void_p]
for _ in range({ROUNDS}):
    for _ in range(1000):
        free(malloc(3407))
    time.sleep(1 / 60)
"""


def limit_files() -> None:
    """Leaves room for 118 chunks, so that 29 of them are drained."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE_FILES_BYTES, LITTLE_FILES_BYTES))


def test_a_slow_snapshot_of_a_busy_program_loses_nothing(any_python: Interpreter, tmp_path: Path) -> None:
    options = ["--alloc-interval", "1", "--no-source", "--snapshot-every", "100ms", "--python", any_python.path]
    command = [sys.executable, "-c", SLOW_SNAPSHOTS, "-o", tmp_path / "t.parquet", *options, "-c", STEADY_BLOCKS]
    done = run(command, env=environment(None), preexec_fn=limit_files)
    assert (done.status, done.stderr) == (0, b"")
    of_blocks = "alloc.size_bytes = 3407 AND alloc.allocator = 'malloc'"
    query = f"SELECT count(*), count(alloc.lifetime_ns) FROM '{tmp_path / 't.parquet'}' WHERE {of_blocks}"
    found = duckdb.sql(f"SELECT loss.name FROM '{tmp_path / 't.parquet'}' WHERE kind = 'loss'").fetchall()
    assert not {name for (name,) in found} & {"spool_full", "snapshots_failed"}
    assert duckdb.sql(query).fetchall() == [(1000 * ROUNDS, 1000 * ROUNDS)]


def test_a_long_recording_is_drained_and_every_allocation_is_there(any_python: Interpreter, tmp_path: Path) -> None:
    """60,000 blocks, each with its free: 180,000 events in 48 chunks or more, where 29 stay in the spool."""
    options = ["--alloc-interval", "1", "--no-source"]
    program = [target("many_blocks"), "60000"]
    done = record(tmp_path / "t.parquet", program, any_python, options, preexec_fn=limit_files)
    assert done.status == 0 and done.stderr == b""
    trace = tmp_path / "t.parquet"
    of_blocks = "alloc.size_bytes = 3407 AND alloc.allocator = 'malloc'"
    query = f"SELECT count(*), count(alloc.lifetime_ns), count(DISTINCT stack) FROM '{trace}' WHERE {of_blocks}"
    assert duckdb.sql(query).fetchall() == [(60_000, 60_000, 1)]
    assert done.facts["parts"] >= 1, "the program saw part files beside its spool while it ran"
    lost = duckdb.sql(f"SELECT loss.name FROM '{trace}' WHERE kind = 'loss' AND loss.severity != 'info'").fetchall()
    assert lost == []
