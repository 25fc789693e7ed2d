"""What was read of a program's files while it ran (:mod:`.ahead`)."""

from __future__ import annotations

from collections.abc import Mapping

from ...formats.dataclass import dataclass, field
from ...formats.spool.codes import CodeObject
from ...formats.spool.early import EarlyRecords
from .native.names import ReadableNames
from .native.tables import FunctionTables
from .sources import KnownTexts
from .survey.given_programs import COMMAND_FILE
from .survey.stacks import Lines

_MOST_CODE_BYTES = 64 << 20
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
    """What is known before the end. ``records``: those of finished chunks; ``sources``: files whose texts are in the trace;
    ``codes``: code objects; ``functions``, ``lines``: tables; ``names``: readable forms of mangled names. While the program
    runs, only one thread uses these."""

    records: EarlyRecords = field(default_factory=EarlyRecords)
    sources: KnownTexts = field(default_factory=KnownTexts)
    codes: KnownCodes = field(default_factory=KnownCodes)
    functions: FunctionTables = field(default_factory=FunctionTables)
    lines: Lines = field(default_factory=Lines)
    names: ReadableNames = field(default_factory=ReadableNames)
