"""Reduces curves to few points (Ramer-Douglas-Peucker with a budget of points) and classifies their shapes."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Sequence

Point = tuple[float, float]  #: (time in s, bytes)

#: The most points of a timeline or a trend.
MAX_POINTS = 100
#: A peak that rises by this share of the range is kept, with at most this error.
PEAK_SHARE = 0.01
#: The shapes of a trend (:func:`classify`), and their thresholds in shares of the range.
FLAT, GROWING, SAWTOOTH, SPIKE = "flat", "growing", "sawtooth", "spike"
_FALL, _VALLEYS_RISE, _LATE_RISE = 0.25, 0.5, 0.2
#: Longer series are first divided into this number of pieces, of which the extremes are kept.
_PIECES = 1_000


def steps(events: Sequence[tuple[int, int]]) -> list[Point]:
    """Turns values that hold until the next one (time in ns, bytes) into points (s, bytes) for straight lines between them.

    Each change is preceded by a point with the old value, one nanosecond earlier.
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
    """At most ``limit`` (3 or more) of ``points`` (in order of time), including the first, the last and the highest.

    Points are added where the current line is furthest from the series, which is the algorithm of Ramer (1972), Douglas and
    Peucker (1973), run until the budget is spent. Distances are measured along the bytes only, because time and bytes have no
    common unit. If the result misses a peak by more than 1 % of the range, the highest peaks are chosen first, as many as the
    budget allows.
    """
    if len(points) <= limit:
        return list(points)
    points = _extremes(points) if len(points) > 4 * _PIECES else points
    peak = max(range(len(points)), key=lambda index: points[index][1])
    ends = {0, peak, len(points) - 1}
    kept = _refined(points, ends, limit)
    tops = peaks(points, PEAK_SHARE)
    if not _shows(points, kept, tops):
        kept = _refined(points, ends | set(tops[-(limit - len(ends)) :] if limit > len(ends) else []), limit)
    return [points[index] for index in sorted(kept)]


def _refined(points: Sequence[Point], chosen: set[int], limit: int) -> set[int]:
    """``chosen`` and the points furthest from the line, up to ``limit`` points (indices)."""
    kept = set(chosen)
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
    return kept


def _shows(points: Sequence[Point], kept: set[int], tops: Sequence[int]) -> bool:
    """Is the line through ``kept`` within 1 % of the range of every top?"""
    least = PEAK_SHARE * _range([y for _, y in points])
    order = sorted(kept)
    for top in tops:
        at = bisect.bisect_right(order, top) - 1
        if order[at] == top:
            continue
        (t_0, y_0), (t_1, y_1) = points[order[at]], points[order[at + 1]]
        share = (points[top][0] - t_0) / (t_1 - t_0) if t_1 > t_0 else 0.0
        if abs(y_0 + (y_1 - y_0) * share - points[top][1]) > least:
            return False
    return True


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def peaks(points: Sequence[Point], least_share: float) -> list[int]:
    """Indices of the peaks of the series in order of height.

    The series rises to a peak, and falls from it, by more than ``least_share`` of its range. A plateau counts at its first
    point.
    """
    values = [y for _, y in points]
    tops, _ = turns(values, least_share * _range(values))
    return sorted(tops, key=lambda index: values[index])


def turns(values: Sequence[float], least: float) -> tuple[list[int], list[int]]:
    """Indices of alternating tops and valleys that differ by more than ``least``, a top first; a final rise ends in a top."""
    tops: list[int] = []
    valleys: list[int] = []
    extreme, is_rising = 0, True
    for index, value in enumerate(values):
        fall = (values[extreme] - value) * (1 if is_rising else -1)
        if fall < 0:
            extreme = index
        elif fall > least:
            (tops if is_rising else valleys).append(extreme)
            extreme, is_rising = index, not is_rising
    (tops if is_rising else valleys).append(extreme)
    return tops, valleys


def classify(points: Sequence[Point], start_s: float, end_s: float, least_bytes: float) -> str:
    """The shape of a line's growth from ``start_s`` to ``end_s``: flat, growing, sawtooth or spike.

    The growth is 0 before the first of ``points`` and constant after the last.

    - Flat: changes by less than ``least_bytes``, or does not rise in the second half of the time. This includes memory that is
      allocated once and kept, and growth that only falls.
    - Sawtooth: falls by at least a quarter of its range twice or more.
    - Spike: falls like that once, and ends in the lower half of its range.
    - Growing: rises by at least a fifth of its range in the second half; also a sawtooth whose valleys rise by half of it.
    """
    first_s = points[0][0]
    series = [(min(start_s, first_s), 0.0), (first_s, 0.0), *points, (max(end_s, points[-1][0]), points[-1][1])]
    values = [y for _, y in series]
    low, whole = min(values), _range(values)
    if whole <= 0 or whole < least_bytes:
        return FLAT
    tops, valleys = turns(values, _FALL * whole)
    falls = len(valleys) - (tops[0] == 0)  # memory cannot be freed before it is allocated
    if falls >= 2 and values[valleys[-1]] - values[valleys[0]] < _VALLEYS_RISE * whole:
        return SAWTOOTH
    if falls == 1 and values[-1] < low + whole / 2:
        return SPIKE
    late = values[-1] - _value_at(series, (series[0][0] + series[-1][0]) / 2)
    return GROWING if late >= _LATE_RISE * whole else FLAT


def _value_at(points: Sequence[Point], t_s: float) -> float:
    """The value at a time within the series, by linear interpolation."""
    after = bisect.bisect_right(points, t_s, key=lambda point: point[0])
    (t_0, y_0), (t_1, y_1) = points[after - 1], points[min(after, len(points) - 1)]
    return y_0 + (y_1 - y_0) * (t_s - t_0) / (t_1 - t_0) if t_1 > t_0 else y_0


def _furthest(points: Sequence[Point], start: int, end: int) -> tuple[float, int, int, int]:
    """(minus the distance, index, start, end) of the point between start and end that is furthest from their chord."""
    (t_start, y_start), (t_end, y_end) = points[start], points[end]
    slope = (y_end - y_start) / (t_end - t_start) if t_end > t_start else 0.0
    distances = [abs(y - y_start - slope * (t - t_start)) for t, y in points[start + 1 : end]]
    if not (furthest := max(distances, default=0.0)) > 0:
        return 0.0, start, start, end
    return -furthest, start + 1 + distances.index(furthest), start, end


def _extremes(points: Sequence[Point]) -> list[Point]:
    """The first, last, lowest and highest point of each of _PIECES pieces."""
    size = -(-len(points) // _PIECES)
    kept: list[Point] = []
    for at in range(0, len(points), size):
        piece = range(at, min(at + size, len(points)))
        low, high = min(piece, key=lambda i: points[i][1]), max(piece, key=lambda i: points[i][1])
        kept += [points[index] for index in sorted({piece[0], low, high, piece[-1]})]
    return kept
