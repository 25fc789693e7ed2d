"""Checks that a file is a trace and that every bit of it is as it was written.

DuckDB reads many damaged Parquet files without an error. Therefore the file metadata of a trace holds a CRC-32 of the whole
file: eight lower-case hex digits, computed with :data:`PLACEHOLDER` in their place and patched in afterwards. A file that
is as it was written may still come from a stranger, so what it claims to unfold to is checked too (:mod:`.bounds.limits`).
This module needs only the standard library, so that a reader can check a file before it loads other modules. The limits are
imported by what reads a file (9 ms), since the recorder only seals one.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..dataclass import dataclass
from ..errors import (
    NotATrace,
    NotParquet,
    TraceChanged,
    TraceCut,
    TraceDamaged,
    TraceEmpty,
    TraceFileError,
    TraceIsDirectory,
    TraceMissing,
    TraceTooLarge,
    TraceTooNew,
)
from . import schema

PLACEHOLDER = b"00000000"
_MAGIC = b"PAR1"
#: Head magic, a footer of at least one byte, its length, tail magic.
_SMALLEST_BYTES = 13
#: The length of the footer and the tail magic, behind it.
_FRAME_BYTES = 8
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

    Raises TraceMissing, TraceIsDirectory, TraceEmpty, NotParquet, NotATrace, TraceCut, TraceDamaged, TraceChanged,
    TraceTooLarge or TraceTooNew.
    """
    from .bounds.largest import TooLarge

    descriptor = _open(path)
    try:
        file = _File(descriptor, path)
        if file.size == 0:
            raise TraceEmpty(path)
        return _check(path, file)
    except TooLarge as error:
        raise TraceTooLarge(path, str(error)) from error
    finally:
        os.close(descriptor)


def check_open(path: Path, descriptor: int, version_key: str, most_major: int) -> None:
    """Checks every byte of an opened file that was sealed (:func:`seal`) with its version under ``version_key``; ``path``
    names it in messages.

    Raises TraceEmpty, NotParquet, NotATrace, TraceCut, TraceDamaged, TraceChanged, TraceTooLarge or TraceTooNew.
    """
    from .bounds.largest import TooLarge

    file = _File(descriptor, path)
    try:
        if file.size == 0:
            raise TraceEmpty(path)
        _check(path, file, version_key, most_major)
    except TooLarge as error:
        raise TraceTooLarge(path, str(error)) from error


def stored_frames(path: Path) -> int | None:
    """The number of frames of all stacks together, from the file metadata of the trace at ``path``; None where it is not
    there, or where there is no trace. The file is not checked: use it only to plan memory."""
    digits = _stored(path, schema.METADATA_FRAMES)
    return int(digits) if digits.isdigit() else None


def stored_trace_id(path: Path) -> str:
    """The trace id in the file metadata of the trace at ``path``; "" where there is none. The file is not checked."""
    return _stored(path, schema.METADATA_TRACE_ID).decode(errors="replace")


def _stored(path: Path, key: str) -> bytes:
    """The value of a key of the file metadata, without a check of the file; b"" where there is none."""
    from .bounds.largest import TooLarge

    try:
        descriptor = _open(path)
    except TraceFileError:
        return b""
    try:
        return _find(_framed_footer(path, _File(descriptor, path)), key)[1]
    except (OSError, TraceFileError, TooLarge):
        return b""
    finally:
        os.close(descriptor)


def seal(descriptor: int) -> None:
    """Computes the CRC-32 of the finished file and patches it over the placeholder.

    Raises ValueError when the file metadata has no placeholder.
    """
    file = _File(descriptor)
    footer = _unchecked_footer(file)
    at, value = _find(footer, schema.METADATA_CRC32)
    if value != PLACEHOLDER:
        raise ValueError("the footer has no checksum placeholder")
    os.pwrite(descriptor, _digits(_crc(file, 0, file.size)), footer.at + at)


class _File:
    """An opened file. It is read and never mapped: reading a map of a file that another program has cut ends the process
    with SIGBUS."""

    def __init__(self, descriptor: int, path: Path = Path()) -> None:
        self._descriptor, self._path = descriptor, path
        self.size = os.fstat(descriptor).st_size

    def read(self, at: int, count: int) -> bytes:
        """The bytes from ``at`` on; fewer than ``count`` only at the end of the file. Raises TraceChanged."""
        count = min(count, self.size - at)
        data = os.pread(self._descriptor, count, at) if count > 0 else b""
        return data if len(data) >= count else self._reread(data, at, count)

    def _reread(self, data: bytes, at: int, count: int) -> bytes:
        """The rest of a read that returned less than was asked for, as reads of more than 2 GiB do."""
        while len(data) < count:
            more = os.pread(self._descriptor, count - len(data), at + len(data))
            if not more:
                raise TraceChanged(self._path)
            data += more
        return data

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        """The bytes of a range, in pieces that are overwritten by the next ones. Raises TraceChanged."""
        piece = memoryview(bytearray(_PIECE_BYTES))
        while begin < end:
            count = os.preadv(self._descriptor, [piece[: min(end - begin, _PIECE_BYTES)]], begin)
            if not count:
                raise TraceChanged(self._path)
            yield piece[:count]
            begin += count


