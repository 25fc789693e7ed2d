"""From a spool to the tables of a trace."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from scalene_trace.formats import schema
from scalene_trace.formats.layout import constants
from scalene_trace.formats.losses import Loss, recorder_loss, shim_losses
from scalene_trace.formats.spool import SpoolContents

from .addresses import ModuleIds, segments_by_process
from .allocations import allocations
from .memory import copy_table, gc_table, heap_table, memory_table, possible
from .processes import RootEnd, cpu_start_ns, forked_from, process_table, thread_table
from .recording import RSS_STRUCT, Facts
from .sources import Sources, read_sources
from .stacks import Nodes, Stacks, read_nodes, resolve_stacks, unknown_line_tables
from .text import storable
from .ticks import code_table, cpu_table
from .waits import possible_waits, wait_table

_C = constants()
#: Kinds of samples in the trace, and the kinds of records that have a stack.
_SAMPLES = ("cpu", "wait", "memory", "alloc", "copy")
_WITH_STACK = ("tick", "wait", "memory", "alloc", "free", "copy")

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How the recording ended. ``root_end``: None when recovered; ``wall_ns``: None = up to the last record;
    ``losses``: the recorder's own, count by name."""

    root_end: RootEnd | None
    wall_ns: int | None
    recovered: bool
    losses: dict[str, int]


def build_tables(contents: SpoolContents, facts: Facts, outcome: Outcome, rss_path: Path) -> Tables:
    """All tables of the trace, as :func:`formats.writer.write_trace` takes them."""
    start_ns = int(contents.header["start_mono_ns"])
    ticks = contents.bulk["tick"]
    copies, impossible_copies = possible(contents.bulk["copy"], "bytes")
    waits, impossible_waits = possible_waits(contents.bulk["wait"])
    nodes = read_nodes(contents.bulk["node"], contents.codes)
    stacks = resolve_stacks(nodes, _wanted_stacks(contents))
    modules = ModuleIds()
    segments = segments_by_process(contents.modules, forked_from(contents))
    sources = _sources(contents, facts, nodes, stacks)
    allocs = allocations(contents, start_ns, stacks)
    losses = outcome.losses | {
        "damaged_records": contents.damaged + allocs.damaged + impossible_copies + impossible_waits,
        "unresolved_stack": stacks.unresolved,
        "unknown_lines": unknown_line_tables(nodes),
        "source_unread": sources.unread,
        "recovered": int(outcome.recovered),
    }
    tables: Tables = {
        "cpu": cpu_table(ticks, start_ns, cpu_start_ns(contents), nodes, stacks, segments, modules),
        "wait": wait_table(waits, start_ns, stacks),
        "memory": memory_table(contents.bulk["memory"], start_ns, stacks),
        "alloc": allocs.table,
        "copy": copy_table(copies, start_ns, stacks),
        "gc": gc_table(contents, start_ns),
        "heap": heap_table(contents.bulk["heap"], start_ns),
        "rss": _rss_table(rss_path),
        "process": process_table(contents, outcome.root_end),
        "thread": thread_table(contents),
        "location": _location_table(nodes, stacks),
        "stack": stacks.table,
        "code": code_table(ticks, nodes),
        "module": modules.table(),
        "source": sources.table,
        "setting": _setting_table(contents, facts, outcome),
        "loss": _loss_table(contents, losses),
    }
    return _with_storable_names(tables)


def event_count(tables: Tables) -> int:
    """How many samples of all kinds the tables hold."""
    return sum(len(tables[kind]["t_ns"]) for kind in _SAMPLES)


def _wanted_stacks(contents: SpoolContents) -> Any:
    """The distinct hashes of all stacks that some sample has."""
    distinct = [np.unique(contents.bulk[kind].records["stack"]) for kind in _WITH_STACK]
    hashes = np.unique(np.concatenate(distinct))
    return hashes[hashes != 0]


