"""The tables of a processed Firefox profile. A table is a dict of columns, whose rows are referred to by index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .shared.profile import Frame, Stacks
from .timed_events import ExportedThread

_MS = 1_000_000
_INSTANT, _INTERVAL = 0, 1
_LIBRARY = 1  #: type of a resource

Table = dict[str, Any]

#: Index of a frame's category by its kind; grey is the default.
_CATEGORY = {"python": 0, "native": 1, "note": 2}
GREY = 3
CATEGORIES: list[Table] = [
    {"name": "Python", "color": "yellow", "subcategories": ["Other"]},
    {"name": "Native", "color": "blue", "subcategories": ["Other"]},
    {"name": "Kernel or not known", "color": "orange", "subcategories": ["Other"]},
    {"name": "Other", "color": "grey", "subcategories": ["Other"]},
]


def _schema(name: str, label: str, where: list[str], fields: list[tuple[str, str, str]]) -> Table:
    return {
        "name": name,
        "tooltipLabel": label,
        "tableLabel": label,
        "chartLabel": label,
        "display": where,
        "fields": [{"key": key, "label": text, "format": form} for key, text, form in fields],
    }


_EVERYWHERE = ["marker-chart", "marker-table", "timeline-overview"]
MARKER_SCHEMAS = [
    _schema("wait", "{marker.data.what}", ["marker-chart", "marker-table"], [("what", "waited for", "string")]),
    _schema("gc", "{marker.name}", [*_EVERYWHERE, "timeline-memory"], [
        ("generation", "generation", "integer"), ("collections", "collections since the last marker", "integer"),
    ]),
    _schema("device-copy", "{marker.name}", ["marker-chart", "marker-table"], [
        ("direction", "direction", "string"), ("bytes", "copied", "bytes"), ("calls", "calls", "integer"),
        ("inside", "time in the calls", "duration"),
    ]),
    _schema("device-wait", "{marker.name}", ["marker-chart", "marker-table"], [
        ("calls", "calls", "integer"), ("inside", "time in the calls", "duration"),
    ]),
    _schema("mark", "{marker.data.text}", _EVERYWHERE, [("text", "text", "string")]),
]  # fmt: skip


def gpu_display(label: str, is_memory: bool) -> Table:
    """How a track of a GPU is drawn: utilization in percent, or memory in bytes.

    The field belongs to version 62 of the format, but the profiler keeps it in older files. Without it, every memory track is
    labelled "Memory".
    """
    kinds = (
        {"accumulated": "at this time", "count-range": "memory range in graph"}
        if is_memory
        else {"rate": "of the time"}
    )
    unit = "bytes" if is_memory else "percent"
    rows = [
        {"type": "value", "source": source, "format": {"unit": unit}, "label": text} for source, text in kinds.items()
    ]
    place = {"markerSchemaLocation": None, "sortWeight": 45 + is_memory, "label": label, "tooltipRows": rows}
    return {"graphType": "line-accumulated" if is_memory else "line-rate", "unit": unit, "color": "purple"} | place


class SharedTables:
    """The tables that all threads refer to: strings, sources, functions, frames, and stacks as a tree."""

    def __init__(self, stacks: Stacks) -> None:
        self.libs: list[Table] = []
        self._stacks = stacks
        self._texts: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._libraries: dict[str, int] = {}
        self._functions: dict[tuple[str, str, int, str], int] = {}
        self._nodes: dict[tuple[int | None, int], int] = {}
        self._known: list[int | None] = []

    def text(self, text: str) -> int:
        """The index of a string."""
        return self._texts.setdefault(text, len(self._texts))

    def stack(self, index: int) -> int | None:
        """The index of the stack in the stack table (its innermost frame), by its index in the profile; None = empty."""
        while len(self._known) <= index:
            node: int | None = None
            for frame in self._stacks.stacks[len(self._known)]:
                node = self._nodes.setdefault((node, frame), len(self._nodes))
            self._known.append(node)
        return self._known[index]

    def document(self) -> Table:
        """The tables, for ``profile.shared``."""
        frames = self._stacks.frames
        functions = [self._function(frame) for frame in frames]
        tables: Table = {
            "stackTable": _table(
                frame=[frame for _, frame in self._nodes], prefix=[prefix for prefix, _ in self._nodes]
            ),
            "frameTable": _frame_table(frames, functions),
            "funcTable": self._function_table(),
            "resourceTable": self._resource_table(),
            "nativeSymbols": _table(libIndex=[], address=[], name=[], functionSize=[]),
            "sources": _table(id=[None] * len(self._sources), filename=[self.text(each) for each in self._sources]),
        }
        return tables | {"stringArray": list(self._texts)}

    def _function(self, frame: Frame) -> int:
        if frame.kind == "python":
            self._sources.setdefault(frame.file, len(self._sources))
        elif frame.kind == "native":
            self._library(frame.file)
        key = (frame.function, frame.file, frame.first_line, frame.kind)
        return self._functions.setdefault(key, len(self._functions))

    def _library(self, name: str) -> int:
        if name not in self._libraries:
            self._libraries[name] = len(self.libs)
            names = dict.fromkeys(("name", "path", "debugName", "debugPath"), name)
            self.libs.append({"arch": "", **names, "breakpadId": "", "codeId": None})
        return self._libraries[name]

    def _function_table(self) -> Table:
        keys = list(self._functions)
        return _table(
            name=[self.text(name) for name, _, _, _ in keys],
            isJS=[False] * len(keys),
            relevantForJS=[False] * len(keys),
            resource=[self._libraries[file] if kind == "native" else -1 for _, file, _, kind in keys],
            source=[self._sources[file] if kind == "python" else None for _, file, _, kind in keys],
            lineNumber=[line if line > 0 else None for _, _, line, _ in keys],
            columnNumber=[None] * len(keys),
        )

    def _resource_table(self) -> Table:
        names = [self.text(name) for name in self._libraries]
        count = len(names)
        return _table(type=[_LIBRARY] * count, lib=list(range(count)), name=names, host=[None] * count)


def _frame_table(frames: list[Frame], functions: list[int]) -> Table:
    count = len(frames)
    return _table(
        address=[-1] * count,
        inlineDepth=[0] * count,
        category=[_CATEGORY[frame.kind] for frame in frames],
        subcategory=[0] * count,
        func=functions,
        nativeSymbol=[None] * count,
        innerWindowID=[0] * count,
        line=[frame.line if frame.line > 0 else None for frame in frames],
        column=[None] * count,
    )


def _table(**columns: list[Any]) -> Table:
    return columns | {"length": len(next(iter(columns.values())))}


@dataclass
class ThreadTables:
    """Samples, allocations and markers of a thread in order of arrival; :meth:`document` sorts them by time.

    ``span_ns``: start and end of the thread's life within the selection.
    """

    thread: ExportedThread
    span_ns: tuple[int, int]
    _samples: list[tuple[int, int | None, int]] = field(default_factory=list)
    _blocks: list[tuple[int, int, int | None, int]] = field(default_factory=list)
    _markers: list[tuple[int, int, int | None, Table]] = field(default_factory=list)
    _addresses: int = 0

    def sample(self, t_ns: int, stack: int | None, weight_ns: int) -> None:
        """Adds CPU time. The profiler divides by the time between samples, so times are made distinct."""
        last_ns = self._samples[-1][0] if self._samples else t_ns - 1
        self._samples.append((max(t_ns, last_ns + 1), stack, weight_ns))

    def block(self, t_ns: int, stack: int | None, size: int, freed_ns: int | None, free_stack: int | None) -> None:
        """Adds an allocated block, and its free if ``freed_ns`` is not None."""
        self._addresses += 16
        self._blocks.append((t_ns, self._addresses, stack, size))
        if freed_ns is not None:
            self._blocks.append((freed_ns, self._addresses, free_stack, -size))

    def marker(self, name: int, t_ns: int, end_ns: int | None, data: Table) -> None:
        """Adds a marker at an instant, or for an interval if ``end_ns`` is not None."""
        self._markers.append((t_ns, name, end_ns, data))

    def document(self) -> Table:
        """The thread, for ``profile.threads``."""
        thread, process = self.thread, self.thread.process
        document: Table = {
            "name": f"{process.name}, {thread.name}" if thread.is_main else thread.name,
            "processName": process.name,
            "processType": "default",
            "pid": process.key,
            "tid": thread.tid,
            "isMainThread": thread.is_main,
            "registerTime": thread.start_ns / _MS,
            "unregisterTime": None if thread.end_ns is None else thread.end_ns / _MS,
            "processStartupTime": process.start_ns / _MS,
            "processShutdownTime": None if process.end_ns is None else process.end_ns / _MS,
            "pausedRanges": [],
            "samples": self._sample_table(),
            "markers": self._marker_table(),
        }
        return document | ({"nativeAllocations": self._block_table()} if self._blocks else {})

    def _sample_table(self) -> Table:
        samples = self._framed_samples()
        table = _table(
            stack=[stack for _, stack, _ in samples],
            time=[t_ns / _MS for t_ns, _, _ in samples],
            weight=[weight_ns / _MS for _, _, weight_ns in samples],
            threadCPUDelta=[weight_ns / 1_000 for _, _, weight_ns in samples],
        )
        return table | {"weightType": "tracing-ms"}

    def _framed_samples(self) -> list[tuple[int, int | None, int]]:
        """The samples with an empty one before and after them: these bound the time range that the profiler shows."""
        first_ns, last_ns = self.span_ns
        if self._samples:
            first_ns, last_ns = min(first_ns, self._samples[0][0] - 1), max(last_ns, self._samples[-1][0] + 1)
        return [(first_ns, None, 0), *self._samples, (max(last_ns, first_ns + 1), None, 0)]

    def _block_table(self) -> Table:
        blocks = sorted(self._blocks, key=lambda block: block[:2])
        table = _table(
            time=[t_ns / _MS for t_ns, _, _, _ in blocks],
            weight=[size for _, _, _, size in blocks],
            stack=[stack for _, _, stack, _ in blocks],
            memoryAddress=[address for _, address, _, _ in blocks],
            threadId=[self.thread.tid] * len(blocks),
        )
        return table | {"weightType": "bytes"}

    def _marker_table(self) -> Table:
        markers = sorted(self._markers, key=lambda marker: marker[:2])
        return _table(
            data=[data for _, _, _, data in markers],
            name=[name for _, name, _, _ in markers],
            startTime=[t_ns / _MS for t_ns, _, _, _ in markers],
            endTime=[None if end_ns is None else end_ns / _MS for _, _, end_ns, _ in markers],
            phase=[_INSTANT if end_ns is None else _INTERVAL for _, _, end_ns, _ in markers],
            category=[GREY] * len(markers),
        )
