"""What belongs to which trace of a recording: ``rotation.json`` in its folder, which is replaced as a whole."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.dataclass import asdict, dataclass, field
from ...formats.spool.losses import recorder_loss
from ...formats.spool.regular import read_regular
from ..folder.files import CARRY_NAME, CUT_NAME, GPU_NAME, MARKS_NAME, ROTATION_NAME, RSS_NAME, new_file

#: Files of the recording that are appended to, of which each segment has a piece.
PIECES = (RSS_NAME, GPU_NAME, MARKS_NAME)

#: More than any time in nanoseconds, and than any count.
MOST = 2**61
_TRACE_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Segment:
    """What becomes one trace; it ends where the next one begins.

    ``number``: from 1; ``trace_id``; ``follows``: id of the trace before, "" = it is the first; ``start_ns``: its beginning, in
    nanoseconds from the start of the recording; ``start_real_ns``: the same moment (CLOCK_REALTIME); ``first_part``: number of
    its first part file; ``skipped``: slots of chunks that belong to earlier segments, by offer; ``offsets``: where its pieces
    begin, in bytes; ``losses``: counters of the spool at its beginning; ``counts``: those of the recorder, by name;
    ``settings``: settings of its trace that differ from those of the recording, by name.
    """

    number: int
    trace_id: str
    follows: str = ""
    start_ns: int = 0
    start_real_ns: int = 0
    first_part: int = 1
    skipped: dict[int, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PIECES, 0))
    losses: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """``pid``: of the program; ``closed``: a segment that has ended, and whose trace is not in its place yet; ``open``: the one
    that goes on."""

    pid: int
    open: Segment
    closed: Segment | None = None


def write_state(folder: Path, state: State) -> None:
    """Replaces the state of the recording in ``folder``. Raises OSError; the state is then as before."""
    new = folder / f"{ROTATION_NAME}.new"
    try:
        with new_file(new) as file:
            file.write(json.dumps(asdict(state)).encode())
        os.replace(new, folder / ROTATION_NAME)  # noqa: PTH105 (the atomic step)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def read_state(folder: Path) -> State | None:
    """The state of the recording in ``folder``; None = it does not rotate, or the file is damaged."""
    with suppress(ValueError, TypeError, RecursionError, KeyError, AttributeError):
        found: Any = json.loads(read_regular(folder / ROTATION_NAME))
        closed = None if found["closed"] is None else _segment(found["closed"])
        state = State(number(found["pid"]), _segment(found["open"]), closed)
        if closed is None or _follows(closed, state.open):
            return state
    return None


def _follows(closed: Segment, following: Segment) -> bool:
    """Can a cut have made the two? Offsets may be smaller than before: files that were removed with their folder begin anew."""
    is_next = following.number == closed.number + 1
    return is_next and following.start_ns >= closed.start_ns and following.first_part >= closed.first_part


def _segment(found: dict[str, Any]) -> Segment:
    """Raises ValueError, TypeError, KeyError or AttributeError."""
    if not _TRACE_ID.fullmatch(found["trace_id"]) or not _TRACE_ID.fullmatch(found["follows"] or "0" * 32):
        raise ValueError(found["trace_id"])
    numbers = {name: number(found[name]) for name in ("number", "start_ns", "start_real_ns", "first_part")}
    texts = {name: _text(found[name]) for name in ("trace_id", "follows")}
    return Segment(
        **numbers,  # type: ignore[arg-type]
        **texts,  # type: ignore[arg-type]
        skipped={number(int(offer)): number(slots) for offer, slots in found["skipped"].items()},
        offsets={name: number(found["offsets"][name]) for name in PIECES},
        losses=[number(each) for each in found["losses"]],
        counts={recorder_loss(name).name: number(count) for name, count in found["counts"].items()},
        settings={_text(name): _text(value) for name, value in found["settings"].items()},
    )


def number(value: Any) -> int:
    """``value`` if it is a number that a recording can hold. Raises ValueError: a stranger may have written it."""
    if type(value) is not int or not 0 <= value < MOST:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if type(value) is not str or "\0" in value:
        raise ValueError(value)
    return value


def copies_path(folder: Path, number: int) -> Path:
    """The records that a cut has copied from chunks in the spool: the last ones of segment ``number``."""
    return folder / f"{CUT_NAME}{number:05}"


def carry_path(folder: Path, number: int) -> Path:
    """The records that segment ``number`` needs of earlier ones; beside it lies a JSON file (:func:`carry_facts_path`)."""
    return folder / f"{CARRY_NAME}{number:05}"


def carry_facts_path(folder: Path, number: int) -> Path:
    """What segment ``number`` needs of earlier ones beside records."""
    return folder / f"{CARRY_NAME}{number:05}.json"
