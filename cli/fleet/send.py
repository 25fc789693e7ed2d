"""``scalene-analyze fleet send``."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ...formats.units import UnitError, counted, parse_duration_ns
from ..analyze.shared.options import Json, UsageError
from ..analyze.shared.output import print_json, print_lines
from .shared import Place

if TYPE_CHECKING:
    from ...analyze.send.new_traces import Sent

Otlp = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="ENDPOINT",
        help="Where OTLP/HTTP is received, like http://collector:4318.",
        show_default="OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every", metavar="TIME", help="Go on: look for new traces so often (30s, 5min).", show_default=False
    ),
]


def send(place: Place = ".", otlp: Otlp = None, every: Every = None, json_: Json = False) -> int:
    """Send the profiles of new traces to OpenTelemetry.

    Each trace of the folder or bucket is sent once to an endpoint of OTLP/HTTP, as `export --format otlp` writes it. What was
    sent is kept in the folder's subfolder _fleet, so the command may run from a timer, or go on with --every, and be stopped
    at any time. Headers come from OTEL_EXPORTER_OTLP_HEADERS.

    Examples:
      scalene-analyze fleet send --otlp http://collector:4318 /traces
      scalene-analyze fleet send --otlp http://otel:4318 --every 1min s3://bucket
    """
    from ...analyze.results.base import to_json
    from ...analyze.send.new_traces import send_new
    from ...analyze.send.otlp_http import endpoint_of
    from ...formats.errors import EndpointInvalid

    try:
        endpoint = endpoint_of(otlp, os.environ)
    except EndpointInvalid as error:
        raise UsageError(str(error)) from error
    if every is not None:
        _go_on(_seconds(every), lambda report: send_new(place, endpoint, report))
    done = send_new(place, endpoint, _report)
    if json_:
        print_json({"schema": "scalene-trace/fleet-send/1"} | to_json(done))
    else:
        print_lines([_text(done)])
    return 1 if done.left else 0


def _go_on(period_s: float, once: Callable[[Callable[[str], None]], Sent]) -> NoReturn:
    """Sends what is new, again and again. An endpoint or a bucket that cannot be reached, or a folder that cannot be written, is reported
    once, until it can be."""
    from ...formats.errors import TraceError

    has_failed, reports = False, _Reports()
    while True:
        try:
            done = once(reports)
        except (TraceError, OSError) as error:  # also a full disk, or one that cannot be written
            if not has_failed:
                _report(str(error) if isinstance(error, TraceError) else f"Operating system error: {error}.")
            has_failed = True
        else:
            has_failed = False
            if done.sent:
                print_lines([_text(done)])
        reports.next_turn()
        gc.collect()  # the command line has switched the collector off
        time.sleep(period_s)


class _Reports:
    """Reports what the turn before has not: a trace that is left is left each time."""

    def __init__(self) -> None:
        self._before: set[str] = set()
        self._now: set[str] = set()

    def __call__(self, sentence: str) -> None:
        if sentence not in self._before:
            _report(sentence)
        self._now.add(sentence)

    def next_turn(self) -> None:
        self._before, self._now = self._now, set()


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration_ns(text, bare_seconds=True) / 1e9
    except UnitError as error:
        raise UsageError(f"--every {error}") from error
    if not 1 <= seconds <= 86_400:
        raise UsageError(f"--every {text} is out of range. It can be 1s to 24h.")
    return seconds


def _report(sentence: str) -> None:
    from ..render.text import clean

    print(f"scalene-analyze: {clean(sentence)}", file=sys.stderr, flush=True)


def _text(done: Sent) -> str:
    more = {"refused": done.refused, "unreadable": done.unreadable, "left for the next time": done.left}
    said = "".join(f", {number:,} {what}" for what, number in more.items() if number)
    return f"{counted(done.sent, 'trace', 'traces')} sent{said}; {done.known:,} of {done.files:,} were known."
