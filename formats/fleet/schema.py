"""The columns of a batch of summaries, as plain data (docs/design/fleet.md).

A batch is one Parquet file with rows of two kinds: one ``trace`` row for each trace, and ``figure`` rows, which refer to it by
its number in the batch. Types have Arrow's names; ``map<...>`` has texts as keys.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of this table. Batches of another major version lie in another folder.
FORMAT_MAJOR, FORMAT_MINOR = 1, 1
FORMAT_VERSION = f"{FORMAT_MAJOR}.{FORMAT_MINOR}"

#: Key of the Parquet file metadata; the checksum has the key that it has in traces.
METADATA_VERSION = "scalene_trace.fleet_version"

#: The values of ``kind``.
TRACE, FIGURE = "trace", "figure"
#: The values of ``scope``.
SCOPES = ("total", "line", "function", "stack", "leak")
#: The most traces of a batch: a trace's number in its batch is below it.
MOST_TRACES = 1 << 20
#: The most characters of a command and of a line of source.
MOST_TEXT = 200
#: The largest value, positive or negative, that a figure may have, and the largest variance. Sums of many remain finite.
MOST_VALUE, MOST_VARIANCE = 1e24, 1e48
#: The furthest start of a recording from 1970, and the longest recording, in nanoseconds (285 years): engines can hold them.
MOST_NS = 9 * 10**18
#: The stack of all stacks that have too little CPU time for a row of their own.
OTHER_STACKS = "(other)"
#: The file and the function of what is charged to no line of the user's have no name.


@dataclass(frozen=True)
class Column:
    """A column. ``kind``: of the rows that fill it, "" = of both; ``text``: meaning and unit, and when it is NULL."""

    name: str
    type: str
    kind: str
    text: str


COLUMNS: tuple[Column, ...] = (
    Column("kind", "string", "", "trace or figure"),
    Column("trace", "int32", "", "number of the trace in its batch, from 0"),
    Column(
        "trace_id",
        "string",
        TRACE,
        "the trace's id, 32 hexadecimal digits; of a file that could not be read, a hash of its path, size and time",
    ),
    Column("path", "string", TRACE, "of the trace's file, relative to the fleet's folder"),
    Column("size_bytes", "int64", TRACE, "size of that file when it was read"),
    Column("mtime_ns", "int64", TRACE, "time of its last change when it was read, nanoseconds since 1970"),
    Column("reason", "string", TRACE, "why the file could not be read, a sentence or two; NULL = it was read"),
    Column("host", "string", TRACE, "name of the host; NULL = unknown"),
    Column("labels", "map<string>", TRACE, "the labels that the recorder was given"),
    Column("start_ns", "int64", TRACE, "start of the recording, nanoseconds since 1970 (UTC); NULL = unknown"),
    Column("wall_ns", "int64", TRACE, "duration of the recording in nanoseconds; NULL = unknown"),
    Column(
        "recorded_ns",
        "int64",
        TRACE,
        "how much of that was recorded, without pauses; NULL = unknown, or a batch of format 1.0, whose traces count as whole",
    ),
    Column("python", "string", TRACE, "version of the first interpreter; NULL = unknown"),
    Column("program", "string", TRACE, "the command, words joined by blanks, at most 200 characters; NULL = unknown"),
    Column("processes", "int64", TRACE, "number of processes"),
    Column("losses", "int64", TRACE, "number of lost events, of all kinds"),
    Column("marks", "map<int64>", TRACE, "how often each mark of the user was set while it was recorded"),
    Column("scope", "string", FIGURE, "total, line, function, stack or leak"),
    Column(
        "file", "string", FIGURE, "of lines, functions and leaks; NULL in a line's scope = on no line of the user's"
    ),
    Column("line", "int32", FIGURE, "of lines and leaks"),
    Column("function", "string", FIGURE, "qualified name"),
    Column("first_line", "int32", FIGURE, "first line of the function"),
    Column("text", "string", FIGURE, "source of the line, without blanks at both ends, at most 200 characters"),
    Column("stack", "string", FIGURE, "frames from the outermost on, as in collapsed stacks; (other) = small stacks"),
    Column("metric", "string", FIGURE, "name of a field of report --json"),
    Column("value", "double", FIGURE, "in the unit of the metric"),
    Column(
        "variance", "double", FIGURE, "square of its standard error by sampling; NULL = counted, or it has no error"
    ),
    Column("samples", "int64", FIGURE, "number of samples; NULL = unknown"),
)

#: The columns of the rows of a kind, in their order.
TRACE_COLUMNS = tuple(column for column in COLUMNS if column.kind == TRACE)
#: Columns that batches of earlier versions lack; they are NULL there.
ADDED = frozenset({"recorded_ns"})
FIGURE_COLUMNS = tuple(column for column in COLUMNS if column.kind == FIGURE)
