"""Curves on logarithmic axes, as an SVG with one panel for each axis of a benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 300, 200, 50, 40, 90
#: Told apart without colours too: by their dashes.
_LINES = (("#1b6ca8", "none"), ("#c2511d", "6 3"), ("#3a7d44", "2 3"))
#: Smaller values are drawn at the lower edge.
_LEAST = 0.01

Points = Sequence[tuple[float, float]]


def drawing(panels: Mapping[str, Mapping[str, Points]], unit: str) -> str:
    """Each panel has curves by name, of points (x, y); y in ``unit``. The grey line is linear growth."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + len(panels) * (_WIDTH + _GAP)}" height="{_HEIGHT + 110}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, (name, curves) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({_LEFT + number * (_WIDTH + _GAP)},{_TOP})">')
        parts += [f'<text y="-14" font-weight="bold">{escape(name)}</text>', *_panel(curves, unit), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(curves: Mapping[str, Points], unit: str) -> list[str]:
    sizes = [x for points in curves.values() for x, _ in points]
    values = [max(y, _LEAST) for points in curves.values() for _, y in points]
    left, right = math.log10(min(sizes)), math.log10(max(sizes))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - left) / ((right - left) or 1) * _WIDTH
        return across, _HEIGHT - (math.log10(max(y, _LEAST)) - low) / ((high - low) or 1) * _HEIGHT

    parts = [f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#888888"/>']
    for power in range(low, high + 1):
        _, y = place(10**left, 10.0**power)
        parts.append(f'<text x="-6" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g} {unit}</text>')
        parts.append(f'<path d="M0 {y:.0f}H{_WIDTH}" stroke="#dddddd"/>')
    for power in range(math.ceil(left), math.floor(right) + 1):
        x, _ = place(10.0**power, 10.0**low)
        parts.append(f'<text x="{x:.0f}" y="{_HEIGHT + 16}" text-anchor="middle">{10**power:,}</text>')
    decades = min(high - low, right - left)
    ends = (place(10 ** (right - decades), 10.0 ** (high - decades)), place(10**right, 10.0**high))
    parts.append(f'<path d="{_path(ends)}" fill="none" stroke="#bbbbbb" stroke-width="4" stroke-opacity="0.6"/>')
    for number, ((name, points), (colour, dashes)) in enumerate(zip(curves.items(), _LINES, strict=False)):
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
        y = _HEIGHT + 36 + 14 * number
        parts.append(f'<path d="{_path([place(*each) for each in points])}" {style}/>')
        parts.append(f'<path d="M0 {y - 4}H30" {style}/><text x="36" y="{y}">{escape(name)}</text>')
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
