"""Kernel time by line, against the program's own count. Other work on the machine disturbs it, so nothing runs beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import (
    figure,
    hold_median,
    line_of,
    lines_of,
    record,
    report,
    rows_of_function,
    target,
    total,
)

pytestmark = pytest.mark.measures_alone

ENOUGH_TICKS = 2400

#: Lines of each program that call the kernel. After a fork the parent's next writes fault too, wherever they are: there
#: the whole function counts.
KERNEL_LINES = {"reads": ("reads",), "faults": ("faults", "faults-freed")}


def kernel_time_errors(python: Interpreter, trace: Path) -> dict[str, float]:
    """Errors of the system share (points), by function. Shares of the CPU time by the program's own clock: the sum of
    the ticks has noise of its own, and is held wider."""
    done = record(trace, [target("kernel_time"), "4.5"], python, ["--cpu-interval", "6ms"])
    found, path = report(trace, "--process", "1"), target("kernel_time")
    assert found["traces"][0]["events"]["cpu"] >= ENOUGH_TICKS
    errors = {}
    for name, watch in done.facts.items():
        rows = rows_of_function(found, name, path)
        lines = [lines_of(found, path)[line_of("kernel_time", mark)] for mark in KERNEL_LINES.get(name, ())]
        share = 100 * total(lines or rows, "system_s") / watch["cpu_s"]
        errors[name] = share - watch["system_percent"]
        figure(f"system share error, {name}", python, errors[name], 3, "points")
        whole = 100 * (total(rows, "cpu_s") / watch["cpu_s"] - 1)
        figure(f"CPU time of the function, {name}", python, whole, 10, "percent")
        assert abs(whole) <= 10
    return errors


def test_kernel_time_is_on_its_line(python: Interpreter, tmp_path: Path) -> None:
    hold_median(lambda trace: kernel_time_errors(python, trace), tmp_path, 3)
