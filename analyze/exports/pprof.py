"""pprof's profile.proto, compressed with gzip: every metric is a column of values. For ``go tool pprof`` and others.

Field numbers are those of https://github.com/google/pprof/blob/main/proto/profile.proto. Times are in nanoseconds.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from .shared.profile import METRICS, Frame, Profile, Value, losses_text, started_ns, title
from .shared.protobuf import Strings, chunk, number, packed

# Fields of Profile
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = range(1, 7)
_TIME_NANOS, _DURATION_NANOS, _COMMENT, _DEFAULT_SAMPLE_TYPE = 9, 10, 13, 14

#: A column of values: the metric, and the part of it (None = the whole).
Column = tuple[str, str | None]
_CPU_PARTS = ("python", "native", "unclassified", "system")
#: The identity of a sample: trace, process, thread and stack.
Key = tuple[int, int, int, int]


def pprof(profile: Profile) -> bytes:
    """The contents of the file. The same traces give the same bytes."""
    return gzip.compress(b"".join(_messages(profile)), mtime=0)


def _messages(profile: Profile) -> Iterator[bytes]:
    strings, columns = Strings(), _columns(profile)
    for metric, part in columns:
        name = strings.index(_column_name(metric, part))
        yield chunk(_SAMPLE_TYPE, number(1, name) + number(2, strings.index(METRICS[metric].unit)))
    for (trace, process, thread, stack), values in _samples(profile, columns).items():
        locations = [index + 1 for index in reversed(profile.stacks.stacks[stack])]
        labels = {"process": process, "thread": thread} | ({"trace": trace} if len(profile.traces) > 1 else {})
        called = profile.thread_names.get((trace, thread))
        named = chunk(3, number(1, strings.index("thread_name")) + number(2, strings.index(called))) if called else b""
        yield chunk(_SAMPLE, packed(1, locations) + packed(2, values) + _labels(labels, strings) + named)
    yield from _places(profile.stacks.frames, strings, title(profile))
    yield from _metadata(profile, strings)
    yield strings.message(_STRING)


def _columns(profile: Profile) -> list[Column]:
    """The columns: one for each metric, and those of the parts of CPU time. pprof shows the first one by default."""
    found: list[Column] = []
    for metric, values in profile.values.items():
        found += [(metric, None)]
        if metric == "cpu":
            is_decided = all(each.part != "unclassified" for each in values)
            found += [(metric, part) for part in _CPU_PARTS if part != "unclassified" or not is_decided]
    return found


def _column_name(metric: str, part: str | None) -> str:
    """The name of a column, as an identifier: pprof uses it as a command-line option."""
    return (f"{metric}_{part}" if part else metric).replace("-", "_")


def _samples(profile: Profile, columns: list[Column]) -> dict[Key, list[int]]:
    """The values of every stack and thread, by column."""
    found: dict[Key, list[int]] = {}
    for number_, (metric, part) in enumerate(columns):
        for each in profile.values[metric]:
            if part is None or each.part == part:
                found.setdefault(_key(each), [0] * len(columns))[number_] += each.value
    return {key: values for key, values in found.items() if any(values)}


def _key(value: Value) -> Key:
    return value.trace, value.process, value.thread, value.stack


def _labels(labels: dict[str, int], strings: Strings) -> bytes:
    return b"".join(chunk(3, number(1, strings.index(name)) + number(3, value)) for name, value in labels.items())


def _places(frames: list[Frame], strings: Strings, program: str) -> Iterator[bytes]:
    """Mappings (the program, then libraries), functions and locations."""
    files = {program: 1}
    functions: dict[tuple[str, str, int, str], int] = {}
    for index, frame in enumerate(frames, start=1):
        mapping = files.setdefault(frame.file, len(files) + 1) if frame.kind == "native" else 1
        key = (frame.function, frame.file, frame.first_line, frame.kind)
        line = number(1, functions.setdefault(key, len(functions) + 1)) + number(2, frame.line)
        yield chunk(_LOCATION, number(1, index) + number(2, mapping) + chunk(4, line))
    for file, id_ in files.items():
        symbolized = b"".join(number(flag, 1) for flag in (7, 8, 9))
        yield chunk(_MAPPING, number(1, id_) + number(5, strings.index(file)) + symbolized)
    for (name, file, first_line, kind), id_ in functions.items():
        names = number(2, strings.index(name)) + number(4, strings.index(file)) + number(5, first_line)
        yield chunk(_FUNCTION, number(1, id_) + names + _system_name(strings.index(name), kind))


def _system_name(name: int, kind: str) -> bytes:
    """The linker's name, for native functions only: pprof demangles it as C++, and would take ``<module>`` for a template."""
    return number(3, name) if kind == "native" else b""


def _metadata(profile: Profile, strings: Strings) -> Iterator[bytes]:
    """Start, recorded time and losses of the recordings."""
    yield number(_TIME_NANOS, min(map(started_ns, profile.traces), default=0))
    yield number(_DURATION_NANOS, round(sum(trace.recorded_s or 0.0 for trace in profile.traces) * 1e9))
    for text in (text for trace in profile.traces for text in losses_text(trace)):
        yield packed(_COMMENT, [strings.index(text)])
    if profile.values:
        yield number(_DEFAULT_SAMPLE_TYPE, strings.index(_column_name(next(iter(profile.values)), None)))
