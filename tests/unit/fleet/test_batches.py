"""Batches of summaries: what is published, what readers take from them, and what they refuse."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from scalene_trace.analyze.fleet import merge
from scalene_trace.analyze.fleet.find import find_files
from scalene_trace.analyze.fleet.opening import SQL_TYPES, open_fleet
from scalene_trace.analyze.fleet.selection import SelectionError, select_traces, selection_of, time_ns_of
from scalene_trace.formats.errors import BatchDamaged, BatchUnreadable, FleetMissing, NotIndexed
from scalene_trace.formats.fleet import layout, schema
from scalene_trace.formats.fleet.check import open_batch
from scalene_trace.formats.fleet.reader import traces_of
from scalene_trace.formats.fleet.writer import Batch
from tests.support.fleets import forged, replaced

DAY = "2026-11-28"
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOUR_NS = 3_600_000_000_000
START_NS = 1_795_867_200_000_000_000  # 2026-11-28T12:00


def trace(number: int, **columns: Any) -> dict[str, Any]:
    row = {"trace_id": f"{number:032x}", "path": f"{number}.parquet", "size_bytes": 7, "mtime_ns": number}
    return row | {"host": f"h{number % 2}", "start_ns": START_NS, "wall_ns": HOUR_NS, "labels": {}} | columns


def line(value: float, number: int = 3) -> dict[str, list[Any]]:
    return {"scope": ["line"], "file": ["a.py"], "line": [number], "metric": ["cpu_s"], "value": [value]}


def publish(fleet: Path, *rows: tuple[dict[str, Any], float], day: str = DAY, mode: int = 0o600) -> Path:
    batch = Batch()
    for row, value in rows:
        batch.add(row, line(value), mode)
    return batch.publish(fleet, day)


def sums(fleet: Path) -> dict[str, float]:
    """CPU seconds by trace id."""
    with open_fleet(fleet) as opened:
        sql = "SELECT trace_id, sum(value) FROM fleet_figures f JOIN fleet_traces t ON f.trace = t.trace GROUP BY ALL"
        return dict(opened.connection.execute(sql).fetchall())


def test_a_batch_holds_what_was_put_into_it(tmp_path: Path) -> None:
    row = trace(1, labels={"version": "1"}, marks={"request": 3}, reason=None, python="3.12.1", program="a b")
    path = publish(tmp_path, (row, 1.5), (trace(2), 2.5))
    with open_fleet(tmp_path) as fleet:
        cursor = fleet.connection.execute("SELECT * FROM fleet_traces ORDER BY trace_id")
        names = [column[0] for column in cursor.description or ()]
        found = [dict(zip(names, each, strict=True)) for each in cursor.fetchall()]
        figures = fleet.connection.execute("SELECT * EXCLUDE (trace) FROM fleet_figures ORDER BY value").fetchall()
    assert {name: found[0][name] for name in row} == row and found[0]["batch"] == path.stem
    assert figures[0] == ("line", "a.py", 3, None, None, None, None, "cpu_s", 1.5, None, None)
    assert [(row["trace_id"], table.num_rows) for row, table in traces_of(path)] == [(f"{n:032x}", 1) for n in (1, 2)]


def test_the_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    path = publish(tmp_path, (trace(1), 1.0))
    found = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{path}', hive_partitioning = false)").fetchall()
    assert [(name, kind) for name, kind, *_ in found] == [(each.name, SQL_TYPES[each.type]) for each in schema.COLUMNS]


@pytest.mark.parametrize(
    ("folder", "mode", "wanted"), [(0o755, 0o600, 0o600), (0o750, 0o640, 0o640), (0o700, 0o644, 0o644)]
)
def test_a_batch_may_be_read_by_whom_its_traces_may_be_read_by(
    tmp_path: Path, folder: int, mode: int, wanted: int
) -> None:
    tmp_path.chmod(folder)
    batch = Batch()
    batch.add(trace(1), line(1.0), mode)
    batch.add(trace(2), line(1.0), 0o666)
    path = batch.publish(tmp_path, DAY)
    assert stat.S_IMODE(path.stat().st_mode) == wanted
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parents[:3]} == {folder}
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing else is left"


def test_batches_lie_in_no_folder_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "fleet" / "_fleet").symlink_to(tmp_path / "other")
    with pytest.raises(Exception, match="Not a directory"):
        publish(tmp_path / "fleet", (trace(1), 1.0))
    assert list((tmp_path / "other").iterdir()) == []


# ---- nothing twice ----


def test_a_trace_in_several_batches_counts_once(tmp_path: Path) -> None:
    for _ in range(3):
        publish(tmp_path, (trace(1), 1.0), (trace(2), 2.0))
    publish(tmp_path, (trace(1, path="copy.parquet"), 1.0), (trace(3), 4.0))
    assert sums(tmp_path) == {f"{number:032x}": value for number, value in ((1, 1.0), (2, 2.0), (3, 4.0))}


def test_of_the_snapshots_of_a_recording_the_longest_counts(tmp_path: Path) -> None:
    for hours in (1, 3, 2):
        publish(tmp_path, (trace(1, wall_ns=hours * HOUR_NS, mtime_ns=hours), float(hours)))
    assert sums(tmp_path) == {f"{1:032x}": 3.0}


def test_a_file_that_could_be_read_later_is_not_unreadable(tmp_path: Path) -> None:
    publish(tmp_path, (trace(1, trace_id="a" * 32, path="x", mtime_ns=1, reason="cut"), 0.0))
    publish(tmp_path, (trace(2, path="x", mtime_ns=2), 1.0), (trace(3, trace_id="b" * 32, path="y", reason="cut"), 0.0))
    with open_fleet(tmp_path) as fleet:
        assert fleet.unreadable == 1
    publish(tmp_path, (trace(4, trace_id="c" * 32, path="x", mtime_ns=3, reason="cut"), 0.0))
    with open_fleet(tmp_path) as fleet:
        assert fleet.unreadable == 2, "it was overwritten by something else"


def test_small_batches_of_a_day_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "LEAST_BATCHES", 4)
    for number in range(3):
        publish(tmp_path, (trace(number, labels={"v": str(number)}), float(number)), (trace(9), 9.0), mode=0o640)
    before = sums(tmp_path)
    assert merge.merge_batches(tmp_path, NOW) == 0
    publish(tmp_path, (trace(3), 3.0), mode=0o640)
    earlier = [publish(tmp_path, (trace(number), 5.0), day="2026-11-27") for number in (11, 12)]
    assert merge.merge_batches(tmp_path, NOW) == 6 and merge.merge_batches(tmp_path, NOW) == 0
    assert len(layout.batches(tmp_path)) == 2 and not any(path.exists() for path in earlier)
    assert sums(tmp_path) == before | {f"{3:032x}": 3.0, f"{11:032x}": 5.0, f"{12:032x}": 5.0}
    assert {stat.S_IMODE(path.stat().st_mode) for path in layout.batches(tmp_path)} == {0o640, 0o600}
    with open_fleet(tmp_path) as fleet:
        labels = fleet.connection.execute(
            "SELECT labels FROM fleet_traces WHERE trace_id = ?", [f"{2:032x}"]
        ).fetchall()
    assert labels == [({"v": "2"},)]


def test_a_merge_removes_batches_only_when_the_new_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [publish(tmp_path, (trace(number), 1.0), day="2026-11-27") for number in (1, 2)]
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        assert all(path.exists() for path in sources)
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        if len(synced) == 2:
            raise OSError(5, "the disk is gone")

    monkeypatch.setattr(os, "fsync", fsync)
    assert merge.merge_batches(tmp_path, NOW) == 0 and synced == ["file", "folder"]
    assert all(path.exists() for path in sources) and len(sums(tmp_path)) == 2


def test_two_merges_at_once_leave_two_batches_that_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        publish(tmp_path, (trace(number), float(number)), (trace(9), 9.0), day="2026-11-27")
    before, real, others = sums(tmp_path), Batch.publish, [1]

    def beside(self: Batch, *words: Any) -> Path:
        if others:  # when this merge has read its sources, another one does all of its work
            others.pop()
            assert merge.merge_batches(tmp_path, NOW) == 4
        return real(self, *words)

    monkeypatch.setattr(Batch, "publish", beside)
    assert merge.merge_batches(tmp_path, NOW) == 4
    assert len(layout.batches(tmp_path)) == 2 and sums(tmp_path) == before
    assert merge.merge_batches(tmp_path, NOW) == 2
    assert len(layout.batches(tmp_path)) == 1 and sums(tmp_path) == before


def test_batches_that_are_removed_while_they_are_read_do_no_harm(tmp_path: Path) -> None:
    paths = [publish(tmp_path, (trace(number), 1.0)) for number in range(3)]
    with open_fleet(tmp_path) as fleet:
        for path in paths:
            path.unlink()
        assert fleet.connection.execute("SELECT sum(value) FROM fleet_figures").fetchall() == [(3.0,)]


def test_batches_that_are_merged_between_listing_and_opening_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [publish(tmp_path, (trace(number), 1.0)) for number in range(2)]
    real: Callable[..., int] = open_batch

    def merging(path: Path, is_sealed: bool = False) -> int:
        if paths[1].exists():
            publish(tmp_path, (trace(0), 1.0), (trace(1), 1.0))
            for each in paths:
                each.unlink()
        return real(path, is_sealed)

    monkeypatch.setattr("scalene_trace.analyze.fleet.opening.open_batch", merging)
    assert len(sums(tmp_path)) == 2


@pytest.mark.parametrize("others", [0, 150])
def test_more_batches_than_open_files_are_read(tmp_path: Path, others: int) -> None:
    for number in range(30):
        publish(tmp_path, (trace(number), 1.0))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(others)]  # of the rest of the process
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (20 + len(os.listdir("/proc/self/fd")), hard))  # noqa: PTH208
    try:
        assert len(sums(tmp_path)) == 30
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            os.close(each)


# ---- what is no batch ----


def test_a_fleet_without_summaries_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(NotIndexed, match="fleet index"):
        open_fleet(tmp_path)
    with pytest.raises(FleetMissing, match="no such file"):
        open_fleet(tmp_path / "missing")


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_batch_that_the_system_does_not_let_us_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    path = publish(tmp_path, (trace(1), 1.0))
    real = os.open

    def refusing(name: Any, *more: Any) -> int:
        if Path(name) == path:
            raise OSError(reason, os.strerror(reason))
        return real(name, *more)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(BatchUnreadable, match=os.strerror(reason).lower()) as caught:
        open_fleet(tmp_path)
    assert "emove" not in str(caught.value) and ("mode 0600" in str(caught.value)) == (reason == errno.EACCES)


@pytest.mark.parametrize(
    ("folder", "file", "group", "wanted"),
    [
        (0o755, 0o644, 0, 0o644),
        (0o755, 0o640, 0, 0o640),
        (0o700, 0o644, 0, 0o600),
        (0o750, 0o644, 0, 0o640),
        (0o755, 0o640, 1, 0o600),
        (0o755, 0o644, 1, 0o644),
        (0o755, 0o604, 1, 0o600),
    ],
)
def test_who_cannot_reach_a_trace_does_not_get_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: int, file: int, group: int, wanted: int
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.parquet").touch()
    (tmp_path / "deep" / "a.parquet").chmod(file)
    (tmp_path / "deep").chmod(folder)
    own = (tmp_path / "deep").stat().st_gid
    monkeypatch.setattr(os, "getegid", lambda: own + group)
    (found,) = find_files(tmp_path)
    assert found.mode == wanted


def test_a_merge_drops_the_reasons_of_files_that_are_gone(tmp_path: Path) -> None:
    for number, name in enumerate(("here", "gone")):
        publish(tmp_path, (trace(number, path=name, reason="cut"), 0.0), (trace(9), 1.0), day="2026-11-27")
    assert merge.merge_batches(tmp_path, NOW, present={"here"}) == 2
    with open_fleet(tmp_path) as fleet:
        rows = fleet.connection.execute("SELECT path FROM fleet_traces ORDER BY path").fetchall()
    assert rows == [("9.parquet",), ("here",)]


def test_batches_of_other_readers_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, mode in enumerate((0o600, 0o640, 0o644)):
        publish(tmp_path, (trace(number), 1.0), day="2026-11-27", mode=mode)
    assert merge.merge_batches(tmp_path, NOW) == 0
    publish(tmp_path, (trace(4), 1.0), day="2026-11-27", mode=0o640)
    own = os.geteuid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: own + 1)
        assert merge.merge_batches(tmp_path, NOW) == 0
    assert merge.merge_batches(tmp_path, NOW) == 2


@pytest.mark.parametrize("place", [2, 60, -30, -1])
def test_a_changed_byte_is_found(tmp_path: Path, place: int) -> None:
    path = publish(tmp_path, (trace(1), 1.0))
    contents = bytearray(path.read_bytes())
    contents[place] ^= 1
    path.write_bytes(contents)
    with pytest.raises(BatchDamaged, match=path.name):
        open_fleet(tmp_path)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_is_no_batch_is_refused(tmp_path: Path, is_sealed: bool) -> None:
    path = publish(tmp_path, (trace(1), 1.0))
    whole = path.read_bytes()
    for contents, said in ((b"", "is empty"), (b"text", "not a Parquet"), (whole[:-9], "end"), (whole[:300], "end")):
        path.write_bytes(contents)
        with pytest.raises(BatchDamaged, match=said):
            open_fleet(tmp_path, is_sealed)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NotIndexed):
        open_fleet(tmp_path, is_sealed)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(NotIndexed):
        open_fleet(tmp_path, is_sealed)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["metric"]),
        lambda table: table.append_column("file_index", table.column("trace")),
        replaced("trace", [0, 0, 0, 0], pa.int32()),
        replaced("trace", [-1, 1, 0, 1], pa.int32()),
        replaced("trace", [0, 1 << 20, 0, 1], pa.int32()),
        replaced("trace", [None, 1, 0, 1], pa.int32()),
        replaced("trace", ["x", "y", "z", "z"], pa.string()),
        replaced("trace_id", [None, "b", None, None], pa.string()),
        replaced("labels", ["x"] * 4, pa.string()),
        replaced("size_bytes", ["x"] * 4, pa.string()),
        replaced("value", [None, None, 1.0, float("inf")], pa.float64()),
        replaced("value", [None, None, 1.0, float("nan")], pa.float64()),
        replaced("value", [None, None, 1.0, None], pa.float64()),
        replaced("value", [None, None, 1.0, -1e300], pa.float64()),
        replaced("variance", [None, None, None, -1.0], pa.float64()),
        replaced("start_ns", [None, 2**63 - 1, None, None], pa.int64()),
        replaced("wall_ns", [-1, None, None, None], pa.int64()),
    ],
)
def test_a_forged_batch_is_refused(tmp_path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    publish(tmp_path, (trace(7), 1.0))
    path = publish(tmp_path, (trace(1), 1.0), (trace(2), 2.0))
    forged(path, change)
    with pytest.raises(BatchDamaged, match=path.name), open_fleet(tmp_path) as fleet:
        fleet.connection.execute("SELECT sum(value), sum(variance) FROM fleet_figures").fetchall()


def test_sql_of_a_user_names_the_batch_with_an_impossible_figure(tmp_path: Path, run: Any) -> None:
    publish(tmp_path, (trace(7), 1.0))
    path = publish(tmp_path, (trace(1), 1.0))
    forged(path, replaced("value", [None, float("nan")], pa.float64()))
    done = run("fleet", "sql", tmp_path, "SELECT sum(value) FROM fleet_figures")
    assert path.name in done.err and "impossible value" in done.err
    wrong = run("fleet", "sql", tmp_path, "SELECT nothing").err  # it is the user's
    assert "nothing" in wrong and path.name not in wrong
    path.unlink()
    assert "mine" in run("fleet", "sql", tmp_path, "SELECT error('mine')").err


def test_impossible_figures_are_neither_merged_nor_written(tmp_path: Path) -> None:
    paths = [publish(tmp_path, (trace(number), 1.0), day="2026-11-27") for number in range(3)]
    forged(paths[0], replaced("value", [None, float("nan")], pa.float64()))
    forged(paths[1], replaced("value", [None, 2.5], pa.float32()))
    assert merge.merge_batches(tmp_path, NOW) == 2 and paths[0].exists()
    paths[0].unlink()
    assert sums(tmp_path) == {f"{1:032x}": 2.5, f"{2:032x}": 1.0}
    batch = Batch()
    for row, value in ((trace(1), float("inf")), (trace(1, start_ns=2**63 - 1), 1.0)):
        with pytest.raises(ValueError, match="impossible"):
            batch.add(row, line(value), 0o600)
    assert batch.traces == 0


def test_recorded_hours_are_those_without_pauses_and_batches_without_them_are_read(tmp_path: Path) -> None:
    paused = trace(1, wall_ns=2 * HOUR_NS, recorded_ns=HOUR_NS // 4)
    old = publish(tmp_path, (trace(2, wall_ns=2 * HOUR_NS), 1.0))
    forged(old, lambda table: table.drop_columns(["recorded_ns"]))
    hours = "SELECT trace_id, exposure FROM selected_traces JOIN fleet_traces USING (trace)"
    for wanted in ([2.0], [0.25, 2.0]):
        with open_fleet(tmp_path) as fleet:
            select_traces(fleet, selection_of())
            assert sorted(each for _, each in fleet.connection.execute(hours).fetchall()) == wanted
        publish(tmp_path, (paused, 1.0))
    assert sorted(row["recorded_ns"] or 0 for row, _ in traces_of(old)) == [0]


def test_columns_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    publish(tmp_path, (trace(7), 1.0))
    path = publish(tmp_path, (trace(1), 1.0))
    forged(path, lambda table: table.append_column("later", table.column("trace")))
    assert len(sums(tmp_path)) == 2


# ---- selection ----


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ({}, {1, 2, 3}),
        ({"where": ["version=1"]}, {1}),
        ({"where": ["version=1", "version=2"]}, {1, 2}),
        ({"where": ["version=1", "service=shop"]}, {1}),
        ({"where": ["version=1", "service=other"]}, set()),
        ({"where": ["missing="]}, set()),
        ({"hosts": ["h1"]}, {1, 3}),
        ({"hosts": ["h0", "h1"]}, {1, 2, 3}),
        ({"since": "2026-11-28T13:00"}, {2, 3}),
        ({"until": "2026-11-28T13:00+00:00"}, {1}),
        ({"since": "1h"}, {1, 2, 3}),
        ({"since": "2026-11-28", "until": "2026-11-29"}, {1, 2, 3}),
    ],
)
def test_traces_are_selected_by_label_host_and_time(
    tmp_path: Path, options: dict[str, Any], selected: set[int]
) -> None:
    rows = [
        trace(n, labels={"version": str(n), "service": "shop"}, start_ns=START_NS + (n - 1) * HOUR_NS)
        for n in (1, 2, 3)
    ]
    publish(tmp_path, *((row, 1.0) for row in rows), (trace(4, reason="cut"), 0.0))
    with open_fleet(tmp_path) as fleet:
        select_traces(fleet, selection_of(**options, now=NOW))
        sql = "SELECT trace_id, s.day, s.version, s.exposure FROM selected_traces s JOIN fleet_traces t ON s.trace = t.trace"
        found = fleet.connection.execute(sql).fetchall()
    assert {int(trace_id, 16) for trace_id, *_ in found} == selected
    assert all(rest == (DAY, str(int(trace_id, 16)), 1.0) for trace_id, *rest in found for rest in [tuple(rest)])


def test_marks_are_an_exposure(tmp_path: Path) -> None:
    publish(tmp_path, (trace(1, marks={"request": 250}), 1.0), (trace(2), 1.0))
    with open_fleet(tmp_path) as fleet:
        select_traces(fleet, selection_of(per="request"))
        assert sorted(fleet.connection.execute("SELECT exposure FROM selected_traces").fetchall()) == [(0.0,), (250.0,)]


@pytest.mark.parametrize(
    "options", [{"where": ["version"]}, {"where": ["V=1"]}, {"since": "soon"}, {"since": "1h", "until": "2h"}]
)
def test_a_selection_that_cannot_be_read_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SelectionError):
        selection_of(**options)


def test_times_are_dates_or_ages() -> None:
    assert time_ns_of("2026-11-28T12:00", NOW) == time_ns_of("2026-11-28T13:00+01:00", NOW) == START_NS
    assert time_ns_of("1d", NOW) == START_NS - 24 * HOUR_NS and time_ns_of("90min", NOW) == START_NS - HOUR_NS * 3 // 2
