"""Joins the parts of code objects that processes have written to a spool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from ..dataclass import dataclass
from .reader import WithPayload

#: Processes that are kept of those that have written a code object.
_MOST_WRITERS = 256


@dataclass(frozen=True)
class CodeObject:
    """A code object. ``python_version``: PY_VERSION_HEX; ``bytecode``: b"" when it was too large to store or was cut off;
    ``line_table``: b"" when it was cut off."""

    python_version: int
    first_line: int
    file: str
    name: str
    line_table: bytes
    bytecode: bytes


class CodeObjects:
    """Joins the parts of code objects. ``whole``: those that are complete, by hash; ``writers``: the processes that have
    written those of ``watched_file``, at most 256 of each; ``known``: some that were joined before, none of that file."""

    def __init__(self, watched_file: str | None = None, known: Mapping[int, CodeObject] | None = None) -> None:
        self.writers: dict[int, set[int]] = defaultdict(set)
        self._watched_file, self._known = watched_file, known or {}
        self.whole: dict[int, CodeObject] = {}
        self._parts: dict[int, dict[int, list[WithPayload]]] = defaultdict(lambda: defaultdict(list))

    def add(self, parts: list[WithPayload]) -> None:
        """Adds the parts of one batch. Each process writes its own copy of a code object; the first complete one is kept."""
        codes = [int(part.record["code"]) for part in parts]
        for code, part in zip(codes, parts, strict=True):
            if code in self._known:
                self.whole[code] = self._known[code]
                self._parts.pop(code, None)
            elif code not in self.whole:
                self._parts[code][part.process].append(part)
        for code in set(codes) & self._parts.keys():
            found, complete = _best(self._parts[code])
            if found and complete:
                self.whole[code] = found
                if found.file == self._watched_file:
                    self.writers[code] = set(list(self._parts[code])[:_MOST_WRITERS])
                del self._parts[code]
        if self.writers:
            for code, part in zip(codes, parts, strict=True):
                writers = self.writers.get(code)
                if writers is not None and len(writers) < _MOST_WRITERS:
                    writers.add(part.process)

    def all(self) -> tuple[dict[int, CodeObject], int]:
        """Every code object that has at least its names, by hash, and the number of incomplete ones."""
        partial = {code: _best(processes)[0] for code, processes in self._parts.items()}
        return self.whole | {code: found for code, found in partial.items() if found}, len(partial)


def _best(processes: dict[int, list[WithPayload]]) -> tuple[CodeObject | None, bool]:
    """The code object from the process that wrote most of it, None without its names; and whether it is complete."""
    wholes = [_join(found) for found in processes.values()]
    return _code_object(*max(wholes, key=lambda each: len(each[1]) / max(1, int(each[0]["total_bytes"]))))


def _join(parts: list[WithPayload]) -> tuple[np.void, bytes]:
    """The payload of one code object from the parts that one process wrote, up to the first gap."""
    whole, records = bytearray(), sorted(parts, key=lambda part: int(part.record["part_offset"]))
    for part in records:
        offset, size = int(part.record["part_offset"]), int(part.record["part_bytes"])
        if offset <= len(whole) < offset + size <= offset + len(part.payload):
            whole += part.payload[len(whole) - offset : size]
    return records[0].record, bytes(whole)


def _code_object(record: np.void, whole: bytes) -> tuple[CodeObject | None, bool]:
    """The code object, None without its names; and whether it is complete."""
    sizes = [int(record[name]) for name in ("file_bytes", "name_bytes", "line_table_bytes", "bytecode_bytes")]
    ends = [sum(sizes[: n + 1]) for n in range(4)]
    if len(whole) < ends[1]:
        return None, False
    complete = len(whole) >= ends[3]
    code = CodeObject(
        python_version=int(record["python_version"]),
        first_line=int(record["first_line"]),
        file=_text(whole[: ends[0]], int(record["file_kind"])),
        name=_text(whole[ends[0] : ends[1]], int(record["name_kind"])),
        line_table=whole[ends[1] : ends[2]] if len(whole) >= ends[2] else b"",
        bytecode=whole[ends[2] : ends[3]] if complete else b"",
    )
    return code, complete


def _text(data: bytes, kind: int) -> str:
    """A string in CPython's encoding with ``kind`` bytes per character. Lone surrogates (undecodable file names) are kept."""
    encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(kind, "latin-1")
    try:
        return data.decode(encoding, "surrogatepass" if kind > 1 else "strict")
    except UnicodeDecodeError:
        return data.decode(encoding, "replace")