@dataclass(frozen=True)
class _Footer:
    """The bytes of a footer, and where they are in the file."""

    at: int
    data: bytes


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


def _check(
    path: Path, file: _File, version_key: str = schema.METADATA_VERSION, most_major: int = schema.FORMAT_MAJOR
) -> TraceHeader:
    footer = _framed_footer(path, file)
    version_at, version = _find(footer, version_key)
    crc_at, stored = _find(footer, schema.METADATA_CRC32)
    if _OUR_KEYS not in footer.data:
        raise NotATrace(path)
    _, trace_id = _find(footer, schema.METADATA_TRACE_ID)
    if crc_at < 0 or version_at < 0 or len(stored) != len(PLACEHOLDER):
        raise TraceDamaged(path, "its file metadata is incomplete")
    before, after = footer.at + crc_at, footer.at + crc_at + len(PLACEHOLDER)
    if _digits(_crc(file, after, file.size, zlib.crc32(PLACEHOLDER, _crc(file, 0, before)))) != stored:
        raise TraceDamaged(path, "its checksum does not match its contents")
    if not _readable(version.decode("ascii", "replace"), most_major):
        raise TraceTooNew(path, version.decode("ascii", "replace"))
    from .bounds.limits import NotThrift, check_sizes

    try:
        check_sizes(footer.data, footer.at, file.read)
    except NotThrift as error:
        raise TraceDamaged(path, f"its columns cannot be read ({error})") from error
    return TraceHeader(version.decode(), trace_id.decode("ascii", "replace"))


def _framed_footer(path: Path, file: _File) -> _Footer:
    head, tail = file.read(0, 4) == _MAGIC, file.read(max(file.size - 4, 0), 4) == _MAGIC
    if not head and not (tail and _is_ours(file)):
        raise NotParquet(path)
    if not tail or file.size < _SMALLEST_BYTES:
        raise TraceCut(path)
    if not head or _footer_bytes(file) + len(_MAGIC) + _FRAME_BYTES > file.size:
        raise TraceDamaged(path, "its first bytes or the length of its footer are wrong")
    return _footer(file)


def _is_ours(file: _File) -> bool:
    """Are our keys near the end of the file, which does not begin as it should?"""
    return _OUR_KEYS in file.read(max(file.size - _PIECE_BYTES, 0), _PIECE_BYTES)


def _footer_bytes(file: _File) -> int:
    return int.from_bytes(file.read(file.size - _FRAME_BYTES, 4), "little")


def _footer(file: _File) -> _Footer:
    """The footer. Raises TooLarge."""
    from .bounds.largest import check_footer_size

    check_footer_size(_footer_bytes(file), file.size)
    return _unchecked_footer(file)


def _unchecked_footer(file: _File) -> _Footer:
    size = _footer_bytes(file)
    at = file.size - _FRAME_BYTES - size
    return _Footer(at, file.read(at, size))


def _find(footer: _Footer, key: str) -> tuple[int, bytes]:
    """Offset in the footer and bytes of the value of ``key``; (-1, b"") if the key is not there."""
    pattern = _STRING_FIELD + bytes([len(key)]) + key.encode() + _STRING_FIELD
    at = footer.data.rfind(pattern)
    if at < 0:
        return -1, b""
    at += len(pattern) + 1
    length = int.from_bytes(footer.data[at - 1 : at])  # one byte: our values are shorter than 128
    return at, footer.data[at : at + length]


def _crc(file: _File, begin: int, end: int, crc: int = 0) -> int:
    """CRC-32 of a range, continued from ``crc``."""
    for piece in file.pieces(begin, end):
        crc = zlib.crc32(piece, crc)
    return crc


def _digits(crc: int) -> bytes:
    return f"{crc:08x}".encode()


def _readable(version: str, most_major: int) -> bool:
    major, _, minor = version.partition(".")
    return major.isdigit() and minor.isdigit() and int(major) <= most_major
