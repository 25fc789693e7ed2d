"""What was read of a program's files while it ran (:mod:`.ahead`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from .native.tables import FunctionTables
from .sources import KnownTexts
from .survey.stacks import Lines


@dataclass
class Known:
    """What is known before the end. ``sources``: files whose texts are in the trace; ``functions``, ``lines``: tables;
    ``readable``: readable forms of mangled names, None = there is none."""

    sources: KnownTexts = field(default_factory=KnownTexts)
    functions: FunctionTables = field(default_factory=FunctionTables)
    lines: Lines = field(default_factory=Lines)
    readable: dict[str, str | None] = field(default_factory=dict)
