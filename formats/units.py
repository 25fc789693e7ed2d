"""Sizes, durations and percentages: how users write them, and how messages and tables show them.

One rule holds for options, budgets, gates and output: KB, MB, GB and TB are powers of 1,000 bytes; KiB, MiB, GiB and
TiB are powers of 1,024 bytes. The letter B may be left out (10M, 64Ki). Upper and lower case mean the same.

The parsers raise :class:`UnitError`; the callers know which option or file the text came from and add that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_BYTES = {"b": 1} | {
    f"{letter}{binary}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for binary, base in (("", 1000), ("i", 1024))
    for ending in ("b", "")
}
_QUANTITY = r"([+-]?)\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zA-Z]*)"
_PERCENT = r"([+-]?)\s*(\d{1,12}(?:\.\d{1,12})?)\s*%"

SIZE_EXAMPLES = "10MB, 512KiB or 1GB"
DURATION_EXAMPLES = "1.5s, 20ms or 5min"


class UnitError(ValueError):
    """The text is not a quantity of the wanted kind; ``str()`` is two sentences: what is wrong, and how to write it."""


# ---- reading ---------------------------------------------------------------------------------------------------------


def parse_size(text: str) -> int:
    """Bytes that "10MB", "512KiB" or "65536" (bytes) mean; no sign. Raises UnitError."""
    number = _magnitude(text, _BYTES | {"": 1}, signed=False)
    if number is None:
        raise UnitError(f"{text!r} is not a size. Write it like {SIZE_EXAMPLES}, or 65536 (bytes).")
    return round(number)


def parse_duration_ns(text: str, bare_seconds: bool = False) -> int:
    """Nanoseconds that "10ms" or "5min" mean; no sign. ``bare_seconds``: "30" means 30 seconds. Raises UnitError."""
    number = _magnitude(text, _NANOSECONDS | ({"": _NANOSECONDS["s"]} if bare_seconds else {}), signed=False)
    if number is None:
        examples = "30 (seconds), 500ms, 5min or 2h" if bare_seconds else "10ms, 1s or 100us"
        raise UnitError(f"{text!r} is not a duration. Write it like {examples}.")
    return round(number)


def parse_amount(text: str, unit: str) -> float:
    """The amount in ``unit`` ("s" or "bytes") that "50MB" or "-1.5 s" means; its unit is required. Raises UnitError."""
    if unit == "s":
        number = _magnitude(text, {name: length / 1e9 for name, length in _NANOSECONDS.items()})
    else:
        number = _magnitude(text, _BYTES)
    if number is None:
        kind, examples = ("duration", DURATION_EXAMPLES) if unit == "s" else ("size", SIZE_EXAMPLES)
        raise UnitError(f"{text!r} is not a {kind}. Write it like {examples}.")
    return number


def parse_percent(text: str) -> float | None:
    """The number that "5%" or "-2.5 %" means; None where the text is not a percentage."""
    found = re.fullmatch(_PERCENT, text.strip())
    return float(found[1] + found[2]) if found else None


def _magnitude(text: str, units: Mapping[str, float], signed: bool = True) -> float | None:
    """The number times its unit; None where the text has another form or an unknown unit."""
    found = re.fullmatch(_QUANTITY, text.strip())
    if found is None or found[3].lower() not in units or (found[1] and not signed):
        return None
    return (-1 if found[1] == "-" else 1) * float(found[2]) * units[found[3].lower()]


# ---- sentences -------------------------------------------------------------------------------------------------------


def counted(number: int, one: str, many: str) -> str:
    """A number of things: ``1 line``, ``1,024 lines``."""
    return f"{number:,} {one if number == 1 else many}"


def size_text(size_bytes: float) -> str:
    """A size with one decimal, and its sign where it is negative: "12 B", "49.8 KB", "1.5 MB", "3.0 GB"."""
    for unit, power in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size_bytes) >= power:
            return f"{size_bytes / power:,.1f} {unit}"
    return f"{size_bytes:,.0f} B"


def file_size_text(size_bytes: int) -> str:
    """The size of a file or of the machine's memory: "12 B", "510 KB", "1.5 MB", "67.4 GB"."""
    return f"{size_bytes / 1e3:,.0f} KB" if 1e3 <= size_bytes < 1e6 else size_text(size_bytes)


def duration_text(time_s: float) -> str:
    """A time in milliseconds or seconds, with its sign where it is negative: "20.0 ms", "1.50 s"."""
    return f"{time_s:,.2f} s" if abs(time_s) >= 1 else f"{time_s * 1e3:,.1f} ms"


def amount_text(value: float, unit: str) -> str:
    """An amount in ``unit`` ("s" or "bytes")."""
    return duration_text(value) if unit == "s" else size_text(value)


# ---- cells of tables -------------------------------------------------------------------------------------------------
# One unit per column where possible, so that figures can be compared at a glance. None gives an empty cell.


def megabytes(size_bytes: float | None) -> str:
    """A size in MB, from 10,000 MB on in GB."""
    if size_bytes is None:
        return ""
    if abs(size_bytes) >= 1e10:
        return f"{size_bytes / 1e9:,.1f} GB"
    return f"{size_bytes / 1e6:,.1f} MB" if abs(size_bytes) < 1e8 else f"{size_bytes / 1e6:,.0f} MB"


def per_second(rate_bytes_per_s: float) -> str:
    """A rate in KB/s, MB/s or GB/s."""
    if abs(rate_bytes_per_s) < 1e6:
        return f"{rate_bytes_per_s / 1e3:,.0f} KB/s"
    if abs(rate_bytes_per_s) >= 1e9:
        return f"{rate_bytes_per_s / 1e9:,.1f} GB/s"
    return f"{megabytes(rate_bytes_per_s)}/s"


def seconds(time_s: float | None) -> str:
    """A time in whole milliseconds below one second, in seconds from there on."""
    if time_s is None:
        return ""
    if time_s < 1:
        return f"{time_s * 1e3:.0f} ms"
    return f"{time_s:.2f} s" if time_s < 100 else f"{time_s:,.0f} s"


def percent(part: float | None, whole: float | None) -> float:
    """``part`` in percent of ``whole``; 0 where either is missing or ``whole`` is 0."""
    return 100 * (part or 0.0) / whole if whole else 0.0
