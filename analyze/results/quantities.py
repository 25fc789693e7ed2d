"""Amounts as people write them in a condition, and as a sentence says them. 1 MB = 1,000,000 bytes, 1 MiB = 1,048,576."""

from __future__ import annotations

import re

_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}
_UNITS_BYTES = {"b": 1.0} | {
    f"{letter}{binary}b": float(base**power)
    for power, letter in enumerate("kmgt", start=1)
    for binary, base in (("", 1000), ("i", 1024))
}
_NUMBER = re.compile(r"([+-]?)\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zA-Z]*)")


def amount(text: str, unit: str) -> float:
    """The amount in ``unit`` ("s" or "bytes") that a text like "50MB" or "1.5 s" means. Raises ValueError."""
    units = _UNITS_S if unit == "s" else _UNITS_BYTES
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[3].lower() not in units:
        example = "1.5s or 20ms" if unit == "s" else "50MB, 512KiB or 1GB"
        raise ValueError(f"{text!r} is no {'time' if unit == 's' else 'size'}. Write it like {example}.")
    return (-1 if found[1] == "-" else 1) * float(found[2]) * units[found[3].lower()]


def size_text(size_bytes: float) -> str:
    """A size in B, KB, MB or GB, with its sign."""
    for unit, power in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size_bytes) >= power:
            return f"{size_bytes / power:,.1f} {unit}"
    return f"{size_bytes:,.0f} B"


def time_text(time_s: float) -> str:
    """A time in ms or s, with its sign."""
    return f"{time_s:,.2f} s" if abs(time_s) >= 1 else f"{time_s * 1e3:,.1f} ms"


def amount_text(value: float, unit: str) -> str:
    """An amount in "s" or "bytes"."""
    return time_text(value) if unit == "s" else size_text(value)
