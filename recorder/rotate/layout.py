"""Where closed traces lie: ``DIR/NAME=VALUE/…/date=YYYY-MM-DD/HOST-PID-START.parquet``, and which of them are too old."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from ...formats.spool.regular import is_plain_file
from ...formats.trace.integrity import stored_trace_id
from ..errors import UsageError
from ..folder.facts import read_facts
from ..folder.files import ROTATION_NAME, SPOOL_NAME
from ..folder.output import is_live, remove_recording
from ..folder.place import is_gone_from_memory

_LONGEST_NAME_BYTES = 255
_NAME = re.compile(r"[A-Za-z0-9._%-]+-\d+-(\d{8}T\d{6}\.\d{3})Z\.parquet", re.ASCII)
_DAY = re.compile(r"date=\d{4}-\d{2}-\d{2}", re.ASCII)
_TRACE_ID = re.compile("[0-9a-f]{32}")
_START = "%Y%m%dT%H%M%S.%f"
_NEVER_NS = 1 << 63


def label_folder(folder: Path, labels: Mapping[str, str]) -> Path:
    """The folder of all traces with these labels. Raises UsageError when a file system cannot hold its name."""
    for name, value in labels.items():
        part = f"{name}={_encoded(value)}"
        if name == "date":
            raise UsageError(
                "With --rotate, no label can be called date: the folders of days are. Choose another name."
            )
        if len(part) > _LONGEST_NAME_BYTES:
            raise UsageError(
                f"With --rotate, the value of --label {name} is a folder's name, and too long for one. Shorten it."
            )
        folder = folder / part
    return folder


def trace_path(folder: Path, labels: Mapping[str, str], host: str, pid: int, start_real_ns: int) -> Path:
    """The trace of the program ``pid`` that begins at ``start_real_ns`` (CLOCK_REALTIME). Raises UsageError."""
    start = datetime.fromtimestamp(start_real_ns // 1_000_000 / 1000, UTC)
    name = f"{_encoded(host)[:100] or 'host'}-{pid}-{start.strftime(_START)[:-3]}Z.parquet"
    return label_folder(folder, labels) / f"date={start:%Y-%m-%d}" / name


def closed_traces(folder: Path) -> list[Path]:
    """The traces in the days below ``folder``, for any labels, the oldest first."""
    found = [path for day in all_days(folder) for path in _traces(day, _NEVER_NS)]
    return sorted(found, key=lambda path: (_start_ns(path), path))


def all_days(folder: Path) -> Iterator[Path]:
    """The folders of days below ``folder``, for any labels."""
    for parent, names, _ in os.walk(folder):
        names[:] = [name for name in names if "=" in name]  # not those of recordings
        days = [Path(parent, name) for name in names if _DAY.fullmatch(name)]
        yield from (day for day in days if not day.is_symlink())


def unfinished(folder: Path) -> list[Path]:
    """Recordings that have rotated into ``folder``, whose recorders have died: some of their traces are missing there. Those of
    other users are left out: their names may be a trap. So are those of other hosts, and those whose spool is in memory that is
    not this host's: whether they go on is not known here. Where the spool is gone, all traces were made, and the recorder was
    killed while it removed the rest: that is finished here."""
    found = []
    with suppress(OSError):
        for each in sorted(folder.glob("*.spool")):
            with suppress(OSError):
                is_ours = _is(stat.S_ISDIR, each) and each.lstat().st_uid == os.geteuid()
                is_dead = (
                    is_ours and is_plain_file(each / ROTATION_NAME) and _is_of_this_host(each) and not is_live(each)
                )
                if is_dead and os.path.lexists(each / SPOOL_NAME):
                    found.append(each)
                elif is_dead:
                    remove_recording(each, rotates=True)
    return found


def _is_of_this_host(folder: Path) -> bool:
    host = os.uname().nodename
    return not is_gone_from_memory(folder) and read_facts(folder).host.get("hostname", host) == host


def remove_older(folder: Path, before_real_ns: int, spared: Path | None = None) -> int:
    """Removes the traces in the days of ``folder`` that began before that time, and days that are empty then. Returns how
    many. Other files are left alone, also those that only look like traces, and links are not followed. ``spared``: a
    trace that stays."""
    return sum(_remove_of_day(day, before_real_ns, spared) for day in _days(folder))


def _remove_of_day(day: Path, before_real_ns: int, spared: Path | None) -> int:
    removed = 0
    for path in _traces(day, before_real_ns):
        if path != spared and _TRACE_ID.fullmatch(stored_trace_id(path)):
            with suppress(OSError):
                path.unlink()
                removed += 1
    if removed:  # an empty day is another recorder's, which has just made it
        with suppress(OSError):  # not empty
            day.rmdir()
    return removed


def _encoded(text: str) -> str:
    # Names of hosts may be in any encoding; what a stranger writes may be no text at all.
    return quote(text, safe="", errors="surrogatepass").replace("~", "%7E")


def _days(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from [each for each in folder.iterdir() if _DAY.fullmatch(each.name) and _is(stat.S_ISDIR, each)]


def _traces(day: Path, before_real_ns: int) -> Iterator[Path]:
    with suppress(OSError):
        yield from [each for each in day.iterdir() if 0 < _start_ns(each) < before_real_ns and _is(stat.S_ISREG, each)]


def _is(what: Callable[[int], bool], path: Path) -> bool:
    try:
        return what(path.lstat().st_mode)
    except OSError:
        return False


def _start_ns(path: Path) -> int:
    """When the trace of that name began (CLOCK_REALTIME, ns); 0 = this is no name of a trace."""
    found = _NAME.fullmatch(path.name)
    try:
        return int(datetime.strptime(found[1] + "+0000", f"{_START}%z").timestamp() * 1e9) if found else 0
    except ValueError:
        return 0
