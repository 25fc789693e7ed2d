"""Writes batches of summaries.

A batch has its ``trace`` rows in the first row group; ``figure`` rows are sorted by scope, metric, file and line. A question
reads one scope and a few metrics, and skips the row groups that have others (``scope`` and ``metric`` have statistics).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import BatchUnwritten
from ..trace import integrity, temporary
from ..trace.schema import METADATA_CRC32
from . import layout, schema

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "map<string>": pa.map_(pa.string(), pa.string()),
    "map<int64>": pa.map_(pa.string(), pa.int64()),
}
#: The columns of a batch, with Arrow's types.
ARROW_SCHEMA = pa.schema([pa.field(column.name, _TYPES[column.type]) for column in schema.COLUMNS])
#: Columns of texts that repeat.
_TEXTS = ("scope", "file", "function", "text", "stack", "metric")
_SORTED = ("scope", "metric", "file", "line", "function", "first_line", "stack", "trace")
GROUP_ROWS = 262_144
_LEVEL = 6


class Batch:
    """Summaries that are to be published together. ``rows``, ``size_bytes``: of its figures, in memory."""

    def __init__(self) -> None:
        self._traces: list[Mapping[str, Any]] = []
        self._figures: list[pa.Table] = []
        self.rows = self.size_bytes = 0
        self._mode = 0o444

    @property
    def traces(self) -> int:
        """The number of traces."""
        return len(self._traces)

    def add(self, trace: Mapping[str, Any], figures: Mapping[str, Sequence[Any]], mode: int) -> None:
        """Adds a trace. ``trace``: the columns of its row, maps as dicts; ``figures``: columns of its figures, all of equal
        length (one that is left out is NULL); ``mode``: of the trace's file, as a batch is read by whom all of its traces
        may be read by. Raises ValueError, TypeError or OverflowError for other columns and values, and ValueError when there
        are schema.MOST_TRACES: then nothing is added."""
        if self.traces >= schema.MOST_TRACES:
            raise ValueError("a batch holds no more traces")
        _trace_arrays([trace])
        length = len(next(iter(figures.values()), ()))
        columns = {"trace": pa.array([self.traces] * length, pa.int32())}
        table = pa.table(columns | _arrays(figures, schema.FIGURE_COLUMNS, length))
        check_ranges([trace], table)
        self._add(trace, table, mode)

    def add_table(self, trace: Mapping[str, Any], figures: pa.Table, mode: int) -> None:
        """Adds a trace with the figures of another batch."""
        number = pa.array([self.traces] * len(figures), pa.int32())
        names = [column.name for column in schema.FIGURE_COLUMNS]
        self._add(trace, figures.select(names).add_column(0, "trace", number), mode)

    def _add(self, trace: Mapping[str, Any], figures: pa.Table, mode: int) -> None:
        if unknown := trace.keys() - {column.name for column in schema.TRACE_COLUMNS}:
            raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
        self._traces.append(trace)
        self._figures.append(figures)
        self.rows += len(figures)
        self.size_bytes += figures.nbytes
        self._mode &= mode

    def publish(self, fleet: Path, date: str) -> Path:
        """Writes the batch into the fleet: afterwards it is there, complete, or not at all. Returns its path. Its contents are
        on the disk then; its name is after :func:`.layout.keep_name`.

        Raises BatchUnwritten when the system refuses.
        """
        path = layout.new_batch(fleet, date)
        written = temporary.new(path)
        try:
            layout.make_folder(fleet, path)
            self._write(written)
            written.chmod(self._mode | 0o600)
            written.replace(path)
        except OSError as error:
            with suppress(OSError):
                written.unlink()
            raise BatchUnwritten(path, os.strerror(error.errno or 5)) from error
        except BaseException:
            written.unlink(missing_ok=True)
            raise
        return path

    def _write(self, path: Path) -> None:
        wanted = ARROW_SCHEMA
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            with pq.ParquetWriter(file, wanted, **_OPTIONS) as writer:
                writer.write_table(self._trace_rows(wanted))
                if self.rows:
                    figures = pa.concat_tables(self._figures).combine_chunks()
                    figures = figures.sort_by([(name, "ascending") for name in _SORTED])
                    writer.write_table(_whole(figures, schema.FIGURE, wanted), row_group_size=GROUP_ROWS)
                placeholder = integrity.PLACEHOLDER.decode()
                metadata = {schema.METADATA_VERSION: schema.FORMAT_VERSION, METADATA_CRC32: placeholder}
                writer.add_key_value_metadata(metadata)
            file.flush()
            integrity.seal(file.fileno())
            os.fsync(file.fileno())

    def _trace_rows(self, wanted: pa.Schema) -> pa.Table:
        numbers = {"trace": pa.array(range(self.traces), pa.int32())}
        rows = pa.table(numbers | _trace_arrays(self._traces))
        return _whole(rows, schema.TRACE, wanted)


def check_ranges(traces: Sequence[Mapping[str, Any]], figures: pa.Table) -> None:
    """Raises ValueError for what no recording has: times beyond schema.MOST_NS, values that are not finite, or larger than
    schema.MOST_VALUE."""
    for trace in traces:
        start_ns, lengths = trace.get("start_ns") or 0, (trace.get("wall_ns") or 0, trace.get("recorded_ns") or 0)
        if abs(start_ns) > schema.MOST_NS or not all(0 <= each <= schema.MOST_NS for each in lengths):
            raise ValueError("a trace has an impossible time")
    value, variance = figures.column("value"), figures.column("variance")
    if value.null_count or not _all(pc.less_equal(pc.abs(value), schema.MOST_VALUE)):
        raise ValueError("a figure has an impossible value")
    if not _all(pc.and_(pc.greater_equal(variance, 0), pc.less_equal(variance, schema.MOST_VARIANCE))):
        raise ValueError("a figure has an impossible variance")


def _all(found: pa.ChunkedArray) -> bool:
    """Are all of these true, or NULL?"""
    return pc.all(found, min_count=0).as_py() is not False


def _trace_arrays(traces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of the rows of traces."""
    columns = {column.name: [each.get(column.name) for each in traces] for column in schema.TRACE_COLUMNS}
    for name in ("labels", "marks"):
        columns[name] = [list((each or {}).items()) for each in columns[name]]
    return _arrays(columns, schema.TRACE_COLUMNS, len(traces))


