"""``scalene-analyze fleet trend``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..analyze.shared.answers import Answer
from ..analyze.shared.options import UsageError
from .shared import FleetRequest, asking

By = Annotated[
    str, typer.Option("--by", metavar="NAME", help="What a point is: a day, a version, or a value of this label.")
]
Metric = Annotated[str, typer.Option("--metric", metavar="NAME", help="The figure, a field of report --json.")]


@asking(has_sort=False)
def trend(request: FleetRequest, by: By = "day", metric: Metric = "cpu_s") -> Answer[Any]:
    """Show costs by day or version, and when they changed.

    Costs are those of a recorded hour, or with --per of a mark. Levels are compared between hosts, so that hosts which come and
    go do not look like a change. A change is reported if neither hosts nor the differences between days explain it. --limit
    says how many lines are looked at, the costliest first; the default is 20.

    Examples:
      scalene-analyze fleet trend --since 30d /traces
      scalene-analyze fleet trend --by version --metric alloc_bytes /traces
      scalene-analyze fleet trend --per request --limit 5 --json /traces
    """
    from ...analyze.fleet.compare.metrics import MetricError
    from ...analyze.fleet.compare.trend import build_trend
    from ...analyze.fleet.selection import SelectionError
    from ...analyze.results.fleet_comparison import fleet_trend_json
    from ..render.fleet.trend import fleet_trend_text

    query = request.query | {"by": by, "metric": metric}
    query.pop("sort")
    try:
        with request.opened() as (fleet, coverage):
            result = build_trend(fleet, query, coverage, metric, by, request.limit)
    except (SelectionError, MetricError) as error:
        raise UsageError(str(error)) from error
    return Answer(result, fleet_trend_json, fleet_trend_text)
