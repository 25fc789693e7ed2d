"""A segment of a recording as a recording of its own, from which the conversion makes its trace: a folder with a header, and
with its pieces of the files that are appended to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.errors import NotASpool
from ...formats.spool.chunks import Chunk, Offers, View, part_chunks, view_of
from ...formats.spool.losses import shim_losses
from ...formats.spool.reader import ReadBefore, Spool, read_header, read_records
from ...formats.spool.regular import open_regular, read_regular
from ...formats.trace import temporary
from ..folder.files import (
    GPU_DEVICES_NAME,
    GPU_NAME,
    GPU_STRUCT,
    MARKS_NAME,
    RSS_NAME,
    RSS_STRUCT,
    SEGMENT_NAME,
    SPOOL_NAME,
    TRACE_NAME,
    new_file,
)
from ..folder.marks import MOST_BYTES
from .carry import Adjusted, Counted
from .segments import MOST, Segment, carry_facts_path, carry_path, copies_path

_NAMES = (SPOOL_NAME, RSS_NAME, GPU_NAME, GPU_DEVICES_NAME, MARKS_NAME)
_ROW_BYTES = {RSS_NAME: RSS_STRUCT.size, GPU_NAME: GPU_STRUCT.size}
_COPY_BYTES = 1 << 20
#: Losses that count events, so that those of a trace are the difference. The others say what holds on, and stay: also where
#: each is counted once (``device_unhooked``), or later figures depend on it (``mapping_missed``: the footprint).
_COUNTED = frozenset(
    (
        *("spool_full", "torn_stack", "deep_stack", "scratch_busy", "unmapped_chunk"),
        *("perf_closed", "bootstrap_exhausted", "alloc_table_full", "alloc_thinned", "types_unread"),
        *("waits_torn", "waits_unplaced", "waits_rare", "waits_impossible", "tasks_torn", "perf_silent"),
        "labels_unread",
        "attached_lost",
        *("environment_lost", "process_slots", "unrecorded_static", "unrecorded_setuid", "unrecorded_image"),
        *("spool_space", "marks_left_out", "gpu_ticks", "traces_given_up"),
    )
)


def segment_spool(
    folder: Path, segment: Segment, end: Segment | None, counted: Counted, until_ns: int | None = None
) -> tuple[Path, Spool]:
    """Makes a folder for ``segment`` of the recording in ``folder``; ``end``: the segment after it, None = it is the last one.
    Returns it with the records of the segment, those up to ``until_ns`` after its beginning (None = all). ``counted``: what
    earlier traces have counted. Raises OSError, SpoolMissing."""
    made = folder / SEGMENT_NAME
    remove_segment(folder)
    made.mkdir(0o700)
    header = read_header(folder / SPOOL_NAME)
    _write(made / SPOOL_NAME, _header(folder, header, segment, end).tobytes())
    for name in (RSS_NAME, GPU_NAME):
        _copy_rows(folder / name, made / name, segment, end)
    if devices := read_regular(folder / GPU_DEVICES_NAME):
        _write(made / GPU_DEVICES_NAME, devices)
    marks = marks_of(folder, segment, end, counted)
    lines = marks if end is None else _without_open(marks)
    _write(made / MARKS_NAME, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    start_ns = int(header["start_mono_ns"]) + segment.start_ns
    view = view_of_segment(folder, segment, end, int(header["chunks_used"]))
    before = _carried(carry_path(folder, segment.number))
    adjust = Adjusted(start_ns, counted)
    return made, Spool(made / SPOOL_NAME, until_ns=until_ns, view=view, before=before, adjust=adjust)


def _write(path: Path, data: bytes) -> None:
    with new_file(path) as file:
        file.write(data)


def remove_segment(folder: Path) -> None:
    """Removes the folder that :func:`segment_spool` has made in ``folder``."""
    made = folder / SEGMENT_NAME
    if made.is_symlink():
        with suppress(OSError):
            made.unlink()
        return
    paths = [*(made / name for name in (*_NAMES, TRACE_NAME)), *temporary.existing(made / TRACE_NAME)]
    with suppress(OSError):
        for path in paths:
            path.unlink(missing_ok=True)
        made.rmdir()


def view_of_segment(folder: Path, segment: Segment, end: Segment | None, chunks: int) -> View:
    """The chunks of a segment. ``chunks``: how many the spool has ever offered. Raises OSError."""
    spool = folder / SPOOL_NAME
    with spool.open("rb", buffering=0) as file:
        whole = view_of(spool, file.fileno(), chunks)
    first, last = segment.first_part, end.first_part if end else None
    parts = [each for each in whole.parts if _part_number(each[0]) >= first]
    parts = [each for each in parts if last is None or _part_number(each[0]) < last]
    if end is None:
        return View(spool, parts, whole.live, segment.skipped)
    copies = copies_path(folder, segment.number)
    return View(spool, [*parts, (copies, copies.stat().st_size)], [])


def _part_number(path: Path) -> int:
    text = path.name.rpartition(".part")[2]
    return int(text) if text.isdecimal() else -1


def _carried(path: Path) -> ReadBefore:
    found, offers = ReadBefore(), Offers()
    chunks: list[Chunk] = []
    if path.exists():
        chunks = [chunk for chunk, _ in part_chunks(path, 0, path.stat().st_size, offers)]
    for first in range(0, len(chunks), 64):
        some = chunks[first : first + 64]
        found.parts.append((sum(len(each.slots) for each in some), read_records(some)))
    return found


def _header(folder: Path, header: np.void, segment: Segment, end: Segment | None) -> np.void:
    """The header as if the recording had begun with the segment. Raises NotASpool."""
    made = header.copy()
    if not 0 <= int(header["start_mono_ns"]) < MOST:
        raise NotASpool(folder / SPOOL_NAME, "its start is no time")
    start_ns = int(header["start_mono_ns"]) + segment.start_ns
    made["start_real_ns"] = segment.start_real_ns or int(header["start_real_ns"])
    made["start_mono_ns"] = start_ns
    last = end.losses if end else header["losses"].tolist()
    first = dict(enumerate(segment.losses))
    for row, loss in enumerate(shim_losses()):
        if row < len(last):
            before = first.get(row, 0) if loss.name in _COUNTED else 0
            made["losses"][row] = max(int(last[row]) - before, 0)
    return made


def counted_losses(counts: dict[str, int], segment: Segment) -> dict[str, int]:
    """The recorder's counters of a segment. ``counts``: those at its end."""
    return {
        name: max(count - segment.counts.get(name, 0), 0) if name in _COUNTED else count
        for name, count in counts.items()
    }


