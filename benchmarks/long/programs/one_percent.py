"""Uses 1 % of a CPU, as for ten minutes, but ten times as fast: each tenth of a second has a thousandth of work in it. Recorded
with a tick for each millisecond of CPU time, the trace has as many ticks and waits as one of ten minutes."""

from __future__ import annotations

import json
import time

DATA = {f"key{number}": [number, str(number), {"a": number}] for number in range(60)}
kept: list[str] = []


def encoded() -> str:
    return json.dumps(DATA)


def ordered(values: range) -> list[int]:
    return sorted(values, key=lambda value: (value * 7919) % 1013)


def squares(values: range) -> int:
    found = 0
    for value in values:
        found += value * value
    return found


def work(until_s: float, step: int) -> None:
    """Different kinds of work until the time."""
    while time.perf_counter() < until_s:
        json.loads(encoded())
        ordered(range(300))
        squares(range(500))
        if step % 3 == 0:
            kept.append(" ".join(str(step + each) for each in range(200)))
            del kept[:-50]


for step in range(600):
    work(time.perf_counter() + 0.001, step)
    time.sleep(0.099)
