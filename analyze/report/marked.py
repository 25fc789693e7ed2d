"""The window and the processes of a user mark, so that samples can be selected by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...formats.trace.text import LONGEST_MARK, storable
from ...formats.units import counted
from ..trace import queries
from ..trace.selection import Selection
from ..trace.traces import Traces, open_traces

#: Names that a mistyped one is compared with: comparing takes a third of a millisecond each.
_MOST_NAMES, _MOST_EDITS = 2000, 10


class MarkError(Exception):
    """The mark does not say which samples are meant; ``str()`` is a sentence or two."""


def placed(selection: Selection, paths: Sequence[Path]) -> Selection:
    """``selection`` with the time of its mark, the process that set it, and that process's children; itself if it has none.

    A mark that has no end lasts until the end of the recording. Raises MarkError, and the errors of :func:`open_traces`.
    """
    if selection.mark is None:
        return selection
    if selection.from_s is not None or selection.to_s is not None or selection.processes:
        raise MarkError("A mark stands for a time and for processes. Leave these out.")
    if len(paths) > 1:
        raise MarkError("--mark selects from one trace: in others, the mark has other times. Name one trace.")
    with open_traces(paths) as traces:
        found = queries.rows(traces.connection, "mark_window", text=storable(selection.mark[:LONGEST_MARK]))
        names = [] if found else _names(traces)
        parents = traces.connection.execute("SELECT process, parent FROM process_parents").fetchall() if found else []
    if not found:
        raise MarkError(f"There is no user mark {selection.mark!r} in {paths[0]}. {_advice(selection.mark, names)}")
    for row in found:
        row["processes"] = _family(row["processes"], parents)
    if len(found) > 1:
        number, times = found[0]["times"], "; ".join(map(_options, found))
        raise MarkError(f"The mark {selection.mark!r} was set {counted(number, 'time', 'times')}. Select one: {times}.")
    (row,) = found
    if row["processes"] == []:
        raise MarkError(f"The process that set the mark {selection.mark!r} is not in the trace.")
    return replace(selection, from_s=row["from_s"], to_s=row["to_s"], processes=tuple(row["processes"] or ()))


def _family(processes: list[int] | None, parents: Iterable[tuple[int, int | None]]) -> list[int] | None:
    """``processes`` and all that come from them, by process and parent of each."""
    children: dict[int | None, list[int]] = {}
    for process, parent in parents:
        children.setdefault(parent, []).append(process)
    found, waiting = set[int](), list(processes or ())
    while waiting:
        if (process := waiting.pop()) not in found:
            found.add(process)
            waiting += children.get(process, ())
    return None if processes is None else sorted(found)


def _names(traces: Traces) -> list[str]:
    return [row["text"] for row in queries.rows(traces.connection, "mark_list") if row["what"] == "mark"]


def _options(row: dict[str, Any]) -> str:
    """What selects the window of one row of mark_window."""
    until = "" if row["to_s"] is None else f" --to {row['to_s']:.9f}"
    return f"--from {row['from_s']:.9f}{until}" + "".join(f" --process {each}" for each in row["processes"] or ())


def _advice(text: str, names: Sequence[str]) -> str:
    if not names:
        return "It has no user marks."
    containing = [name for name in names if text and text in name]
    if containing:
        return f"Did you mean {containing[0]!r}?"
    likely = [name for name in dict.fromkeys(names) if abs(len(name) - len(text)) < _MOST_EDITS][:_MOST_NAMES]
    close = difflib.get_close_matches(text, likely, 1)
    return f"Did you mean {close[0]!r}?" if close else "`scalene-analyze info` lists the marks."