# ---- pieces ----


def _copy_rows(path: Path, made: Path, segment: Segment, end: Segment | None) -> None:
    """Copies the rows of a segment, with times from its beginning. Their first field is a time in nanoseconds."""
    file = open_regular(path)
    if file is None:
        return
    size = _ROW_BYTES[path.name]
    first, left = segment.offsets[path.name], _piece_bytes(path, segment, end)
    with file, new_file(made) as copy:
        file.seek(first)
        while left >= size and (data := file.read(min(left, _COPY_BYTES // size * size))):
            left -= len(data)
            rows = np.frombuffer(data[: len(data) // size * size], np.uint8).reshape(-1, size).copy()
            times = rows[:, :8].copy().view("<i8").ravel()
            rows[:, :8] = np.maximum(times - segment.start_ns, 0).view(np.uint8).reshape(-1, 8)
            copy.write(rows.tobytes())


def _piece_bytes(path: Path, segment: Segment, end: Segment | None) -> int:
    size = path.stat().st_size
    last = min(end.offsets[path.name], size) if end else size
    return max(last - segment.offsets[path.name], 0)


def marks_of(folder: Path, segment: Segment, end: Segment | None, counted: Counted) -> list[dict[str, Any]]:
    """The lines of the file of marks that concern a segment, with times from its beginning: those that were carried over, and
    its own."""
    file = open_regular(folder / MARKS_NAME)
    found = [line for line in counted.marks if _is_line(line)]
    if file is None:
        return found
    with file:
        file.seek(segment.offsets[MARKS_NAME])
        data = file.read(min(_piece_bytes(folder / MARKS_NAME, segment, end), 2 * MOST_BYTES))
    for text in data.splitlines():
        with suppress(ValueError, RecursionError):
            line: Any = json.loads(text)
            if isinstance(line, dict) and _is_line(line):
                times = {name: line[name] for name in ("t_ns", "end_ns") if type(line.get(name)) is int}
                found.append(line | {name: max(t_ns - segment.start_ns, 0) for name, t_ns in times.items()})
    return found


def _is_line(line: dict[str, Any]) -> bool:
    """Could the recorder have written these values, all of which are numbers or texts?"""
    return not any(isinstance(value, dict | list) for value in line.values())


def carried_marks(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the next segment needs of these lines: open marks, a pause, and texts that the program has told."""
    open_lines, told = _open(lines), {}
    for line in lines:
        if line.get("what") == "source":
            told[str(line.get("file"))] = line
    # A pause from 0 on is one that the recording began with.
    starts = [int(line["what"] == "pause" and line.get("t_ns") != 0) for line in open_lines]
    begun = [line | {"t_ns": start_ns} for line, start_ns in zip(open_lines, starts, strict=True)]
    return begun + [line | {"t_ns": 0} for line in told.values()]


def _without_open(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines without marks that are still open: these count in the trace in which they end."""
    open_marks = {id(line) for line in _open(lines) if line.get("what") == "mark"}
    return [line for line in lines if id(line) not in open_marks]


def _open(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for line in lines:
        what, key = line.get("what"), (line.get("pid"), line.get("id"))
        if what == "pause":
            found["pause"] = line
        elif what == "resume":
            found.pop("pause", None)
        elif what == "mark" and "id" in line and "end_ns" not in line:
            found[key] = line
        elif what == "end":
            found.pop(key, None)
    return list(found.values())


def remove_published(folder: Path, segment: Segment, end: Segment) -> None:
    """Removes what only ``segment`` needed, whose trace is in its place; ``end``: the segment after it. Pieces of files stay
    until :func:`release_pieces`."""
    paths = [copies_path(folder, segment.number), carry_path(folder, segment.number)]
    paths.append(carry_facts_path(folder, segment.number))
    parts = folder.glob(f"{SPOOL_NAME}.part*")  # not a range of numbers, which a stranger may have written
    paths += [each for each in parts if segment.first_part <= _part_number(each) < end.first_part]
    for path in paths:
        with suppress(OSError):
            path.unlink()
    remove_segment(folder)


def release_pieces(folder: Path, end: Segment) -> None:
    """Gives the disk space of pieces of files back that belong to segments before ``end``."""
    for name in (RSS_NAME, GPU_NAME, MARKS_NAME):
        _release(folder / name, end.offsets[name])


def _release(path: Path, size: int) -> None:
    """Gives the disk space of the first ``size`` bytes back. The rest keeps its place, because others append to it."""
    import ctypes

    with suppress(OSError, AttributeError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            keep_size_and_punch_hole = 3
            ctypes.CDLL(None).fallocate(descriptor, keep_size_and_punch_hole, ctypes.c_int64(0), ctypes.c_int64(size))
        finally:
            os.close(descriptor)
