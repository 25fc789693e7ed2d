"""``scalene-analyze export``: writes a trace in the format of another program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ...analyze.trace.selection import Selection
from .shared.options import EVERYTHING, Paths, UsageError, check_name, given_paths, selecting
from .shared.output import check_output, save
from .shared.selected import placed

if TYPE_CHECKING:
    from ...analyze.exports.export import Format

FORMAT_NAMES = ("collapsed", "speedscope", "pprof", "otlp", "firefox", "scalene", "chrome")
METRIC_NAMES = ("cpu", "wait", "allocated", "live-at-peak", "copies")


def _complete(names: Sequence[str]) -> list[str]:
    return list(names)


FormatName = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAME", help=f"One of {', '.join(FORMAT_NAMES)}.",
        autocompletion=lambda: _complete(FORMAT_NAMES), show_default=False,
    ),
]  # fmt: skip
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", metavar="NAME", help=f"One of {', '.join(METRIC_NAMES)}. speedscope, pprof and otlp take several.",
        autocompletion=lambda: _complete(METRIC_NAMES), show_default=False,
    ),
]  # fmt: skip
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="File to write; - is stdout.", show_default="stdout")
]


@selecting
def export(
    format_: FormatName,
    paths: Paths = None,
    output: Output = "-",
    metric: Metrics = None,
    selection: Selection = EVERYTHING,
) -> None:
    """Write the trace in the format of another program.

    collapsed is for flame graph scripts, speedscope for speedscope.app, pprof for `go tool pprof`, otlp for
    OpenTelemetry's Collector, firefox for profiler.firefox.com, scalene for `scalene view`, chrome for Perfetto. Stacks are complete and include library code.
    --include, --exclude and --all select the lines that the format scalene lists.

    Examples:
      scalene-analyze export t.parquet --format collapsed | flamegraph.pl > t.svg
      scalene-analyze export t.parquet --format speedscope -o t.speedscope.json
      scalene-analyze export t.parquet --format pprof --metric allocated -o t.pb
      scalene-analyze export t.parquet --format firefox --from 10 -o t.json
    """
    from ...analyze.exports.export import FORMATS, Asked

    check_name("format", format_, FORMATS)
    _check_metrics(format_, FORMATS[format_], metric or ())
    traces = given_paths(paths or ())
    check_output(output, traces, FORMATS[format_].is_binary)
    result = FORMATS[format_].make(
        Asked(traces, placed(selection, traces), tuple(dict.fromkeys(metric)) if metric else None)
    )
    for name in result.missing:
        print(f"scalene-analyze: {name} was not recorded, so the export does not contain it.", file=sys.stderr)
    save(result.contents, output)


def _check_metrics(name: str, format_: Format, metrics: Sequence[str]) -> None:
    for metric in metrics:
        check_name("metric", metric, METRIC_NAMES)
    if metrics and format_.metrics == "none":
        raise UsageError(f"--metric does not apply to {name}, which holds all metrics that were recorded.")
    if len(set(metrics)) > 1 and format_.metrics == "one":
        raise UsageError(f"A {name} file holds one metric. Write a file for each --metric.")
