"""Reduces traces to summaries, many at a time: queries of a batch of traces are planned once, and their rows divided by trace.

Each trace gets exactly the figures of its own report, whatever is opened beside it. Traces that could not be reduced get a
reason.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.errors import OutOfMemory, TraceChanged, TraceError, TraceFileError
from ...formats.fleet.schema import MOST_NS
from ...formats.labels import labels_in
from ...formats.trace.integrity import check_trace
from ..leaks.leaks import find_leaks
from ..report.cuda import add_devices, have_calls
from ..report.gpu import add_gpu
from ..report.reduction import Sums, by_key, function_key, growth_variances, line_key, recorded_s, reduce_traces
from ..report.report import figures_of, query_of
from ..report.timeline import Memory, memory_over_time
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import NEVER, pauses_by_trace, settings_by_trace, trace_infos, whole_number
from ..trace.selection import Selection
from ..trace.sources import sources_by_trace
from ..trace.traces import REPORT_TABLES, Traces, open_traces
from ..trace.user_code import set_user_files, user_files_by_trace
from .figures import Columns, figures
from .stacks import stacks_by_trace

if TYPE_CHECKING:
    from ..report.row_index import Row

_ALL = Selection()
#: What a summary keeps of a trace: characters of a command, of a mark, of a reason and of a host; different marks.
_MOST_PROGRAM, _MOST_MARK, _MOST_REASON, _MOST_HOST, _MOST_MARKS = 200, 200, 1_000, 256, 1_000
_MOST_NUMBER = 2**63 - 1
#: With these DuckDB says that the system failed, and nothing about a file.
_SYSTEMS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Summary:
    """What a trace was reduced to. ``trace``: columns of its row (formats/fleet/schema.py) without those of the file;
    ``figures``: columns of its figures. ``reason``: why it could not be read; then the others are empty. ``is_passing``: that
    is a failure of the system (no space, no memory, no permission), which says nothing about the file."""

    path: Path
    trace: Mapping[str, Any]
    figures: Columns
    reason: str | None = None
    is_passing: bool = False


def summaries(paths: Sequence[Path]) -> Iterator[Summary]:
    """The summaries of the traces at ``paths``, in any order. One that cannot be read does not spoil the others."""
    try:
        yield from _together(paths)
        return
    except TraceError as error:
        failed = error
    except Exception as error:
        failed = failure(error)
    if len(paths) == 1:
        yield unread(paths[0], failed)
        return
    if isinstance(failed, TraceFileError):  # some are no traces: those are known at once
        good = []
        for path in paths:
            if (reason := _why_not(path)) is None:
                good.append(path)
            else:
                yield unread(path, reason)
        if good and len(good) < len(paths):
            yield from summaries(good)
        if len(good) < len(paths):
            return
        if failed.path in paths:  # it passes the check, and is none
            yield from summaries([failed.path])
            yield from summaries([path for path in paths if path != failed.path])
            return
    yield from summaries(paths[: len(paths) // 2])
    yield from summaries(paths[len(paths) // 2 :])


def _why_not(path: Path) -> TraceError | None:
    try:
        check_trace(path)
    except TraceError as error:
        return error
    except OSError as error:
        return failure(error)
    return None


def failure(error: Exception) -> TraceError:
    """What is said of a trace that was not reduced because of ``error``."""
    if not _is_systems(error):
        return bug(error)
    failed = TraceError(f"The system failed ({type(error).__name__}: {error}).")
    failed.__cause__ = error
    return failed


def bug(error: Exception) -> TraceError:
    """What is said of a trace that makes the analysis fail."""
    return TraceError(f"This is a bug in scalene-analyze ({type(error).__name__}: {error}).")


def unread(path: Path, error: TraceError) -> Summary:
    """The summary of a file that could not be read."""
    cause: BaseException | None = error
    is_passing = isinstance(error, TraceChanged)
    while cause is not None and not is_passing:
        is_passing, cause = _is_systems(cause), cause.__cause__
    return Summary(path, {}, {}, valid(str(error))[:_MOST_REASON], is_passing)


def _is_systems(error: BaseException) -> bool:
    """Is this a failure of the system, which may be gone at the next run, and no finding about the contents of a file?"""
    import duckdb

    if isinstance(error, duckdb.IOException):
        return any(os.strerror(each) in str(error) for each in _SYSTEMS)
    return isinstance(
        error, (OSError, MemoryError, OutOfMemory, duckdb.OutOfMemoryException, duckdb.InterruptException)
    )


def valid(text: str) -> str:
    """``text`` as valid UTF-8: names of files, and JSON of strangers, may be none."""
    return text.encode("utf-8", "backslashreplace").decode()


def _together(paths: Sequence[Path]) -> list[Summary]:
    """The summaries of all of ``paths``. Raises the errors of :func:`open_traces`."""
    found: list[Summary] = []
    apart: list[Sequence[Path]] = []
    with open_traces(paths, _ALL, REPORT_TABLES) as traces:
        infos = trace_infos(traces)
        chosen, others = _compatible(traces)
        kept = [trace for trace in chosen if len(paths) == 1 or not _has_devices(infos[trace - 1])]
        apart += [[paths[trace - 1]] for trace in chosen if trace not in kept]
        apart += [[paths[trace - 1] for trace in others]] if others else []
        if len(paths) == 1 and _has_devices(infos[0]):
            found += _summaries(traces, infos, {1: reduce_traces(traces, _ALL)})
        elif kept:
            sums = _divided(traces, infos, kept)
            found += _summaries(traces, infos, sums)
    for group in apart:
        found += summaries(group)
    return found


def _has_devices(info: TraceInfo) -> bool:
    """Does the trace have samples of GPUs or calls of CUDA? Their figures are not divided by trace."""
    return info.events["gpu"] is not None or have_calls([info.events])


def _compatible(traces: Traces) -> tuple[list[int], list[int]]:
    """Makes the files of the first trace's user, and of those that agree with it about each file, the user's code. Returns
    these traces, and the others."""
    connection = traces.connection
    own = user_files_by_trace(connection)
    listed = connection.execute(
        "SELECT trace, list(DISTINCT file) FROM locations WHERE file IS NOT NULL GROUP BY trace"
    )
    files = dict(listed.fetchall())
    is_users: dict[str, bool] = {}
    same, others = [], []
    for trace in range(1, len(traces.files) + 1):
        users = frozenset(own.get(trace, ()))
        if all(is_users.get(file, file in users) == (file in users) for file in files.get(trace, ())):
            is_users.update((file, file in users) for file in files.get(trace, ()))
            same.append(trace)
        else:
            others.append(trace)
    set_user_files(connection, [file for file, is_user in is_users.items() if is_user])
    return same, others


def _divided(traces: Traces, infos: Sequence[TraceInfo], kept: Sequence[int]) -> dict[int, Sums]:
    """The sums of each trace in ``kept``, which has neither GPU samples nor calls of CUDA: as :func:`reduce_traces` makes them
    of it alone, without what a summary does not have."""
    connection = traces.connection
    lines, functions = (_by_trace(queries.rows(connection, name)) for name in ("lines", "functions"))
    rests = _by_trace(queries.rows(connection, "trace_rests", traces=len(traces.files)))
    leaks = find_leaks(connection) if any(infos[trace - 1].events["alloc"] for trace in kept) else {}
    memories: list[Memory] = []
    if any(infos[trace - 1].events["memory"] is not None for trace in kept):
        memories = memory_over_time(connection, _ALL, len(infos))
    variances, pauses = growth_variances(connection), pauses_by_trace(connection)
    found: dict[int, Sums] = {}
    for trace in kept:
        info = infos[trace - 1]
        length_s = recorded_s(info, _ALL, pauses.get(trace, NEVER))
        own_lines, own_functions, (rest,) = lines.get(trace, []), functions.get(trace, []), rests[trace]
        add_devices(connection, False, own_lines, own_functions, rest)
        add_gpu(connection, False, own_lines, own_functions, rest)
        found[trace] = Sums(
            infos=[info],
            window_s=length_s,
            longest_s=length_s,
            memory=memories[trace - 1] if info.events["memory"] is not None else None,
            lines=by_key(own_lines, line_key),
            functions=by_key(own_functions, function_key),
            unattributed=rest,
            growth={},
            leaks=[leaks[trace]] if trace in leaks and info.events["alloc"] else [],
            libraries={},
            callees={},
            packages={},
            waiting={},
            sources={},
            gpu_peak_bytes=None,
            device_peak_bytes=None,
            growth_variance=variances.get(trace, 0.0),
        )
    return found


def _by_trace(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["trace"], []).append(row)
    return found


def _summaries(traces: Traces, infos: Sequence[TraceInfo], sums: Mapping[int, Sums]) -> Iterator[Summary]:
    """The summaries of the traces with these sums."""
    connection = traces.connection
    cpu_s = {
        trace: sum(row["cpu_s"] for row in (*each.lines.values(), each.unattributed)) for trace, each in sums.items()
    }
    stacks = stacks_by_trace(connection, cpu_s)
    settings, marks = settings_by_trace(connection), _marks(traces)
    files = {key[0] for each in sums.values() for key in (*each.lines, *each.functions)}
    sources = sources_by_trace(connection, files)
    held = next(sources, (0, {}))
    for trace in sorted(sums):
        while held[0] and held[0] < trace:
            held = next(sources, (0, {}))
        sums[trace].sources = held[1] if held[0] == trace else {}
        row = _trace_row(infos[trace - 1], settings.get(trace, {}), marks.get(trace, {}))
        report = figures_of(sums[trace], query_of(_ALL))
        yield Summary(traces.files[trace - 1].path, row, figures(report, sums[trace], stacks.get(trace, {})))


def _marks(traces: Traces) -> dict[int, dict[str, int]]:
    """How often each of the user's marks was set while it was recorded, by trace and text: figures for each of them are of
    that time."""
    found: dict[int, dict[str, int]] = {}
    sql = """SELECT m.trace, left(coalesce(m.text, ''), ?) AS mark, count(*) FROM marks m WHERE coalesce(what, 'mark') = 'mark'
            AND NOT EXISTS (FROM marks p WHERE p.trace = m.trace AND p.what = 'pause' AND p.t_ns <= m.t_ns
                AND (p.end_ns IS NULL OR p.end_ns > m.t_ns))
        GROUP BY ALL ORDER BY trace, count(*) DESC, mark"""
    for trace, text, count in traces.connection.execute(sql, (_MOST_MARK,)).fetchall():
        own = found.setdefault(trace, {})
        if len(own) < _MOST_MARKS:
            own[text] = count
    return found


def _trace_row(info: TraceInfo, settings: Mapping[str, str], marks: Mapping[str, int]) -> dict[str, Any]:
    return {
        "trace_id": info.trace_id,
        "host": None if (host := settings.get("hostname")) is None else host[:_MOST_HOST],
        "labels": labels_in(settings.get("labels")),
        "start_ns": _start_ns(info.started_at),
        "wall_ns": _wall_ns(settings.get("wall_ns")),
        "recorded_ns": None if info.recorded_s is None else min(round(info.recorded_s * 1e9), MOST_NS),
        "python": info.python,
        "program": None if info.command is None else valid(" ".join(info.command))[:_MOST_PROGRAM],
        "processes": info.processes,
        "losses": min(sum(loss.count for loss in info.losses if loss.severity != "info"), _MOST_NUMBER),
        "marks": dict(marks),
    }


def _wall_ns(text: str | None) -> int | None:
    wall_ns = whole_number(text)
    return wall_ns if wall_ns is not None and wall_ns <= MOST_NS else None


def _start_ns(text: str | None) -> int | None:
    """Nanoseconds since 1970 of a time in ISO 8601; None if it is none."""
    try:
        time = datetime.fromisoformat(text or "")
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        start_ns = (time - _EPOCH) // timedelta(microseconds=1) * 1000
        return start_ns if abs(start_ns) <= MOST_NS else None
    except (ValueError, OverflowError):
        return None
