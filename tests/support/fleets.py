"""Fleets for tests and benchmarks: copies of a trace that are different recordings, and batches that are forged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scalene_trace.formats.fleet import schema as fleet_schema
from scalene_trace.formats.trace import integrity, schema

#: Commands of ``fleet`` that are no questions about summaries; SQL of a user stays in its sandbox.
NOT_ASKED = ("index", "send", "sql")


class Recorded:
    """A trace that is copied as other recordings."""

    def __init__(self, trace: Path) -> None:
        self._path = trace
        self._table = pq.read_table(trace)
        self._metadata = {
            key.decode(): value.decode()
            for key, value in (pq.read_metadata(trace).metadata or {}).items()
            if key.startswith(b"scalene_trace.")
        }

    def write(self, path: Path, trace_id: str, settings: Mapping[str, str], labels: Mapping[str, str]) -> Path:
        """Writes the trace with another id, and with these settings and labels in the place of its own."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w+b") as file:
            file.write(self.contents(trace_id, settings, labels))
            file.flush()
            integrity.seal(file.fileno())
        return path

    def contents(
        self, trace_id: str, settings: Mapping[str, str], labels: Mapping[str, str], is_plain: bool = False
    ) -> bytes:
        """The file, not yet sealed. ``is_plain``: texts that :meth:`write` changes stand in it as they are."""
        wanted = {**settings, "labels": json.dumps(dict(labels))} if labels else dict(settings)
        table = self._table.set_column(
            self._table.schema.get_field_index("trace_id"), "trace_id", pa.array([trace_id] * len(self._table))
        )
        place = table.schema.get_field_index("setting")
        rows = table.column(place).to_pylist()
        free = [index for index, kind in enumerate(table.column("kind").to_pylist()) if kind == "setting"]
        by_name = {rows[index]["name"]: index for index in free}
        spare = [by_name[name] for name in ("recorder_version", "kernel", "cpu_count") if name in by_name]
        for name, value in wanted.items():
            rows[by_name[name] if name in by_name else spare.pop()] = {"name": name, "value": value}
        table = table.set_column(place, table.schema.field(place), pa.array(rows, table.schema.field(place).type))
        sink = pa.BufferOutputStream()
        changed = {"trace_id": "none", "setting.value": "none"} if is_plain else {}
        leaves = pq.ParquetFile(self._path).schema
        compression = {leaves.column(index).path: "zstd" for index in range(len(leaves))} | changed
        with pq.ParquetWriter(
            sink, table.schema.remove_metadata(), compression=compression, store_schema=False
        ) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(
                self._metadata
                | {schema.METADATA_TRACE_ID: trace_id, schema.METADATA_CRC32: integrity.PLACEHOLDER.decode()}
            )
        return bytes(sink.getvalue())


def write_fleet(folder: Path, trace: Path, traces: int, hosts: int = 10, versions: int = 3, days: int = 28) -> None:
    """Writes ``traces`` recordings of the program of ``trace``: on so many hosts, days of November 2026, and versions, which
    follow one another in time."""

    def texts(number: int) -> tuple[str, dict[str, str], dict[str, str]]:
        day = 1 + number * days // traces
        host = f"worker-{number % hosts:03}"
        settings = {"hostname": host, "started_at": f"2026-11-{day:02}T{number % 24:02}:00:00+00:00"}
        return f"{number:032x}", settings, {"service": "shop", "version": f"1.4.{number * versions // traces}"}

    # Texts of the same length are put into the place of others: to write a file anew takes as long as to index it.
    template = (
        "f" * 32,
        {"hostname": "worker-xyz", "started_at": "2026-11-30T23:59:59+00:00"},
        {"service": "shop", "version": "9.8.7"},
    )
    contents = Recorded(trace).contents(*template, is_plain=True)
    for number in range(traces):
        trace_id, settings, labels = texts(number)
        host, day, version = settings["hostname"], settings["started_at"][:10], labels["version"]
        path = folder / f"version={version}" / f"date={day}" / f"{host}-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = contents.replace(template[0].encode(), trace_id.encode())
        for name, text in settings.items():
            own = own.replace(template[1][name].encode(), text.encode())
        with path.open("w+b") as file:
            file.write(own.replace(template[2]["version"].encode(), version.encode()))
            file.flush()
            integrity.seal(file.fileno())


def forged(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrites a batch, checksum included."""
    table = change(pq.read_table(path, partitioning=None))
    with path.open("w+b") as file:
        with pq.ParquetWriter(file, table.schema, compression="zstd", store_schema=False) as writer:
            writer.write_table(table)
            placeholder = integrity.PLACEHOLDER.decode()
            writer.add_key_value_metadata({fleet_schema.METADATA_VERSION: "1.0", schema.METADATA_CRC32: placeholder})
        file.flush()
        integrity.seal(file.fileno())


def replaced(name: str, values: list[Any], kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """For :func:`forged`: puts these values into a column."""
    return lambda table: table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))
