"""The text of a page: names of files and functions, locations, and as much source as fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..trace.sources import Sources

#: The most characters of source text in a page. Beyond that, only excerpts around lines with samples are stored.
MAX_CHARACTERS = 2_500_000
#: Lines before and after a line with samples in an excerpt.
AROUND = 3
#: The most characters of a line.
MAX_LINE = 2_000
#: The most characters of a name.
MAX_NAME = 20_000

#: A location in the program: file, function, first line of the function, line. Of a native function: library, name, 0, -1.
Location = tuple[str | None, str | None, int | None, int | None]


def places(locations: Sequence[Location]) -> dict[str, Any]:
    """``files`` and ``function_names`` (distinct names), and ``locations``, whose columns are indices into them."""
    files = {name: index for index, name in enumerate(dict.fromkeys(each[0] or "" for each in locations))}
    functions = {name: index for index, name in enumerate(dict.fromkeys(each[1] or "" for each in locations))}
    columns = {
        "file": [files[each[0] or ""] for each in locations],
        "function": [functions[each[1] or ""] for each in locations],
        "first_line": [each[2] or 0 for each in locations],
        "line": [each[3] or each[2] or 0 for each in locations],
    }
    return {"files": list(files), "function_names": [name[:MAX_NAME] for name in functions], "locations": columns}


def sampled_lines(locations: Sequence[Location]) -> dict[str, set[int]]:
    """The lines with samples by file."""
    found: dict[str, set[int]] = {}
    for file, _, first_line, line in locations:
        if line is None or line >= 0:  # else a native function
            found.setdefault(file or "", set()).add(line or first_line or 0)
    return found


def source_pieces(sources: Sources, lines: Mapping[str, set[int]]) -> dict[str, list[list[Any]]]:
    """Source text by file: a list of [first line, text]. Whole files are stored as long as they fit.

    Files with many sampled lines come first. Files that do not fit are reduced to excerpts around these lines.
    """
    room = MAX_CHARACTERS
    pieces: dict[str, list[list[Any]]] = {}
    for file in sorted(sources, key=lambda each: (-len(lines.get(each, ())), each)):
        text = _text(sources[file])
        is_whole = len(text) <= room
        pieces[file] = [[1, text]] if is_whole else _excerpts(sources[file], lines.get(file, set()))
        room -= sum(len(text) for _, text in pieces[file])
    return pieces


def _excerpts(text: Sequence[str], lines: set[int]) -> list[list[Any]]:
    wanted = sorted({n for line in lines for n in range(line - AROUND, line + AROUND + 1) if 0 < n <= len(text)})
    runs: list[list[int]] = []
    for number in wanted:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [[run[0], _text(text[run[0] - 1 : run[-1]])] for run in runs]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…" for line in lines)
