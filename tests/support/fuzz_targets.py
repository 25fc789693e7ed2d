"""What is fuzzed (``tests/long/fuzz.py``): one function for each reader of what others wrote. Each takes any bytes, and ends
well or in an AssertionError or some other error that is a finding.

========  ==============================================================================================================
spool     the bytes of a spool's header and of a chunk: ``--recover`` up to a trace
parts     part files beside a spool: frames that are honest, damaged, or lie with a right checksum
recovery  what else a recording's folder holds: facts, marks, resident sizes
code      line tables and bytecode of any version
symbols   an ELF file that was loaded
control   what a client says to the recorder
tables    a whole trace with rows of any value: the report
bytes     the bytes of a trace, its checksum made right: the report
========  ==============================================================================================================
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.formats.cpython.linetable import line_table
from scalene_trace.formats.cpython.opcodes import instruction_set, instruction_starts
from scalene_trace.formats.errors import TraceError
from scalene_trace.formats.spool.chunks import SLOT_BYTES, frame_of, part_path
from scalene_trace.formats.spool.layout import constants, struct_dtype
from scalene_trace.formats.spool.reader import Spool
from scalene_trace.formats.trace import schema
from scalene_trace.formats.trace.integrity import PLACEHOLDER, check_trace
from scalene_trace.formats.trace.writer import write_trace
from scalene_trace.recorder.control.pauses import Pauses
from scalene_trace.recorder.control.server import ControlServer, listen
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from scalene_trace.recorder.convert.finish import Finished, recover
from scalene_trace.recorder.convert.native.addresses import Image
from scalene_trace.recorder.convert.native.symbols import read_symbols
from scalene_trace.recorder.folder.facts import Facts
from scalene_trace.recorder.folder.files import CONTROL_NAME, FACTS_NAME, MARKS_NAME, RSS_NAME, SPOOL_NAME
from scalene_trace.recorder.folder.marks import MarkFile, mark_table, read_marks
from scalene_trace.recorder.run.commands import Commands, Target
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool.spool_file import SpoolFile
from tests.support.paths import CORPUS
from tests.support.trace_builder import MS, SECOND, TraceBuilder

TRACE_ID = "0" * 32
FACTS = Facts(TRACE_ID, "/t.parquet", ["x"], None, "/", False, True, {})
_C = constants()
HEADER_BYTES = 192
GOOD_HEADER = {
    "magic": _C["SPOOL_MAGIC"],
    "version": _C["SPOOL_VERSION"],
    "chunk_bytes": _C["SPOOL_CHUNK_BYTES"],
    "ring_entries": _C["SPOOL_RING"],
    "chunk_count": 2,
    "start_mono_ns": 10**9,
    "start_real_ns": 1_700_000_000 * 10**9,
    "offered": 2,
    "chunks_used": 2,
    "taken": 1,
    "cpu_interval_ns": 10**7,
}


# ---- a spool ----


def spool_of(data: bytes) -> bytes:
    """A spool file: the first bytes of ``data`` are exclusive-ored into the head of a good header, the others are the
    lines of a chunk."""
    header = np.zeros(1, struct_dtype("spool_header"))
    for name, value in GOOD_HEADER.items():
        header[name] = value
    head = bytearray(header.tobytes())
    for at, byte in enumerate(data[:HEADER_BYTES]):
        head[at] ^= byte
    ring = np.arange(_C["SPOOL_RING"], dtype="<u4").tobytes()
    lines = data[HEADER_BYTES:][: _C["SPOOL_CHUNK_BYTES"]].ljust(_C["SPOOL_CHUNK_BYTES"], b"\0")
    front = bytes(head).ljust(_C["SPOOL_HEADER_BYTES"], b"\0") + ring
    return front.ljust(_C["SPOOL_CHUNKS_OFFSET"], b"\0") + lines


def fuzz_spool(data: bytes, folder: Path) -> None:
    """What ``--recover`` does with such a spool, up to a trace that can be reported on."""
    path = folder / "spool"
    path.write_bytes(spool_of(data))
    convert(path)


def convert(spool: Path) -> None:
    """Makes a trace of a spool and of the part files beside it."""
    trace = spool.with_name("t.parquet")
    try:
        tables = Conversion(Spool(spool), FACTS, Outcome(None, None, True, {}), spool.with_name("rss")).tables()
    except TraceError:
        return
    trace.unlink(missing_ok=True)
    write_trace(trace, TRACE_ID, tables)


# ---- part files beside a spool ----

_FRAME_HEAD_BYTES = 28


def frames_of(data: bytes) -> bytes:
    """A part file. Each frame is a byte that says what it is, a byte for its length, and that many bytes of ``data``."""
    choices, frames = Choices(data), bytearray()
    while choices.more:
        way, size = choices.bytes(2)
        frames += frame(way, choices.bytes(size))
    return bytes(frames)


def frame(way: int, data: bytes) -> bytes:
    """A frame with ``data`` as its lines; in its head, exclusive-ored; as what its checksum is of; or as all of it."""
    lines = max(1, -(-len(data) // SLOT_BYTES))
    honest = frame_of(1 + way % 7, way // 4, data.ljust(lines * SLOT_BYTES, b"\0"))
    if way % 4 == 0:
        return honest
    if way % 4 == 1:
        return exclusive_or(honest, data)
    if way % 4 == 2:
        sizes = len(data).to_bytes(4, "little") + zlib.crc32(data).to_bytes(4, "little")
        return honest[: _FRAME_HEAD_BYTES - len(sizes)] + sizes + data
    return data


def exclusive_or(data: bytes, other: bytes) -> bytes:
    """The bytes of ``data``, those of ``other`` exclusive-ored into the first of them."""
    return bytes(a ^ b for a, b in zip(data, other, strict=False)) + data[len(other) :]


def fuzz_parts(data: bytes, folder: Path) -> None:
    """What ``--recover`` does with part files of which the second one has these frames."""
    path = folder / "spool"
    path.write_bytes(kept("spool", "one-of-each"))
    part_path(path, 1).write_bytes(frame(0, bytes(SLOT_BYTES)))
    part_path(path, 2).write_bytes(frames_of(data))
    convert(path)


@cache
def kept(what: str, name: str) -> bytes:
    """A kept input; of a spool, its bytes."""
    data = (CORPUS / what / name).read_bytes()
    return spool_of(data) if what == "spool" else data


# ---- what else is in the folder of a recording ----


def fuzz_recovery(data: bytes, folder: Path) -> None:
    """``--recover`` where one file of the folder, or all of them, hold these bytes."""
    recording = folder / "t.parquet.spool"
    shutil.rmtree(recording, ignore_errors=True)
    recording.mkdir()
    (recording / SPOOL_NAME).write_bytes(kept("spool", "one-of-each"))
    names = (FACTS_NAME, MARKS_NAME, RSS_NAME)
    for name in names[data[0] % 4 : data[0] % 4 + 1] or names if data else ():
        (recording / name).write_bytes(data[1:])
    output = recover(recording, folder / "t.parquet").output
    check_trace(output)


# ---- what CPython says of its code ----

#: PY_VERSION_HEX: formats that are known, and some that are not.
VERSIONS = [*(0x03000000 + (minor << 16) + 0xF0 for minor in range(9, 16)), 0, 0xFFFFFFFF]


def fuzz_code(data: bytes, _: Path) -> None:
    """Line tables have ordered runs and lines that a trace can hold; each code unit belongs to an instruction before."""
    choices = Choices(data)
    version = VERSIONS[choices.bytes(1)[0] % len(VERSIONS)]
    table = line_table(version, choices.number(32), choices.rest)
    assert (np.diff(table.starts) > 0).all() and len(table.starts) == len(table.lines) <= len(data)
    lines = table.lines_of(np.array([*table.starts, 2**31 - 1]))
    assert ((lines >= 0) & (lines < 2**31)).all() or not len(table.starts)
    if instructions := instruction_set(version):
        starts = instruction_starts(instructions, choices.rest).tolist()
        assert len(starts) == len(choices.rest) // 2
        assert all(0 <= start <= unit for unit, start in enumerate(starts)) and starts == sorted(starts)


# ---- files that were loaded ----


def fuzz_symbols(data: bytes, folder: Path) -> None:
    """Functions of an ELF file: the first bytes are sampled addresses, the others are exclusive-ored into a small one."""
    choices = Choices(data)
    addresses = np.unique(np.array([choices.number(64) for _ in range(8)], np.int64))
    path = folder / "library.so"
    path.write_bytes(exclusive_or(small_library(), choices.rest) if data[:1] < b"\x80" else choices.rest)
    symbols = read_symbols({1: Image(str(path), frozenset(), 2**62)}, {1: addresses[addresses >= 0]}, str(folder))
    assert len(symbols.table["name"]) <= len(addresses) and symbols.changed == 0


@cache
def small_library() -> bytes:
    """An ELF file with a code segment, a section of symbols and one of their names."""
    names = b"\0first\0second@@V_1\0"
    symbols = [struct.pack("<IBBHQQ", *each) for each in ((0, 0, 0, 0, 0, 0), (1, 18, 0, 1, 0, 4), (7, 34, 0, 1, 4, 9))]
    table = b"".join(symbols)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 120, 0, 64, 56, 1, 64, 3, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096)
    at = len(head) + len(segment) + 3 * 64
    sections = [bytes(64), section(2, at, len(table), 2, 24), section(3, at + len(table), len(names), 0, 0)]
    return b"".join((head, segment, *sections, table, names))


def section(kind: int, offset: int, size: int, link: int, item: int) -> bytes:
    """The header of a section."""
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 8, item)


# ---- what clients say ----


@contextmanager
def controlled(folder: Path) -> Iterator[MarkFile]:
    """A recording without a program, that takes commands on the socket in ``folder``."""
    space = SpoolFile(folder / SPOOL_NAME, Settings())
    marks = MarkFile(folder / MARKS_NAME)
    listener = listen(folder)
    assert listener
    control = Commands(Target(space, marks, Pauses(space.header, marks), folder / "t.parquet", 1, refused_snapshot))
    server = ControlServer(listener, control.handle)
    server.start()
    try:
        yield marks
    finally:
        server.stop()
        marks.close()
        space.close()


def refused_snapshot() -> Future[Finished]:
    """As where the program has just ended."""
    future: Future[Finished] = Future()
    future.cancel()
    return future


def said(folder: Path, data: bytes) -> list[dict[str, Any]]:
    """The answers to a client that says this and no more."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(folder / CONTROL_NAME))
        with suppress(OSError):  # it need not hear us out
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError), client.makefile("rb") as answers:
            return [json.loads(line) for line in answers]
    return []


