"""Fewer points for a line that looks the same (Ramer-Douglas-Peucker with a budget of points), and what it looks like."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Sequence

Point = tuple[float, float]  #: (time in s, bytes)

#: Points of a timeline or a trend, at most.
MAX_POINTS = 100
#: A peak that stands out by this share of the range is kept, and shown to within as much.
PEAK_SHARE = 0.01
#: What a trend may look like (:func:`classify`), and what makes it so, in shares of the range.
FLAT, GROWING, SAWTOOTH, SPIKE = "flat", "growing", "sawtooth", "spike"
_FALL, _VALLEYS_RISE, _LATE_RISE = 0.25, 0.5, 0.2
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
    Where a peak is missed by more than 1 % of the range that way, the tops come first: as many as there is room for,
    the highest.
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
    """``chosen``, and the points that are furthest from the line, until there are ``limit``."""
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
    """Is the line through ``kept`` within 1 % of the range at every top?"""
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
    """The tops from which the series falls by more than ``least_share`` of its range before it rises above them, and to
    which it rose as much; the highest of them last. Of a plateau, its first point.
    """
    values = [y for _, y in points]
    tops, _ = turns(values, least_share * _range(values))
    return sorted(tops, key=lambda index: values[index])


def turns(values: Sequence[float], least: float) -> tuple[list[int], list[int]]:
    """Tops and valleys that are more than ``least`` apart, in turn, a top first; a rise at the end ends in a top."""
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
    """What a trend looks like: flat, growing, sawtooth or spike.

    Of the growth of a line, 0 before the first of ``points`` and held after the last, from start_s to end_s. Flat: moves
    by less than ``least_bytes``, or does not rise in the second half of the time: also what is taken once and kept, and
    what only shrinks. Sawtooth: falls by a quarter of its range, or more, twice. Spike: does so once, and ends in the lower
    half. Growing: rises by a fifth of its range in the second half; a saw whose valleys rise by half of it, too.
    """
    first_s = points[0][0]
    series = [(min(start_s, first_s), 0.0), (first_s, 0.0), *points, (max(end_s, points[-1][0]), points[-1][1])]
    values = [y for _, y in series]
    low, whole = min(values), _range(values)
    if whole <= 0 or whole < least_bytes:
        return FLAT
    tops, valleys = turns(values, _FALL * whole)
    falls = len(valleys) - (tops[0] == 0)  # from the start, nothing can be given back
    if falls >= 2 and values[valleys[-1]] - values[valleys[0]] < _VALLEYS_RISE * whole:
        return SAWTOOTH
    if falls == 1 and values[-1] < low + whole / 2:
        return SPIKE
    late = values[-1] - _value_at(series, (series[0][0] + series[-1][0]) / 2)
    return GROWING if late >= _LATE_RISE * whole else FLAT


def _value_at(points: Sequence[Point], t_s: float) -> float:
    """The value at a moment within the series."""
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
    """First, last, lowest and highest point of each of _PIECES pieces."""
    size = -(-len(points) // _PIECES)
    kept: list[Point] = []
    for at in range(0, len(points), size):
        piece = range(at, min(at + size, len(points)))
        low, high = min(piece, key=lambda i: points[i][1]), max(piece, key=lambda i: points[i][1])
        kept += [points[index] for index in sorted({piece[0], low, high, piece[-1]})]
    return kept
