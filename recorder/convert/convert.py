"""Converts a spool into the tables of a trace.

A recording may be larger than memory, so it is read twice in batches: once for what every batch needs (:mod:`.survey`),
and once for the samples. A recording that fits into one batch becomes one set of tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.dataclass import dataclass
from ...formats.errors import TraceError
from ...formats.spool.layout import constants
from ...formats.spool.reader import Bulk, Records, Spool, read_header
from ...formats.trace.text import storable
from ..folder.facts import Facts
from ..folder.marks import ToldSource, mark_table, read_marks, read_told
from ..rights.identity import Rights
from ..rights.opening import ProgramFiles
from .kinds.allocations import Allocations
from .kinds.cuda_calls import CudaCalls
from .kinds.ends import RootEnd, seen_ends
from .kinds.gc_rows import Collections
from .kinds.gpu import GpuRows
from .kinds.memory import copy_table, heap_table, memory_table
from .kinds.processes import command_lines, process_table, thread_table
from .kinds.recording import has_lost, loss_table, setting_table
from .kinds.resident import rss_tables
from .kinds.tasks import task_table, valid_tasks
from .kinds.ticks import code_table, cpu_table, shim_ns
from .kinds.waits import valid_waits, wait_table
from .known import Known
from .native.addresses import ModuleIds
from .native.frames import function_offsets, native_frames
from .native.symbols import TIME_LIMIT_S, Offsets, Symbols, distinct_offsets, read_symbols
from .notebooks import notebooks_in
from .running import running_images, still_runs
from .sources import Sources, read_sources
from .survey.columns import valid_sizes
from .survey.given_programs import Commands, GivenPrograms, name_programs, with_told
from .survey.images import Images
from .survey.lives import Lives
from .survey.stacks import Nodes, Stacks, read_nodes, resolve_stacks, unknown_instructions, unknown_line_tables
from .survey.survey import Survey

#: Kinds of samples in the trace.
_SAMPLES = frozenset({"cpu", "wait", "task", "memory", "alloc", "copy", "device_copy", "device_sync", "device_alloc"})
#: For symbols at the end, if they took all of their time before.
_SHORTEST_S = 0.5
_SOON_NS = 10_000_000_000  # on a busy machine, a shell may take seconds to find no program
_C = constants()

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How the recording ended. ``root_end``: the program's end, None when it is unknown; ``wall_ns``: length in
    nanoseconds, None = up to the last record; ``recovered``: written by --recover; ``losses``: the recorder's own counts by
    name; ``ended_by``: program, duration, snapshot, rotation, detach or recovery; ``rights``: gives the rights with which files
    of the program are read. It is called when their names have been read, since a process may have given up rights before
    it wrote a name; ``still_runs``: tells whether a process runs on; ``since_real_ns``: when the program may have read its
    files first (CLOCK_REALTIME), None = since the start of the recording; ``follows``: it goes on where another trace of the
    recording ends."""

    root_end: RootEnd | None
    wall_ns: int | None
    recovered: bool
    losses: dict[str, int]
    ended_by: str = "program"
    rights: Callable[[], Rights] = Rights
    still_runs: Callable[[int, int], bool] = still_runs
    since_real_ns: int | None = None
    follows: bool = False

    @property
    def runs_on(self) -> bool:
        """The program has not ended, which the user knows."""
        return self.ended_by in ("duration", "snapshot", "detach", "rotation")

    @property
    def until_ns(self) -> int | None:
        """The last moment that counts, where processes are still writing events; else None."""
        return self.wall_ns if self.ended_by in ("duration", "snapshot") else None


def _why_nothing_ran(lives: Lives, outcome: Outcome) -> str:
    """A sentence if the recording is of no use, else "". A static program leaves no process. A shell or env(1) that cannot
    run its command returns 126 or 127 soon; programs that have run may return these too."""
    starts = lives.starts.records
    if len(starts) == 0:
        return "The program cannot be recorded"
    if outcome.root_end is None or outcome.wall_ns is None or outcome.wall_ns > _SOON_NS:
        return ""
    status, images = outcome.root_end.exit_status, np.count_nonzero(starts["cause"] != _C["CAUSE_FORK"])
    if status not in (126, 127) or images > 1 or starts["python_version"].any():
        return ""
    return f"The program returned {status} within ten seconds, as if its command could not be run"