def fuzz_control(data: bytes, folder: Path) -> None:
    """Every command is carried out or refused in words, and the next client is served."""
    with tempfile.TemporaryDirectory(dir=folder) as name, controlled(Path(name)):
        for answer in said(Path(name), data):
            assert answer.get("ok") is True or isinstance(answer["error"], str), answer
            assert "could not carry out" not in answer.get("error", ""), answer
        (status,) = said(Path(name), b'{"command": "status"}\n')
        assert status["ok"] is True
        mark_table(read_marks(Path(name) / MARKS_NAME))


# ---- a trace whose tables hold anything that their types allow ----


class Choices:
    """Draws values out of bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def more(self) -> bool:
        """Whether any are left."""
        return self._at < len(self._data)

    @property
    def rest(self) -> bytes:
        """Those that are left."""
        return self._data[self._at :]

    def bytes(self, count: int) -> bytes:
        """The next bytes."""
        self._at += count
        return self._data[self._at - count : self._at].ljust(count, b"\0")

    def number(self, bits: int) -> int:
        """Mostly a small one, sometimes any that fits."""
        kind = self.bytes(1)[0]
        if kind < 224:
            return kind % 8
        return int.from_bytes(self.bytes(bits // 8), "little", signed=True)

    def value(self, column: schema.Column) -> Any:
        """A value of the column's type."""
        if column.null and self.bytes(1)[0] < (1 if column.name == "t_ns" else 48):
            return None
        if column.type == "bool":
            return bool(self.bytes(1)[0] & 1)
        if column.type.startswith("list"):
            item = schema.Column("item", column.type[5:-1], "", "")
            return [self.value(item) for _ in range(self.bytes(1)[0] % 4)]
        if column.type in ("int32", "int64"):
            return self.number(int(column.type[3:]))
        if column.type in ("double", "float"):
            return float(np.frombuffer(self.bytes(8), "<f8")[0])
        return self.text(column)

    def text(self, column: schema.Column) -> Any:
        """One of a few words, or any bytes."""
        words = ("", "a.py", "eval", "extension", "root", "malloc", "loss", "wall_ns", "features", "1.1", "[]", "7")
        kind = self.bytes(1)[0]
        raw = self.bytes(kind % 16) if kind >= 128 else words[kind % len(words)].encode()
        return raw if column.type == "binary" else raw.decode("utf-8", "replace")