def _arrays(columns: Mapping[str, Sequence[Any]], wanted: Sequence[schema.Column], length: int) -> dict[str, Any]:
    """The wanted columns; those that are not there are NULL."""
    if unknown := columns.keys() - {column.name for column in wanted}:
        raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
    return {
        column.name: pa.array(columns[column.name], _TYPES[column.type])
        if column.name in columns
        else pa.nulls(length, _TYPES[column.type])
        for column in wanted
    }


def _whole(rows: pa.Table, kind: str, wanted: pa.Schema) -> pa.Table:
    """``rows`` with all columns of the table."""
    known = {name: rows.column(name) for name in rows.column_names}
    known["kind"] = pa.array([kind] * len(rows), pa.string())
    columns = [known[field.name] if field.name in known else pa.nulls(len(rows), field.type) for field in wanted]
    return pa.table(columns, schema=wanted)


_LEAVES = [
    f"{column.name}.key_value.{leaf}" if column.type.startswith("map") else column.name
    for column in schema.COLUMNS
    for leaf in (("key", "value") if column.type.startswith("map") else ("",))
]
#: Numbers that repeat or follow one another are a dictionary or runs of it; the values are as they are.
_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": _LEVEL,
    "use_dictionary": [leaf for leaf in _LEAVES if leaf not in ("value", "variance", "trace")],
    "column_encoding": {"trace": "DELTA_BINARY_PACKED"},
    "write_statistics": ["kind", "scope", "metric"],
    "store_schema": False,
}
