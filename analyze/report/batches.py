"""Groups many traces into batches that are reduced together, several at the same time.

A batch is large enough to be worth planning its queries, and small enough for memory.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from ...formats.trace.integrity import stored_frames

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..trace.connection import Connection

#: The most weight that is reduced at the same time, except for a single trace that weighs more. A report takes about 100 MiB
#: of memory, and about 2 MiB for each MB of weight.
HELD_BYTES = 180_000_000
#: Planning the queries of a lighter batch costs more than reducing it in parallel saves.
LEAST_BYTES = 15_000_000
#: A batch takes most memory at its end. From so many rounds of batches on, the first ones are of different sizes, so that
#: those of one moment do not end together: 475 instead of 540 MiB for a hundred traces on two cores.
STAGGERED_ROUNDS = 4
#: Weight of a trace in addition to the size of its file, and of each frame of its stacks, which are unpacked in memory.
TRACE_BYTES, FRAME_BYTES = 1_000_000, 6
#: Weight per byte of a trace whose number of frames is unknown (formats before 1.5); measured on traces with deep stacks.
UNKNOWN_FRAMES_FACTOR = 5


Result = TypeVar("Result")

#: How often statements are interrupted until all have ended: one may begin just after the last time.
_AGAIN_S = 0.02


class AtOnce(Generic[Result]):
    """Threads that reduce batches, ``number`` at the same time. A context manager: where its block is left by an error or by
    Ctrl-C, what the threads do in DuckDB is interrupted, and batches that wait are not begun."""

    def __init__(self, number: int) -> None:
        from concurrent.futures import ThreadPoolExecutor  # the import takes 13 ms, which a single trace does not need

        self._pool = ThreadPoolExecutor(number)
        self._results: list[Future[Result]] = []
        self._lock = threading.Lock()
        self._used: set[Connection] = set()
        self._is_stopped = False

    def map(self, reduce: Callable[[Sequence[Path]], Result], batches: Sequence[Sequence[Path]]) -> Iterator[Result]:
        """The results for the batches in their order, of which all are begun now. Raises what ``reduce`` raises."""
        for batch in batches:  # one by one: Ctrl-C may come between two
            self._results.append(self._pool.submit(reduce, batch))
        return (each.result() for each in self._results)

    @contextmanager
    def using(self, connection: Connection) -> Iterator[None]:
        """What a thread asks ``connection`` meanwhile can be interrupted. Raises KeyboardInterrupt if the block was left already."""
        with self._lock:
            if self._is_stopped:
                raise KeyboardInterrupt
            self._used.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._used.discard(connection)

    def __enter__(self) -> AtOnce[Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind:
            self._stop()
        self._pool.shutdown()

    def _stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_stopped = True
        while self._used or not all(each.done() for each in self._results):  # the last one may not be in the list yet
            with self._lock:
                for used in self._used:
                    used.raw.interrupt()
            time.sleep(_AGAIN_S)


def batches_of(paths: Sequence[Path], cores: int) -> tuple[list[list[Path]], int]:
    """The paths in their order, grouped into batches of similar weight, and the number of batches to reduce at the same time.

    ``cores``: the most batches at the same time.
    """
    weights = [_weight(path) for path in paths]
    total, heaviest = sum(weights), max(weights)
    at_once = max(min(cores, HELD_BYTES // max(heaviest, LEAST_BYTES), total // LEAST_BYTES), 1)
    share = max(HELD_BYTES // at_once, heaviest)
    number = math.ceil(len(_cut(weights, share)) / at_once) * at_once
    limits = range(heaviest, share)
    limit = heaviest + bisect_left(limits, True, key=lambda limit: len(_cut(weights, limit)) <= number)
    firsts = [limit * part // at_once for part in range(1, at_once)] if number >= STAGGERED_ROUNDS * at_once else []
    counts, remaining = _cut(weights, limit, firsts), iter(paths)
    return [[next(remaining) for _ in range(count)] for count in counts], min(at_once, len(counts))


def _cut(weights: Sequence[int], limit: int, firsts: Sequence[int] = ()) -> list[int]:
    """The number of consecutive items in each batch, if none weighs more than ``limit`` (at least the largest weight), and the
    first ones no more than ``firsts``, unless they have one item."""
    counts, room, limits = list[int](), 0, iter(firsts)
    for weight in weights:
        if weight > room or not counts:
            counts.append(0)
            room = max(next(limits, limit), weight)
        counts[-1] += 1
        room -= weight
    return counts


def _weight(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:  # opening the trace reports the error
        return TRACE_BYTES
    frames = stored_frames(path)
    weight = TRACE_BYTES + (UNKNOWN_FRAMES_FACTOR * size if frames is None else size + FRAME_BYTES * frames)
    return min(weight, HELD_BYTES)  # a damaged file may claim any number of frames
