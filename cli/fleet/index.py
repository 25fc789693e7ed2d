"""``scalene-analyze fleet index``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from ..analyze.shared.options import Json
from ..analyze.shared.output import print_json, print_lines
from .shared import Engine, Place

Retry = Annotated[
    bool,
    typer.Option("--retry", help="Read those files again that could not be read, for example with a later version."),
]
#: Between two lines of progress.
_PERIOD_S = 0.2


def index(place: Place = ".", retry: Retry = False, json_: Json = False, engine: Engine = "local") -> int:
    """Reduce each new trace in a folder to its summary.

    Traces are found at any depth; names that begin with an underscore or a dot are left out. A trace that has a summary
    is not read again. Summaries are written into the folder's subfolder _fleet; they stay when traces are removed. It
    may run any number of times, on several machines at once, and be stopped at any time.

    Examples:
      scalene-analyze fleet index /traces
      scalene-analyze fleet index --json s3://bucket/traces
      scalene-analyze fleet index --engine spark://master:7077 /mnt/traces
    """
    from ...analyze.fleet.places import index_at
    from ...analyze.results.base import to_json
    from ..render.fleet.traces import indexed_text

    done = index_at(place, engine, _progress(), retry)
    if json_:
        print_json({"schema": "scalene-trace/fleet-index/1"} | to_json(done))
    else:
        print_lines(indexed_text(done))
    return 0


def _progress() -> Callable[[int, int], None]:
    """Shows how far the indexer is, on a terminal."""
    if not sys.stderr.isatty():
        return lambda done, files: None
    shown_s = 0.0

    def show(done: int, files: int) -> None:
        nonlocal shown_s
        now_s = time.monotonic()
        if done == files:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif now_s - shown_s > _PERIOD_S:
            shown_s = now_s
            print(f"\rReading traces: {done:,} of {files:,}", end="", file=sys.stderr, flush=True)

    return show
