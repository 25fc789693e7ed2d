"""Makes parts of the trace while the program runs, so that its user waits less at the end: source texts are read and
compressed, symbol tables and line tables are read, mangled names are made readable.

What is found here is a head start and nothing else. The end reads the whole recording, takes from here what it finds, and
makes the rest; without a head start the trace is the same. Only a source text may differ: the earlier one is nearer to what ran.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.spool.chunks import CHUNK_SLOTS, Chunk, View, live_chunk
from ...formats.spool.reader import CodeObject, CodeObjects, Records, read_header, read_records, whole_slots
from ..folder.facts import Facts
from ..rights.identity import Rights
from ..rights.opening import ProgramFiles
from .known import Known
from .native.addresses import ModuleIds, Segment, segment_of
from .native.symbols import Offsets, Symbols, read_symbols
from .native.tables import FunctionTables
from .notebooks import is_cell
from .sources import Sources, is_standard_library, read_sources

#: The first look comes so long after the converter is loaded; then looks take at most a fifth of a processor, and come less
#: and less often.
_FIRST_S, _LONGEST_S, _TIMES_AS_LONG, _PART_OF_TIME = 0.3, 10.0, 4, 0.05
#: Of one look.
_MOST_CHUNKS = 64
_FILES_AT_A_TIME, _SYMBOLS_S = 16, 1.0
#: Source texts are handed over when they have this size together, because each row group takes 9 KB of the trace.
_TOGETHER_BYTES = 4 << 20
#: What is remembered of images, addresses and names; more are left to the end.
_MOST_SEGMENTS, _MOST_ADDRESSES, _MOST_NAMES = 20_000, 200_000, 50_000

Tables = dict[str, dict[str, Any]]


class Ahead:
    """Looks at the recording at ``spool`` from time to time, as long as :meth:`end` was not called.

    ``pinned``: gives the chunks that the recording has, and keeps them in their places (:meth:`..spool.drain.Drain.pinned`);
    ``rights``: gives the rights with which files of the program are read; it is called when their names have been read;
    ``may_work``: is there a processor that nobody needs?
    """

    def __init__(
        self,
        spool: Path,
        facts: Facts,
        pinned: Callable[[], AbstractContextManager[View]],
        rights: Callable[[], Rights],
        may_work: Callable[[], bool],
    ) -> None:
        self.known = Known(functions=FunctionTables(keeps=True))
        self._spool, self._facts, self._pinned, self._rights, self._may_work = spool, facts, pinned, rights, may_work
        self._over = threading.Event()
        self._read: dict[int, int] = {}  # slots that were read of each chunk, by its offer
        self._tried: set[str] = set()
        self._texts: dict[str, list[Any]] = {}
        self._text_bytes = 0
        self._ids, self._segments = ModuleIds(), dict[int, Segment]()
        self._addresses: dict[int, Offsets] = {}
        self._symbols: Symbols | None = None

    def end(self) -> None:
        """Ends the looks; one that is under way ends soon."""
        self._over.set()
        self.known.functions.stop_keeping()

    def tables(self) -> Iterator[Tables]:
        """``source`` tables, until :meth:`end` is called."""
        begun_s, pause_s = time.monotonic(), _FIRST_S
        while not self._over.wait(pause_s):
            if not self._may_work():
                continue
            look_s = time.monotonic()
            with suppress(Exception):  # whatever fails here is done, and reported, at the end
                self._look()
            if self._text_bytes >= _TOGETHER_BYTES:
                yield self._taken()
            now_s = time.monotonic()
            pause_s = max(_FIRST_S, _TIMES_AS_LONG * (now_s - look_s), _PART_OF_TIME * (now_s - begun_s))
            pause_s = min(pause_s, _LONGEST_S)
        if self._text_bytes:
            yield self._taken()

    def _look(self) -> None:
        records = read_records(self._new_chunks())
        codes = CodeObjects()
        codes.add(records.codes)
        self.known.lines.add(codes.whole.values())
        names = self._new_names(codes.whole.values())
        addresses = self._new_addresses(records) if self._takes_functions() else {}
        if names or addresses:
            with ProgramFiles(self._rights()) as files:
                self._read_texts(names, files)
                if addresses and not self._over.is_set():
                    self._read_functions(addresses, files)

    def _new_chunks(self) -> list[Chunk]:
        """What was written to chunks since the last look."""
        found: list[Chunk] = []
        read: dict[int, int] = {}
        with self._pinned() as view, view.spool.open("rb", buffering=0) as file:
            for offer, index in view.live:
                read[offer] = first = self._read.get(offer, 0)
                if first < CHUNK_SLOTS - 1 and len(found) < _MOST_CHUNKS:
                    chunk = live_chunk(file.fileno(), index, first)
                    if chunk is not None and chunk.offer == offer:
                        found.append(chunk)
                        read[offer] += whole_slots(chunk.slots)
        self._read = read
        return found

    # ---- sources ----

    def _new_names(self, codes: Iterable[CodeObject]) -> list[str]:
        """Files that were not tried before, outside of the standard library: whether one of that is wanted depends on
        samples."""
        if not self._facts.sources:
            return []
        names = sorted({each.file for each in codes} - self._tried)
        self._tried.update(names)
        return [each for each in names if not is_cell(each) and not is_standard_library(each)]

    def _read_texts(self, names: list[str], opened: ProgramFiles) -> None:
        started_ns, known = int(read_header(self._spool)["start_real_ns"]), self.known.sources
        for at in range(0, len(names), _FILES_AT_A_TIME):
            if self._over.is_set():
                return
            some = names[at : at + _FILES_AT_A_TIME]
            self._add_texts(read_sources(some, set(), self._facts.cwd, started_ns, {}, opened.open, (), known))

    def _add_texts(self, sources: Sources) -> None:
        """Adds texts that were read. What was not read is tried again, and counted, at the end."""
        known, found = self.known.sources, sources.taken()
        known.files.update(found["file"])
        self._text_bytes += sources.text_bytes - known.text_bytes
        known.text_bytes = sources.text_bytes
        for name, values in found.items():
            self._texts.setdefault(name, []).extend(values)

    def _taken(self) -> Tables:
        found, self._texts, self._text_bytes = self._texts, {}, 0
        return {"source": found}

    # ---- functions ----

    def _new_addresses(self, records: Records) -> dict[int, Offsets]:
        """The addresses on native stacks that were not seen before, by the numbers of images."""
        for each in records.modules[: max(0, _MOST_SEGMENTS - len(self._segments))]:
            self._segments.setdefault(int(each.record["image"]), segment_of(each))
        natives = records.bulk["native"].records
        found: dict[int, Offsets] = {}
        for image in np.unique(natives["image"]).tolist():
            segment = self._segments.get(image)
            offsets = np.unique(natives["address"][natives["image"] == image].view(np.int64))
            if segment is not None and sum(map(len, self._addresses.values())) < _MOST_ADDRESSES:
                module = self._ids.id_of(segment)
                known = self._addresses.get(module, np.empty(0, np.int64))
                found[module] = np.setdiff1d(offsets[offsets > 0], known)
                self._addresses[module] = np.union1d(known, found[module])
        return {module: offsets for module, offsets in found.items() if len(offsets)}

    def _takes_functions(self) -> bool:
        """Takes the answers of the other process, which reads names. False as long as it has not given them."""
        if self._symbols and not self._symbols.is_finished():
            return False
        if self._symbols:
            self._symbols.finished()
            self.known.readable = self._symbols.readable
            self._symbols = None
        return len(self.known.readable) < _MOST_NAMES

    def _read_functions(self, addresses: dict[int, Offsets], opened: ProgramFiles) -> None:
        """Reads tables, and gives new names to another process, whose answers a later look takes."""
        header, known = read_header(self._spool), self.known
        images = self._ids.images(int(header["start_real_ns"]) - int(header["start_mono_ns"]))
        self._symbols = read_symbols(
            images,
            addresses,
            self._facts.cwd,
            _SYMBOLS_S,
            open_file=opened.open,
            tables=known.functions,
            readable=known.readable,
        )
