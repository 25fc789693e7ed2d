"""Durations and sizes as people write them on a command line."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from .errors import UsageError

_NANOSECONDS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NUMBER = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)", re.IGNORECASE)
_SIZE_UNIT = re.compile(r"([kmgt]?)(?:i?b)?", re.IGNORECASE)

_LONG_UNITS = {"": 1_000_000_000, **_NANOSECONDS, "min": 60_000_000_000, "h": 3_600_000_000_000}

SHORTEST_INTERVAL_NS = 10_000
LONGEST_INTERVAL_NS = 1_000_000_000
SHORTEST_GPU_INTERVAL_NS = 1_000_000
LONGEST_GPU_INTERVAL_NS = 10_000_000_000
SHORTEST_DURATION_NS = 100_000_000
LONGEST_DURATION_NS = 10_000 * _LONG_UNITS["h"]
SMALLEST_THRESHOLD_BYTES = 4096
SMALLEST_ALLOC_INTERVAL_BYTES = 16


def interval_ns(option: str, text: str) -> int:
    """Nanoseconds of "10ms", "1s" or "100us", from 10us to 1s. Raises UsageError that names the option."""
    match = _NUMBER.fullmatch(text.strip())
    unit = _NANOSECONDS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{option} {text!r} is not a duration. Write it like 10ms, 1s or 100us.")
    nanoseconds = round(float(match[1]) * unit)
    if not SHORTEST_INTERVAL_NS <= nanoseconds <= LONGEST_INTERVAL_NS:
        raise UsageError(f"{option} {text} is out of range. It can be 10us to 1s.")
    return nanoseconds


def gpu_interval_ns(option: str, text: str) -> int:
    """Nanoseconds of "50ms" or "1s", from 1ms to 10s, or 0. Raises UsageError that names the option."""
    if text.strip() == "0":
        return 0
    match = _NUMBER.fullmatch(text.strip())
    unit = _NANOSECONDS.get(match[2].lower()) if match else None
    nanoseconds = round(float(match[1]) * unit) if match and unit else -1
    if nanoseconds and not SHORTEST_GPU_INTERVAL_NS <= nanoseconds <= LONGEST_GPU_INTERVAL_NS:
        raise UsageError(f"{option} {text!r} is not an interval: it can be 1ms to 10s, written like 50ms, or 0 (none).")
    return nanoseconds


def duration_ns(option: str, text: str) -> int:
    """Nanoseconds of "30" (seconds), "500ms", "10s", "5min" or "2h", from 100ms to 10000h.

    Raises UsageError that names the option.
    """
    match = _NUMBER.fullmatch(text.strip())
    unit = _LONG_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{option} {text!r} is not a duration. Write it like 30 (seconds), 500ms, 5min or 2h.")
    nanoseconds = round(float(match[1]) * unit)
    if not SHORTEST_DURATION_NS <= nanoseconds <= LONGEST_DURATION_NS:
        raise UsageError(f"{option} {text} is out of range. It can be 100ms to 10000h.")
    return nanoseconds


def size_bytes(option: str, text: str) -> int:
    """Bytes of "10MB", "512KiB", "1GB" or "65536"; units are powers of 1024. Raises UsageError that names the option."""
    match = _NUMBER.fullmatch(text.strip())
    unit = _SIZE_UNIT.fullmatch(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(f"{option} {text!r} is not a size. Write it like 10MB, 512KiB, 1GB or 65536 (bytes).")
    return round(float(match[1]) * int(1024 ** _POWERS[unit[1].lower()]))


def threshold_bytes(option: str, text: str, times: int = 1) -> int:
    """A sampling threshold: ``times`` the size, rounded up to the next prime so that it beats with no pattern of the
    program.

    Raises UsageError.
    """
    size = size_bytes(option, text)
    if not SMALLEST_THRESHOLD_BYTES <= size <= memory_bytes():
        raise UsageError(
            f"{option} {text} is out of range. It can be 4KB to {human_bytes(memory_bytes())}, this machine's memory."
        )
    size *= times
    while not _is_prime(size):
        size += 1
    return size


def alloc_interval_bytes(option: str, text: str) -> int | None:
    """Mean bytes between two allocation samples: 1 = every allocation, 0 = none, None = "auto". Raises UsageError."""
    if text.strip().lower() == "auto":
        return None
    if text.strip() in ("0", "1"):
        return int(text)
    with suppress(UsageError):
        size = size_bytes(option, text)
        if SMALLEST_ALLOC_INTERVAL_BYTES <= size <= memory_bytes():
            return size
    raise UsageError(
        f"{option} {text!r} is not an interval: it can be auto, a size like 64KB (16 bytes to "
        f"{human_bytes(memory_bytes())}, this machine's memory), 1 (every allocation) or 0 (none)."
    )


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _is_prime(number: int) -> bool:
    """Miller-Rabin with the first twelve primes as bases: exact below 3.3e24."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if number < 2 or any(number % base == 0 for base in bases):
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(number, base, odd, twos) for base in bases)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    return any((power := power * power % number) == number - 1 for _ in range(twos - 1))


def human_bytes(count: int) -> str:
    """A size for people: "45 KB", "1.2 MB"."""
    size, unit = float(count), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
