"""Writes spools byte by byte, from the dtypes of the C header: complete ones and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scalene_trace.formats.spool.chunks import frame_of, part_path
from scalene_trace.formats.spool.layout import constants, record_kinds, struct_dtype

C = constants()
LINE = C["SPOOL_SLOT_BYTES"]
CHUNK_SLOTS = C["SPOOL_CHUNK_SLOTS"]
PYTHON_311 = 0x030B07F0
#: Start of every spool built here: the records' t_ns are absolute, those of a trace count from this.
START_MONO_NS = 5_000_000_000
START_REAL_NS = 1_800_000_000_000_000_000

_KIND_NUMBERS = {name: number for number, name in record_kinds().items()}


class SpoolBuilder:
    """Collects records by process and writes them as a spool file. Chunks are offered in the order they are begun."""

    def __init__(self, **header: int) -> None:
        self.header: dict[str, Any] = {
            "magic": C["SPOOL_MAGIC"],
            "version": C["SPOOL_VERSION"],
            "chunk_bytes": C["SPOOL_CHUNK_BYTES"],
            "ring_entries": C["SPOOL_RING"],
            "chunk_count": 64,
            "start_mono_ns": START_MONO_NS,
            "start_real_ns": START_REAL_NS,
            "cpu_interval_ns": 10_000_000,
            "memory_threshold_bytes": 10_485_767,
            "alloc_interval_bytes": 262_144,
            "copy_threshold_bytes": 20_971_529,
            "features": 7,
        } | header
        self.losses: dict[int, int] = {}
        self._chunks: list[tuple[int, bytearray]] = []
        self._open: dict[int, bytearray] = {}

    def add(self, kind: str, process: int = 1, payload: bytes = b"", **fields: Any) -> SpoolBuilder:
        """One finished record of ``record_KIND`` with its payload."""
        record = np.zeros(1, struct_dtype(f"record_{kind}"))
        for name, value in fields.items():
            record[name] = value
        lines = 1 + -(-len(payload) // LINE)
        record["head"] = _KIND_NUMBERS[f"record_{kind}"] | lines << 16
        return self.raw(record.tobytes() + payload.ljust((lines - 1) * LINE, b"\0"), process)

    def new_chunk(self, process: int = 1) -> SpoolBuilder:
        """What follows of the process goes into another chunk."""
        self._open.pop(process, None)
        return self

    def unfinished(self, lines: int, process: int = 1, filler: bytes = b"\xaa") -> SpoolBuilder:
        """A record that was claimed and never published: kind 0, its line count, then whatever was written."""
        return self.raw((lines << 16).to_bytes(4, "little") + filler * (lines * LINE - 4), process)

    def raw(self, data: bytes, process: int = 1) -> SpoolBuilder:
        """Whole lines, as they are."""
        assert len(data) % LINE == 0
        chunk = self._open.get(process)
        if chunk is None or len(chunk) + len(data) > (CHUNK_SLOTS - 1) * LINE:
            chunk = self._open[process] = bytearray()
            self._chunks.append((process, chunk))
        chunk += data
        return self

    def bulk(self, kind: str, records: np.ndarray[Any, Any], process: int = 1) -> SpoolBuilder:
        """Many one-line records (dtype of ``record_KIND``; their heads are filled here)."""
        records["head"] = _KIND_NUMBERS[f"record_{kind}"] | 1 << 16
        data = records.tobytes()
        step = (CHUNK_SLOTS - 1) * LINE
        for at in range(0, len(data), step):
            self.new_chunk(process).raw(data[at : at + step], process)
        return self

    def code(
        self,
        code: int,
        *,
        process: int = 1,
        file: str = "/app/main.py",
        name: str = "work",
        line_table: bytes = b"",
        bytecode: bytes = b"",
        part_bytes: int = 60_000,
        skip_part: int = -1,
        **fields: Any,
    ) -> SpoolBuilder:
        """A code object in parts of ``part_bytes``; part ``skip_part`` is left out."""
        texts = [(text, *_as_cpython(text)) for text in (file, name)]
        whole = texts[0][2] + texts[1][2] + line_table + bytecode
        common = {
            "code": code,
            "python_version": PYTHON_311,
            "first_line": 1,
            "total_bytes": len(whole),
            "file_bytes": len(texts[0][2]),
            "name_bytes": len(texts[1][2]),
            "line_table_bytes": len(line_table),
            "bytecode_bytes": len(bytecode),
            "file_kind": texts[0][1],
            "name_kind": texts[1][1],
        } | fields
        for number, at in enumerate(range(0, max(len(whole), 1), part_bytes)):
            part = whole[at : at + part_bytes]
            if number != skip_part:
                self.add("code", process, part, part_offset=at, part_bytes=len(part), **common)
        return self

    def start(self, process: int = 1, command: tuple[str, ...] = ("python", "main.py"), **fields: Any) -> SpoolBuilder:
        """A process start record."""
        exe, argv = b"/usr/bin/python3.11", b"".join(word.encode() + b"\0" for word in command)
        common = {"t_ns": START_MONO_NS, "pid": 1000 + process, "cause": 1, "python_version": PYTHON_311, "stacks": 1}
        sizes = {"exe_bytes": len(exe), "argv_bytes": len(argv)}
        return self.add("process_start", process, exe + argv, **(common | sizes | fields))

    def alloc(self, number: int, at_ns: int = 0, process: int = 1, **fields: Any) -> SpoolBuilder:
        """A sampled allocation; by default 1,999,993 bytes of malloc, taken at an interval of 256 KiB."""
        common = {"id": number, "t_ns": START_MONO_NS + at_ns, "thread": 3, "source": C["ALLOC_MALLOC"]}
        sizes = {"size_bytes": 1_999_993, "usable_bytes": 2_000_008, "interval_bytes": 262_144}
        return self.add("alloc", process, **(common | sizes | fields))

    def wait(self, at_ns: int, length_ns: int, process: int = 1, **fields: Any) -> SpoolBuilder:
        """A wait of thread 3 of ``process``, in a chunk of the watcher's; by default asleep without a pause."""
        times = {"t_ns": START_MONO_NS + at_ns, "end_ns": START_MONO_NS + at_ns + length_ns, "waited_ns": length_ns}
        common = {"thread": 3, "process": process, "wait_class": C["WAIT_SLEEP"], "syscall": -1, "looks": 1}
        record = np.zeros(1, struct_dtype("record_wait"))
        for name, value in (common | times | fields).items():
            record[name] = value
        record["head"] = _KIND_NUMBERS["record_wait"] | 1 << 16
        return self.raw(record.tobytes(), C["PROCESS_WATCHER"])

    def task(self, at_ns: int, length_ns: int, process: int = 1, **fields: Any) -> SpoolBuilder:
        """A suspension of task 1 in thread 3 of ``process``, in a chunk of the watcher's; by default without a name."""
        times = {"t_ns": START_MONO_NS + at_ns, "end_ns": START_MONO_NS + at_ns + length_ns, "suspended_ns": length_ns}
        record = np.zeros(1, struct_dtype("record_task"))
        for name, value in ({"thread": 3, "process": process, "task": 1, "number": -1} | times | fields).items():
            record[name] = value
        record["head"] = _KIND_NUMBERS["record_task"] | 1 << 16
        return self.raw(record.tobytes(), C["PROCESS_WATCHER"])

    def free(self, number: int, at_ns: int = 0, process: int = 1, **fields: Any) -> SpoolBuilder:
        """The end of an allocation."""
        return self.add("free", process, **({"id": number, "t_ns": START_MONO_NS + at_ns, "thread": 3} | fields))

    def note(self, number: int, process: int = 1, **fields: Any) -> SpoolBuilder:
        """What became known of an allocation: flags by what is given: a type, an interval, a native stack."""
        names = {"type": "NOTE_TYPE", "interval_bytes": "NOTE_THINNED", "native": "NOTE_NATIVE"}
        flags = sum(C[flag] for name, flag in names.items() if name in fields)
        return self.add("note", process, **({"id": number, "flags": flags} | fields))

    def type(self, number: int, name: bytes, **fields: Any) -> SpoolBuilder:
        """The name of a Python type; ``number``: its hash."""
        return self.add("type", payload=name, **({"type": number, "name_bytes": len(name)} | fields))

    def module(self, start: int, end: int, path: str, process: int = 1, **fields: Any) -> SpoolBuilder:
        """A module record; class extension unless told otherwise."""
        common = {"start": start, "end": end, "bias": start, "path_bytes": len(path), "pc_class": C["PC_EXTENSION"]}
        return self.add("module", process, path.encode(), **(common | fields))

    def native(self, number: int, parent: int = 0, image: int = 0, address: int = 0, flags: int = 0) -> SpoolBuilder:
        """A function on a native stack; ``number``: its hash."""
        return self.add("native", hash=number, parent=parent, image=image, address=address, flags=flags)

    def image(self, drained: int = 0) -> bytes:
        """The bytes of the spool file, up to the last chunk. The ``drained`` first chunks are empty."""
        header = np.zeros(1, struct_dtype("spool_header"))
        count = len(self._chunks)
        for name, value in ({"offered": count, "taken": count, "chunks_used": count} | self.header).items():
            header[name] = value
        for number, lost in self.losses.items():
            header["losses"][0, number] = lost
        ring = np.arange(C["SPOOL_RING"], dtype="<u4")
        front = header.tobytes().ljust(C["SPOOL_HEADER_BYTES"], b"\0") + ring.tobytes()
        front = front.ljust(C["SPOOL_CHUNKS_OFFSET"], b"\0")
        chunks = [self._chunk(n, *chunk, self._is_closed(n)) for n, chunk in enumerate(self._chunks)]
        return front + bytes(drained * C["SPOOL_CHUNK_BYTES"]) + b"".join(chunks[drained:])

    def _is_closed(self, number: int) -> bool:
        """Has its process begun another chunk since?"""
        process, lines = self._chunks[number]
        return self._open.get(process) is not lines

    def closed(self) -> int:
        """How many chunks are closed before the first open one."""
        return next((n for n in range(len(self._chunks)) if not self._is_closed(n)), len(self._chunks))

    def part(self, first: int, end: int) -> bytes:
        """The bytes of a part file with the chunks from ``first`` up to ``end``."""
        chunks = enumerate(self._chunks[first:end], first)
        return b"".join(frame_of(process, offer, bytes(lines)) for offer, (process, lines) in chunks)

    def write(self, path: Path, drained: int = 0) -> Path:
        """Writes the spool file, and the ``drained`` first chunks into part files of two."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.image(drained))
        for number, first in enumerate(range(0, drained, 2), 1):
            part_path(path, number).write_bytes(self.part(first, min(first + 2, drained)))
        return path

    @staticmethod
    def _chunk(offer: int, process: int, lines: bytearray, is_closed: bool) -> bytes:
        header = np.zeros(1, struct_dtype("chunk_header"))
        header["closed"] = is_closed
        header["process"], header["offer"], header["cursor"] = process, offer, 1 + len(lines) // LINE
        return (header.tobytes() + bytes(lines)).ljust(C["SPOOL_CHUNK_BYTES"], b"\0")


def _as_cpython(text: str) -> tuple[int, bytes]:
    """Kind and bytes of a string as CPython keeps it: the narrowest of Latin-1, UCS-2 and UCS-4 that fits."""
    widest = max(map(ord, text), default=0)
    if widest < 0x100:
        return 1, text.encode("latin-1")
    if widest < 0x10000:
        return 2, text.encode("utf-16-le", "surrogatepass")
    return 4, text.encode("utf-32-le", "surrogatepass")
