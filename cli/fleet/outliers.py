"""``scalene-analyze fleet outliers``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..analyze.shared.answers import Answer
from ..analyze.shared.options import UsageError
from .shared import FleetRequest, asking
from .trend import Metric

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Compare hosts that have the same value of this label. May be repeated.",
        show_default="version and shared labels",
    ),
]


@asking(has_sort=False)
def outliers(request: FleetRequest, metric: Metric = "cpu_s", by: By = None) -> Answer[Any]:
    """Show hosts that differ from their peers, and lines that differ on one host.

    Peers have the same version and labels; at least eight are necessary. A host is compared with the mean of its peers, of
    which odd ones are left out, and a line apart from what all lines of the host share. Verdicts are adjusted for the number of hosts and lines.

    Examples:
      scalene-analyze fleet outliers --since 1d /traces
      scalene-analyze fleet outliers --metric alloc_bytes --by version /traces
      scalene-analyze fleet outliers --per request --json /traces
    """
    from ...analyze.fleet.compare.metrics import MetricError
    from ...analyze.fleet.compare.outliers import build_outliers
    from ...analyze.fleet.selection import SelectionError
    from ...analyze.results.fleet_comparison import fleet_outliers_json
    from ..render.fleet.outliers import fleet_outliers_text

    query = request.query | {"metric": metric, "by": by or []}
    query.pop("sort")
    try:
        with request.opened() as (fleet, coverage):
            result = build_outliers(fleet, query, coverage, metric, by or (), request.limit)
    except (SelectionError, MetricError) as error:
        raise UsageError(str(error)) from error
    return Answer(result, fleet_outliers_json, fleet_outliers_text)
