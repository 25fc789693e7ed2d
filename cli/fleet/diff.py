"""``scalene-analyze fleet diff``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..analyze.shared.answers import Answer
from ..analyze.shared.options import UsageError
from .shared import FleetRequest, asking

Before = Annotated[
    list[str] | None,
    typer.Option(
        "--before", metavar="NAME=VALUE", help="A label of the side before. May be repeated.", show_default=False
    ),
]
After = Annotated[
    list[str] | None,
    typer.Option(
        "--after", metavar="NAME=VALUE", help="A label of the side after. May be repeated.", show_default=False
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="TIME",
        help="Compare the recordings that began before this time with the others.",
        show_default=False,
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Compare only this figure, a field of report --json. Fewer tests find smaller changes.",
        show_default=False,
    ),
]


@asking(has_sort=False)
def diff(
    request: FleetRequest, before: Before = None, after: After = None, split: Split = None, metric: Metric = None
) -> Answer[Any]:
    """Show what changed between two versions, or at a time, on all hosts.

    Costs are compared per recorded hour, or with --per for each mark. Hosts are the units: a line is worse if it costs more
    on the hosts after than the differences between hosts explain. What all lines of a host share is taken off, so that a
    slower host is not a slower line. Hosts that are on both sides are compared with themselves. At least three hosts on each
    side are necessary.

    Examples:
      scalene-analyze fleet diff --before version=1 --after version=2 /traces
      scalene-analyze fleet diff --split 2026-11-24 --since 2026-11-17 /traces
      scalene-analyze fleet diff --split 7d --per request --metric cpu_s /traces
    """
    from ...analyze.fleet.compare.diff import SidesError, compare_sides
    from ...analyze.fleet.compare.metrics import MetricError
    from ...analyze.fleet.compare.sides import select_sides, sides_of
    from ...analyze.fleet.selection import SelectionError
    from ...analyze.results.fleet_comparison import fleet_diff_json
    from ..render.fleet.diff import fleet_diff_text

    query = request.query | {"before": before or [], "after": after or [], "split": split, "metric": metric}
    query.pop("sort")
    try:
        sides = sides_of(request.selection, before or (), after or (), split)
        with request.opened() as (fleet, coverage):
            covered = select_sides(fleet, sides)
            result = compare_sides(fleet, query, coverage, covered, metric, request.limit)
    except (SelectionError, SidesError, MetricError) as error:
        raise UsageError(str(error)) from error
    return Answer(result, fleet_diff_json, fleet_diff_text)
