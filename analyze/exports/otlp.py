"""OpenTelemetry's profiles: a message ProfilesData, which is an ExportProfilesServiceRequest too, so that the file can be sent
to a Collector as it is.

Field numbers and rules are those of opentelemetry/proto/profiles/v1development/profiles.proto, as in version 1.45 of the Python
package opentelemetry-proto; the names of attributes are those of the semantic conventions. Each trace is a resource, each metric a profile. Times are in nanoseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from ...formats.labels import labels_in
from .shared.profile import METRICS, Frame, Profile, Value, losses_text, started_ns
from .shared.protobuf import Strings, chosen, chunk, fixed64, number, packed, string
from .shared.text import plain

# Fields of ProfilesData and of its dictionary. The first entry of each table stands for "none".
_RESOURCE_PROFILES, _DICTIONARY = 1, 2
_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _STRINGS, _ATTRIBUTES, _STACKS = range(1, 8)

#: What other profilers call the metrics.
_TYPES = {"allocated": "alloc_space", "live-at-peak": "inuse_space", "copies": "copy_space"}
#: Labels that have a name of their own in the semantic conventions.
_LABELS = {"service": "service.name", "version": "service.version", "environment": "deployment.environment.name"}
_FRAME_TYPES = {"python": "cpython", "native": "native"}
_KERNEL = "[kernel]"

Attribute = str | int | list[str]
#: The values of a trace and metric.
ByTrace = dict[tuple[int, str], list[Value]]


@dataclass
class _Table:
    """Messages that others refer to by their index; the first one is empty."""

    messages: dict[bytes, int] = field(default_factory=lambda: {b"": 0})

    def index(self, message: bytes) -> int:
        """The index of ``message``, which is added if it is new."""
        return self.messages.setdefault(message, len(self.messages))

    def message(self, number_: int) -> bytes:
        """The table as a repeated field."""
        return b"".join(chunk(number_, each) for each in self.messages)


class _Dictionary:
    """The tables that all profiles share."""

    def __init__(self, profile: Profile) -> None:
        self.strings, self.attributes = Strings(), _Table()
        self._mappings, self._functions, self._locations, self._stacks = (_Table() for _ in range(4))
        self._profile = profile
        self._frames = [self._location(frame) for frame in profile.stacks.frames]
        self._known: dict[int, int] = {}

    def attribute(self, name: str, value: Attribute) -> int:
        """The index of an attribute without a unit."""
        return self.attributes.index(number(1, self.strings.index(name)) + chunk(2, _any(value)))

    def stack(self, index: int) -> int:
        """The index of a stack of the profile, which is listed from the innermost frame on."""
        if index not in self._known:
            frames = [self._frames[each] for each in reversed(self._profile.stacks.stacks[index])]
            self._known[index] = self._stacks.index(packed(1, frames))
        return self._known[index]

    def _location(self, frame: Frame) -> int:
        mapping = (
            self._mappings.index(number(4, self.strings.index(frame.file)))
            if frame.kind == "native" and frame.file
            else 0
        )
        names = number(1, self.strings.index(frame.function)) + number(3, self.strings.index(frame.file))
        function = self._functions.index(names + number(4, max(frame.first_line, 0)))
        line = number(1, function) + number(2, max(frame.line, 0))
        kind = _FRAME_TYPES.get(frame.kind) or ("kernel" if frame.function == _KERNEL else None)
        attributes = packed(4, [self.attribute("profile.frame.type", kind)]) if kind else b""
        return self._locations.index(number(1, mapping) + chunk(3, line) + attributes)

    def message(self) -> bytes:
        """The message ProfilesDictionary."""
        tables = (
            (_MAPPINGS, self._mappings),
            (_LOCATIONS, self._locations),
            (_FUNCTIONS, self._functions),
            (_LINKS, _Table()),
            (_STRINGS, self.strings),
            (_ATTRIBUTES, self.attributes),
            (_STACKS, self._stacks),
        )
        return b"".join(table.message(number_) for number_, table in tables)


def otlp(profile: Profile) -> bytes:
    """The contents of the file. The same traces give the same bytes."""
    dictionary = _Dictionary(profile)
    values = _by_trace(profile)
    resources = [
        chunk(_RESOURCE_PROFILES, _resource(profile, trace) + chunk(2, _scope(profile, trace, values, dictionary)))
        for trace in range(1, len(profile.traces) + 1)
    ]
    return b"".join(resources) + chunk(_DICTIONARY, dictionary.message())


def _by_trace(profile: Profile) -> ByTrace:
    found: ByTrace = {}
    for metric, values in profile.values.items():
        for each in values:
            found.setdefault((each.trace, metric), []).append(each)
    return found


def _resource(profile: Profile, trace: int) -> bytes:
    """The resource of a trace: its labels, host and interpreter."""
    info, settings = profile.traces[trace - 1], profile.settings[trace - 1]
    found: dict[str, Attribute] = {"service.name": "unknown_service:python"}
    found |= {_LABELS.get(name, name): plain(value) for name, value in labels_in(settings.get("labels")).items()}
    found["process.runtime.name"] = "cpython"
    for name, value in (("process.runtime.version", info.python), ("host.name", settings.get("hostname"))):
        if value:
            found[name] = plain(value)
    if info.command:
        found["process.command_args"] = [plain(word) for word in info.command]
    found["scalene.trace_id"] = plain(info.trace_id)
    return chunk(1, b"".join(chunk(1, string(1, name) + chunk(2, _any(value))) for name, value in found.items()))


def _scope(profile: Profile, trace: int, values: ByTrace, dictionary: _Dictionary) -> bytes:
    """The profiles of a trace, one for each metric."""
    scope = string(1, "scalene-trace") + string(2, _version())
    profiles = (
        chunk(2, _profile(profile, trace, metric, values.get((trace, metric), []), dictionary))
        for metric in profile.values
    )
    return chunk(1, scope) + b"".join(profiles)


def _version() -> str:
    try:
        return version("scalene-trace")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return ""


def _profile(profile: Profile, trace: int, metric: str, values: Sequence[Value], dictionary: _Dictionary) -> bytes:
    info, strings = profile.traces[trace - 1], dictionary.strings
    kind = number(1, strings.index(_TYPES.get(metric, metric))) + number(2, strings.index(METRICS[metric].unit))
    identity = hashlib.sha256(f"{info.trace_id} {metric}".encode("utf-8", "backslashreplace")).digest()[:16]
    comments = losses_text(info)
    return b"".join((
        chunk(1, kind),
        *_samples(profile, trace, values, dictionary),
        fixed64(3, started_ns(info)),
        number(4, round((info.recorded_s or 0.0) * 1e9)),
        chunk(7, identity),
        packed(11, [dictionary.attribute("pprof.profile.comment", comments)]) if comments else b"",
    ))  # fmt: skip


def _samples(profile: Profile, trace: int, values: Sequence[Value], dictionary: _Dictionary) -> Iterator[bytes]:
    """The samples of a metric: one for each process, thread and stack, with the sum of its values."""
    sums: dict[tuple[int, int, int], int] = {}
    for each in values:
        key = dictionary.stack(each.stack), each.process, each.thread
        sums[key] = sums.get(key, 0) + each.value
    of_thread: dict[tuple[int, int], bytes] = {}
    for (stack, process, thread), value in sums.items():
        if value:
            if (process, thread) not in of_thread:
                of_thread[process, thread] = packed(2, _attributes(profile, trace, process, thread, dictionary))
            yield chunk(2, number(1, stack) + of_thread[process, thread] + packed(4, [value]))


def _attributes(profile: Profile, trace: int, process: int, thread: int, dictionary: _Dictionary) -> Iterable[int]:
    """The attributes of the samples of a thread."""
    ids = {"process.pid": profile.pids.get((trace, process)), "thread.id": profile.tids.get((trace, thread))}
    named = {"thread.name": profile.thread_names.get((trace, thread))}
    own = {"scalene.process": process, "scalene.thread": thread}
    pairs = (ids | named | own).items()
    return [dictionary.attribute(name, value) for name, value in pairs if value is not None]


def _any(value: Attribute) -> bytes:
    """The message AnyValue."""
    if isinstance(value, str):
        return string(1, value)
    if isinstance(value, int):
        return chosen(3, value)
    return chunk(5, b"".join(chunk(1, string(1, each)) for each in value))
