"""A long recording is surveyed while the program runs."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from scalene_trace.formats.dataclass import replace
from scalene_trace.formats.spool import chunks, early
from scalene_trace.formats.spool.reader import Records, read_records
from scalene_trace.recorder.convert import ahead as module
from scalene_trace.recorder.convert import known
from scalene_trace.recorder.convert.begun import BegunTrace
from scalene_trace.recorder.convert.finish import write_trace_of
from scalene_trace.recorder.convert.known import Known
from scalene_trace.recorder.convert.survey.collector import Collector
from scalene_trace.recorder.folder.files import TRACE_NAME
from scalene_trace.recorder.run import session
from tests.support.begun_recording import END, Recording, rows_of, with_function
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder


def grown(tmp_path, monkeypatch, seed: int = 1, kept_bytes: int = 1) -> Recording:
    """A recording that was surveyed from its second pass on."""
    draw = random.Random(seed)
    monkeypatch.setattr(early, "_MOST_BYTES", kept_bytes)
    steps = [with_function(tmp_path, number, draw) for number in range(1, 30)]
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.builder.start(2).type(7, b"app.Order")
    recording.until_ended()
    return recording


def added(monkeypatch) -> list[int]:
    """How many chunks each call of Collector.add adds from now on."""
    found: list[int] = []
    add = Collector.add
    monkeypatch.setattr(Collector, "add", lambda self, batch: found.append(len(batch.chunks)) or add(self, batch))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_end_surveys_what_is_new(tmp_path, monkeypatch, seed):
    recording = grown(tmp_path, monkeypatch, seed, kept_bytes=random.Random(seed).choice((1, 20_000)))
    assert recording.ahead.known.survey
    counts = added(monkeypatch)
    begun = recording.trace("begun.parquet", recording.begun)
    new = sum(counts)
    counts.clear()
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))
    assert 0 < new <= 2 < sum(counts), "the chunk that is open, of each process"


def test_what_was_kept_is_surveyed_first(tmp_path, monkeypatch):
    """In the order in which it was written."""
    counts = added(monkeypatch)
    recording = grown(tmp_path, monkeypatch, kept_bytes=1)
    (_, first), *_ = recording.ahead.known.records.parts
    assert counts[0] == len(first.chunks) > 0


def test_a_survey_with_later_events_than_the_recording_is_not_used(tmp_path, monkeypatch):
    """A recording that ends at a moment, while its program goes on: one pass may have read a little more."""
    recording = grown(tmp_path, monkeypatch)
    assert recording.ahead.known.survey and recording.ahead.known.survey.last_ns > START_MONO_NS + 100
    end = replace(END, ended_by="duration", wall_ns=100)
    assert recording.begun.takes_rest()
    folder, facts = recording.folder, recording.facts
    counts = added(monkeypatch)
    begun = write_trace_of(folder, facts, folder / "begun.parquet", end, begun=recording.begun).output
    surveyed = sum(counts)
    counts.clear()
    whole = write_trace_of(folder, facts, folder / "whole.parquet", end).output
    assert without_sources(begun) == without_sources(whole) and surveyed == sum(counts) > 2


def without_sources(path: Path) -> Counter[str]:
    """Texts that were found early are in the trace."""
    return Counter({row: count for row, count in rows_of(path).items() if "'kind': 'source'" not in row})


def test_a_survey_that_fails_is_made_at_the_end(tmp_path, monkeypatch):
    """It is not begun again: each pass would fail."""
    add, calls = Collector.add, []

    def failing(self: Collector, batch: Records) -> None:
        add(self, batch)  # a part is in it already
        calls.append(len(batch.chunks))
        if len(calls) == 3:
            raise MemoryError

    monkeypatch.setattr(Collector, "add", failing)
    monkeypatch.setattr(early, "_MOST_BYTES", 1)
    draw = random.Random(5)
    steps = [with_function(tmp_path, number, draw) for number in range(1, 30)]
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.until_ended(failures=1)
    assert len(calls) == 3 and not recording.ahead.known.wants_chunks
    begun = recording.trace("begun.parquet", recording.begun)
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))


def test_passes_follow_each_other_while_finished_chunks_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(early, "_MOST_BYTES", 1)
    monkeypatch.setattr(module, "_MOST_CHUNKS", 2)
    recording = Recording(tmp_path, [], monkeypatch)
    recording._passes_left = 1000
    for number in range(20):
        recording.builder.add("gc", t_ns=START_MONO_NS + number).new_chunk()
    recording.builder.write(recording.spool)
    monkeypatch.setattr(module, "_PART_OF_TIME", 1e9)
    monkeypatch.setattr(module, "_LONGEST_S", 3600)  # the pause after a pass that leaves none
    begun = BegunTrace(recording.folder / TRACE_NAME, recording.facts.trace_id, recording.ahead)
    found, end_s = recording.ahead.known.records, time.monotonic() + 60
    while not all(number in (found.surveyed or ()) or number in found.offers for number in range(20)):
        assert time.monotonic() < end_s
        time.sleep(0.001)
    begun.give_up()


def test_a_survey_is_no_larger_than_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "_MOST_SURVEY_BYTES", 6_000)
    recording = grown(tmp_path, monkeypatch)
    assert recording.ahead.known.survey and 6_000 <= recording.ahead.known.survey.nbytes < 20_000
    assert not recording.ahead.known.wants_chunks
    begun = recording.trace("begun.parquet", recording.begun)
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))


@pytest.mark.parametrize("processes", [1, 40])
def test_a_survey_knows_its_size(processes):
    """It is made of pieces, of which each has few rows: one for each pass of a recording of days."""
    found, draw = Collector(START_MONO_NS), random.Random(1)
    tracemalloc.start()
    try:
        for number in range(600):
            process = draw.randrange(1, processes + 1)
            builder = SpoolBuilder()
            for kind in ("tick", "alloc", "gc", "thread_start"):
                builder.add(kind, process, t_ns=START_MONO_NS + number, **({} if kind == "gc" else {"thread": process}))
            found.add(read_records(chunk_of(builder, process)))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 200_000 < held < 1.5 * found.nbytes


def test_what_waits_does_not_fill_a_survey():
    """The pieces of a recording of days, which has a single process and says the same again and again. A survey that is full
    ends."""
    builder = SpoolBuilder().add("node").add("native").add("note", thread=1)
    for kind in ("tick", "alloc", "free", "wait", "memory"):
        builder.add(kind, t_ns=START_MONO_NS, thread=1)
    found, batch = Collector(START_MONO_NS), read_records(chunk_of(builder, 1))
    largest = 0
    for _ in range(2000):
        found.add(batch)
        largest = max(largest, found.nbytes)
    assert largest < known._MOST_SURVEY_BYTES / 2


def chunk_of(builder: SpoolBuilder, process: int) -> list[chunks.Chunk]:
    slots = np.frombuffer(bytes(builder._open[process]), np.uint8).reshape(-1, chunks.SLOT_BYTES)
    return [chunks.Chunk(process, 0, slots)]


def test_a_process_that_has_started_after_the_end_is_not_in_the_trace(tmp_path, monkeypatch):
    """It has called exec at once, so nothing else tells of it."""
    monkeypatch.setattr(early, "_MOST_BYTES", 1)

    def step(builder: SpoolBuilder) -> None:
        builder.add("gc", t_ns=START_MONO_NS + 10).new_chunk()
        if builder.closed() == 8:
            builder.start(2, t_ns=START_MONO_NS + 500).new_chunk(2)

    recording = Recording(tmp_path, [step] * 12, monkeypatch)
    recording.until_ended()
    assert recording.ahead.known.survey and recording.ahead.known.survey.last_ns <= START_MONO_NS + 100
    end = replace(END, ended_by="duration", wall_ns=100)
    found = write_trace_of(
        recording.folder, recording.facts, recording.folder / "t.parquet", end, begun=recording.begun
    )
    kinds = pq.read_table(found.output)["kind"].to_pylist()
    assert kinds.count("process") == 1


def test_while_no_pass_may_be_made_it_is_asked_rarely(tmp_path, monkeypatch):
    asked: list[float] = []
    recording = Recording(tmp_path, [], monkeypatch)

    def may_work() -> bool:
        asked.append(time.monotonic())
        monkeypatch.setattr(module, "_FIRST_S", 3600)
        recording.ahead._is_behind = True
        return len(asked) == 1

    recording.ahead._may_work = may_work
    recording.ahead._pass = lambda: None
    begun = BegunTrace(recording.folder / TRACE_NAME, recording.facts.trace_id, recording.ahead)
    end_s = time.monotonic() + 60
    while len(asked) < 2 and time.monotonic() < end_s:
        time.sleep(0.001)
    time.sleep(0.3)
    begun.give_up()
    assert len(asked) == 2


def test_while_there_is_room_for_records_there_is_no_survey():
    found = Known()
    assert found.wants_chunks and found.take_survey(None) is None
    assert not found.records.is_full


# ---- when a pass may be made ----


@pytest.mark.parametrize(
    ("chunks", "in_use", "free_bytes", "may"),
    [
        *((16_384, 575, 0, True), (16_384, 576, 0, False)),
        *((16_384, 2559, 1 << 30, True), (16_384, 2560, 1 << 30, False)),
        *((246, 122, 1 << 30, True), (246, 123, 1 << 30, False)),
    ],
    ids=["many", "too many", "many stay", "too many beside those", "small", "half of a small spool"],
)
def test_no_pass_is_made_while_a_spool_is_full_of_chunks_to_drain(chunks, in_use, free_bytes, may):
    """The program would wait for room while the pass keeps the recorder from making it. While every allocation is recorded,
    more stays in the spool if the disk has room."""
    header = SimpleNamespace(paused=0, finalizing=0)
    space = SimpleNamespace(header=header, in_use=range(in_use), chunks=chunks, is_exact=True, free_bytes=free_bytes)
    idle = SimpleNamespace(since_last=lambda: 1.0)
    assert session._may_work(idle, space, 1) is may  # type: ignore[arg-type]