def _location_table(nodes: Nodes, stacks: Stacks) -> dict[str, Any]:
    """Locations that some stack refers to; ids are those of ``nodes``."""
    used = np.unique(stacks.table["locations"].items).tolist()
    rows = [nodes.locations[each] for each in used]
    names = ("file", "function", "first_line", "line")
    return {"id": used} | {name: [row[column] for row in rows] for column, name in enumerate(names)}


def _with_storable_names(tables: Tables) -> Tables:
    for kind in ("location", "code"):
        for column in ("file", "function"):
            tables[kind][column] = [storable(text) for text in tables[kind][column]]
    return tables


def _sources(contents: SpoolContents, facts: Facts, nodes: Nodes, stacks: Stacks) -> Sources:
    if not facts.sources:
        return Sources()
    used = np.unique(stacks.table["locations"].items).tolist()
    innermost = {nodes.locations[each][0] for each in np.unique(stacks.innermost).tolist()}
    files = [nodes.locations[each][0] for each in used]
    return read_sources(files, innermost, facts.cwd, int(contents.header["start_real_ns"]), facts.command_code)


def _rss_table(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    rows = np.frombuffer(data[: len(data) // RSS_STRUCT.size * RSS_STRUCT.size], "<i8").reshape(-1, 4)
    sizes = {"rss_bytes": rows[:, 2], "shared_bytes": rows[:, 3]}
    return {"t_ns": rows[:, 0], "process": rows[:, 1].astype(np.int32)} | sizes


def _setting_table(contents: SpoolContents, facts: Facts, outcome: Outcome) -> dict[str, Any]:
    header = contents.header
    wall_ns = _last_ns(contents) if outcome.wall_ns is None else outcome.wall_ns
    settings = {
        "format_version": schema.FORMAT_VERSION,
        "started_at": _iso_utc(int(header["start_real_ns"])),
        "wall_ns": str(wall_ns),
        "features": _features(header),
        "cpu_interval_ns": str(header["cpu_interval_ns"]),
        "memory_threshold_bytes": str(header["memory_threshold_bytes"]),
        "alloc_interval": _alloc_interval(header),
        "copy_threshold_bytes": str(header["copy_threshold_bytes"]),
        "recovered": str(outcome.recovered).lower(),
    } | facts.host
    if outcome.root_end:
        settings["exit_status"] = str(outcome.root_end.exit_status)
    return {"name": list(settings), "value": [storable(value) for value in settings.values()]}


def _iso_utc(real_ns: int) -> str:
    """ISO 8601, UTC; a moment that no calendar has (a damaged header) is that of 1970."""
    try:
        return datetime.fromtimestamp(real_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds")


def _features(header: np.void) -> str:
    bits = int(header["features"])
    on = {name: bool(bits & _C[f"FEATURE_{name.upper()}"]) for name in ("cpu", "wait", "memory", "copy", "children")}
    on["alloc"] = on["memory"] and int(header["alloc_interval_bytes"]) > 0
    return json.dumps([name for name in ("cpu", "wait", "memory", "alloc", "copy", "children") if on[name]])


def _alloc_interval(header: np.void) -> str:
    return "auto" if int(header["features"]) & _C["FEATURE_ALLOC_AUTO"] else str(header["alloc_interval_bytes"])


def _last_ns(contents: SpoolContents) -> int:
    start_ns = int(contents.header["start_mono_ns"])
    timed = (bulk for bulk in contents.bulk.values() if "t_ns" in (bulk.records.dtype.names or ()) and len(bulk))
    times = (bulk.records["t_ns"].max() for bulk in timed)
    return max((int(t_ns) - start_ns for t_ns in times), default=0)


def _loss_table(contents: SpoolContents, recorder_counts: dict[str, int]) -> dict[str, Any]:
    counted: list[tuple[Loss, int]] = list(zip(shim_losses(), contents.header["losses"].tolist(), strict=False))
    counted += [(recorder_loss(name), count) for name, count in recorder_counts.items()]
    rows = [(loss.name, loss.severity, min(count, 2**63 - 1), loss.text) for loss, count in counted if count]
    names = ("name", "severity", "count", "text")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}
