"""Makes the summaries of traces that have none yet: the map of the fleet (docs/design/fleet.md).

Any number of indexers may run at once, and each may be killed at any time: a batch is published by one rename, and readers take
each trace from one batch only.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...formats.errors import FleetMissing, NotIndexed
from ...formats.fleet import layout
from ...formats.fleet.writer import Batch
from ..report.batches import batches_of
from ..results.fleet import Indexed
from .find import Found, find_files
from .merge import merge_batches
from .opening import open_fleet
from .reduce import Summary, bug, summaries, unread

#: A batch is published when it has so many figures, bytes of them (it takes three times as much to write it), traces, or
#: seconds: that much is done again if the indexer is killed.
MOST_ROWS, MOST_BYTES, MOST_TRACES, MOST_S = 500_000, 64 << 20, 5_000, 60.0
#: An unfinished batch of this age was left by an indexer that was killed.
_ABANDONED_S = 3600.0

Progress = Callable[[int, int], None]  #: how many files are done, and how many there are


@dataclass(frozen=True)
class Published:
    """What became of files: how many were read and could not be read, how many batches they are in, and how many are left for
    the next run, because the system failed or they changed meanwhile."""

    traces: int
    unreadable: int
    batches: int
    left: int = 0


#: Makes and publishes the summaries of files of a fleet, and tells its progress.
Publish = Callable[[Path, Sequence[Found], Progress], Published]


def publish(folder: Path, files: Sequence[Found], progress: Progress) -> Published:
    """Makes and publishes the summaries of these files. Raises BatchUnwritten."""
    publisher, done = _Publisher(folder), 0
    try:
        for found, summary in _reduced(files):
            done += 1
            publisher.add(found, summary)
            progress(done, len(files))
    finally:  # what is done is kept when the user stops it
        publisher.finish()
    read = done - publisher.unreadable - publisher.left
    return Published(read, publisher.unreadable, publisher.batches, len(files) - read - publisher.unreadable)


def added_up(parts: Iterable[Published]) -> Published:
    """What became of all files of several parts."""
    counts = [(each.traces, each.unreadable, each.batches, each.left) for each in parts]
    return Published(*map(sum, zip((0, 0, 0, 0), *counts, strict=True)))


def index_fleet(
    folder: Path,
    progress: Progress = lambda done, files: None,
    retries: bool = False,
    published_by: Publish = publish,
) -> Indexed:
    """Makes the summaries of the new traces in ``folder``; with ``retries``, of those too that could not be read. Raises
    FleetMissing, BatchDamaged, and BatchUnwritten if the summaries cannot be written."""
    start_s = time.monotonic()
    try:
        files = list(find_files(folder))
    except OSError as error:
        raise FleetMissing(folder, (error.strerror or "unknown error").lower()) from error
    _remove_abandoned(folder)
    known = known_files(folder, retries)
    new = [file for file in files if file.key not in known]
    progress(0, len(new))
    made = published_by(folder, new, progress) if new else Published(0, 0, 0)
    merged = merge_batches(folder, present={file.name for file in files})
    return Indexed(
        folder=str(folder),
        files=len(files),
        known=len(files) - len(new),
        traces=made.traces,
        unreadable=made.unreadable,
        batches=made.batches,
        merged=merged,
        seconds=time.monotonic() - start_s,
        left=made.left,
    )


def known_files(folder: Path, only_read: bool = False) -> set[tuple[str, int, int]]:
    """Name, size and time of the files that have a summary; ``only_read``: without those that could not be read."""
    which = "WHERE reason IS NULL" if only_read else ""
    try:
        with open_fleet(folder, has_copies=True) as fleet:
            return set(
                fleet.connection.execute(f"SELECT path, size_bytes, mtime_ns FROM every_trace {which}").fetchall()
            )
    except NotIndexed:
        return set()


def _reduced(files: Sequence[Found]) -> Iterator[tuple[Found, Summary]]:
    """The summaries of all files. One that changed while it was read is left for the next time."""
    if not files:
        return
    by_path = {file.path: file for file in files}
    batches, _ = batches_of([file.path for file in files], 1)
    for batch in batches:
        for summary in summaries(batch):
            file = by_path[summary.path]
            with suppress(OSError):
                status = file.path.stat()
                if (status.st_size, status.st_mtime_ns) == (file.size_bytes, file.mtime_ns):
                    yield file, summary
        gc.collect()  # the command line has switched the collector off


class _Publisher:
    """Collects summaries, and publishes them in batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start()
        self.batches = self.unreadable = self.left = 0

    def _start(self) -> None:
        self._batch, self._begun_s = Batch(), time.monotonic()

    def add(self, file: Found, summary: Summary) -> None:
        """Takes the summary of a file. One that the system did not let us read is left for the next run."""
        if summary.is_passing:
            self.left += 1
            return
        of_file = {"path": file.name, "size_bytes": file.size_bytes, "mtime_ns": file.mtime_ns}
        if summary.reason is None:
            try:
                self._batch.add({**of_file, **summary.trace}, summary.figures, file.mode)
            except (ValueError, TypeError, OverflowError) as error:
                summary = unread(summary.path, bug(error))
        if summary.reason is not None:
            self.unreadable += 1
            digest = hashlib.sha256(repr(file.key).encode("utf-8", "backslashreplace")).hexdigest()[:32]
            self._batch.add(of_file | {"trace_id": digest, "reason": summary.reason}, {}, file.mode)
        batch, age_s = self._batch, time.monotonic() - self._begun_s
        is_large = batch.rows >= MOST_ROWS or batch.size_bytes >= MOST_BYTES or batch.traces >= MOST_TRACES
        if is_large or age_s > MOST_S:
            self.finish()

    def finish(self) -> None:
        """Publishes what there is."""
        if self._batch.traces:
            self._batch.publish(self._folder, today())
            self.batches += 1
        self._start()


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()


def _remove_abandoned(folder: Path) -> None:
    """Removes what killed indexers have left."""
    files: Iterable[Path] = []
    with suppress(OSError):
        files = layout.unfinished(folder)
    for file in files:
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _ABANDONED_S:
                file.unlink()
