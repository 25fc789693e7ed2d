"""The image of a process that is read, and written to only as long as it is the same."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ...other_memory import read_memory, write_pieces, write_unless_changed
from ...runtime_table import RUNTIME_BYTES
from ..facts import Life, life_of
from ..interpreter import Interpreter

#: The kernel gives each image so many random bytes. Without randomized addresses, nothing else differs after exec.
_RANDOM_BYTES = 16
_MARK_BYTES = 8
#: How often an answer of the process is looked for.
POLL_S = 0.002
#: How long one of its files may be read.
FILE_TIME_LIMIT_S = 2.0


class Image:
    """The image of the process ``pid`` that has the interpreter ``python``."""

    def __init__(self, pid: int, life: Life, python: Interpreter) -> None:
        """``life``: of the image that ``python`` was found in. Raises OSError."""
        self.pid, self.python, self._life = pid, python, life
        self._random = self.read(life.random, _RANDOM_BYTES)
        self._mark = self.read(python.runtime, _MARK_BYTES)

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError."""
        return read_memory(self.pid, address, size)

    def word(self, address: int) -> int:
        """The eight bytes there, as a number. Raises OSError."""
        return int.from_bytes(self.read(address, 8), "little")

    def table(self) -> bytes:
        """The beginning of ``_PyRuntime``. Raises OSError."""
        return self.read(self.python.runtime, RUNTIME_BYTES)

    def check(self) -> None:
        """Raises OSError if the process has called exec or has ended: something else is at its addresses then."""
        is_same = life_of(self.pid) == self._life and self.read(self._life.random, _RANDOM_BYTES) == self._random
        if not is_same or self.read(self.python.runtime, _MARK_BYTES) != self._mark:
            raise ProcessLookupError(errno.ESRCH, "it has called exec, or has ended")

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError, as :meth:`check`."""
        self.check()
        write_pieces(self.pid, [(address, data)])

    def write_unless_changed(self, expected: Sequence[tuple[int, bytes]], pieces: Sequence[tuple[int, bytes]]) -> bool:
        """As :meth:`write`, for several pieces in this order, if these bytes are at these addresses. Returns whether they were.
        Raises OSError."""
        self.check()
        return write_unless_changed(self.pid, expected, pieces)
