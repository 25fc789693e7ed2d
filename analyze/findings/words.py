"""Words of findings: places, shares and fractions. Texts of the trace are put in as they are: renderers clean them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from ..results.findings import Finding
from ..results.report import Leak, Line, Report

_LONGEST_SOURCE = 44
#: From these shares on, the words.
_FRACTIONS = (
    (0.98, "all"),
    (0.90, "almost all"),
    (0.78, "most"),
    (0.71, "three quarters"),
    (0.62, "two thirds"),
    (0.55, "more than half"),
    (0.45, "half"),
    (0.38, "two fifths"),
    (0.29, "a third"),
    (0.21, "a quarter"),
)


class Places:
    """Names of lines: the last part of the file's path, and more of it where several files have the same."""

    def __init__(self, report: Report) -> None:
        files = {line.file for line in (*report.lines, *report.functions) if line.file is not None}
        self._counts = Counter(PurePath(file).name for file in files)

    def place(self, file: str | None, line: int | None) -> str:
        """``app.py:64``, or ``web/app.py:64`` if there are several files of that name."""
        path = PurePath(file or "")
        parts = path.parts[-2:] if self._counts[path.name] > 1 else path.parts[-1:]
        return f"{'/'.join(parts)}:{line}"

    def said(self, line: Line | Leak) -> str:
        """The place, then the line's text; the function if there is no text, since the file may then be no file, either."""
        function = f" (function {line.function})" if line.function and not line.function.endswith(">") else ""
        return self.place(line.file, line.line) + (quoted(line.source) or function * (line.source is None))


def quoted(source: str | None) -> str:
    """The text of a line as a part of a sentence, cut to a few words; nothing if it is not in the trace."""
    text = " ".join((source or "").split())
    if not text:
        return ""
    return f" `{text}`" if len(text) <= _LONGEST_SOURCE else f" `{text[: _LONGEST_SOURCE - 1].rstrip()}…`"


def fraction(part: float) -> str:
    """A share in words: "two thirds"; below a fifth, in percent."""
    return next((word for least, word in _FRACTIONS if part >= least), f"{100 * part:.0f} %")


def share(percent: float, error: float | None = None) -> str:
    """A share of the CPU time with its standard error: ``43 % (±3)``. There is no error to speak of below 0.5."""
    return f"{percent:.0f} %" + (f" (±{error:.0f})" if error is not None and error >= 0.5 else "")


def located(finding: Finding, row: Line | Leak | None) -> Finding:
    """The finding with the place of the row, if there is one."""
    if row is None:
        return finding
    return replace(finding, file=row.file, line=row.line, function=row.function, source=row.source)


def chosen(groups: Iterable[Sequence[Finding]], most: int) -> list[Finding]:
    """At most ``most`` findings: the first one of each group, then the second ones; in the order of the groups."""
    groups = [list(group) for group in groups]
    ranked = sorted((rank, number) for number, group in enumerate(groups) for rank, _ in enumerate(group))
    kept = sorted((number, rank) for rank, number in ranked[:most])
    return [groups[number][rank] for number, rank in kept]
