"""The findings as text: a paragraph each, before all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....analyze.results.findings import Finding
from ..table import wrap
from ..text import Screen, clean


def findings_text(findings: Sequence[Finding], screen: Screen) -> Iterator[str]:
    """The sentences, and an empty line after them; nothing without findings."""
    mark = screen.glyph("•", "*")
    for finding in findings:
        lines = wrap(f"{mark} {_shown(finding.text, screen)}", screen.width, "  ")
        style = "loss" if finding.kind == "loss" else "bold"
        yield from (screen.paint(line, style) for line in lines)
    yield from ([""] if findings else [])


def _shown(text: str, screen: Screen) -> str:
    """The sentence with the text of the trace made harmless, and in ASCII if the screen has no more."""
    text = clean(text)
    for fancy, simple in (("±", "+-"), ("×", "x"), ("…", "...")):
        text = text.replace(fancy, screen.glyph(fancy, simple))
    return text
