"""Native stacks of an opened trace, as far as Python called them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import queries

if TYPE_CHECKING:
    from .connection import Connection

#: More functions than a recorder writes for one stack.
_DEEPEST = 256
#: The library of code that is in no image.
NO_FILE = "[code in no known file]"


class NativeFrames:
    """The native functions on stacks by their ids (view native_frames)."""

    def __init__(self, connection: Connection) -> None:
        self._rows = {(row[0], row[1]): row[2:] for row in queries.run(connection, "native_frame_list")}

    def called(self, native: int | None, trace: int = 1) -> list[tuple[str, str]]:
        """The functions from the one that Python called to ``native``: (name, library) each. A function without a name has
        that of its library; of neighbours without a name in one library, one stands for all."""
        frames: list[tuple[str, str]] = []
        for _ in range(_DEEPEST):
            if native is None or (trace, native) not in self._rows:
                break
            parent, callee, library, symbol = self._rows[trace, native]
            frame = symbol or library or NO_FILE, library or NO_FILE
            if symbol or not frames or frames[-1] != frame:
                frames.append(frame)
            native = None if native == callee else parent
        return frames[::-1]
