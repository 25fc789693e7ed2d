"""The selection in the traces that it is for: what a mark stands for, and which options match nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....analyze.results.trace import TraceInfo
from ....analyze.trace.selection import Selection
from ....formats.units import seconds
from .options import UsageError


def placed(selection: Selection, paths: Sequence[Path]) -> Selection:
    """``selection`` with the time and the processes of its mark in the trace. Raises UsageError, also for a label that is not
    in the traces, and the errors of opening."""
    if selection.labels:
        from ....analyze.labels.costs import LabelError, check_labels

        try:
            check_labels(selection, paths)
        except LabelError as error:
            raise UsageError(str(error)) from error
    if selection.mark is None:
        return selection
    from ....analyze.report.marked import MarkError
    from ....analyze.report.marked import placed as placed_in

    try:
        return placed_in(selection, paths)
    except MarkError as error:
        raise UsageError(str(error)) from error


def unmatched(selection: Selection, traces: Sequence[TraceInfo]) -> Iterator[str]:
    """A sentence or two for each option that matches nothing. Ids of processes and threads count from 1."""
    if not traces:
        return
    yield from _unknown("process", "processes", selection.processes, max(trace.processes for trace in traces))
    yield from _unknown("thread", "threads", selection.threads, max(trace.threads for trace in traces))
    longest_s = max(trace.wall_s or 0.0 for trace in traces)
    if selection.from_s is not None and longest_s and selection.from_s >= longest_s:
        yield f"--from {selection.from_s:g} selects nothing: the recording is {seconds(longest_s)} long."
    if selection.to_s is not None and selection.to_s <= 0:
        yield f"--to {selection.to_s:g} selects nothing: the recording starts at 0."


def _unknown(one: str, many: str, asked: Sequence[int], count: int) -> Iterator[str]:
    unknown = [each for each in asked if not 1 <= each <= count]
    if not unknown:
        return
    ids = ", ".join(map(str, unknown))
    if count:
        known = f"the only {one} is 1" if count == 1 else f"{many} have the ids 1 to {count}"
    else:
        known = f"the trace has no {one}"
    yield f"--{one} {ids} selects nothing: {known}. `scalene-analyze {many}` lists them."
