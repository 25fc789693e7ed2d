"""Coverage-guided fuzzing of the spool reader and of the trace reader. The long form is part of ``make stress``.

``python tests/fuzz.py spool`` (or ``tables``, or ``bytes``) runs for ``--seconds`` under atheris, which is not a
dependency: without it nothing is run. Whatever is no :class:`TraceError` ends it and leaves the input in the current
folder. Such an input is kept under ``tests/corpus/WHAT``, whose files are read by ``tests/test_must_survival.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scalene_trace.analyze.report import build_report
from scalene_trace.analyze.selection import Selection
from scalene_trace.formats import schema
from scalene_trace.formats.errors import TraceError
from scalene_trace.formats.integrity import PLACEHOLDER
from scalene_trace.formats.layout import constants, struct_dtype
from scalene_trace.formats.spool import Spool
from scalene_trace.formats.writer import write_trace
from scalene_trace.recorder.convert import Conversion, Outcome
from scalene_trace.recorder.recording import Facts
from trace_builder import MS, SECOND, TraceBuilder

CORPUS = Path(__file__).resolve().parent / "corpus"
TRACE_ID = "0" * 32
FACTS = Facts(TRACE_ID, "/t.parquet", ["x"], None, "/", False, True, {})
_C = constants()
HEADER_BYTES = 192
GOOD_HEADER = {
    "magic": _C["SPOOL_MAGIC"],
    "version": _C["SPOOL_VERSION"],
    "chunk_bytes": _C["SPOOL_CHUNK_BYTES"],
    "ring_entries": _C["SPOOL_RING"],
    "chunk_slots": 2,
    "start_mono_ns": 10**9,
    "start_real_ns": 1_700_000_000 * 10**9,
    "offered": 2,
    "slots_used": 2,
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
    path, trace = folder / "spool", folder / "t.parquet"
    path.write_bytes(spool_of(data))
    try:
        tables = Conversion(Spool(path), FACTS, Outcome(None, None, True, {}), folder / "rss").tables()
    except TraceError:
        return
    trace.unlink(missing_ok=True)
    write_trace(trace, TRACE_ID, tables)


# ---- a trace whose tables hold anything that their types allow ----


class Choices:
    """Draws values out of bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

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


# ---- running ----

TARGETS: dict[str, Callable[[bytes, Path], None]] = {
    "spool": fuzz_spool,
    "tables": fuzz_tables,
    "bytes": fuzz_bytes,
}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--found", type=Path, help="folder for inputs that reach new code (default: none is kept)")
    return parser.parse_args()


def main() -> int:
    """Runs until the time is over or something is found."""
    asked = options()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: nothing was run (pip install atheris)")
        return 0
    atheris.instrument_all()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [str(asked.found)] if asked.found else []
        seeds = CORPUS / asked.what
        if asked.what == "bytes":
            seeds = folder / "seeds"
            small_trace(seeds)
        limits = [f"-max_total_time={asked.seconds}", "-max_len=16384", "-timeout=30", "-rss_limit_mb=4096"]
        arguments = [sys.argv[0], *limits, *found, str(seeds)]
        atheris.Setup(arguments, lambda data: TARGETS[asked.what](data, folder))
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