def _last_process(lives: Lives) -> int:
    """The highest id of a process that has written a record, 0 = none has. They count from 1."""
    ids = lives.processes_seen.keys
    return int(ids[ids < _C["PROCESS_WATCHER"]].max(initial=0))


class Conversion:
    """One pass from ``spool`` to tables. ``events``: samples of all kinds so far; ``errors``: a sentence for each loss with
    severity "error", complete when all tables have been made; ``why_nothing_ran``: a sentence, "" if something
    has run; ``known``: what was read while the program ran."""

    def __init__(
        self,
        spool: Spool,
        facts: Facts,
        outcome: Outcome,
        rss_path: Path,
        marks_path: Path | None = None,
        gpu: GpuRows | None = None,
        known: Known | None = None,
    ) -> None:
        self.events = 0
        self.errors: list[str] = []
        self._spool, self._facts, self._outcome, self._rss_path = spool, facts, outcome, rss_path
        self._marks = read_marks(marks_path, outcome.until_ns) if marks_path else []
        told = read_told(marks_path) if marks_path else {}
        self._gpu, self._known = gpu, known or Known()
        self._known.names.prepare()
        until_ns = outcome.until_ns
        last_ns = None if until_ns is None else int(spool.header["start_mono_ns"]) + until_ns
        self._survey = survey = Survey(spool, self._known.codes.whole, self._known.take_survey(last_ns))
        commands = command_lines(survey.lives.starts)
        self._programs = _named_programs(survey, facts, commands, told)
        self._notebooks = notebooks_in(commands.values())
        self._nodes = read_nodes(survey.nodes, self._programs.codes, self._known.lines)
        self._stacks = resolve_stacks(self._nodes, survey.stacks, survey.types)
        self._module_ids = ModuleIds()
        self._native = native_frames(survey.natives, survey.native_stacks, survey.modules, self._module_ids)
        self._allocations = Allocations(survey, self._stacks, self._native)
        self._collections = Collections(survey)
        self._cuda_calls = CudaCalls(survey, self._stacks)
        self._older = survey.lives.starts.older
        self._last_process = _last_process(survey.lives)
        self.why_nothing_ran = _why_nothing_ran(survey.lives, outcome)
        self._invalid = self._running = self._shim_ns = 0
        self._sources = Sources()
        self._symbols_s = TIME_LIMIT_S  # seconds that are left
        self._addresses: dict[int, Offsets] = distinct_offsets(*function_offsets(self._native.table))

    def tables(self) -> Iterator[Tables]:
        """Sets of tables, as :func:`formats.trace.writer.write_trace` takes them. No reference to a set is held while the
        writer works, so that one is in memory at a time, besides sources that are being compressed. What only the first tables
        need is released after them."""
        yield {"source": self._read_sources()}
        self._ask_for_names()
        start_ns, lives = self._survey.start_ns, self._survey.lives
        del self._survey.lives
        images = Images(lives)
        ends = seen_ends(images, lives, self._outcome.root_end, start_ns + self._wall_ns(), not self._has_paused())
        running = np.empty(0, np.int64) if self._outcome.recovered else running_images(images, self._outcome.still_runs)
        self._running = 0 if self._outcome.runs_on else len(running)
        yield {"process": process_table(lives, start_ns, ends, running)}
        survey = self._survey
        yield {"thread": thread_table(lives, start_ns, survey.clocks, ends, self._stacks, survey.types)}
        late = ends.cpu_table(start_ns, lives)
        self.events += len(late["t_ns"])
        if len(late["t_ns"]):
            yield {"cpu": late}
        del lives, images, ends, running, late
        yield from map(partial(_set_of, "rss"), rss_tables(self._rss_path, self._outcome.until_ns))
        if self._gpu:
            yield from map(partial(_set_of, "gpu"), self._gpu.tables())
            self.events += self._gpu.rows
        batches = self._spool.batches()
        while (batch := next(batches, None)) is not None:
            made = [self._sample_tables(batch)]
            del batch
            yield made.pop()
        yield self._other_tables()

    def _sample_tables(self, batch: Records) -> Tables:
        """The tables of the kinds that the batch has. Most batches of a program whose allocations are all recorded have one."""
        bulk, start_ns, stacks = batch.bulk, self._survey.start_ns, self._stacks
        tables = {"alloc": self._allocations.rows(batch), "gc": self._collections.rows(batch)}
        tables |= self._cuda_calls.tables(batch)
        if len(bulk["tick"]):
            tables["cpu"] = self._cpu_table(bulk["tick"])
        if len(bulk["wait"]):
            waits, invalid = valid_waits(bulk["wait"])
            self._invalid += invalid
            tables["wait"] = wait_table(waits, start_ns, stacks, self._native)
        if len(bulk["task"]):
            tasks, invalid = valid_tasks(bulk["task"])
            self._invalid += invalid
            tables["task"] = task_table(tasks, start_ns, stacks, self._survey.types)
        if len(bulk["copy"]):
            copies, invalid = valid_sizes(bulk["copy"], "bytes")
            self._invalid += invalid
            tables["copy"] = copy_table(copies, start_ns, stacks)
        if len(bulk["memory"]):
            tables["memory"] = memory_table(bulk["memory"], start_ns, stacks)
        if len(bulk["heap"]):
            tables["heap"] = heap_table(bulk["heap"], start_ns)
        tables = {kind: table for kind, table in tables.items() if len(table["t_ns"])}
        self.events += sum(len(table["t_ns"]) for kind, table in tables.items() if kind in _SAMPLES)
        return tables

    def _cpu_table(self, ticks: Bulk) -> dict[str, Any]:
        self._shim_ns += shim_ns(ticks)
        images = self._survey.modules, self._module_ids, self._native
        cpu = cpu_table(ticks, self._survey.start_ns, self._survey.clocks, self._nodes, self._stacks, *images)
        for module, offsets in distinct_offsets(cpu["pc_module"], cpu["pc_offset"]).items():
            self._addresses[module] = np.union1d(self._addresses.get(module, offsets), offsets)
        return cpu

    def _read_sources(self) -> dict[str, Any]:
        """The ``source`` table. It comes first: the writer compresses it while other tables are made."""
        with ProgramFiles(self._outcome.rights()) as files:
            self._sources = self._sources_of(files)
        return self._sources.taken()

    def _sources_of(self, opened: ProgramFiles) -> Sources:
        nodes, stacks, facts = self._nodes, self._stacks, self._facts
        if not facts.sources:
            return Sources()
        used = np.unique(stacks.table["locations"].items).tolist()
        innermost = {nodes.locations[each][0] for each in np.unique(stacks.innermost).tolist()} | nodes.program_files()
        files = [nodes.locations[each][0] for each in used]
        since_ns = self._outcome.since_real_ns
        started_ns = int(self._survey.header["start_real_ns"]) if since_ns is None else since_ns
        given, notebooks, known = self._programs.texts, self._notebooks, self._known.sources
        return read_sources(files, innermost, facts.cwd, started_ns, given, opened.open, notebooks, known)

    def _other_tables(self) -> Tables:
        survey, nodes, stacks = self._survey, self._nodes, self._stacks
        with ProgramFiles(self._outcome.rights()) as files:
            symbols = self._symbols(files)
        losses = loss_table(survey.header, self._recorder_losses(self._sources, symbols))
        lost = zip(losses["severity"], losses["text"], strict=True)
        self.errors = [text for severity, text in lost if severity == "error"]
        tables = {
            "location": _location_table(nodes, stacks),
            "stack": stacks.table,
            "code": code_table(survey.tick_stacks, nodes),
            "native": self._native.table,
            "module": self._module_ids.table(),
            "symbol": symbols.finished(),
            "mark": mark_table(self._marks),
            "setting": self._setting_table(),
            "loss": losses,
        }
        return _with_storable_names(tables)

    def _setting_table(self) -> dict[str, Any]:
        survey, outcome = self._survey, self._outcome
        more = {"recovered": str(outcome.recovered).lower(), "ended_by": outcome.ended_by} | self._facts.host
        if self._gpu and self._gpu.devices is not None:
            more["gpu_devices"] = self._gpu.devices
        if outcome.root_end:
            more["exit_status"] = str(outcome.root_end.exit_status)
        return setting_table(survey.header, self._wall_ns(), more)

    def _wall_ns(self) -> int:
        wall_ns = self._outcome.wall_ns
        return self._survey.last_ns - self._survey.start_ns if wall_ns is None else wall_ns

    def _has_paused(self) -> bool:
        return any(mark.what == "pause" for mark in self._marks)

    def _is_paused_throughout(self) -> bool:
        """Was it paused from its start (a pause at exactly 0) to its end?"""
        is_over = self._outcome.ended_by not in ("snapshot", "rotation")
        return is_over and any(
            mark.what == "pause" and mark.t_ns == 0 and mark.end_ns is None and not mark.text for mark in self._marks
        )

    def _is_exact(self) -> bool:
        header = self._survey.header
        return int(header["alloc_interval_bytes"]) == 1 and not int(header["alloc_control"])

    def _ask_for_names(self) -> None:
        """Has the mangled names on native stacks read while tables are made."""
        with ProgramFiles(self._outcome.rights()) as files:
            self._read_symbols(files)

    def _symbols(self, files: ProgramFiles) -> Symbols:
        self._known.names.settle()  # what it has not reached is asked for again
        return self._read_symbols(files)

    def _read_symbols(self, files: ProgramFiles) -> Symbols:
        to_real_ns = int(self._survey.header["start_real_ns"]) - self._survey.start_ns
        begun_s, known = time.monotonic(), self._known
        images, folder, limit_s = self._module_ids.images(to_real_ns), self._facts.cwd, self._symbols_s
        found = read_symbols(images, self._addresses, folder, limit_s, files.open, known.functions, known.names)
        self._symbols_s = max(_SHORTEST_S, self._symbols_s - (time.monotonic() - begun_s))
        return found

    def _begun_since(self) -> int:
        """How many processes are not in the records because they began too late, when the program had ended: a daemon that the
        program forked as the last thing it did."""
        if self._outcome.ended_by != "program":
            return 0
        try:
            header = read_header(self._spool.path)
        except TraceError:  # the folder was removed, which is a loss of its own
            return 0
        has_all = not self._outcome.follows and not has_lost(self._survey.header)
        known = self._last_process if has_all else int(self._survey.header["processes"])
        return max(int(header["processes"]) - known, 0) + int(header["late"])

    def _recorder_losses(self, sources: Sources, symbols: Symbols) -> dict[str, int]:
        damaged = self._survey.damaged + self._allocations.damaged + self._cuda_calls.damaged + self._invalid
        damaged += self._gpu.damaged if self._gpu else 0
        return self._outcome.losses | {
            # While processes are still writing, an unfinished record is not damaged.
            "damaged_records": damaged if self._outcome.until_ns is None else 0,
            "processes_running": self._running + self._begun_since(),
            "paused": sum(mark.what == "pause" for mark in self._marks),
            "attached_memory": self._older,
            "never_resumed": int(self._is_paused_throughout()),
            "exact_cost": self._shim_ns // 1_000_000 if self._is_exact() else 0,
            "unresolved_stack": self._stacks.unresolved,
            "unresolved_native": self._native.unresolved,
            "unknown_lines": unknown_line_tables(self._nodes),
            "unknown_opcodes": unknown_instructions(self._nodes),
            "source_unread": sources.unread,
            "source_changed": self._known.sources.changed(self._facts.cwd),
            "symbols_unread": symbols.unread,
            "symbols_changed": symbols.changed,
            "files_withheld": sources.withheld + symbols.withheld,
            "recovered": int(self._outcome.recovered),
            "rotated": int(self._outcome.follows),
            "gpu_whole_device": len(self._gpu.whole) if self._gpu else 0,
        }


def _set_of(kind: str, table: dict[str, Any]) -> Tables:
    return {kind: table}


def _location_table(nodes: Nodes, stacks: Stacks) -> dict[str, Any]:
    """The locations that some stack refers to; ids are those of ``nodes``."""
    used = np.unique(stacks.table["locations"].items).tolist()
    rows = [nodes.locations[each] for each in used]
    names = ("file", "function", "first_line", "line")
    return {"id": used} | {name: [row[column] for row in rows] for column, name in enumerate(names)}


def _with_storable_names(tables: Tables) -> Tables:
    for kind in ("location", "code"):
        for column in ("file", "function"):
            tables[kind][column] = [storable(text) for text in tables[kind][column]]
    return tables


def _named_programs(survey: Survey, facts: Facts, commands: Commands, told: Mapping[str, ToldSource]) -> GivenPrograms:
    """All code objects; those of code that no file holds have a name for people where there is one."""
    forked_from = survey.lineage.forked_from
    given = name_programs(survey.codes, survey.command_writers, commands, forked_from, facts.command_code)
    return with_told(given, told)
