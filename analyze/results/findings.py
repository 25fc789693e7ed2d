"""Results: what a person would say first about a recording."""

from __future__ import annotations

from dataclasses import dataclass

#: Kinds of findings, in the order in which they are said (line, function and package: the largest share first).
KINDS = (
    "loss",
    "samples",
    "line",
    "function",
    "package",
    "part",
    "idle",
    "wait",
    "leak",
    "growth",
    "peak",
    "gpu",
    "copy",
)


@dataclass(frozen=True)
class Finding:
    """One thing worth saying, as a sentence (``text``) and as figures. Fields that a kind does not need are None.

    ``kind``: one of KINDS. ``value`` in ``unit`` (percent, s, bytes, bytes/s, or number), with its standard ``error`` in
    the same unit (None = not known). ``probability``: 0 to 1, of leaks. ``name``: of the package or loss, what was waited
    for, untouched (of a peak that the resident set did not reach), or where most of the value went (python, native,
    unclassified, system, gc), of which that is the share ``part`` (0 to 1).
    """

    kind: str
    text: str
    value: float | None = None
    unit: str | None = None
    error: float | None = None
    probability: float | None = None
    name: str | None = None
    part: float | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class WaitingLine:
    """How long threads were held up at a line. ``cause``, ``library``, ``is_guess`` (of the library): as in
    waiting_lines.sql; ``threads``: how many waited there."""

    file: str
    line: int
    function: str | None
    cause: str
    library: str | None
    threads: int
    wait_s: float
    is_guess: bool = False
