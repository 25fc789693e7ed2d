"""The common parts of all results: the table of rows, its order, and its JSON.

Results are plain frozen dataclasses whose fields are named and ordered as in the JSON output (docs/json.md). Times end in
``_s`` (seconds), sizes in ``_bytes``. None means that the figure was not recorded or is unknown; it never means zero.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A list of rows, with the options of the request (``query``) and the traces.

    ``name`` names the JSON schema (scalene-trace/NAME/1); ``rows_name`` is the key of the rows, by default ``name``.
    """

    name: str
    query: dict[str, Any]
    traces: list[Any]
    rows: list[Any]
    rows_name: str = ""


def sorted_rows(rows: list[Any], sort: str) -> list[Any]:
    """Rows by the field ``sort``: numbers from the largest, texts from A, None last. Ties keep their order."""
    known = [row for row in rows if getattr(row, sort) is not None]
    unknown = [row for row in rows if getattr(row, sort) is None]
    is_name = sort in ("line", "first_line") or any(isinstance(getattr(row, sort), str) for row in known[:1])
    return sorted(known, key=lambda row: getattr(row, sort), reverse=not is_name) + unknown


def to_json(result: Any) -> Any:
    """``result`` as plain dicts, lists, numbers and strings, with keys in the order of the fields."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {
            f.name: to_json(getattr(result, f.name)) for f in dataclasses.fields(result) if f.metadata.get("json", True)
        }
    if isinstance(result, (list, tuple)):
        return [to_json(each) for each in result]
    if isinstance(result, dict):
        return {key: to_json(value) for key, value in result.items()}
    return result


def table_json(table: Table) -> dict[str, Any]:
    """The JSON document of a table."""
    document: dict[str, Any] = {"schema": f"scalene-trace/{table.name}/1", "query": table.query}
    return document | {"traces": to_json(table.traces), table.rows_name or table.name: to_json(table.rows)}
