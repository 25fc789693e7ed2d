"""What was read of a program's files while it ran (:mod:`.ahead`)."""

from __future__ import annotations

from collections.abc import Mapping

from ...formats.dataclass import dataclass, field
from ...formats.spool.chunks import Chunk
from ...formats.spool.codes import CodeObject
from ...formats.spool.early import EarlyRecords
from ...formats.spool.reader import Records, read_records
from .native.names import ReadableNames
from .native.tables import FunctionTables
from .sources import KnownTexts
from .survey.collector import Collector
from .survey.given_programs import COMMAND_FILE
from .survey.stacks import Lines

_MOST_CODE_BYTES = 64 << 20
#: Of a survey, about. With more, it ends, and what comes later is surveyed at the end.
_MOST_SURVEY_BYTES = 8 << 20
_OBJECT_BYTES = 400  # of a code object beside its contents


class KnownCodes:
    """``whole``: code objects by hash, about 64 MiB of them at most, and none of ``-c``: who writes these is asked at the
    end."""

    def __init__(self) -> None:
        self.whole: dict[int, CodeObject] = {}
        self._left_bytes = _MOST_CODE_BYTES

    def add(self, codes: Mapping[int, CodeObject]) -> None:
        """Adds code objects."""
        for code, each in codes.items():
            size = _OBJECT_BYTES + len(each.file) + len(each.name) + len(each.line_table) + len(each.bytecode)
            if size < self._left_bytes and each.file != COMMAND_FILE and code not in self.whole:
                self.whole[code] = each
                self._left_bytes -= size


@dataclass()
class Known:
    """What is known before the end. ``records``: those of finished chunks; ``survey``: that of these and later ones;
    ``sources``: files whose texts are in the trace; ``codes``: code objects; ``functions``, ``lines``: tables; ``names``:
    readable forms of mangled names. While the program runs, only one thread uses these."""

    records: EarlyRecords = field(default_factory=EarlyRecords)
    sources: KnownTexts = field(default_factory=KnownTexts)
    codes: KnownCodes = field(default_factory=KnownCodes)
    functions: FunctionTables = field(default_factory=FunctionTables)
    lines: Lines = field(default_factory=Lines)
    names: ReadableNames = field(default_factory=ReadableNames)
    survey: Collector | None = None
    _has_failed: bool = False  # a survey has

    @property
    def wants_chunks(self) -> bool:
        """Whether further finished chunks are of use."""
        if self.survey is None:
            return not self.records.is_full or not self._has_failed
        return self.survey.nbytes < _MOST_SURVEY_BYTES

    def read(self, chunks: list[Chunk], start_ns: int) -> Records:
        """The records of finished chunks that ``records`` has given. The first ones are kept; once there is no room for more,
        they are added to a survey, with events as it needs them. ``start_ns``: of the recording."""
        if not chunks:
            return read_records([])
        if not self.records.is_full:
            records = read_records(chunks)
            self.records.keep(records)
            return records
        try:
            if self.survey is None:
                self.survey = Collector(start_ns, self.codes.whole)
                for _, kept in self.records.parts:
                    self.survey.add(kept)
                self.records.begin_survey()
            records = read_records(chunks, briefly=True)
            self.survey.add(records)
            self.records.have_surveyed()
        except BaseException:  # a part may be in it already; what is wrong with a recording stays wrong
            self._has_failed = True
            self.end_survey()
            raise
        return records

    def end_survey(self) -> None:
        """Everything is surveyed at the end."""
        self.survey = None
        self.records.end_survey()

    def take_survey(self, last_ns: int | None) -> Collector | None:
        """The survey, if nothing in it is later than ``last_ns`` (CLOCK_MONOTONIC; None = no limit). It is kept no longer: call
        it once, before the spool is read."""
        found, self.survey = self.survey, None
        if found and last_ns is not None and max(found.last_ns, found.last_start_ns) > last_ns:
            self.end_survey()
            return None
        return found
