"""Values of the recorder's options: the ranges of intervals and durations, and thresholds as prime numbers.

Every function takes the option's name for its message, and raises UsageError.
"""

from __future__ import annotations

import os

from ..formats.units import UnitError, file_size_text, parse_duration_ns, parse_percent, parse_size
from .errors import UsageError

SHORTEST_INTERVAL_NS = 10_000
LONGEST_INTERVAL_NS = 1_000_000_000
SHORTEST_GPU_INTERVAL_NS = 1_000_000
LONGEST_GPU_INTERVAL_NS = 10_000_000_000
SHORTEST_DURATION_NS = 100_000_000
LONGEST_DURATION_NS = 10_000 * 3_600_000_000_000
SHORTEST_ROTATION_NS = 1_000_000_000
SMALLEST_THRESHOLD_BYTES = 4_000
SMALLEST_SPOOL_LIMIT_BYTES = 1_000_000
SMALLEST_ALLOC_INTERVAL_BYTES = 16
#: A smaller budget would be spent in pauses: budget.HOOKS is 0.2 %.
SMALLEST_BUDGET, LARGEST_BUDGET = 0.003, 0.5


def interval_ns(option: str, text: str) -> int:
    """Nanoseconds of "10ms", "1s" or "100us", from 10us to 1s."""
    nanoseconds = _duration(option, text)
    if not SHORTEST_INTERVAL_NS <= nanoseconds <= LONGEST_INTERVAL_NS:
        raise UsageError(f"{option} {text} is out of range. It can be 10us to 1s.")
    return nanoseconds


def gpu_interval_ns(option: str, text: str) -> int:
    """Nanoseconds of "50ms" or "1s", from 1ms to 10s; 0 means that GPUs are not sampled."""
    try:
        nanoseconds = 0 if text.strip() == "0" else parse_duration_ns(text)
    except UnitError:
        nanoseconds = -1
    if nanoseconds and not SHORTEST_GPU_INTERVAL_NS <= nanoseconds <= LONGEST_GPU_INTERVAL_NS:
        raise UsageError(f"{option} {text!r} is not an interval. It can be 1ms to 10s, written like 50ms, or 0 (none).")
    return nanoseconds


def duration_ns(option: str, text: str) -> int:
    """Nanoseconds of "30" (seconds), "500ms", "10s", "5min" or "2h", from 100ms to 10000h."""
    nanoseconds = _duration(option, text, bare_seconds=True)
    if not SHORTEST_DURATION_NS <= nanoseconds <= LONGEST_DURATION_NS:
        raise UsageError(f"{option} {text} is out of range. It can be 100ms to 10000h.")
    return nanoseconds


def rotation_ns(option: str, text: str) -> int:
    """Nanoseconds of "10min" or "1h", from 1s to 10000h."""
    nanoseconds = duration_ns(option, text)
    if nanoseconds < SHORTEST_ROTATION_NS:
        raise UsageError(f"{option} {text} is out of range. It can be 1s to 10000h.")
    return nanoseconds


def sample_ns(option: str, text: str) -> tuple[int, int]:
    """The window and the period, in nanoseconds, of "30s/10min": 100ms to 10000h, the window shorter than the period."""
    window, slash, period = text.partition("/")
    if not slash:
        raise UsageError(f"{option} {text!r} is not a part of a time. Write it like {option} 30s/10min.")
    found = duration_ns(option, window), duration_ns(option, period)
    if found[0] >= found[1]:
        raise UsageError(f"{option} {text}: the first time must be shorter than the second one, like 30s/10min.")
    return found


def sample_text(sample: tuple[int, int]) -> str:
    """A window and a period as they are given: "30s/10min"."""
    return "/".join(map(_time_text, sample))


def budget_share(option: str, text: str) -> float:
    """The share that "0.5%" means: 0.3 % to 50 %."""
    number = parse_percent(text)
    if number is None or not SMALLEST_BUDGET <= number / 100 <= LARGEST_BUDGET:
        raise UsageError(f"{option} {text!r} is not a budget. It can be 0.3% to 50%, written like 0.5%.")
    return number / 100


def percent_text(share: float) -> str:
    """A share as it is given: "0.5%"."""
    return f"{100 * share:g}%"


def _time_text(time_ns: int) -> str:
    units = (("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000))
    for unit, length_ns in units:
        if time_ns % length_ns == 0:
            return f"{time_ns // length_ns}{unit}"
    return f"{time_ns / 1e6:g}ms"


def spool_limit_bytes(option: str, text: str) -> int:
    """Bytes of "1GiB", at least 1 MB."""
    size = _size(option, text)
    if size < SMALLEST_SPOOL_LIMIT_BYTES:
        raise UsageError(f"{option} {text} is out of range. It can be 1MB or more.")
    return size


def threshold_bytes(option: str, text: str, times: int = 1) -> int:
    """A sampling threshold: ``times`` the size, rounded up to the next prime, because a round number could stay in step
    with a pattern of the program's own sizes and then always sample the same line."""
    size = _size(option, text)
    if not SMALLEST_THRESHOLD_BYTES <= size <= memory_bytes():
        most = file_size_text(memory_bytes())
        raise UsageError(f"{option} {text} is out of range. It can be 4KB to {most}, this machine's memory.")
    size *= times
    while not _is_prime(size):
        size += 1
    return size


def alloc_interval_bytes(option: str, text: str) -> int | None:
    """Mean bytes between two allocation samples; 1: every allocation, 0: none, None ("auto"): adapts to the program."""
    if text.strip().lower() == "auto":
        return None
    if text.strip() in ("0", "1"):
        return int(text)
    try:
        size = parse_size(text)
    except UnitError:
        size = -1
    if SMALLEST_ALLOC_INTERVAL_BYTES <= size <= memory_bytes():
        return size
    raise UsageError(
        f"{option} {text!r} is not an interval. It can be auto, a size like 64KB (16 bytes to "
        f"{file_size_text(memory_bytes())}, this machine's memory), 1 (every allocation) or 0 (none)."
    )


def memory_bytes() -> int:
    """Physical memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _duration(option: str, text: str, bare_seconds: bool = False) -> int:
    try:
        return parse_duration_ns(text, bare_seconds)
    except UnitError as error:
        raise UsageError(f"{option} {error}") from error


def _size(option: str, text: str) -> int:
    try:
        return parse_size(text)
    except UnitError as error:
        raise UsageError(f"{option} {error}") from error


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
