"""Six programs that measure their own functions (targets/timed_functions.py), and how far a profile of them is off."""

from __future__ import annotations

import ast
import json
import statistics
from collections.abc import Sequence
from typing import Any

from tests.support.recording import target

PROGRAM = target("timed_functions")
NAMES = ("python", "native", "calls", "kernel", "threads", "waits")
#: Functions that others call: the program measures both together.
_PART_OF = {"three": "calls", "fibonacci": "numbers"}

Lines = dict[int, float]


def functions() -> dict[int, str]:
    """The measured function that each line belongs to."""
    found = {}
    for node in ast.parse(PROGRAM.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), _PART_OF.get(node.name, node.name))
    return found


def times_of(rows: Sequence[dict[str, Any]], name: str) -> Lines:
    """What the program ``name`` measures, of the lines of a report: CPU time, of "waits" wall time."""
    return {
        row["line"]: row["cpu_s"] + (row["wait_s"] if name == "waits" else 0)
        for row in rows
        if row["file"] == str(PROGRAM)
    }


def worst_error(truth: dict[str, float], lines: Lines) -> float:
    """The largest difference of a function's share of the time in all functions of the program's file, in points. The time of
    its imports is left out: they come before the measured ones."""
    of_line = functions()
    spent: dict[str, float] = {}
    for number, value in lines.items():
        if name := of_line.get(number):
            spent[name] = spent.get(name, 0.0) + value
    whole, true_whole = sum(spent.values()) or 1.0, sum(truth.values())
    return max(abs(100 * spent.get(name, 0.0) / whole - 100 * truth[name] / true_whole) for name in truth)


def truth_of(out: str) -> dict[str, Any]:
    """The program's own figures, on its last line that is JSON."""
    found: dict[str, Any] = json.loads(next(line for line in reversed(out.splitlines()) if line.startswith("{")))
    return found


def spread(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