def tables_of(data: bytes) -> dict[str, dict[str, list[Any]]]:
    """Up to seven rows of each kind."""
    choices = Choices(data)
    common = {column.name: column for column in schema.COMMON}
    tables = {}
    for kind in schema.KINDS:
        columns = [*(common[name] for name in kind.common), *kind.columns]
        count = choices.bytes(1)[0] % 8
        tables[kind.name] = {column.name: [choices.value(column) for _ in range(count)] for column in columns}
    return tables


def fuzz_tables(data: bytes, folder: Path) -> None:
    """What a report says of a whole trace with such rows."""
    path = folder / "t.parquet"
    path.unlink(missing_ok=True)
    try:
        write_trace(path, TRACE_ID, [tables_of(data)])
    except TraceError:
        return
    report_on(path)


def report_on(path: Path) -> None:
    """The report; the errors that are documented are none."""
    try:
        build_report([path], Selection())
    except TraceError:
        return


# ---- the bytes of a trace, its checksum made right ----


def sealed(data: bytes) -> bytes:
    """The file with a checksum that fits, if it has one."""
    key = bytes([len(schema.METADATA_CRC32)]) + schema.METADATA_CRC32.encode() + b"\x18\x08"
    at = data.rfind(key) + len(key)
    if at < len(key) or at + len(PLACEHOLDER) > len(data):
        return data
    before, after = data[:at], data[at + len(PLACEHOLDER) :]
    digits = f"{zlib.crc32(before + PLACEHOLDER + after):08x}".encode()
    return before + digits + after


def fuzz_bytes(data: bytes, folder: Path) -> None:
    """What a report says of a file with these bytes."""
    path = folder / "t.parquet"
    path.write_bytes(sealed(data))
    report_on(path)


def small_trace(folder: Path) -> None:
    """Writes one to begin with."""
    folder.mkdir()
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, SECOND)
    for t_ns in range(0, SECOND, 100 * MS):
        builder.tick(t_ns, process, thread, None)
    builder.write(folder / "small.parquet")


TARGETS: dict[str, Callable[[bytes, Path], None]] = {
    "spool": fuzz_spool,
    "parts": fuzz_parts,
    "recovery": fuzz_recovery,
    "code": fuzz_code,
    "symbols": fuzz_symbols,
    "control": fuzz_control,
    "tables": fuzz_tables,
    "bytes": fuzz_bytes,
}
