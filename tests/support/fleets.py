"""Fleets for tests and benchmarks: copies of a trace that are different recordings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scalene_trace.formats.trace import integrity, schema


class Recorded:
    """A trace that is copied as other recordings."""

    def __init__(self, trace: Path) -> None:
        self._table = pq.read_table(trace)
        self._metadata = {
            key.decode(): value.decode()
            for key, value in (pq.read_metadata(trace).metadata or {}).items()
            if key.startswith(b"scalene_trace.")
        }

    def write(self, path: Path, trace_id: str, settings: Mapping[str, str], labels: Mapping[str, str]) -> Path:
        """Writes the trace with another id, and with these settings and labels in the place of its own."""
        path.parent.mkdir(parents=True, exist_ok=True)
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
        with path.open("w+b") as file:
            with pq.ParquetWriter(
                file, table.schema.remove_metadata(), compression="zstd", store_schema=False
            ) as writer:
                writer.write_table(table)
                writer.add_key_value_metadata(
                    self._metadata
                    | {schema.METADATA_TRACE_ID: trace_id, schema.METADATA_CRC32: integrity.PLACEHOLDER.decode()}
                )
            file.flush()
            integrity.seal(file.fileno())
        return path


def write_fleet(folder: Path, trace: Path, traces: int, hosts: int = 10, versions: int = 3, days: int = 28) -> None:
    """Writes ``traces`` recordings of the program of ``trace``: on so many hosts, days of November 2026, and versions, which
    follow one another in time."""
    recorded = Recorded(trace)
    for number in range(traces):
        day = 1 + number * days // traces
        version = f"1.4.{number * versions // traces}"
        host = f"worker-{number % hosts:03}"
        settings = {"hostname": host, "started_at": f"2026-11-{day:02}T{number % 24:02}:00:00+00:00"}
        path = folder / f"version={version}" / f"date=2026-11-{day:02}" / f"{host}-{number}.parquet"
        recorded.write(path, f"{number:032x}", settings, {"service": "shop", "version": version})
