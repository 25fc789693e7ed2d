"""Which lines of several versions are the same line (docs/design/fleet.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class VersionLine:
    """A line of one version of a program. ``place``: its number; ``file`` None = on no line of the user's."""

    place: int
    version: str | None
    file: str | None
    function: str | None
    first_line: int | None
    line: int | None
    text: str | None

    @property
    def distance(self) -> int | None:
        """Lines from the start of the function; None if that is unknown."""
        return None if self.line is None or self.first_line is None else self.line - self.first_line


def same_lines(
    before: Sequence[VersionLine], after: Sequence[VersionLine]
) -> list[tuple[list[VersionLine], list[VersionLine]]]:
    """The lines of both sides (each of one or more versions), those that are the same line together.

    Lines are the same if they have the same text in the same function of the same file, and are the same one of the equal
    texts there; of the others, those at the same distance from the start of the function.
    """
    found: dict[object, tuple[list[VersionLine], list[VersionLine]]] = defaultdict(lambda: ([], []))
    keys = dict(_by_text([*before, *after]))  # of both sides: a version that is on both has the same lines there
    for side, lines in enumerate((before, after)):
        for line in lines:
            found[keys[line]][side].append(line)
    alone: list[dict[object, object]] = [{}, {}]
    for key, (old, new) in found.items():
        if bool(old) != bool(new):
            line = (old or new)[-1]
            if line.file is not None:
                alone[bool(new)].setdefault((line.file, line.function, line.distance), key)
    for where, key in alone[0].items():
        if where in alone[1] and where[2] is not None:  # type: ignore[index]
            found[key][1].extend(found.pop(alone[1][where])[1])
    return list(found.values())


def _by_text(lines: Iterable[VersionLine]) -> Iterable[tuple[VersionLine, object]]:
    """Each line with what identifies it in every version: its text and its number among the equal texts of its function, or,
    without a text, its distance from the start of the function."""
    groups: dict[object, list[VersionLine]] = defaultdict(list)
    for line in lines:
        groups[line.version, line.file, line.function, line.text].append(line)
    for group in groups.values():
        numbers = {number: place for place, number in enumerate(sorted({each.line or 0 for each in group}))}
        for line in group:
            within = numbers[line.line or 0] if line.text is not None else line.distance
            yield line, (line.file, line.function, line.text, within)
