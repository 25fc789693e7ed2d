"""The window and the processes of a user mark, so that samples can be selected by its name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...formats.units import counted
from ..trace import queries
from ..trace.selection import Selection
from ..trace.traces import open_traces

#: Windows that a message names, of a mark that was set several times.
_SHOWN = 3


class MarkError(Exception):
    """The mark does not say which samples are meant; ``str()`` is a sentence or two."""


def placed(selection: Selection, paths: Sequence[Path]) -> Selection:
    """``selection`` with the time of its mark, the process that set it, and that process's children; itself if it has none.

    A mark that has no end lasts until the end of the recording. Raises MarkError, and the errors of :func:`open_traces`.
    """
    if selection.mark is None:
        return selection
    if len(paths) > 1:
        raise MarkError("--mark selects from one trace: in others, the mark has other times. Name one trace.")
    with open_traces(paths) as traces:
        found = queries.rows(traces.connection, "mark_window", text=selection.mark)
        names = [row["text"] for row in queries.rows(traces.connection, "mark_list") if row["what"] == "mark"]
    if not found:
        raise MarkError(f"There is no user mark {selection.mark!r} in {paths[0]}. {_advice(selection.mark, names)}")
    if len(found) > 1:
        times = ", ".join(f"--from {row['from_s']:.3f} --to {row['to_s']:.3f}" for row in found[:_SHOWN])
        raise MarkError(
            f"The mark {selection.mark!r} was set {counted(len(found), 'time', 'times')}. Select one: {times}."
        )
    (row,) = found
    return replace(selection, from_s=row["from_s"], to_s=row["to_s"], processes=tuple(row["processes"] or ()))


def _advice(text: str, names: Sequence[str]) -> str:
    if not names:
        return "It has no user marks."
    close = difflib.get_close_matches(text, names, 1)
    return f"Did you mean {close[0]!r}?" if close else "`scalene-analyze info` lists the marks."
