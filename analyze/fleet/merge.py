"""Merges small batches, which a timer that indexes one new trace each minute makes: each costs a reader a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ...formats.errors import FleetError
from ...formats.fleet import layout
from ...formats.fleet.reader import traces_of
from ...formats.fleet.writer import Batch

#: So many small batches of a day become one; of a day that is over, two do.
LEAST_BATCHES, LEAST_OF_EARLIER = 64, 2
#: A batch is small if it is not larger than this.
SMALL_BYTES = 2 << 20
#: The most that become one at a time.
_MOST_BYTES = 16 << 20


def merge_batches(fleet: Path, now: datetime | None = None, present: Collection[str] | None = None) -> int:
    """Merges small batches, and returns how many were. The new batch is published before the others are removed; in between
    their traces are there twice, and readers count them once. Only batches of the same readers become one, and none of
    other users. ``present``: the names of the files that the fleet has; what is said of others that could not be read is
    dropped. Raises BatchUnwritten."""
    today = (now or datetime.now(UTC)).date().isoformat()
    alike: dict[tuple[str, int, int], list[Path]] = {}
    for batch in layout.batches(fleet):
        with suppress(OSError):
            status = batch.stat()
            if status.st_size <= SMALL_BYTES and status.st_uid == os.geteuid():
                key = layout.date_of(batch), status.st_gid, stat.S_IMODE(status.st_mode)
                alike.setdefault(key, []).append(batch)
    count = 0
    for (date, _, _), batches in alike.items():
        if len(batches) >= (LEAST_OF_EARLIER if date < today else LEAST_BATCHES):
            count += _merge(fleet, date, batches, present)
    return count


def _merge(fleet: Path, date: str, batches: Sequence[Path], present: Collection[str] | None) -> int:
    merged, sources, size = Batch(), list[Path](), 0
    seen: set[str] = set()
    for path in batches:
        try:
            status = path.stat()
            if size + status.st_size > _MOST_BYTES:
                break
            traces = traces_of(path)
        except (OSError, FleetError):  # removed by another indexer, or damaged: whoever asks hears of that
            continue
        for row, figures in traces:
            key = repr((row["trace_id"], row["path"], row["size_bytes"], row["mtime_ns"]))
            is_gone = present is not None and row["reason"] is not None and row["path"] not in present
            if key not in seen and not is_gone:
                seen.add(key)
                merged.add_table(row, figures, status.st_mode & 0o777)
        size += status.st_size
        sources.append(path)
    if len(sources) < LEAST_OF_EARLIER or not merged.traces:
        return 0
    path = merged.publish(fleet, date)
    try:
        layout.keep_name(path)
    except OSError:  # the sources are still needed; their traces count once
        return 0
    for path in sources:
        with suppress(OSError):
            path.unlink()
    return len(sources)
