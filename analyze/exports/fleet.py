"""The stacks of a fleet as a profile, and in those formats of other programs that need no more than sums by stack."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from ..results.fleet import Coverage, FleetStack, FleetTable
from ..results.trace import TraceInfo
from .collapsed import frames_of
from .otlp import otlp
from .pprof import pprof
from .shared.profile import METRICS, NOTES, Frame, Profile, Rounder, Stacks, Value
from .speedscope import speedscope

#: By the names that the formats have for a trace; collapsed stacks are what summaries hold.
FORMATS: dict[str, Callable[[Profile], bytes]] = {"speedscope": speedscope, "pprof": pprof, "otlp": otlp}


def fleet_profile(table: FleetTable) -> Profile:
    """The CPU time of the rows of ``table`` (FleetStack), as if all traces were one."""
    stacks, rounder = Stacks(), Rounder(METRICS["cpu"].scale)
    values = []
    for row in table.rows:
        frames = list(frames_of(row.stack))
        index = stacks.stack(tuple(map(stacks.frame, frames)))
        values.append(Value(1, 0, 0, 0, index, _part(frames), rounder.round(row.cpu_s)))
    labels = dict(each.split("=", 1) for each in table.query["where"])
    hosts = table.query["host"]
    settings = {"hostname": hosts[0]} if len(hosts) == 1 else {}
    if labels and len(labels) == len(table.query["where"]):
        settings["labels"] = json.dumps(labels)
    return Profile([_info(table.fleet, table.rows)], stacks, {"cpu": values}, settings=[settings])


def _part(frames: Sequence[Frame]) -> str | None:
    """The part of CPU time that a stack ends in."""
    last = frames[-1]
    return NOTES[last.function] if last.kind == "note" else last.kind


def _info(fleet: Coverage, rows: Sequence[FleetStack]) -> TraceInfo:
    """The fleet in the place of a trace. Its id is a hash of its stacks, so that the same ones have the same id."""
    text = "".join(f"{row.stack} {row.cpu_s!r}\n" for row in rows)
    return TraceInfo(
        path=fleet.folder,
        trace_id=hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32],
        format_version="",
        started_at=fleet.first_day and f"{fleet.first_day}T00:00:00+00:00",
        wall_s=3600 * fleet.exposure if fleet.exposure and fleet.per is None else None,
        command=None,
        python=None,
        processes=0,
        threads=0,
        events={metric.event: 0 if name == "cpu" else None for name, metric in METRICS.items()} | {"memory": None},
        losses=[],
    )
