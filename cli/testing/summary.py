"""The section at the end of pytest's report: the tests that use most."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from ...formats.units import counted, duration_text, size_text
from .budgets import ALLOWED_BYTES
from .meter import Used

Measured = Sequence[tuple[str, Used]]


def lines(measured: Measured, most: int, trace: str) -> Iterator[str]:
    """The section without its title. ``most``: tests in each table."""
    if not measured:
        yield "No test ran."
    yield from _table("slowest by CPU time", measured, most, lambda used: used.cpu_s)
    yield from _table("largest by peak memory", measured, most, lambda used: _beyond(used.peak_bytes))
    yield from _table("memory kept after the test", measured, most, lambda used: _beyond(used.kept_bytes))
    if measured and all(used.peak_bytes is None for _, used in measured):
        yield "Memory was not recorded."
    yield f"lines of all tests: scalene-analyze {shlex.quote(trace)}"
    if measured:
        slowest = max(measured, key=lambda each: each[1].cpu_s)[0]
        yield f"lines of one test: scalene-analyze {shlex.quote(trace)} --mark {shlex.quote(slowest)}"


def _beyond(size_bytes: int | None) -> int:
    return size_bytes if size_bytes is not None and size_bytes > ALLOWED_BYTES else 0


def _table(title: str, measured: Measured, most: int, figure: Callable[[Used], float]) -> Iterator[str]:
    """The tests with the highest figures; nothing if none has any."""
    shown = sorted(((name, used) for name, used in measured if figure(used) > 0), key=lambda each: -figure(each[1]))
    if not shown[:most]:
        return
    yield f"{title}: {counted(min(most, len(shown)), 'test', 'tests')} of {len(measured):,}"
    yield f"  {'CPU':>9} {'wall':>9} {'peak':>9} {'kept':>9}  test"
    for name, used in shown[:most]:
        sizes = ["" if each is None else size_text(each) for each in (used.peak_bytes, used.kept_bytes)]
        cells = [duration_text(used.cpu_s), duration_text(used.wall_s), *sizes]
        yield f"  {' '.join(f'{cell:>9}' for cell in cells)}  {name}"
