"""Reads a whole batch, to merge it with others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import BatchDamaged
from . import schema
from .check import open_batch
from .writer import ARROW_SCHEMA, check_ranges


def traces_of(path: Path) -> list[tuple[dict[str, Any], pa.Table]]:
    """The row of each trace of a batch, with maps as dicts, and the table of its figures. Raises BatchDamaged,
    BatchUnreadable, and FileNotFoundError if it was removed."""
    with os.fdopen(open_batch(path), "rb") as file:
        try:
            missing = schema.ADDED.difference(pq.read_schema(file).names)
            file.seek(0)
            table = pq.read_table(file, columns=[name for name in ARROW_SCHEMA.names if name not in missing])
            for name in missing:
                table = table.append_column(
                    ARROW_SCHEMA.field(name), pa.nulls(len(table), ARROW_SCHEMA.field(name).type)
                )
            table = table.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)
            traces = _divided(table)
            check_ranges([row for row, _ in traces], table.filter(pc.equal(table.column("kind"), schema.FIGURE)))
            return traces
        except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise BatchDamaged(path, f"its columns cannot be read ({type(error).__name__})") from error


def _divided(table: pa.Table) -> list[tuple[dict[str, Any], pa.Table]]:
    kinds = table.column("kind")
    rows = table.filter(pc.equal(kinds, schema.TRACE))
    figures = table.filter(pc.equal(kinds, schema.FIGURE)).sort_by("trace")
    numbers = figures.column("trace").to_numpy()
    found = []
    for row in rows.to_pylist():
        start, end = np.searchsorted(numbers, [row["trace"], row["trace"] + 1])
        trace: dict[str, Any] = {column.name: row[column.name] for column in schema.TRACE_COLUMNS}
        for name in ("labels", "marks"):
            trace[name] = dict(trace[name] or ())
        found.append((trace, figures.slice(start, end - start)))
    return found
