"""Checks that a file is a trace and that every bit of it is as it was written.

DuckDB reads many damaged Parquet files without an error. Therefore the file metadata of a trace holds a CRC-32 of the whole
file: eight lower-case hex digits, computed with :data:`PLACEHOLDER` in their place and patched in afterwards. This module
needs only the standard library, so that a reader can check a file before it loads other modules.
"""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path

from ..errors import (
    NotATrace,
    NotParquet,
    TraceCut,
    TraceDamaged,
    TraceEmpty,
    TraceFileError,
    TraceIsDirectory,
    TraceMissing,
    TraceTooNew,
)
from . import schema

PLACEHOLDER = b"00000000"
_MAGIC = b"PAR1"
#: Head magic, a footer of at least one byte, its length, tail magic.
_SMALLEST_BYTES = 13
_STRING_FIELD = b"\x18"  # thrift compact protocol: "next field, binary"
_OUR_KEYS = b"scalene_trace."
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class TraceHeader:
    """From the file metadata of a trace: format version ("1.0") and trace id (hex)."""

    version: str
    trace_id: str


def check_trace(path: Path) -> TraceHeader:
    """Checks every byte of the trace at ``path`` and returns its header.

    Raises TraceMissing, TraceIsDirectory, TraceEmpty, NotParquet, NotATrace, TraceCut, TraceDamaged or TraceTooNew.
    """
    descriptor = _open(path)
    try:
        if os.fstat(descriptor).st_size == 0:
            raise TraceEmpty(path)
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            return _check(path, data)
    finally:
        os.close(descriptor)


def stored_frames(path: Path) -> int | None:
    """The number of frames of all stacks together, from the file metadata of the trace at ``path``; None where it is not
    there, or where there is no trace. The file is not checked: use it only to plan memory."""
    try:
        descriptor = _open(path)
    except TraceFileError:
        return None
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            _, digits = _find(data, schema.METADATA_FRAMES, *_framed_footer(path, data))
    except (OSError, ValueError, TraceFileError):  # mmap raises ValueError for an empty file
        return None
    finally:
        os.close(descriptor)
    return int(digits) if digits.isdigit() else None


def seal(descriptor: int) -> None:
    """Computes the CRC-32 of the finished file and patches it over the placeholder.

    Raises ValueError when the file metadata has no placeholder.
    """
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        start, end = _footer(data)
        at, value = _find(data, schema.METADATA_CRC32, start, end)
        if value != PLACEHOLDER:
            raise ValueError("the footer has no checksum placeholder")
        digits = _digits(_crc(data, 0, len(data)))
    os.pwrite(descriptor, digits, at)


def _open(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TraceMissing(path, (error.strerror or "unknown error").lower()) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise TraceIsDirectory(path) if stat.S_ISDIR(mode) else TraceMissing(path, "it is not a regular file")


def _check(path: Path, data: mmap.mmap) -> TraceHeader:
    start, end = _framed_footer(path, data)
    version_at, version = _find(data, schema.METADATA_VERSION, start, end)
    crc_at, stored = _find(data, schema.METADATA_CRC32, start, end)
    if data.find(_OUR_KEYS, start, end) < 0:
        raise NotATrace(path)
    _, trace_id = _find(data, schema.METADATA_TRACE_ID, start, end)
    if crc_at < 0 or version_at < 0 or len(stored) != len(PLACEHOLDER):
        raise TraceDamaged(path, "its file metadata is incomplete")
    after = crc_at + len(PLACEHOLDER)
    before_it = _crc(data, 0, crc_at)
    if _digits(_crc(data, after, len(data), zlib.crc32(PLACEHOLDER, before_it))) != stored:
        raise TraceDamaged(path, "its checksum does not match its contents")
    if not _readable(version.decode("ascii", "replace")):
        raise TraceTooNew(path, version.decode("ascii", "replace"))
    return TraceHeader(version.decode(), trace_id.decode("ascii", "replace"))


def _framed_footer(path: Path, data: mmap.mmap) -> tuple[int, int]:
    head, tail = data[:4] == _MAGIC, data[-4:] == _MAGIC
    if not head and not (tail and data.rfind(_OUR_KEYS) >= 0):
        raise NotParquet(path)
    if not tail or len(data) < _SMALLEST_BYTES:
        raise TraceCut(path)
    start, end = _footer(data)
    if not head or start < len(_MAGIC):
        raise TraceDamaged(path, "its first bytes or the length of its footer are wrong")
    return start, end


def _footer(data: mmap.mmap) -> tuple[int, int]:
    end = len(data) - 8
    return end - int.from_bytes(data[end : end + 4], "little"), end


def _find(data: mmap.mmap, key: str, start: int, end: int) -> tuple[int, bytes]:
    """Offset and bytes of the value of ``key`` in the footer; (-1, b"") if the key is not there."""
    pattern = _STRING_FIELD + bytes([len(key)]) + key.encode() + _STRING_FIELD
    at = data.rfind(pattern, start, end)
    if at < 0:
        return -1, b""
    at += len(pattern)
    length = data[at]  # one byte: our values are shorter than 128
    return at + 1, data[at + 1 : min(at + 1 + length, end)]


def _crc(data: mmap.mmap, begin: int, end: int, crc: int = 0) -> int:
    """CRC-32 of a range, continued from ``crc``. Pages are released after they were read, because the pages of a mapped file
    count towards our resident set."""
    with memoryview(data) as view:
        for piece in range(begin - begin % _PIECE_BYTES, end, _PIECE_BYTES):
            with view[max(piece, begin) : min(piece + _PIECE_BYTES, end)] as part:
                crc = zlib.crc32(part, crc)
            data.madvise(mmap.MADV_DONTNEED, piece, _PIECE_BYTES)
    return crc


def _digits(crc: int) -> bytes:
    return f"{crc:08x}".encode()


def _readable(version: str) -> bool:
    major, _, minor = version.partition(".")
    return major.isdigit() and minor.isdigit() and int(major) <= schema.FORMAT_MAJOR
