"""A writer of ticks into a spool while it is drained, as a recorded process writes them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from scalene_trace.formats.spool.chunks import CHUNK_BYTES, CHUNK_SLOTS, CHUNKS_OFFSET, SLOT_BYTES
from scalene_trace.formats.spool.layout import constants, ffi, struct_dtype
from scalene_trace.formats.spool.reader import Spool
from scalene_trace.recorder.spool.drain import Drain
from scalene_trace.recorder.spool.spool_file import SpoolFile

C = constants()
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino


class Writer:
    """A process that writes ticks, numbered from 0, into the chunks of a space."""

    def __init__(self, space: SpoolFile, process: int = 1, pid: int = 0, namespace: int = NAMESPACE) -> None:
        self.space, self.process, self.number = space, process, 0
        self.pid, self.namespace = pid or os.getpid(), namespace

    def take(self) -> int:
        """Takes the next offer; returns its slot."""
        header = self.space.header
        assert header.taken < header.offered, "the program would lose events"
        slot = int(self.space._ring[header.taken % C["SPOOL_RING"]])
        assert self.space.first_bytes(slot, 4) == bytes(4), "an offered chunk is nobody's"
        header.taken += 1
        return slot

    def fill(self, count: int = CHUNK_SLOTS - 1, closed: bool = True, unfinished: int = -1) -> int:
        """A chunk of ``count`` ticks, the one at ``unfinished`` not published; returns its slot."""
        offer, slot = int(self.space.header.taken), self.take()
        head = {"process": self.process, "pid": self.pid, "pid_namespace": self.namespace, "offer": offer}
        cursor = CHUNK_SLOTS + 1 if closed else 1 + count
        header = ffi().new("struct chunk_header *", head | {"cursor": cursor, "closed": closed})
        ticks = np.zeros(count, struct_dtype("record_tick"))
        ticks["head"] = C["RECORD_TICK"] | 1 << 16
        ticks["t_ns"] = self.space.header.start_mono_ns + self.number + np.arange(count)
        if unfinished >= 0:
            ticks["head"][unfinished] = 1 << 16
        self.number += count
        os.pwrite(self.space.descriptor, bytes(ffi().buffer(header)) + ticks.tobytes(), self.offset(slot))
        return slot

    def publish(self, slot: int, line: int) -> None:
        """Publishes the tick that was left unfinished."""
        head = (C["RECORD_TICK"] | 1 << 16).to_bytes(4, "little")
        os.pwrite(self.space.descriptor, head, self.offset(slot) + (1 + line) * SLOT_BYTES)

    @staticmethod
    def offset(slot: int) -> int:
        return CHUNKS_OFFSET + slot * CHUNK_BYTES


def turn(space: SpoolFile, drain: Drain) -> None:
    """What the recorder does in each of its turns."""
    space.notice_taken()
    drain.turn()
    space.offer_ahead()


def ticks_of(space: SpoolFile, tmp_path: Path) -> list[int]:
    """Times of all ticks that a reader finds."""
    batches = [batch.bulk["tick"].records["t_ns"] for batch in Spool(tmp_path / "spool").batches()]
    return sorted((np.concatenate(batches) - int(space.header.start_mono_ns)).tolist())
