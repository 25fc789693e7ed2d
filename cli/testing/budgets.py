"""Budgets of tests: ``@pytest.mark.scalene(cpu="2s", peak="100MB", leaks=0)``, and the markers of pytest-memray."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ...formats.units import UnitError, duration_text, parse_duration_ns, parse_size, size_text
from .meter import Used

#: pytest-memray's units are powers of 1,024.
_MEMRAY = re.compile(r"(\d*\.?\d+)\s*([KMGT]?)B", re.IGNORECASE)
#: What ``leaks=0`` allows: caches that fill when code runs for the first time. Of 1,665 tests of networkx, which got this
#: budget, 99 % kept less than 10 KB, and three more than this.
ALLOWED_BYTES = 64 << 10
_MOST_S = 1e9


class BudgetError(ValueError):
    """A marker says no limit; ``str()`` is a sentence."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a test may use: seconds and bytes; None = no limit. ``leaks``: what it may keep after its end."""

    cpu_s: float | None = None
    wall_s: float | None = None
    peak: int | None = None
    leaks: int | None = None

    def exceeded(self, used: Used) -> list[str]:
        """A sentence for each limit that is not kept, or cannot be judged."""
        cases = (
            (self.cpu_s, used.cpu_s, "used {} of CPU time", duration_text),
            (self.wall_s, used.wall_s, "took {}", duration_text),
            (self.peak, used.peak_bytes, "allocated {} at its peak", size_text),
            (self.leaks, used.kept_bytes, "keeps {} after its end", size_text),
        )
        said: dict[str, None] = {}
        for most, value, what, text in cases:
            if most is not None and value is None:
                said["The test has a budget of memory, which is not recorded."] = None
            elif most is not None and value is not None and value > most:
                said[f"The test {what.format(text(value))}; its budget is {text(most)}."] = None
        return list(said)


class Budgets:
    """The budgets that the markers of tests state. Of several markers, the closest to the test decides each limit."""

    def __init__(self, config: pytest.Config) -> None:
        self._memray_judges = bool(config.getoption("memray", False))

    def of(self, item: pytest.Item) -> Budget:
        """The limits of ``item``. Raises BudgetError for a marker that says none."""
        limits: dict[str, float] = {}
        for marker in item.iter_markers():
            if marker.name == "scalene":
                _read(marker, limits)
            elif marker.name in ("limit_memory", "limit_leaks") and not self._memray_judges:
                name = "peak" if marker.name == "limit_memory" else "leaks"
                bytes_ = _memray_bytes(marker)
                limits.setdefault(name, bytes_ if name == "peak" else bytes_ or ALLOWED_BYTES)
        return Budget(**limits)  # type: ignore[arg-type]


def _read(marker: pytest.Mark, limits: dict[str, float]) -> None:
    if marker.args or not marker.kwargs:
        raise BudgetError("The marker scalene takes limits by name: cpu, wall, peak and leaks.")
    for name, given in marker.kwargs.items():
        if name not in _READERS:
            raise BudgetError(f"The marker scalene has no limit {name!r}. It has {', '.join(_READERS)}.")
        field, read = _READERS[name]
        if given is None:
            continue
        try:
            limits.setdefault(field, read(given))
        except UnitError as error:
            raise BudgetError(f"The marker scalene, {name}: {error}") from None


def _seconds(given: object) -> float:
    if isinstance(given, int | float) and type(given) is not bool:
        if not 0 <= given < _MOST_S:
            raise UnitError(f"{given} is not a number of seconds that a test may take.")
        return float(given)
    return parse_duration_ns(str(given), bare_seconds=True) / 1e9


def _bytes(given: object) -> int:
    if type(given) is int and given < 0:
        raise UnitError(f"{given} is not a number of bytes.")
    return given if type(given) is int else parse_size(str(given))


def _leak_bytes(given: object) -> int:
    return _bytes(given) or ALLOWED_BYTES


_READERS: dict[str, tuple[str, Callable[[object], float]]] = {
    "cpu": ("cpu_s", _seconds),
    "wall": ("wall_s", _seconds),
    "peak": ("peak", _bytes),
    "leaks": ("leaks", _leak_bytes),
}


def _memray_bytes(marker: pytest.Mark) -> int:
    """Bytes of ``limit_memory("24 MB")``, as pytest-memray reads it."""
    named = marker.kwargs.get("memory_limit" if marker.name == "limit_memory" else "location_limit", "")
    text = str(marker.args[0] if marker.args else named)
    found = _MEMRAY.fullmatch(text.strip())
    if not found:
        raise BudgetError(f"The marker {marker.name} takes a size like '24 MB', not {text!r}.")
    return round(float(found[1]) * 1024.0 ** " KMGT".index(found[2].upper() or " "))
