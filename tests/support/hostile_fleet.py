"""A fleet whose names are hostile: texts of markup, of terminals and of other frames."""

from __future__ import annotations

from pathlib import Path

from scalene_trace.analyze.exports.collapsed import frame_name
from scalene_trace.analyze.exports.shared.profile import Frame, native_frame
from scalene_trace.analyze.exports.shared.text import plain
from scalene_trace.formats.fleet.schema import FIGURE_COLUMNS
from scalene_trace.formats.fleet.writer import Batch

NAMES = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "a\u202eb\"'&amp;",
    "f (x.py:3)",
    "a;b",
    "\x1b[31mred",
    "x" * 300,
)
MAIN = "<module> (/app/main.py:1)"


def stacks() -> dict[str, float]:
    """CPU seconds by collapsed stack, as an indexer writes them; those of the kernel, of small stacks, and of functions that are called
    like a wait, too."""
    found = {f"{MAIN};[kernel]": 1.5, "(other)": 2.0, "[GIL];[sleep]": 0.5}
    for number, name in enumerate(map(plain, NAMES)):
        frames = Frame(name, f"/app/{name}.py", 0, 3, "python"), native_frame(name, f"{name}.so")
        found[";".join([MAIN, *map(frame_name, frames)])] = 1 + number / 10
    return found


def hostile_fleet(folder: Path) -> Path:
    """Writes a fleet of one trace into ``folder``, which is made."""
    folder.mkdir()
    rows = [{"scope": "total", "metric": "cpu_s", "value": sum(stacks().values())}]
    rows += [{"scope": "stack", "metric": "cpu_s", "value": value, "stack": stack} for stack, value in stacks().items()]
    rows += [
        {"scope": "line", "metric": "cpu_s", "value": 1.0, "file": f"/app/{name}.py", "line": 3}
        for name in map(plain, NAMES)
    ]
    trace = {"trace_id": "ab" * 16, "path": "1.parquet", "host": NAMES[0], "labels": {"version": NAMES[1]}}
    trace |= {"start_ns": 1_793_000_000 * 10**9, "wall_ns": 3600 * 10**9, "losses": 0}
    batch = Batch()
    batch.add(trace, {column.name: [row.get(column.name) for row in rows] for column in FIGURE_COLUMNS}, 0o600)
    batch.publish(folder, "2026-11-28")
    return folder
