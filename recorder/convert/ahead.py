"""Makes parts of the trace while the program runs, so that its user waits less at the end: source texts are read and
compressed, code objects and tables of functions and lines are read, mangled names are made readable.

The end takes what it finds here and makes the rest. Samples are the same with and without. If a file is changed or removed
while the program runs, its text, the names of its functions and the losses that count such files may differ: what was read
first is nearer to what ran.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.spool.chunks import Chunk, View, live_chunk
from ...formats.spool.codes import CodeObject, CodeObjects
from ...formats.spool.reader import Records, read_header, read_records, whole_slots
from ..folder.facts import Facts
from ..rights.identity import Rights
from ..rights.opening import OpenFile, ProgramFiles
from .known import Known
from .native.addresses import ModuleIds, Segment, segment_of
from .native.names import ReadableNames
from .native.symbols import Offsets, read_symbols
from .native.tables import MOST_BYTES_EARLY, FunctionTables
from .notebooks import is_cell
from .sources import Sources, is_standard_library, read_sources
from .survey.columns import Ints, rows_by_key

#: The first pass begins so long after the converter is loaded; then passes take at most a fifth of a processor, and become
#: rarer, unless finished chunks are left.
_FIRST_S, _LONGEST_S, _TIMES_AS_LONG, _PART_OF_TIME = 0.3, 10.0, 4, 0.05
_SHORTEST_S = 0.05
#: Of one pass.
_MOST_CHUNKS, _SYMBOLS_S = 64, 1.0
#: Before the end: what the first of these passes finds, the second one reads, when the rights were observed in between.
_LAST_PASSES, _BETWEEN_LAST_S = 2, 0.06
#: Source texts are handed over when they have this size together, because each row group takes 9 KB of the trace.
_TOGETHER_BYTES = 4 << 20
#: What is remembered of files, images and addresses; more are left to the end.
_MOST_FILES, _MOST_SEGMENTS, _MOST_ADDRESSES, _LONGEST_PATH = 20_000, 20_000, 200_000, 4096
_MOST_NAME_BYTES = 16 << 20

Tables = dict[str, dict[str, Any]]


class Ahead:
    """Makes passes over what is new in the recording at ``spool``, as long as :meth:`end` was not called.

    ``pinned``: gives the chunks that the recording has, and keeps them in their places (:meth:`..spool.drain.Drain.pinned`);
    ``rights``: gives the rights with which files of the program are read; ``may_work``: is there a processor that nobody
    needs?

    A file is opened by the pass after the one that has found its name: by then, the process that has written the name was
    observed, and ``rights`` knows of it.
    """

    def __init__(
        self,
        spool: Path,
        facts: Facts,
        pinned: Callable[[], AbstractContextManager[View]],
        rights: Callable[[], Rights],
        may_work: Callable[[], bool],
    ) -> None:
        self.known = Known(functions=FunctionTables(MOST_BYTES_EARLY))
        self._facts, self._pinned, self._rights, self._may_work = facts, pinned, rights, may_work
        header = read_header(spool)
        self._started_ns = int(header["start_real_ns"])
        self._start_ns = int(header["start_mono_ns"])
        self._to_real_ns = self._started_ns - self._start_ns
        self._over, self._woken = threading.Event(), threading.Event()
        self._last_passes = 0  # that are to be made at once
        self._is_behind = False  # the last pass has left finished chunks
        self._read: dict[int, int] = {}  # slots that were read of each chunk, by its offer
        self._files: dict[int, str] = {}  # of code objects that were on no stack yet
        self._found: set[str] = set()  # files that were found
        self._names: list[str] = []  # those that are to be read
        self._texts: dict[str, list[Any]] = {}
        self._text_bytes = 0
        self._ids, self._segments = ModuleIds(), dict[int, Segment]()
        self._of_process: dict[int, dict[Segment, None]] = {}  # in order
        self._segment_count = 0
        self._addresses: dict[int, Offsets] = {}  # that were found, by module
        self._address_count = 0
        self._wanted: dict[int, Offsets] = {}  # those that are to be looked up

    def end(self) -> None:
        """Ends the passes; one that is under way opens no further file."""
        self._over.set()
        self._woken.set()

    def end_is_near(self) -> None:
        """Makes the next two passes at once, if there may be any."""
        self._last_passes = _LAST_PASSES
        self._woken.set()

    def tables(self) -> Iterator[Tables]:
        """``source`` tables, until :meth:`end` is called."""
        begun_s, pause_s = time.monotonic(), _FIRST_S
        while not self._is_over_after(pause_s):
            if not self._may_work():
                pause_s = max(pause_s, _FIRST_S)
                continue
            pass_s = time.monotonic()
            with suppress(Exception):  # whatever fails here is done, and reported, at the end
                self._pass()
            if self._text_bytes >= _TOGETHER_BYTES:
                yield self._taken()
            now_s = time.monotonic()
            rarely_s = min(max(_FIRST_S, _PART_OF_TIME * (now_s - begun_s)), _LONGEST_S)
            pause_s = max(_SHORTEST_S if self._is_behind else rarely_s, _TIMES_AS_LONG * (now_s - pass_s))
            self._last_passes = max(0, self._last_passes - 1)
            if self._last_passes:
                pause_s = _BETWEEN_LAST_S
        if any(self._texts.values()):
            yield self._taken()

    def _is_over_after(self, pause_s: float) -> bool:
        self._woken.wait(pause_s)
        self._woken.clear()
        return self._over.is_set()

    def _pass(self) -> None:
        self._is_behind = False
        self._read_files()
        if self._over.is_set():
            return
        finished, others = self._new_chunks()
        records = self.known.read(finished, self._start_ns)
        self._is_behind = len(finished) == _MOST_CHUNKS
        for each in (records, read_records(others)):
            self._find(each)

    def _new_chunks(self) -> tuple[list[Chunk], list[Chunk]]:
        """The chunks that have been finished since the last pass, and what was written to others since."""
        with self._pinned() as view, view.spool.open("rb", buffering=0) as file:
            early = self.known.records
            finished, taken = early.new_chunks(view, _MOST_CHUNKS) if self.known.wants_chunks else [], early.taken()
            given, are_left = {chunk.offer for chunk in finished}, len(finished) == _MOST_CHUNKS
            found: list[Chunk] = []
            read: dict[int, int] = {}
            for each in view.live:
                if each.offer in taken or each.offer in given:
                    continue
                if are_left and each.is_closed:
                    continue  # a later pass gets it whole
                read[each.offer] = first = self._read.get(each.offer, 0)
                if len(found) < _MOST_CHUNKS and each.slots > first:
                    chunk = live_chunk(file.fileno(), each.place, first)
                    if chunk is not None and chunk.offer == each.offer:
                        found.append(chunk)
                        read[each.offer] += whole_slots(chunk.slots)
        self._read = read
        return finished, found

    def _find(self, records: Records) -> None:
        codes = CodeObjects()
        codes.add(records.codes)
        self._find_names(records, codes.whole)
        self._find_addresses(records)
        if not self._over.is_set():
            self.known.codes.add(codes.whole)
            self.known.lines.add(codes.whole.values())

    def _read_files(self) -> None:
        """Reads what the last pass has found, with the rights that hold now. If they hold no more afterwards, nothing of it
        is kept."""
        if not self._names and not self._wanted:
            return
        rights = self._rights()
        with ProgramFiles(rights) as files:
            opened = self._unless_over(files.open)
            sources = self._sources(opened)
            self._look_up(opened)
        if self._rights() == rights:
            self._add_texts(sources)
        else:
            self.known.functions, self.known.names = FunctionTables(MOST_BYTES_EARLY), ReadableNames()

    def _unless_over(self, open_file: OpenFile) -> OpenFile:
        """Opens nothing after the end: what is not read yet is read there."""

        def opened(path: Path) -> int:
            if self._over.is_set():
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            return open_file(path)

        return opened

    # ---- sources ----

    def _find_names(self, records: Records, codes: Mapping[int, CodeObject]) -> None:
        """The files of code on stacks, outside of the standard library: whether one of that is wanted depends on samples."""
        if not self._facts.sources:
            return
        if len(self._files) < _MOST_FILES:
            self._files |= {code: each.file for code, each in codes.items() if len(each.file) <= _LONGEST_PATH}
        for code in np.unique(records.bulk["node"].records["code"]).tolist():
            name = self._files.pop(code, "<")
            if name not in self._found and len(self._found) < _MOST_FILES and _may_be_read(name):
                self._found.add(name)
                self._names.append(name)

    def _sources(self, opened: OpenFile) -> Sources:
        names, self._names = self._names, []
        return read_sources(names, set(), self._facts.cwd, self._started_ns, {}, opened, (), self.known.sources)

    def _add_texts(self, sources: Sources) -> None:
        """Adds texts that were read. What was not read is tried again, and counted, at the end."""
        known, found = self.known.sources, sources.taken()
        known.modified_ns |= sources.modified_ns
        self._text_bytes += sources.text_bytes - known.text_bytes
        known.text_bytes = sources.text_bytes
        for name, values in found.items():
            self._texts.setdefault(name, []).extend(values)

    def _taken(self) -> Tables:
        found, self._texts, self._text_bytes = self._texts, {}, 0
        return {"source": found}

    # ---- functions ----

    def _find_addresses(self, records: Records) -> None:
        """The addresses on native stacks, and those that ticks interrupted, that were not seen before."""
        for each in records.modules:
            if self._segment_count < _MOST_SEGMENTS and int(each.record["path_bytes"]) <= _LONGEST_PATH:
                segment = segment_of(each)
                self._segments.setdefault(int(each.record["image"]), segment)
                of_process = self._of_process.setdefault(each.process, {})
                if segment not in of_process:  # else it was read from the chunk before that was closed
                    of_process[segment] = None
                    self._segment_count += 1
        natives = records.bulk["native"].records
        for image, rows in rows_by_key(natives["image"]):
            if (known := self._segments.get(image)) is not None:
                self._add_addresses(known, natives["address"].view(np.int64)[rows])
        ticks = records.bulk["tick"]
        for process, rows in rows_by_key(ticks.process):
            addresses = np.unique(ticks.records["pc"][rows])
            for segment in self._of_process.get(process, ()):  # those of its parents are left to the end
                first, end = np.searchsorted(addresses, [segment.start, segment.end])
                if first < end:
                    self._add_addresses(segment, (addresses[first:end] - np.uint64(segment.bias)).view(np.int64))

    def _add_addresses(self, segment: Segment, addresses: Ints) -> None:
        """``addresses``: ELF virtual addresses in the image of ``segment``."""
        if self._address_count >= _MOST_ADDRESSES:
            return
        module = self._ids.id_of(segment)
        known = self._addresses.get(module, np.empty(0, np.int64))
        new = np.setdiff1d(addresses[addresses > 0], known)
        if len(new):
            self._address_count += len(new)
            self._addresses[module] = np.union1d(known, new)
            self._wanted[module] = np.union1d(self._wanted.get(module, new), new)

    def _look_up(self, opened: OpenFile) -> None:
        """Reads the tables of the functions at the new addresses, and asks for readable forms of their names."""
        known = self.known
        if known.names.is_reading():  # by the next pass: one process at a time
            return
        wanted, self._wanted = self._wanted, {}
        if known.names.text_bytes > _MOST_NAME_BYTES:
            return
        images = self._ids.images(self._to_real_ns)
        read_symbols(images, wanted, self._facts.cwd, _SYMBOLS_S, opened, known.functions, known.names)


def _may_be_read(name: str) -> bool:
    return not (name.startswith("<") or is_cell(name) or is_standard_library(name))
