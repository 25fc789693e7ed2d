"""Sends the profiles of those traces of a fleet that were not sent yet.

What was sent to an endpoint is in a file of the fleet, ``_fleet/sent/HASH.json``, so that a sender that is killed, or runs as a
job now and then, goes on. A kill between an answer and that file repeats a trace; its profiles have the same ids then.
"""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ...formats.errors import (
    ExportTooLarge,
    FleetMissing,
    FleetUnreachable,
    TraceError,
    TraceFileError,
    TraceMissing,
    TraceTooNew,
)
from ...formats.fleet import layout
from ...formats.fleet.remote import RemoteFile, RemoteFleet, is_url
from ...formats.spool.regular import read_regular
from ...formats.trace import temporary
from ..exports.export import FORMATS, Asked
from ..fleet.find import find_files
from ..fleet.reduce import failure, unread
from ..trace.selection import Selection
from .otlp_http import Endpoint, post

#: What was sent is written so often, as a whole; at a URL, each time is an object.
_STORE_PERIOD_S, _REMOTE_STORE_PERIOD_S = 1.0, 30.0
#: After so many files in a row that cannot be fetched, the fleet must answer at all.
_MOST_UNREACHABLE = 5
_Known = dict[str, list[int]]


@dataclass(frozen=True)
class Sent:
    """``files``: in the fleet; ``known``: of those, dealt with before; ``sent``; ``refused``: by the endpoint, which are not sent
    again; ``unreadable``; ``left``: for the next time, because they cannot be fetched or read now."""

    files: int
    known: int
    sent: int
    refused: int
    unreadable: int
    left: int


class _Place(Protocol):
    #: Seconds from one writing of the state to the next.
    store_period_s: float

    def files(self) -> list[RemoteFile]: ...
    def opened(self, name: str) -> Any: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...


class _Folder:
    """A fleet in a folder."""

    store_period_s = _STORE_PERIOD_S

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}  # a name may have escapes

    def files(self) -> list[RemoteFile]:
        """Raises FleetMissing."""
        try:
            found = list(find_files(self._folder))
        except OSError as error:
            raise FleetMissing(self._folder, (error.strerror or "unknown error").lower()) from error
        self._paths = {file.name: file.path for file in found}
        return [RemoteFile(file.name, file.size_bytes, file.mtime_ns) for file in found]

    @contextmanager
    def opened(self, name: str) -> Iterator[Path | None]:
        path = self._paths[name]
        yield path if path.exists() else None

    def read(self, name: str) -> bytes:
        return read_regular(self._folder / name)

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        layout.make_folder(self._folder, path)
        new = temporary.new(path)  # another sender may be writing too
        try:
            new.write_bytes(data)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


class _Remote:
    """A fleet at a URL."""

    store_period_s = _REMOTE_STORE_PERIOD_S

    def __init__(self, url: str, work: Path) -> None:
        self._fleet, self._file = RemoteFleet(url), work / "file"

    def files(self) -> list[RemoteFile]:
        return self._fleet.traces()

    @contextmanager
    def opened(self, name: str) -> Iterator[Path | None]:
        path = self._file.with_suffix(".parquet")
        try:
            yield path if self._fleet.fetch(name, path) else None
        finally:
            path.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        try:
            return self._file.read_bytes() if self._fleet.fetch(name, self._file) else b""
        finally:
            self._file.unlink(missing_ok=True)

    def write(self, name: str, data: bytes) -> None:
        self._file.write_bytes(data)
        with self._file.open("rb", buffering=0) as file:
            self._fleet.send(file, name)
        self._file.unlink()


def send_new(place: str, endpoint: Endpoint, report: Callable[[str], None]) -> Sent:
    """Sends the traces of the folder or URL that are new, the oldest first. ``report`` gets a sentence about each that was refused, or
    cannot be fetched or read. Raises FleetMissing, FleetUnreachable, ProfilesUnsent, and OSError where the folder, or that of
    temporary files, cannot be written; what was sent by then stays so."""
    if not is_url(place):
        return _send(_Folder(Path(place)), endpoint, report)
    with TemporaryDirectory(prefix="scalene-send-") as work:
        return _send(_Remote(place, Path(work)), endpoint, report)


def _send(place: _Place, endpoint: Endpoint, report: Callable[[str], None]) -> Sent:
    name = f"{layout.OWN_FOLDER}/sent/{hashlib.sha256(endpoint.url.encode()).hexdigest()[:16]}.json"
    files = sorted(place.files(), key=lambda file: (file.mtime_ns, file.name))
    before = _known_in(place.read(name))
    known = {file.name: before[file.name] for file in files if before.get(file.name) == _key(file)}
    new, counts, unreachable = [file for file in files if file.name not in known], dict.fromkeys(_OUTCOMES, 0), 0
    if new or known.keys() != before.keys():  # nothing is sent where it would not be known afterwards
        place.write(name, _state(known))
    stored, stored_s = len(known), time.monotonic()
    try:
        for file in new:
            try:
                with place.opened(file.name) as path:
                    outcome, reason = _send_one(path, endpoint) if path else ("gone", "")
                unreachable = 0
            except FleetUnreachable as error:
                outcome, reason, unreachable = "left", str(error), unreachable + 1
                if unreachable % _MOST_UNREACHABLE == 0:
                    place.read(name)
            counts[outcome] += 1
            if reason and unreachable <= _MOST_UNREACHABLE:
                report(f"{file.name} was not sent: {reason.rstrip('.')}.")
            if outcome not in ("gone", "left"):
                known[file.name] = _key(file)
            gc.collect()  # the command line has switched the collector off
            if time.monotonic() - stored_s > place.store_period_s:
                place.write(name, _state(known))
                stored, stored_s = len(known), time.monotonic()
    finally:
        if len(known) > stored:
            place.write(name, _state(known))
    return Sent(
        len(files), len(files) - len(new), counts["sent"], counts["refused"], counts["unreadable"], counts["left"]
    )


_OUTCOMES = ("sent", "refused", "unreadable", "left", "gone")


def _send_one(path: Path, endpoint: Endpoint) -> tuple[str, str]:
    """What became of a trace, and why. Raises ProfilesUnsent."""
    try:
        contents = FORMATS["otlp"].make(Asked([path], Selection())).contents
    except Exception as error:
        failed = error if isinstance(error, TraceError) else failure(error)
        return "unreadable" if _is_final(path, failed) else "left", str(failed)
    reason = post(endpoint, contents)
    return ("refused", reason) if reason else ("sent", "")


def _is_final(path: Path, error: TraceError) -> bool:
    """Is this a finding about the contents of the file, which will be the same the next time?"""
    is_finding = isinstance(error, (TraceFileError, ExportTooLarge)) and not unread(path, error).is_passing
    return is_finding and not isinstance(error, (TraceMissing, TraceTooNew))


def _key(file: RemoteFile) -> list[int]:
    return [file.size_bytes, file.mtime_ns]


def _state(known: _Known) -> bytes:
    return json.dumps({"sent": known}).encode()


def _known_in(data: bytes) -> _Known:
    """What was sent; nothing where the file is missing or damaged."""
    with suppress(ValueError, TypeError, KeyError, RecursionError, AttributeError):
        found: _Known = json.loads(data)["sent"]
        return {name: value for name, value in found.items() if isinstance(value, list)}
    return {}
