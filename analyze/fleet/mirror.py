"""A fleet at a URL is answered from copies of its summaries, which are kept in the user's cache: batches never change, so only
new ones are fetched. Its traces are fetched to be indexed, some at a time, and are not kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from ...formats.errors import FleetUnreachable
from ...formats.fleet import layout
from ...formats.fleet.remote import RemoteFile, RemoteFleet, shown
from ..results.fleet import Indexed
from .find import Found
from .index import Progress, Published, added_up, known_files, publish
from .merge import merge_batches

#: What is fetched together: so many traces, or bytes.
_MOST_FILES, _MOST_BYTES = 500, 256 << 20
#: Files that are fetched at the same time: most of the time is waiting.
_AT_ONCE = 8
#: How often the summaries are listed anew because one was merged in the meantime, and how long what is not listed is kept.
_MOST_TRIES, _KEPT_S = 10, 3600.0


def cache_of(url: str) -> Path:
    """The folder with the copies of the summaries at ``url``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "scalene-trace", "fleets", hashlib.sha256(url.encode()).hexdigest()[:32])


@contextmanager
def mirrored(url: str) -> Iterator[Path]:
    """A folder with the summaries that are at ``url`` now, which belongs to the caller: links to the cache, which other commands
    clean up. Raises FleetUnreachable, and NotIndexed where there are no summaries."""
    remote, cache = RemoteFleet(url), cache_of(url)
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = (
            f"its cache {cache} cannot be made ({error.strerror}). Set XDG_CACHE_HOME to a folder that can be written"
        )
        raise FleetUnreachable(shown(url), reason) from error
    with tempfile.TemporaryDirectory(prefix="scalene-fleet-") as name:
        for _ in range(_MOST_TRIES):
            wanted, folder = remote.batches(), Path(tempfile.mkdtemp(dir=name))
            if _linked(remote, cache, folder, wanted):
                break
        else:
            raise FleetUnreachable(shown(url), "its summaries change all the time")
        _remove_old(cache, wanted)
        yield folder


def _linked(remote: RemoteFleet, cache: Path, folder: Path, wanted: dict[str, int]) -> bool:
    """Puts the wanted batches into the empty folder, by way of the cache. False if one of them is gone: it was merged into
    another one in the meantime."""

    def link(name: str) -> bool:
        cached, copy = cache / name, folder / name
        layout.make_folder(folder, copy)
        if _size(cached) != wanted[name] and not _fetch(remote, name, cached, cache):
            return False
        try:
            copy.hardlink_to(cached)
        except FileNotFoundError:  # another command has removed it from the cache
            return False
        except OSError:  # another file system
            shutil.copyfile(cached, copy)
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return all(list(pool.map(link, wanted)))


def _fetch(remote: RemoteFleet, name: str, cached: Path, cache: Path) -> bool:
    layout.make_folder(cache, cached)
    unfinished = cached.with_name(f".{cached.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    unfinished.unlink(missing_ok=True)
    if not remote.fetch(name, unfinished):
        return False
    unfinished.replace(cached)
    return True


def _remove_old(cache: Path, wanted: dict[str, int]) -> None:
    """Removes what is not listed any more. What was fetched within the last hour may be of a command that began later."""
    for path in layout.batches(cache):
        with suppress(OSError):
            if str(path.relative_to(cache)) not in wanted and time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def index_remote(url: str, progress: Progress = lambda done, files: None, retries: bool = False) -> Indexed:
    """As :func:`.index.index_fleet`, for the fleet at ``url``. Raises FleetUnreachable, BatchDamaged, and BatchUnwritten if there is
    no space for what is fetched."""
    start_s = time.monotonic()
    remote = RemoteFleet(url)
    with mirrored(url) as work, tempfile.TemporaryDirectory(prefix="scalene-fleet-") as name:
        fetched = Path(name)
        before = _names(work)
        known, files = known_files(work, retries), remote.traces()
        new = [file for file in files if (file.name, file.size_bytes, file.mtime_ns) not in known]
        progress(0, len(new))
        parts, done, sent = list[Published](), 0, set(before)
        for group in _groups(new):
            found = _fetched(remote, group, fetched)
            parts.append(publish(work, found, _offset(progress, done, len(new))))
            done += len(group)
            sent |= _send(remote, work, sent)
            for file in found:
                file.path.unlink()
        merged = merge_batches(work, present={file.name for file in files})
        _send(remote, work, sent)
        for gone in sent - _names(work):
            remote.remove(gone)
    made = added_up(parts)
    return Indexed(
        folder=shown(url),
        files=len(files),
        known=len(files) - len(new),
        traces=made.traces,
        unreadable=made.unreadable,
        batches=made.batches,
        merged=merged,
        seconds=time.monotonic() - start_s,
        left=made.left,
    )


def _offset(progress: Progress, before: int, files: int) -> Progress:
    """Progress of a part, after so many files, as that of all."""
    return lambda done, _: progress(before + done, files)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in layout.batches(folder)}


def _send(remote: RemoteFleet, work: Path, sent: set[str]) -> set[str]:
    """Publishes the batches that are not there yet; returns their names."""
    new = _names(work) - sent
    for name in sorted(new):
        with (work / name).open("rb", buffering=0) as file:
            remote.send(file, name)
    return new


def _groups(files: Sequence[RemoteFile]) -> Iterator[list[RemoteFile]]:
    group: list[RemoteFile] = []
    size = 0
    for file in files:
        if group and (len(group) >= _MOST_FILES or size + file.size_bytes > _MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if group:
        yield group


def _fetched(remote: RemoteFleet, files: Sequence[RemoteFile], folder: Path) -> list[Found]:
    """The files in ``folder``; those that were removed in the meantime are left out."""

    def fetch(number: int) -> Found | None:
        file, path = files[number], folder / f"{number}.parquet"
        if not remote.fetch(file.name, path):
            return None
        os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
        return Found(path, file.name, path.stat().st_size, path.stat().st_mtime_ns, 0o600)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [each for each in pool.map(fetch, range(len(files))) if each is not None]
