"""Makes the ``process`` and ``thread`` tables from records of starts and ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsInt

import numpy as np

from ....formats.spool.layout import constants, names_of
from ....formats.spool.reader import WithPayload
from ....formats.trace.text import from_bytes
from ..survey.columns import LAST_ID
from ..survey.stacks import python_version_text
from ..survey.survey import Survey

_C = constants()
_CAUSES, _ENDS, _ENGINES = names_of("CAUSE_"), names_of("END_"), names_of("ENGINE_")

Row = dict[str, Any]


@dataclass(frozen=True)
class RootEnd:
    """The program's end as the recorder has seen it: its pid and its exit status (128 + n for signal n)."""

    pid: int
    exit_status: int


def process_table(survey: Survey, root_end: RootEnd | None) -> dict[str, Any]:
    """The ``process`` table, by time."""
    start_ns = survey.start_ns
    rows = {each.process: _process_row(each, start_ns) for each in reversed(survey.process_starts)}
    for process, first_ns in survey.processes_seen.items():
        rows.setdefault(process, {"t_ns": first_ns - start_ns, "process": process})
    ends = survey.kept["process_end"]
    for process, record in zip(ends.process.tolist(), ends.records, strict=True):
        row, end = rows.setdefault(process, {"process": process}), _process_end(record, start_ns)
        row.update(dict.fromkeys(end) if record["how"] == _C["END_NONE"] else end)
    if root_end:
        _add_root_end(rows, root_end)
    return _columns(rows)


def thread_table(survey: Survey) -> dict[str, Any]:
    """The ``thread`` table, by time."""
    start_ns, clocks = survey.start_ns, cpu_start_ns(survey)
    rows: dict[int, Row] = {}
    for (process, thread), first_ns in survey.threads_seen.items():
        name = _id(thread)
        cpu_ns = max(0, survey.last_clock.get(thread, 0) - clocks.get(name, 0)) if thread in survey.last_clock else 0
        rows[name] = {"t_ns": first_ns - start_ns, "process": process, "thread": name, "cpu_ns": cpu_ns}
    for record in survey.kept["thread_start"].records:
        engine = _ENGINES.get(int(record["engine"]), "none")
        rows[_id(record["thread"])] |= {
            "t_ns": int(record["t_ns"]) - start_ns,
            "tid": int(record["tid"]),
            "engine": engine,
        }
    lived_on = _lived_on(survey)
    for record in survey.kept["thread_end"].records:
        if int(record["t_ns"]) >= lived_on.get(_id(record["thread"]), 0):
            rows[_id(record["thread"])] |= _thread_end(record, start_ns)
    return _columns(rows)


def cpu_start_ns(survey: Survey) -> dict[int, int]:
    """Each thread's CPU clock (ns) when its recording began; where the start record is missing, the clock of its first
    tick."""
    starts = survey.kept["thread_start"].records
    clocks = {_id(thread): clock for thread, (_, clock) in survey.first_clock.items()}
    return clocks | dict(zip(map(_id, starts["thread"].tolist()), starts["cpu_start_ns"].tolist(), strict=True))


def _lived_on(survey: Survey) -> dict[int, int]:
    """The time of each thread's last failed exec, which withdraws the end records from before."""
    ends = survey.kept["process_end"].records
    failed = ends[ends["how"] == _C["END_NONE"]]
    return dict(zip(map(_id, failed["thread"].tolist()), failed["t_ns"].tolist(), strict=True))


def _process_row(start: WithPayload, start_ns: int) -> Row:
    record = start.record
    exe, rest = start.payload[: int(record["exe_bytes"])], start.payload[int(record["exe_bytes"]) :]
    version = int(record["python_version"])
    return {
        "t_ns": int(record["t_ns"]) - start_ns,
        "process": start.process,
        "pid": int(record["pid"]),
        "parent_pid": int(record["parent_pid"]),
        "parent": _id(record["parent"]) or None,
        "cause": _CAUSES.get(int(record["cause"]), "root"),
        "executable": from_bytes(exe.rstrip(b"\0")),
        "command": _arguments(rest[: int(record["argv_bytes"])]),
        "python_version": python_version_text(version) if version else None,
        "stacks": bool(record["stacks"]),
        "start_footprint_bytes": int(record["footprint_bytes"]),
    }


def _arguments(data: bytes) -> list[str] | None:
    return [from_bytes(each) for each in data.removesuffix(b"\0").split(b"\0")] if data else None


def _process_end(record: np.void, start_ns: int) -> Row:
    how = _ENDS.get(int(record["how"]))
    return {
        "end_ns": int(record["t_ns"]) - start_ns,
        "end": {"quick": "quick_exit"}.get(how, how) if how else None,
        "exit_status": int(record["exit_status"]) & 255 if how == "quick" else None,
        "user_ns": int(record["user_ns"]),
        "system_ns": int(record["system_ns"]),
        "peak_rss_bytes": int(record["peak_rss_bytes"]),
        "end_footprint_bytes": int(record["footprint_bytes"]),
    }


def _add_root_end(rows: dict[int, Row], root_end: RootEnd) -> None:
    """Adds the exit status that the recorder waited for to the last image of the program's own process."""
    images = [row for row in rows.values() if row.get("pid") == root_end.pid and row.get("end") != "exec"]
    if images:
        max(images, key=lambda row: int(row["process"]))["exit_status"] = root_end.exit_status


def _thread_end(record: np.void, start_ns: int) -> Row:
    return {
        "end_ns": int(record["t_ns"]) - start_ns,
        "name": from_bytes(bytes(record["name"])),
        "cpu_ns": int(record["cpu_ns"]),
        "user_ns": int(record["user_ns"]),
        "system_ns": int(record["system_ns"]),
    }


def _id(number: SupportsInt) -> int:
    """An id as int32, which the trace holds; negative ones come from damaged records."""
    value = int(number)
    return value - (1 << 32) if value > LAST_ID else value


def _storable(value: Any) -> Any:
    """``value`` limited to 64 bits: a number of a damaged record may be larger."""
    return max(-(2**63), min(value, 2**63 - 1)) if type(value) is int else value


def _columns(rows: dict[int, Row]) -> dict[str, list[Any]]:
    ordered = sorted(rows.values(), key=lambda row: (row.get("t_ns", 0), row["process"], row.get("thread", 0)))
    names = dict.fromkeys(name for row in ordered for name in row)
    return {name: [_storable(row.get(name)) for row in ordered] for name in names}
