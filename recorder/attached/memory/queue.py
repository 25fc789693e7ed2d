"""The queue of calls that CPython 3.10 to 3.13 keeps for its main thread, as Py_AddPendingCall fills it."""

from __future__ import annotations

import struct

from ....formats.dataclass import dataclass
from ...runtime_table import offsets_of_interpreters
from .image import Image

#: From 3.12 on, the queue lies in _PyRuntime, before in the interpreter. 3.13 has a number of pending calls, and a byte as lock.
_312, _313 = 0x30C, 0x30D
#: Free is a semaphore (glibc's sem_t, which PyThread_type_lock leads to) of the value 1 that nobody waits for.
_FREE = struct.pack("<Q", 1)
_LARGEST_LIMIT = 1 << 30
_READS = 20
_ONE = struct.pack("<i", 1)


@dataclass(frozen=True)
class Layout:
    """Offsets in bytes. ``lock`` to ``last``: in _PyRuntime or in the interpreter, of the queue's fields: ``calls`` is the first of
    ``count`` entries of ``stride`` bytes, ``first`` the index of the next call, ``last`` that of the next free entry, and ``signal``
    the word that says that there are calls (3.13: their number). ``breaker``: in the interpreter (3.13: in a thread state), the word
    that the main thread looks at. ``limit``: in the interpreter, the recursion limit. ``finalizing``: in _PyRuntime."""

    lock: int
    signal: int
    calls: int
    first: int
    last: int
    breaker: int
    limit: int
    finalizing: int
    count: int = 32
    stride: int = 16


#: By version, measured with offsetof against the headers of 3.10.13, 3.11.2, 3.11.7, 3.12.1 and 3.13.0.
LAYOUTS = {
    0x30A: Layout(80, 88, 96, 608, 612, breaker=68, limit=64, finalizing=16),
    0x30B: Layout(112, 120, 128, 640, 644, breaker=100, limit=96, finalizing=24),
    _312: Layout(2024, 2032, 2040, 2552, 2556, breaker=368, limit=376, finalizing=24),
    _313: Layout(2648, 2652, 2664, 9864, 9868, breaker=24, limit=8, finalizing=608, count=300, stride=24),
}
#: 3.13: the main thread's state in _PyRuntime.
MAIN_STATE_313 = 664
#: 3.13: its interpreter in a thread state; how many calls the queue takes; the bit of the breaker that stands for calls.
_STATE_INTERPRETER_313, _MOST_313, _CALLS_313 = 16, 32, 1 << 2


