"""The recorder keeps nothing of a process that has ended and whose chunks are drained."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from scalene_trace.formats.spool.chunks import SLOT_BYTES
from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.recorder.sampling import rss
from scalene_trace.recorder.sampling.rss import RssSampler
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool import spool_file
from scalene_trace.recorder.spool.drain import FEWEST_CHUNKS, Drain
from scalene_trace.recorder.spool.spool_file import SpoolFile
from tests.support.spool_writer import C, Writer, turn


def run_process(space: SpoolFile, process: int) -> None:
    """Writes the chunk of a process that has started and ended."""
    writer = Writer(space, process)
    chunk = writer.fill()
    start = np.zeros(1, struct_dtype("record_process_start"))
    start["head"], start["pid"] = C["RECORD_PROCESS_START"] | 1 << 16, 2**22 + process
    os.pwrite(space.descriptor, start.tobytes(), writer.offset(chunk) + SLOT_BYTES)


def test_the_recorder_does_not_grow_with_the_processes_that_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_file, "most_chunks", lambda: 300)
    monkeypatch.setattr(rss, "_MOST_PIDS", 100)  # the last few thousand are kept, for samples of GPUs
    space = SpoolFile(tmp_path / "spool", Settings())
    space.offer_ahead()
    residents, drain = RssSampler(space, tmp_path / "rss"), Drain(space, tmp_path / "spool")

    def record(first: int, end: int) -> int:
        """Records processes; the bytes that Python has allocated then."""
        for process in range(first, end):
            run_process(space, process)
            if process % 50 == 0:
                residents.notice(space.notice_taken())
                residents.sample_if_due()
                while len(space.in_use) >= FEWEST_CHUNKS:
                    turn(space, drain)
        return tracemalloc.get_traced_memory()[0]

    record(1, 200)
    tracemalloc.start()
    try:
        before = record(200, 700)  # all that is kept has been replaced since tracemalloc was started
        after = record(700, 1_400)
    finally:
        tracemalloc.stop()
        residents.close()
        drain.close()
    assert len(residents.pids()) == 100
    assert after - before < 700 * 15
