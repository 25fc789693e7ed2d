"""Converts rows to Arrow tables and Parquet, for use with other tools. Imported only on demand, because it loads pyarrow."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


def table_of(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pa.Table:
    """``rows`` as a table. ``columns``: name → Python type, "int", "float", "str" or "bool"; for any other type Arrow infers
    one from the values."""
    arrays = {name: pa.array([row[name] for row in rows], _TYPES.get(kind)) for name, kind in columns.items()}
    return pa.table(arrays)


def parquet_bytes(table: pa.Table) -> bytes:
    """``table`` as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
