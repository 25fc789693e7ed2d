"""The export formats by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..results.trace import TraceInfo
from ..trace.selection import Selection
from .chrome import chrome
from .collapsed import collapsed
from .firefox import firefox
from .otlp import otlp
from .pprof import pprof
from .scalene import scalene
from .shared.profile import METRICS, Profile, read_profile, recorded
from .speedscope import speedscope


@dataclass(frozen=True)
class Asked:
    """An export request. ``metrics``: None = all that were recorded, if the format can hold several."""

    paths: Sequence[Path]
    selection: Selection
    metrics: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Export:
    """An export: the contents of the file. ``missing``: requested metrics that were not recorded."""

    contents: bytes
    missing: list[str]


@dataclass(frozen=True)
class Format:
    """An export format. ``metrics``: how many metrics it accepts with --metric: none, one or many."""

    make: Callable[[Asked], Export]
    metrics: str
    is_binary: bool = False


def _missing(traces: Sequence[TraceInfo], asked: Asked) -> list[str]:
    known = {name for info in traces for name in recorded(info)}
    return [name for name in asked.metrics or () if name not in known]


def _collapsed(asked: Asked) -> Export:
    (metric,) = asked.metrics or ("cpu",)
    profile = read_profile(asked.paths, asked.selection, (metric,))
    return Export(collapsed(profile, metric), _missing(profile.traces, asked))


def _of_profile(make: Callable[[Profile], bytes], by_time: bool) -> Callable[[Asked], Export]:
    def export(asked: Asked) -> Export:
        profile = read_profile(asked.paths, asked.selection, asked.metrics, by_time)
        return Export(make(profile), _missing(profile.traces, asked))

    return export


def _firefox(asked: Asked) -> Export:
    return Export(firefox(asked.paths, asked.selection)[0], [])


def _scalene(asked: Asked) -> Export:
    return Export(scalene(asked.paths, asked.selection), [])


def _chrome(asked: Asked) -> Export:
    return Export(chrome(asked.paths, asked.selection), [])


#: Every format, in the order of the help text.
FORMATS: dict[str, Format] = {
    "collapsed": Format(_collapsed, "one"),
    "speedscope": Format(_of_profile(speedscope, by_time=True), "many"),
    "pprof": Format(_of_profile(pprof, by_time=False), "many", is_binary=True),
    "otlp": Format(_of_profile(otlp, by_time=False), "many", is_binary=True),
    "firefox": Format(_firefox, "none"),
    "scalene": Format(_scalene, "none"),
    "chrome": Format(_chrome, "none"),
}

__all__ = ["FORMATS", "METRICS", "Asked", "Export", "Format"]
