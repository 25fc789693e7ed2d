"""Reads a spool: the records that processes published, whatever became of those processes.

A spool is written by programs that crash, so nothing in it is trusted: every length and offset is checked, and what does
not fit is counted in :attr:`SpoolContents.damaged` and left out. The protocol is described in ``spool.h``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import NotASpool, SpoolMissing, SpoolVersion
from .layout import constants, record_kinds, struct_dtype

_C = constants()
LINE_BYTES = _C["SPOOL_LINE_BYTES"]
CHUNK_LINES = _C["SPOOL_CHUNK_LINES"]
CHUNK_BYTES = _C["SPOOL_CHUNK_BYTES"]
CHUNKS_OFFSET = _C["SPOOL_CHUNKS_OFFSET"]
#: Chunks converted at a time: bounds the memory that reading takes beside the records themselves.
_BATCH_CHUNKS = 256
_LAST_ID = 2**31 - 1

_BULK_KINDS = (
    *("process_end", "thread_start", "thread_end", "tick", "memory", "node"),
    *("alloc", "free", "note", "copy", "gc", "heap", "wait"),
)
_PAYLOAD_KINDS = ("process_start", "code", "module", "type")

Lines = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Bulk:
    """All records of one one-line kind, by time where they have one. ``records``: structured array of the kind's dtype;
    ``process``: int32, the process id of each."""

    records: npt.NDArray[np.void]
    process: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True)
class WithPayload:
    """One record and the bytes that follow it (whole lines: longer than the lengths in the record say)."""

    process: int
    record: np.void
    payload: bytes


@dataclass(frozen=True)
class CodeObject:
    """A code object. bytecode: empty when it was too large to store; line_table: empty when it did not survive."""

    hash: int
    python_version: int
    first_line: int
    flags: int
    file: str
    name: str
    line_table: bytes
    bytecode: bytes


@dataclass(frozen=True)
class SpoolContents:
    """Everything in a spool. ``header``: the header record; ``bulk``: by kind ("tick", "memory", …); ``types``: names
    of Python types by hash; ``damaged``: records that were unfinished or did not fit."""

    header: np.void
    bulk: dict[str, Bulk]
    process_starts: list[WithPayload]
    modules: list[WithPayload]
    codes: dict[int, CodeObject]
    types: dict[int, str]
    damaged: int


@dataclass
class _Reading:
    """Records met so far."""

    bulk: dict[str, list[tuple[Lines, npt.NDArray[np.int32]]]] = field(default_factory=lambda: defaultdict(list))
    payload: dict[str, list[WithPayload]] = field(default_factory=lambda: defaultdict(list))
    damaged: int = 0


def read_header(path: Path) -> np.void:
    """The header of the spool file at ``path``. Raises SpoolMissing, NotASpool or SpoolVersion."""
    dtype = struct_dtype("spool_header")
    try:
        with path.open("rb") as file:
            data = file.read(dtype.itemsize)
    except OSError as error:
        raise SpoolMissing(path, (error.strerror or "unknown error").lower()) from error
    if len(data) < dtype.itemsize:
        raise NotASpool(path, "it is too short")
    header: np.void = np.frombuffer(data, dtype)[0]
    _check_header(path, header)
    return header


def read_spool(path: Path) -> SpoolContents:
    """Reads every published record of the spool file at ``path``. Raises SpoolMissing, NotASpool or SpoolVersion."""
    header = read_header(path)
    reading = _Reading()
    with path.open("rb", buffering=0) as file:
        slots = _offered_slots(file.fileno(), header)
        for batch in (slots[at : at + _BATCH_CHUNKS] for at in range(0, len(slots), _BATCH_CHUNKS)):
            for lines in _read_chunks(file.fileno(), batch):
                _read_records(lines, reading)
    return _contents(header, reading)


def _check_header(path: Path, header: np.void) -> None:
    if header["magic"] != _C["SPOOL_MAGIC"]:
        raise NotASpool(path, "it does not begin as one")
    if header["version"] != _C["SPOOL_VERSION"]:
        raise SpoolVersion(path, f"{header['version']}, and this program reads version {_C['SPOOL_VERSION']}")
    if header["chunk_bytes"] != CHUNK_BYTES or header["ring_entries"] != _C["SPOOL_RING"]:
        raise NotASpool(path, "its chunk size or its ring size is wrong")


def _offered_slots(descriptor: int, header: np.void) -> list[int]:
    """Slots of the chunks that processes may have written to, each once, in the order of their offers."""
    data = os.pread(descriptor, 4 * _C["SPOOL_RING"], _C["SPOOL_HEADER_BYTES"])
    ring = np.frombuffer(data[: len(data) // 4 * 4], "<u4")[: int(header["offered"])]
    existing = max(0, os.fstat(descriptor).st_size - CHUNKS_OFFSET) // LINE_BYTES
    return [slot for slot in dict.fromkeys(ring.tolist()) if slot * CHUNK_LINES < existing]


def _read_chunks(descriptor: int, slots: list[int]) -> Iterator[Lines]:
    """The lines (uint8[n, 64]) of each chunk that belongs to a process."""
    for slot in slots:
        data = os.pread(descriptor, CHUNK_BYTES, CHUNKS_OFFSET + slot * CHUNK_BYTES)
        lines = np.frombuffer(data[: len(data) // LINE_BYTES * LINE_BYTES], np.uint8).reshape(-1, LINE_BYTES)
        if len(lines) > 1 and lines[0, :4].any():
            yield lines


def _read_records(lines: Lines, reading: _Reading) -> None:
    process = int(lines[0, :4].view("<u4")[0])
    if process > _LAST_ID:
        reading.damaged += 1
        return
    heads = lines[:, :4].copy().view("<u4").ravel()
    starts, long_starts, damaged = _record_starts(heads)
    reading.damaged += damaged
    kinds = heads & 0xFFFF
    for number, name in record_kinds().items():
        short = name.removeprefix("record_")
        if short in _BULK_KINDS:
            found = np.flatnonzero(starts & (kinds == number))
            if len(found):
                reading.bulk[short].append((lines[found], np.full(len(found), process, np.int32)))
    for at in long_starts:
        name = record_kinds().get(int(kinds[at]), "").removeprefix("record_")
        if name in _PAYLOAD_KINDS:
            reading.payload[name].append(_with_payload(name, process, lines[at : at + (int(heads[at]) >> 16)]))


def _record_starts(heads: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.bool_], list[int], int]:
    """Which lines begin a record, those of them that may have a payload, and how many records are damaged."""
    kinds, counts = heads & 0xFFFF, heads >> 16
    starts = counts > 0
    starts[0] = False
    damaged = int(np.count_nonzero(kinds[1:][counts[1:] == 0]))
    end, long_starts = 1, []
    payload_kinds = [
        number for number, name in record_kinds().items() if name.removeprefix("record_") in _PAYLOAD_KINDS
    ]
    for at in np.flatnonzero(starts & ((counts > 1) | np.isin(kinds, payload_kinds))).tolist():
        if at < end:
            continue
        end = at + int(counts[at])
        damaged -= int(np.count_nonzero(kinds[at + 1 : end][counts[at + 1 : end] == 0]))  # payload, not heads
        starts[at + 1 : end] = False
        if end > len(heads):
            starts[at] = False
            damaged += 1
        elif kinds[at]:
            long_starts.append(at)
    unknown = starts & ~np.isin(kinds, list(record_kinds()))
    return starts & ~unknown, long_starts, damaged + int(np.count_nonzero(unknown))


def _with_payload(name: str, process: int, lines: Lines) -> WithPayload:
    record = lines[0].view(struct_dtype(f"record_{name}"))[0]
    return WithPayload(process, record.copy(), lines[1:].tobytes())


def _contents(header: np.void, reading: _Reading) -> SpoolContents:
    bulk = {name: _bulk(name, reading.bulk.pop(name, [])) for name in _BULK_KINDS}
    codes, incomplete = _codes(reading.payload["code"])
    types, cut = _types(reading.payload["type"])
    return SpoolContents(
        header=header,
        bulk=bulk,
        process_starts=reading.payload["process_start"],
        modules=reading.payload["module"],
        codes=codes,
        types=types,
        damaged=reading.damaged + incomplete + cut,
    )


def _bulk(name: str, parts: list[tuple[Lines, npt.NDArray[np.int32]]]) -> Bulk:
    dtype = struct_dtype(f"record_{name}")
    if not parts:
        return Bulk(np.empty(0, dtype), np.empty(0, np.int32))
    records = np.concatenate([lines for lines, _ in parts]).view(dtype).ravel()
    process = np.concatenate([process for _, process in parts])
    parts.clear()  # exact allocation samples are many: not all of them twice in memory
    if "t_ns" not in (dtype.names or ()) or not (records["t_ns"][1:] < records["t_ns"][:-1]).any():
        return Bulk(records, process)
    order = np.argsort(records["t_ns"], kind="stable")
    return Bulk(records[order], process[order])


def _types(found: list[WithPayload]) -> tuple[dict[int, str], int]:
    """Names of types by hash (bytes that are not UTF-8 as escapes), and how many records did not hold their name."""
    whole = [each for each in found if int(each.record["name_bytes"]) <= len(each.payload)]
    names = {int(each.record["type"]): each.payload[: int(each.record["name_bytes"])] for each in whole}
    return {key: name.decode("utf-8", "backslashreplace") for key, name in names.items()}, len(found) - len(whole)


def _codes(parts: list[WithPayload]) -> tuple[dict[int, CodeObject], int]:
    """Code objects by hash, and how many of them did not survive whole."""
    by_code: dict[int, dict[int, list[WithPayload]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        by_code[int(part.record["code"])][part.process].append(part)
    codes, incomplete = {}, 0
    for code_hash, processes in by_code.items():
        wholes = [_join(found) for found in processes.values()]
        record, whole = max(wholes, key=lambda each: len(each[1]) / max(1, int(each[0]["total_bytes"])))
        code, complete = _code_object(record, whole)
        incomplete += not complete
        if code is not None:
            codes[code_hash] = code
    return codes, incomplete


def _join(parts: list[WithPayload]) -> tuple[np.void, bytes]:
    """The payload of one code object from the parts that one process wrote, up to the first gap."""
    whole, records = bytearray(), sorted(parts, key=lambda part: int(part.record["part_offset"]))
    for part in records:
        offset, size = int(part.record["part_offset"]), int(part.record["part_bytes"])
        if offset <= len(whole) < offset + size <= offset + len(part.payload):
            whole += part.payload[len(whole) - offset : size]
    return records[0].record, bytes(whole)


def _code_object(record: np.void, whole: bytes) -> tuple[CodeObject | None, bool]:
    """The code object, None without its names; and whether it is whole."""
    sizes = [int(record[name]) for name in ("file_bytes", "name_bytes", "line_table_bytes", "bytecode_bytes")]
    ends = [sum(sizes[: n + 1]) for n in range(4)]
    if len(whole) < ends[1]:
        return None, False
    complete = len(whole) >= ends[3]
    code = CodeObject(
        hash=int(record["code"]),
        python_version=int(record["python_version"]),
        first_line=int(record["first_line"]),
        flags=int(record["code_flags"]),
        file=_text(whole[: ends[0]], int(record["file_kind"])),
        name=_text(whole[ends[0] : ends[1]], int(record["name_kind"])),
        line_table=whole[ends[1] : ends[2]] if len(whole) >= ends[2] else b"",
        bytecode=whole[ends[2] : ends[3]] if complete else b"",
    )
    return code, complete


def _text(data: bytes, kind: int) -> str:
    """A string of CPython's: 1, 2 or 4 bytes a character. Lone surrogates (undecodable file names) are kept."""
    encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(kind, "latin-1")
    try:
        return data.decode(encoding, "surrogatepass" if kind > 1 else "strict")
    except UnicodeDecodeError:
        return data.decode(encoding, "replace")
