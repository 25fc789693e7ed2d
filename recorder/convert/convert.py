"""From a spool to the tables of a trace.

A recording may be larger than memory: it is read twice in batches, once for what is needed throughout (:mod:`survey`) and
once for the samples. What a recording of one batch has is one set of tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.spool.layout import constants
from ...formats.spool.losses import Loss, recorder_loss, shim_losses
from ...formats.spool.reader import Records, Spool
from ...formats.spool.regular import stored_bytes
from ...formats.trace import schema
from ..folder.contents import RSS_STRUCT, Facts
from ..folder.marks import mark_table, read_marks
from ..folder.text import storable
from .kinds.allocations import Allocations
from .kinds.cuda_calls import DeviceCalls
from .kinds.gpu import GpuRows
from .kinds.memory import copy_table, gc_table, heap_table, memory_table, possible
from .kinds.tasks import possible_tasks, task_table
from .kinds.ticks import code_table, cpu_table
from .kinds.waits import possible_waits, wait_table
from .native.addresses import ModuleIds, segments_by_process
from .native.symbols import Offsets, Symbols, read_symbols, sampled_offsets
from .processes import RootEnd, cpu_start_ns, process_table, thread_table
from .sources import Sources, read_sources
from .stacks import Nodes, Stacks, read_nodes, resolve_stacks, unknown_line_tables
from .survey import Survey

_C = constants()
#: Kinds of samples in the trace.
_SAMPLES = ("cpu", "wait", "task", "memory", "alloc", "copy", "device_copy", "device_sync", "device_alloc")

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How the recording ended. ``root_end``: None when recovered; ``wall_ns``: None = up to the last record;
    ``losses``: the recorder's own, count by name; ``ended_by``: program, duration, snapshot or recovery."""

    root_end: RootEnd | None
    wall_ns: int | None
    recovered: bool
    losses: dict[str, int]
    ended_by: str = "program"

    @property
    def until_ns(self) -> int | None:
        """Up to when events count where processes still write some; else None."""
        return self.wall_ns if self.ended_by in ("duration", "snapshot") else None


class Conversion:
    """One pass from ``spool`` to tables. ``events``: samples of all kinds so far; ``errors``: sentences on what was lost
    with severity "error", known at the end."""

    def __init__(
        self,
        spool: Spool,
        facts: Facts,
        outcome: Outcome,
        rss_path: Path,
        marks_path: Path | None = None,
        gpu: GpuRows | None = None,
    ) -> None:
        self.events = 0
        self.errors: list[str] = []
        self._spool, self._facts, self._outcome, self._rss_path = spool, facts, outcome, rss_path
        self._marks = read_marks(marks_path, outcome.until_ns) if marks_path else []
        self._gpu = gpu
        self._survey = survey = Survey(spool)
        self._nodes = read_nodes(survey.nodes, survey.codes)
        self._stacks = resolve_stacks(self._nodes, survey.stacks)
        self._modules = ModuleIds()
        self._segments = segments_by_process(survey.modules, survey.forked_from())
        self._clocks = cpu_start_ns(survey)
        self._allocations = Allocations(survey, self._stacks)
        self._devices = DeviceCalls(survey, self._stacks)
        self._impossible = 0
        self._addresses: dict[int, Offsets] = {}

    def tables(self) -> Iterator[Tables]:
        """Sets of tables, as :func:`formats.writer.write_trace` takes them; the last one holds what is whole."""
        pieces = self._gpu.tables() if self._gpu else iter(())
        piece = next(pieces, None)
        for following in pieces:  # all but the last are sets of their own
            yield self._with_gpu({}, piece)
            piece = following
        batches = self._spool.batches()
        while (batch := next(batches, None)) is not None:
            found = [self._tables_of(batch, piece)]
            del batch
            yield found.pop()  # kept by the writer alone: not two at a time, nor one while it is written

    def _tables_of(self, batch: Records, piece: dict[str, Any] | None) -> Tables:
        tables = self._sample_tables(batch)
        self.events += sum(len(tables[kind]["t_ns"]) for kind in _SAMPLES)
        return self._with_gpu(tables, piece) | self._whole_tables() if batch.last else tables

    def _with_gpu(self, tables: Tables, piece: dict[str, Any] | None) -> Tables:
        """``tables`` with some rows of the ``gpu`` table."""
        if piece is None:
            return tables
        self.events += len(piece["t_ns"])
        return tables | {"gpu": piece}

    def _sample_tables(self, batch: Records) -> Tables:
        bulk, start_ns, stacks = batch.bulk, self._survey.start_ns, self._stacks
        copies, impossible = possible(bulk["copy"], "bytes")
        waits, impossible_waits = possible_waits(bulk["wait"])
        tasks, impossible_tasks = possible_tasks(bulk["task"])
        self._impossible += impossible + impossible_waits + impossible_tasks
        cpu = cpu_table(bulk["tick"], start_ns, self._clocks, self._nodes, stacks, self._segments, self._modules)
        for module, offsets in sampled_offsets(cpu).items():
            self._addresses[module] = np.union1d(self._addresses.get(module, offsets), offsets)
        return {
            "cpu": cpu,
            "wait": wait_table(waits, start_ns, stacks),
            "task": task_table(tasks, start_ns, stacks, self._survey.types),
            "memory": memory_table(bulk["memory"], start_ns, stacks),
            "alloc": self._allocations.rows(batch),
            "copy": copy_table(copies, start_ns, stacks),
            "heap": heap_table(bulk["heap"], start_ns),
        } | self._devices.tables(batch)

    def _whole_tables(self) -> Tables:
        survey, nodes, stacks = self._survey, self._nodes, self._stacks
        sources = _sources(survey, self._facts, nodes, stacks)
        symbols = self._symbols()
        losses = _loss_table(survey, self._recorder_losses(sources, symbols))
        lost = zip(losses["severity"], losses["text"], strict=True)
        self.errors = [text for severity, text in lost if severity == "error"]
        tables = {
            "gc": gc_table(survey),
            "rss": _rss_table(self._rss_path, self._outcome.until_ns),
            "process": process_table(survey, self._outcome.root_end),
            "thread": thread_table(survey),
            "location": _location_table(nodes, stacks),
            "stack": stacks.table,
            "code": code_table(survey.tick_stacks, nodes),
            "module": self._modules.table(),
            "symbol": symbols.table,
            "source": sources.table,
            "mark": mark_table(self._marks),
            "setting": _setting_table(survey, self._facts, self._outcome, self._gpu.devices if self._gpu else None),
            "loss": losses,
        }
        return _with_storable_names(tables)

    def _symbols(self) -> Symbols:
        to_real_ns = int(self._survey.header["start_real_ns"]) - self._survey.start_ns
        return read_symbols(self._modules.images(to_real_ns), self._addresses, self._facts.cwd)

    def _recorder_losses(self, sources: Sources, symbols: Symbols) -> dict[str, int]:
        damaged = self._survey.damaged + self._allocations.damaged + self._devices.damaged + self._impossible
        damaged += self._gpu.damaged if self._gpu else 0
        return self._outcome.losses | {
            "damaged_records": damaged if self._outcome.until_ns is None else 0,  # else some are just being written
            "paused": sum(mark.what == "pause" for mark in self._marks),
            "unresolved_stack": self._stacks.unresolved,
            "unknown_lines": unknown_line_tables(self._nodes),
            "source_unread": sources.unread,
            "symbols_unread": symbols.unread,
            "symbols_changed": symbols.changed,
            "recovered": int(self._outcome.recovered),
            "gpu_whole_device": len(self._gpu.whole) if self._gpu else 0,
        }


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


