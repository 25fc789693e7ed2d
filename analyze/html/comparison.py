"""The page of a comparison: the differences, both versions of the source side by side, and the calls of each run.

docs/design/html.md describes the document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from ..diff.match import Pairs
from ..diff.measures import MEASURES
from ..diff.results import Change, Changes, Diff, LineChange
from ..diff.runs import Run, Version, aligned, same_places, version_of
from ..report.marked import placed
from ..results.base import to_json
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces
from . import texts
from .encode import safe_json
from .model import SCHEMA, Json, entry, made_by
from .page import assemble

#: The columns of a line in the document; names (below) are stored as indices into a list.
_LINE = ("status", "file", "function", "line", "source", "before_file", "before_function", "before_line", "before_source")  # fmt: skip
_NAMES = ("status", "file", "function", "before_file", "before_function")
#: The columns of a change in the document; trailing unknown ones are left out.
_CHANGE = ("before", "after", "verdict", "ratio", "difference", "low", "high")
_SIDES = ("before", "after")
Runs = tuple[Sequence[Run], Sequence[Run]]


def build_comparison(diff: Diff, runs: Runs, selection: Selection) -> str:
    """The page about ``diff`` of these runs, as HTML in ASCII. Reads their traces again. Raises the errors of ``open_traces``."""
    return assemble(safe_json(comparison_document(diff, runs, selection)))


def comparison_document(diff: Diff, runs: Runs, selection: Selection) -> Json:
    """The document. Each run is an entry as in the page about a trace, with all of its time in one bin."""
    versions = version_of(aligned(runs[0])), version_of(aligned(runs[1]))
    per_second = diff.query["per_second"]
    return {
        "schema": SCHEMA,
        "made_by": made_by(),
        "query": diff.query,
        "traces": [_calls(Path(run.info.path), selection) for side in runs for run in side],
        "diff": {
            "runs": [len(side) for side in runs],
            "summary": diff.summary,
            "advice": diff.advice,
            "measures": [[m.name, m.title, m.is_time, m.part_of, m.is_level] for m in MEASURES.values()],
            "totals": _changes(diff.totals, per_second),
            **_lines(diff.lines, per_second),
            "gates": to_json(diff.gates),
            "statistics": to_json(diff.statistics),
            **_sources(diff.lines, versions),
        },
    }


def _calls(path: Path, selection: Selection) -> Json:
    """The entry of a run, without the parts that the page of a comparison does not use."""
    selection = placed(selection, [path])
    with open_traces([path], selection, REPORT_TABLES) as traces:
        return entry(traces, selection, most=1) | {"sources": {}, "libraries": {}, "leaks": None}


def _lines(lines: Sequence[LineChange], per_second: bool) -> Json:
    """``lines``: a row for each line, with its changes last. ``names``: the distinct names in the rows."""
    names: dict[str | None, int] = {}
    rows = []
    for line in lines:
        row: list[Any] = [getattr(line, name) for name in _LINE]
        for place, name in enumerate(_LINE):
            if name in _NAMES:
                row[place] = names.setdefault(_cut(row[place], texts.MAX_NAME), len(names))
            elif name in ("source", "before_source"):
                row[place] = _cut(row[place], texts.MAX_LINE)
        if row[-1] == row[_LINE.index("source")]:
            row[-1] = 0  # the same as the new text
        rows.append([*row, _changes(line.changes, per_second)])
    return {"names": list(names), "lines": rows}


def _cut(text: str | None, most: int) -> str | None:
    return text if text is None else text[:most]


def _changes(changes: Changes, per_second: bool) -> Json:
    """The columns of ``_CHANGE`` by measure; measures that are 0 on both sides are left out."""
    known = {name: change for name, change in changes.items() if change is not None}
    return {name: _change(change, per_second) for name, change in known.items() if change.before or change.after}


def _change(change: Change, per_second: bool) -> list[Any]:
    columns = [getattr(change, name) for name in _CHANGE]
    columns[:2] = change.compared(per_second)
    columns[_CHANGE.index("verdict")] = change.shown_verdict or None
    if change.difference is not None:
        columns[_CHANGE.index("difference")] = change.moved(per_second)
    while columns[-1] is None:
        columns.pop()
    return [_short(each) if isinstance(each, float) else each for each in columns]


def _short(value: float) -> float | int:
    """``value`` rounded to six digits; integers without a decimal point."""
    found = float(f"{value:.6g}")
    return int(found) if found.is_integer() else found


def _sources(lines: Iterable[LineChange], versions: tuple[Version, Version]) -> Json:
    """``sources``: the text of both sides by file. ``files``: pairs of files, and the lines that stand side by side."""
    sampled: list[dict[str, set[int]]] = [{}, {}]
    for line in lines:
        for places, file, number in zip(
            sampled, (line.before_file, line.file), (line.before_line, line.line), strict=True
        ):
            if file is not None:
                places.setdefault(file, set()).add(number or 0)
    pairs = same_places(*versions)
    files = _file_pairs(pairs, sampled)
    pieces = [_pieces(version, side, files) for side, version in enumerate(versions)]
    rows = [_side_by_side(names, pairs, pieces) for names in files]
    shown = [dict(zip(_SIDES, names, strict=True)) | {"rows": each} for names, each in zip(files, rows, strict=True)]
    return {"sources": dict(zip(_SIDES, pieces, strict=True)), "files": shown}


def _file_pairs(pairs: Pairs, sampled: Sequence[Mapping[str, set[int]]]) -> list[tuple[str | None, str | None]]:
    """Pairs of files with a sample on either side: each file with the one that has most of its lines."""
    counts: dict[tuple[str, str], int] = {}
    for (old, _), (new, _) in pairs.items():
        counts[old, new] = counts.get((old, new), 0) + 1
    found: dict[str, str] = {}
    for old, new in sorted(counts, key=lambda names: (-counts[names], names)):
        if old not in found and new not in found.values():
            found[old] = new
    both: list[tuple[str | None, str | None]] = [
        (old, new) for old, new in found.items() if old in sampled[0] or new in sampled[1]
    ]
    both += [(old, None) for old in sampled[0] if old not in found]
    return both + [(None, new) for new in sampled[1] if new not in set(found.values())]


def _pieces(version: Version, side: int, files: Sequence[tuple[str | None, str | None]]) -> Json:
    """The text of a side: whole files, or excerpts around lines with samples if the files are too large."""
    wanted = {names[side] for names in files}
    lines: dict[str, set[int]] = {}
    for file, number in version.rows:
        lines.setdefault(file, set()).add(number)
    return texts.source_pieces({file: text for file, text in version.sources.items() if file in wanted}, lines)


def _side_by_side(names: tuple[str | None, str | None], pairs: Pairs, pieces: Sequence[Json]) -> list[list[int]]:
    """Ranges of rows: first line before (0 = none), first line after (0 = none), and the number of rows."""
    here = [_numbers(side.get(name, [])) if name else [] for name, side in zip(names, pieces, strict=True)]
    known = set(here[1])
    same = [(n, pairs[names[0], n][1]) for n in here[0] if names[0] and pairs.get((names[0], n), ("",))[0] == names[1]]
    return list(_runs(_rows(here[0], here[1], _in_order([pair for pair in same if pair[1] in known]))))


def _numbers(pieces: Sequence[tuple[int, str]]) -> list[int]:
    """The numbers of the lines whose text is stored."""
    return [number for first, text in pieces for number in range(first, first + text.count("\n") + 1)]


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest increasing subsequence of the pairs (sorted by their first): lines that moved are left out."""
    ends: list[int] = []
    places: list[int] = []
    for _, number in pairs:
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
        places.append(place)
    found, wanted = [], len(ends) - 1
    for pair, place in zip(reversed(pairs), reversed(places), strict=True):
        if place == wanted:
            found.append(pair)
            wanted -= 1
    return found[::-1]


def _rows(before: Sequence[int], after: Sequence[int], same: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Each line of both sides once, with the lines of ``same`` in one row; 0 = no line."""
    at, other = 0, 0
    for pair in [*same, None]:
        stop, other_stop = (before.index(pair[0], at), after.index(pair[1], other)) if pair else (None, None)
        yield from zip_longest(before[at:stop], after[other:other_stop], fillvalue=0)
        if pair and stop is not None and other_stop is not None:
            yield pair
            at, other = stop + 1, other_stop + 1


def _runs(rows: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Merges rows whose lines follow those of the row above."""
    numbered = ((index, *row) for index, row in enumerate(rows))
    for _, group in groupby(numbered, key=lambda row: [number - row[0] if number else None for number in row[1:]]):
        found = list(group)
        yield [found[0][1], found[0][2], len(found)]