class Queue:
    """That of an image. ``interpreter``: its address."""

    def __init__(self, image: Image) -> None:
        """Raises OSError, ValueError with a reason."""
        self._image, self._version = image, image.python.version >> 16
        self._layout = layout = LAYOUTS[self._version]
        runtime = image.python.runtime
        offsets = offsets_of_interpreters(image.python.version, image.table())
        if offsets is None:
            raise ValueError("the layout of its interpreter is unknown")
        head, following, _ = offsets
        self._interpreter = interpreter = image.word(runtime + head)
        if not interpreter:
            raise ValueError("its interpreter does not run")
        if image.word(interpreter + following):
            raise ValueError("it has several interpreters")
        if image.word(runtime + layout.finalizing):
            raise ValueError("its interpreter is about to end")
        self._base = runtime if self._version >= _312 else interpreter
        self._breaker = interpreter + layout.breaker
        if self._version == _313:
            self._breaker = self._main_state() + layout.breaker
        limit = int.from_bytes(image.read(interpreter + layout.limit, 4), "little")
        if not 0 < limit < _LARGEST_LIMIT:
            raise ValueError("the layout of its interpreter is unknown")
        self.read()

    def _main_state(self) -> int:
        image, python = self._image, self._image.python
        state = image.word(python.runtime + MAIN_STATE_313)  # also of a program with an interpreter inside
        is_own = python.runtime <= state < python.runtime + python.runtime_bytes  # never freed
        if not is_own or image.word(state + _STATE_INTERPRETER_313) != self._interpreter:
            raise ValueError("the layout of its interpreter is unknown")
        return state

    def read(self) -> State:
        """What is in it now. Raises OSError, ValueError."""
        image, layout = self._image, self._layout
        for _ in range(_READS):  # a call may be added or taken while it is read
            state = State(layout, image.read(self._base + layout.lock, layout.last + 4 - layout.lock))
            if state.is_plausible(self._version):
                break
        else:
            raise ValueError("the layout of its interpreter is unknown")
        if self._version < _313:
            state.is_free = image.read(state.word(layout.lock), 8) == _FREE
        return state

    def count(self, state: State) -> None:
        """3.13: counts calls whose number a killed recorder has not written, unless the queue has changed since it was read.
        Only who has the lock of the recorders may call this. Raises OSError."""
        if not state.lacks_number(self._version):
            return
        before, after = self._breaks()
        whole = (self._base + self._layout.lock, state.data)
        number = struct.pack("<i", len(state.waiting()))
        self._image.write_unless_changed([whole, *before], [(self._base + self._layout.signal, number), after])

    def put(self, state: State, function: int, argument: int) -> int | None:
        """Puts a call at the end of the queue, which was read just now: None, and nothing is written, unless nothing is in it and
        nobody uses it. Returns the entry's index. Raises OSError.

        All is written by one system call, in an order in which it may end anywhere, and the main thread may look at any time: 3.13
        takes a call if their number says that there is one, and earlier versions, if the indexes differ. A recorder that is killed
        between the two leaves indexes without a number, see :meth:`count`.
        """
        if not state.is_free or state.first != state.last:
            return None
        layout, index = self._layout, state.last
        entry = struct.pack("<QQ", function, argument).ljust(layout.stride, b"\0")
        # Both indexes: what others have added and made since the look must not be made again.
        place, indexes = layout.calls + index * layout.stride, struct.pack("<ii", index, (index + 1) % layout.count)
        pieces = [(place, entry), (layout.first, indexes), (layout.signal, _ONE)]
        expected = [(layout.lock, state.data)]
        before, after = self._breaks()
        others = [*([] if self._version == _313 else [(state.word(layout.lock), _FREE)]), *before]
        is_put = self._image.write_unless_changed(
            [*((self._base + at, each) for at, each in expected), *others],
            [*((self._base + at, each) for at, each in pieces), after],
        )
        return index if is_put else None

    def wake(self) -> None:
        """Lets the main thread look again if it has forgotten that there are calls. Raises OSError."""
        image, place = self._image, self._base + self._layout.signal
        must_signal = self._version < _313 and not any(image.read(place, 4))
        if must_signal or not self._is_broken():
            before, after = self._breaks()
            signal = [(place, _ONE)] if must_signal else []
            image.write_unless_changed([*before, *((at, bytes(4)) for at, _ in signal)], [*signal, after])

    def _is_broken(self) -> bool:
        wanted = _CALLS_313 if self._version == _313 else 0xFF
        return bool(self._image.read(self._breaker, 1)[0] & wanted)

    def _breaks(self) -> tuple[list[tuple[int, bytes]], tuple[int, bytes]]:
        """What must be in the breaker before, if others set bits of it, and what is then."""
        if self._version < _313:
            return [], (self._breaker, _ONE)
        now = self._image.read(self._breaker, 1)
        return [(self._breaker, now)], (self._breaker, bytes([now[0] | _CALLS_313]))


class State:
    """What was in the queue. ``first``, ``last``: indexes; ``is_free``: nobody had the lock."""

    def __init__(self, layout: Layout, data: bytes) -> None:
        self._layout, self.data = layout, data
        self.first, self.last = self._number(layout.first), self._number(layout.last)
        self.is_free = data[0] == 0

    def _number(self, at: int) -> int:
        return int.from_bytes(self.data[at - self._layout.lock :][:4], "little", signed=True)

    def word(self, at: int) -> int:
        """The eight bytes at this offset."""
        return int.from_bytes(self.data[at - self._layout.lock :][:8], "little")

    def is_plausible(self, version: int) -> bool:
        """May this be such a queue?"""
        number = self._number(self._layout.signal)
        if version == _313:
            return self._is_of_313() and (not self.is_free or number == len(self.waiting()) or self._has_more(number))
        lock = self.word(self._layout.lock)
        return self._has_indexes() and number in (0, 1) and lock % 8 == 0 and 1 << 16 <= lock < 1 << 47

    def lacks_number(self, version: int) -> bool:
        """Is it a queue of 3.13 with calls none of which is counted? The main thread takes none of them."""
        return version == _313 and self.is_free and not self._number(self._layout.signal) and self._has_more(0)

    def _has_more(self, number: int) -> bool:
        waiting = self.waiting()
        return number < len(waiting) <= _MOST_313 and all(self.call(each)[0] for each in waiting)

    def _has_indexes(self) -> bool:
        return 0 <= self.first < self._layout.count and 0 <= self.last < self._layout.count

    def _is_of_313(self) -> bool:
        number, most, at_once = (self._number(self._layout.signal + at) for at in (0, 4, 8))
        return self._has_indexes() and most == _MOST_313 and at_once == 0 and 0 <= number <= most

    def call(self, index: int) -> tuple[int, int]:
        """Function and argument of an entry."""
        at = self._layout.calls + index * self._layout.stride
        return self.word(at), self.word(at + 8)

    def waiting(self) -> list[int]:
        """The indexes of the calls that wait."""
        count = self._layout.count
        return [(self.first + each) % count for each in range((self.last - self.first) % count)]