def _sources(survey: Survey, facts: Facts, nodes: Nodes, stacks: Stacks) -> Sources:
    if not facts.sources:
        return Sources()
    used = np.unique(stacks.table["locations"].items).tolist()
    innermost = {nodes.locations[each][0] for each in np.unique(stacks.innermost).tolist()}
    files = [nodes.locations[each][0] for each in used]
    return read_sources(files, innermost, facts.cwd, int(survey.header["start_real_ns"]), facts.command_code)


def _rss_table(path: Path, until_ns: int | None) -> dict[str, Any]:
    data = stored_bytes(path)
    rows = np.frombuffer(data[: len(data) // RSS_STRUCT.size * RSS_STRUCT.size], "<i8").reshape(-1, 4)
    rows = rows if until_ns is None else rows[rows[:, 0] <= until_ns]
    sizes = {"rss_bytes": rows[:, 2], "shared_bytes": rows[:, 3]}
    return {"t_ns": rows[:, 0], "process": rows[:, 1].astype(np.int32)} | sizes


def _setting_table(survey: Survey, facts: Facts, outcome: Outcome, gpus: str | None) -> dict[str, Any]:
    header = survey.header
    wall_ns = survey.last_ns - survey.start_ns if outcome.wall_ns is None else outcome.wall_ns
    settings = {
        "format_version": schema.FORMAT_VERSION,
        "started_at": _iso_utc(int(header["start_real_ns"])),
        "wall_ns": str(wall_ns),
        "features": _features(header, gpus is not None),
        "cpu_interval_ns": str(header["cpu_interval_ns"]),
        "memory_threshold_bytes": str(header["memory_threshold_bytes"]),
        "alloc_interval": _alloc_interval(header),
        "copy_threshold_bytes": str(header["copy_threshold_bytes"]),
        "recovered": str(outcome.recovered).lower(),
        "ended_by": outcome.ended_by,
    } | facts.host
    if gpus is not None:
        settings["gpu_devices"] = gpus
    if outcome.root_end:
        settings["exit_status"] = str(outcome.root_end.exit_status)
    return {"name": list(settings), "value": [storable(value) for value in settings.values()]}


def _iso_utc(real_ns: int) -> str:
    """ISO 8601, UTC; a moment that no calendar has (a damaged header) is that of 1970."""
    try:
        return datetime.fromtimestamp(real_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds")


def _features(header: np.void, has_gpu: bool) -> str:
    bits = int(header["features"])
    on = {name: bool(bits & _C[f"FEATURE_{name.upper()}"]) for name in ("cpu", "wait", "memory", "copy", "children")}
    on["alloc"] = on["memory"] and int(header["alloc_interval_bytes"]) > 0
    on["task"] = on["wait"]
    on["gpu"] = has_gpu
    return json.dumps(
        [name for name in ("cpu", "wait", "task", "memory", "alloc", "copy", "children", "gpu") if on[name]]
    )


def _alloc_interval(header: np.void) -> str:
    return "auto" if int(header["features"]) & _C["FEATURE_ALLOC_AUTO"] else str(header["alloc_interval_bytes"])


def _loss_table(survey: Survey, recorder_counts: dict[str, int]) -> dict[str, Any]:
    counted: list[tuple[Loss, int]] = list(zip(shim_losses(), survey.header["losses"].tolist(), strict=False))
    counted += [(recorder_loss(name), count) for name, count in recorder_counts.items()]
    rows = [(loss.name, loss.severity, min(count, 2**63 - 1), loss.text) for loss, count in counted if count]
    names = ("name", "severity", "count", "text")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}
