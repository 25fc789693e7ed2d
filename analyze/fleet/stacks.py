"""The stacks of traces that are reduced to summaries: as the collapsed export writes them, small ones together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from ...formats.fleet.schema import OTHER_STACKS
from ..exports.collapsed import frame_name
from ..exports.shared.profile import NO_STACK, TRUNCATED, Frame, frames_below, native_frame, note
from ..exports.shared.text import plain
from ..trace import queries
from ..trace.native import NativeFrames

if TYPE_CHECKING:
    from ..trace.connection import Connection

#: The share of a trace's CPU time below which a stack is one of the others.
LEAST_SHARE = 0.001
#: The most text of a trace's stacks, in characters: a hostile trace has a thousand of the longest.
MOST_TEXT = 4_000_000


def stacks_by_trace(connection: Connection, cpu_s: dict[int, float]) -> dict[int, dict[str, float]]:
    """CPU seconds by stack for each of the opened traces that has any. ``cpu_s``: the CPU time of each trace, of which the
    other stacks have the rest."""
    rows = queries.run(connection, "stack_shares", least=LEAST_SHARE)
    native = NativeFrames(connection) if rows else None
    found: dict[int, dict[str, float]] = {}
    for trace, own in groupby(rows, key=lambda row: row[0]):
        stacks = found.setdefault(trace, {})
        room = MOST_TEXT
        for _, _, truncated, functions, files, numbers, part, library, symbol, called, value in own:
            names = list(_python(truncated, functions, files, numbers))
            natives = [native_frame(*each) for each in native.called(called, trace)] if native else []
            below = frames_below(part, library, symbol) if part != "native" or not natives else []
            text = ";".join([*names, *(frame_name(frame) for frame in (*natives, *below))])
            room -= len(text) if text not in stacks else 0
            if room < 0:
                break
            stacks[text] = stacks.get(text, 0.0) + value
    for trace, whole_s in cpu_s.items():
        stacks = found.setdefault(trace, {})
        rest = whole_s - sum(stacks.values())
        if rest > 1e-9 * whole_s:
            stacks[OTHER_STACKS] = rest
    return found


def _python(
    truncated: bool, functions: list[str | None] | None, files: list[str | None] | None, numbers: list[int] | None
) -> Iterator[str]:
    if truncated:
        yield frame_name(note(TRUNCATED))
    if not functions:
        yield frame_name(note(NO_STACK))
    for each in zip(functions or (), files or (), numbers or (), strict=True):
        yield _name(*each)


@lru_cache(100_000)
def _name(function: str | None, file: str | None, line: int | None) -> str:
    return frame_name(Frame(plain(function or "?"), plain(file or "?"), 0, line or 0, "python"))
