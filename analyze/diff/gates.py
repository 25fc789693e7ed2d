"""Conditions of ``diff --fail-on``, such as "cpu>+5%" and "peak>+50MB"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...formats.units import amount_text, parse_amount, parse_percent
from .measures import MEASURES
from .results import WORSE, Change, Changes, GateResult, LineChange

#: The names that a condition can use, with their fields of the totals.
NAMES = {
    "cpu": "cpu_s",
    "python": "python_s",
    "native": "native_s",
    "unclassified": "unclassified_s",
    "system": "system_s",
    "wait": "wait_s",
    "wall": "wall_s",
    "peak": "peak_bytes",
    "growth": "growth_bytes",
    "alloc": "alloc_bytes",
    "copy": "copy_bytes",
    "gpu": "gpu_s",
    "gpu-copy": "device_copy_bytes",
    "gpu-wait": "device_sync_s",
}
#: The condition that is met if any total or any line was judged worse.
ANY = "worse"

_FORM = re.compile(r"\s*([a-z]+(?:-[a-z]+)?)\s*>\s*(.*?)\s*", re.DOTALL)


class GateError(ValueError):
    """A condition that cannot be parsed, or that these traces cannot answer; ``str()`` is one or two sentences."""


@dataclass(frozen=True)
class Gate:
    """A condition: the total ``name`` rose by more than ``limit`` (percent, or seconds or bytes)."""

    text: str
    name: str = ANY
    limit: float = 0.0
    is_percent: bool = False


def parsed(text: str) -> Gate:
    """Parses the text of a condition. Raises GateError."""
    if text.strip() == ANY:
        return Gate(text)
    form = _FORM.fullmatch(text)
    if form is None or form[1] not in NAMES:
        known = ", ".join(NAMES)
        raise GateError(
            f"--fail-on {text!r} is not a condition. Write NAME>LIMIT, such as cpu>+5% or peak>+50MB, or {ANY}. Names are {known}."
        )
    name, limit = NAMES[form[1]], form[2]
    if (percent := parse_percent(limit)) is not None:
        return Gate(text, name, percent, True)
    try:
        return Gate(text, name, parse_amount(limit, "s" if name.endswith("_s") else "bytes"))
    except ValueError as error:
        raise GateError(f"--fail-on {text!r}: {error}") from error


def check_rates(gates: Sequence[Gate]) -> None:
    """Raises GateError for a limit in seconds or bytes of a figure that has become one per second."""
    for gate in gates:
        if gate.name != ANY and not gate.is_percent and not MEASURES[gate.name].is_level:
            raise GateError(
                f"Cannot check --fail-on {gate.text!r}: the recordings were paused for a part of the time, and are compared "
                "per second. Give a limit in percent, or --per-second and a limit per second."
            )


def judged(gate: Gate, totals: Changes, lines: Sequence[LineChange], per_second: bool = False) -> GateResult:
    """Whether the condition is met, which means: exceeded, and by more than noise explains.

    A rise does not count if its 95 % interval includes no rise at all. A demanded improvement (a negative limit) has no such
    excuse. Raises GateError if the figure was not recorded on both sides.
    """
    if gate.name == ANY:
        return _anything(gate, totals, lines)
    change = totals.get(gate.name)
    if change is None or change.before is None or change.after is None:
        raise GateError(f"Cannot check --fail-on {gate.text!r}: the figure was not recorded on both sides.")
    rise = _rise(gate, change, per_second)
    is_exceeded, is_sure = rise > gate.limit, gate.limit < 0 or _is_sure(gate, change)
    unit = "s" if gate.name.endswith("_s") else "bytes"
    shown = f"{rise:+.1f} %" if gate.is_percent else f"{'+' * (rise >= 0)}{amount_text(rise, unit)}"
    verdict = (
        "within the limit" if not is_exceeded else "exceeded" if is_sure else "exceeded, but within noise: not failed"
    )
    return GateResult(gate.text, is_exceeded and is_sure, f"{gate.text}: {shown}, {verdict}")


def _rise(gate: Gate, change: Change, per_second: bool) -> float:
    rise, before = change.moved(per_second), change.compared(per_second)[0] or 0.0
    if not gate.is_percent:
        return rise
    if before == 0:
        return float("inf") if rise > 0 else 0.0
    return 100 * rise / abs(before)


def _is_sure(gate: Gate, change: Change) -> bool:
    if change.low is None:  # a part of CPU time: only the whole is tested
        return True
    return change.low > (0 if gate.name == "growth_bytes" else 1)


def _anything(gate: Gate, totals: Changes, lines: Sequence[LineChange]) -> GateResult:
    places = [f"{line.place[0]}:{line.place[1]}" for line in lines if _is_worse(line.changes)]
    found = ["the program as a whole"] * _is_worse(totals) + places
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return GateResult(gate.text, bool(found), f"{gate.text}: {', '.join(found[:3]) or 'nothing'}{more}")


def _is_worse(changes: Changes) -> bool:
    return any(change is not None and change.verdict == WORSE for change in changes.values())
