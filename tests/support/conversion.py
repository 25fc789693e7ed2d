"""Converts spools that tests have built, and reads the tables that result."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalene_trace.formats.cpython.opcodes import instruction_set
from scalene_trace.formats.spool.reader import Spool
from scalene_trace.formats.trace.columns import Coded, Lists, Masked
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from scalene_trace.recorder.folder.facts import Facts
from tests.support.spool_builder import PYTHON_311, SpoolBuilder

#: Two runs of 3.11's location table: units 0 to 3 on the first line + 1, units 4 to 11 two lines further down.
LINES = bytes([0x80 | 11 << 3 | 3, 0, 0, 0x80 | 12 << 3 | 7, 0, 0])
NAMES = {name: number for number, name in enumerate(instruction_set(PYTHON_311).names)}
#: RESUME; LOAD_FAST; BINARY_OP with its cache; CALL with its four caches; RETURN_VALUE.
BYTECODE = b"".join(
    bytes([NAMES[name], 0]) + bytes(2 * caches)
    for name, caches in (("RESUME", 0), ("LOAD_FAST", 0), ("BINARY_OP", 1), ("CALL", 4), ("RETURN_VALUE", 0))
)


def facts(tmp_path, **changes: Any) -> Facts:
    known = {
        "output": str(tmp_path / "trace.parquet"),
        "command": ["main.py"],
        "command_code": None,
        "cwd": str(tmp_path),
    }
    return Facts(
        **({"trace_id": "ab" * 16, "sources": True, "argv": True, "host": {"hostname": "h"}} | known | changes)
    )


def conversion_of(builder: SpoolBuilder, tmp_path, root_end=None, **changes: Any) -> Conversion:
    spool = Spool(builder.write(tmp_path / "recording" / "spool"))
    outcome = Outcome(root_end, None, root_end is None, {}, still_runs=lambda pid, begun_ns: False)
    return Conversion(spool, facts(tmp_path, **changes), outcome, tmp_path / "recording" / "rss")


def tables_of(builder: SpoolBuilder, tmp_path, root_end=None, **changes: Any) -> dict[str, dict[str, Any]]:
    """The tables of a recording of one batch, each of which is in one set."""
    made: dict[str, dict[str, Any]] = {}
    for tables in conversion_of(builder, tmp_path, root_end, **changes).tables():
        assert not made.keys() & tables
        made |= tables
    return made


def event_count(builder: SpoolBuilder, tmp_path) -> int:
    conversion = conversion_of(builder, tmp_path)
    list(conversion.tables())
    return conversion.events


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {}
    for name, values in table.items():
        if isinstance(values, Coded):
            columns[name] = [values.values[code] if code >= 0 else None for code in values.codes.tolist()]
        elif isinstance(values, Lists):
            bounds = zip(values.offsets[:-1].tolist(), values.offsets[1:].tolist(), strict=True)
            columns[name] = [values.items[a:b].tolist() for a, b in bounds]
        else:
            columns[name] = values.tolist() if isinstance(values, np.ndarray | Masked) else list(values)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def locations(tables: dict[str, dict[str, Any]], stack: int) -> list[tuple[str, str, int, int]]:
    """The frames of a stack id, innermost first."""
    by_id = {each["id"]: each for each in rows(tables["location"])}
    chain = next(each["locations"] for each in rows(tables["stack"]) if each["stack"] == stack)
    return [tuple(by_id[n][name] for name in ("file", "function", "first_line", "line")) for n in chain]


def with_stack(builder: SpoolBuilder) -> SpoolBuilder:
    """Node 20: work() at unit 6 (line 14), called from node 10: <module> at unit 0 (line 2)."""
    builder.code(1, name="<module>", first_line=1, line_table=LINES, bytecode=BYTECODE)
    builder.code(2, name="work", first_line=11, line_table=LINES, bytecode=BYTECODE)
    builder.add("node", hash=10, parent=0, code=1, instruction=0)
    return builder.add("node", hash=20, parent=10, code=2, instruction=6)
