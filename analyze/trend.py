"""Fewer points for a line that looks the same: Ramer-Douglas-Peucker with a budget of points."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

Point = tuple[float, float]  #: (time in s, bytes)

#: Points of a timeline or a trend, at most.
MAX_POINTS = 100
#: Longer series are first cut into this many pieces, of which the lowest and the highest point stay.
_PIECES = 1_000


def steps(events: Sequence[tuple[int, int]]) -> list[Point]:
    """Values (time in ns, bytes) that hold until the next, as points (s, bytes) to be joined by straight lines.

    A change gets a second point, one nanosecond before, with the old value.
    """
    points: list[Point] = []
    before_ns, before = 0, 0
    for t_ns, value in events:
        if points and value != before and t_ns - 1 > before_ns:
            points.append(((t_ns - 1) / 1e9, before))
        points.append((t_ns / 1e9, value))
        before_ns, before = t_ns, value
    return points


def reduce_points(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most ``limit`` (3 or more) of ``points`` (in order of time), among them the first, the last and the highest.

    Points are added where the line so far is furthest from the series, which is the algorithm of Ramer, Douglas and
    Peucker run until the budget is spent. The distance is taken along the bytes: time and bytes have no common unit.
    """
    if len(points) <= limit:
        return list(points)
    points = _extremes(points) if len(points) > 4 * _PIECES else points
    peak = max(range(len(points)), key=lambda index: points[index][1])
    kept = {0, peak, len(points) - 1}
    ends = sorted(kept)
    heap = [_furthest(points, *pair) for pair in itertools.pairwise(ends)]
    heapq.heapify(heap)
    while heap and len(kept) < limit:
        negative_distance, index, start, end = heapq.heappop(heap)
        if negative_distance == 0:
            break
        kept.add(index)
        heapq.heappush(heap, _furthest(points, start, index))
        heapq.heappush(heap, _furthest(points, index, end))
    return [points[index] for index in sorted(kept)]


def _furthest(points: Sequence[Point], start: int, end: int) -> tuple[float, int, int, int]:
    """(minus the distance, index, start, end) of the point between start and end that is furthest from their chord."""
    (t_start, y_start), (t_end, y_end) = points[start], points[end]
    slope = (y_end - y_start) / (t_end - t_start) if t_end > t_start else 0.0
    best = (0.0, start, start, end)
    for index in range(start + 1, end):
        t, y = points[index]
        distance = abs(y - y_start - slope * (t - t_start))
        if distance > -best[0]:
            best = (-distance, index, start, end)
    return best


def _extremes(points: Sequence[Point]) -> list[Point]:
    """First, last, lowest and highest point of each of _PIECES pieces."""
    size = -(-len(points) // _PIECES)
    kept: list[Point] = []
    for at in range(0, len(points), size):
        piece = range(at, min(at + size, len(points)))
        low, high = min(piece, key=lambda i: points[i][1]), max(piece, key=lambda i: points[i][1])
        kept += [points[index] for index in sorted({piece[0], low, high, piece[-1]})]
    return kept
