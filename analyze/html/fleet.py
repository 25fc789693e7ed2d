"""The page of a fleet: the flame graph of its stacks. It is an entry of one bin, as of a run that is compared
(docs/design/html.md)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...formats.fleet.schema import OTHER_STACKS
from ..exports.fleet import fleet_profile
from ..exports.shared.profile import NOTES, Frame, Profile, note
from ..results.base import to_json
from ..results.fleet import FleetTable
from . import calls, series, texts
from .encode import safe_json
from .model import SCHEMA, Json, made_by
from .page import assemble

#: The frame of stacks that are small in their traces, or one of very many.
OTHER = note(OTHER_STACKS)


def build_fleet_page(table: FleetTable, user_files: Iterable[str]) -> str:
    """The page about the stacks in ``table`` (FleetStack), as HTML in ASCII. ``user_files``: those that count as the user's code.
    Beyond the costliest stacks (MAX_STACKS), they are one."""
    return assemble(safe_json(fleet_document(table, user_files)))


def fleet_document(table: FleetTable, user_files: Iterable[str]) -> Json:
    """The document."""
    return {
        "schema": SCHEMA,
        "made_by": made_by(),
        "query": table.query,
        "fleet": to_json(table.fleet),
        "traces": [_entry(fleet_profile(table), set(user_files))],
    }


def _entry(profile: Profile, user_files: set[str]) -> Json:
    info = profile.traces[0]
    paths, values = [], {name: np.zeros(len(profile.values["cpu"])) for name in series.CPU}
    numbers: dict[texts.Location, int] = {}
    for row, each in enumerate(profile.values["cpu"]):
        values[f"{each.part or 'unclassified'}_us"][row] = each.value / 1e3
        places = map(_location, profile.stacks.of(each.stack) if row < series.MAX_STACKS else [OTHER])
        paths.append(calls.path_of(numbers.setdefault(place, len(numbers) + 1) for place in places if place))
    rows = np.arange(len(paths))
    tree = calls.joined(paths, series.Index(rows, rows), list(numbers), max(len(paths) - series.MAX_STACKS, 0))
    cpu = series.BinnedFigures(rows, np.zeros_like(rows), values)
    return {
        "info": to_json(info),
        "settings": {},
        "bins": {"origin_s": 0, "width_s": info.wall_s or 1, "count": 1},
        **texts.places(tree.locations),
        "user_files": sorted(user_files & {str(each[0]) for each in tree.locations}),
        "sources": {},
        "nodes": calls.packed_calls(tree),
        "short_stacks": tree.short,
        "lacks_stacks": info.lacks_stacks,
        "series": series.packed_by_name([cpu, _nothing(*series.WAITS, *series.MEMORY)], tree.nodes),
        "halves": series.packed_by_name([_nothing(*series.ALLOCATIONS)], tree.nodes),
        "thread_series": series.packed_by_name([_nothing(*series.CPU, *series.WAITS)], series.Index(rows, rows)),
        "memory": {"footprint": None, "python": None, "rss": None, "peak_rss_mark": None},
        "threads": [],
        "processes": [],
        "marks": [],
        "unseen_bytes": None,
        "libraries": {},
        "leaks": None,
    }


def _nothing(*names: str) -> series.BinnedFigures:
    """Figures that a fleet does not have."""
    none = np.zeros(0, np.int64)
    return series.BinnedFigures(none, none, dict.fromkeys(names, np.zeros(0)))


def _location(frame: Frame) -> tuple[str | None, str, int, int] | None:
    """The place of a frame; None = it is no place, but says in which part of CPU time the stack ends."""
    if frame.kind == "native":
        return frame.file, frame.function, 0, calls.NATIVE_LINE
    if frame.kind == "python":
        return frame.file, frame.function, 0, frame.line
    return (None, frame.function, 0, 0) if frame == OTHER or NOTES[frame.function] is None else None
