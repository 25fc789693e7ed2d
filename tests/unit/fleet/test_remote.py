"""A fleet at a URL is indexed and answered for as a folder is; here at file://, in the long tests at an S3 server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scalene_trace.analyze.fleet import merge, mirror
from scalene_trace.analyze.fleet.index import index_fleet
from scalene_trace.analyze.fleet.places import fleet_at
from scalene_trace.formats.errors import FleetUnreachable, NotIndexed, SparkRefused
from scalene_trace.formats.fleet import layout, remote
from tests.support.example_traces import rich_trace
from tests.support.fleets import write_fleet

SUMS = "SELECT scope, metric, sum(value), count(*) FROM fleet_figures GROUP BY scope, metric ORDER BY scope, metric"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_fleet(tmp_path / "fleet", rich_trace(tmp_path / "t.parquet"), traces=6, hosts=2)
    (tmp_path / "fleet" / "bad.parquet").write_text("no trace")
    return tmp_path / "fleet"


def sums(place: Path | str) -> list[tuple[object, ...]]:
    with fleet_at(str(place)) as fleet:
        return fleet.connection.execute(SUMS).fetchall()


def test_a_url_gives_what_the_folder_gives(folder: Path, tmp_path: Path) -> None:
    copy, url = tmp_path / "copy", f"file://{folder}"
    shutil.copytree(folder, copy)
    first = mirror.index_remote(url)
    assert (first.files, first.known, first.traces, first.unreadable) == (7, 0, 6, 1)
    again = mirror.index_remote(url)
    assert (again.files, again.known, again.traces, again.batches) == (7, 7, 0, 0)
    assert index_fleet(folder).known == 7  # name, size and time are those of the folder
    index_fleet(copy)
    assert sums(url) == sums(copy)


def cached(tmp_path: Path) -> list[Path]:
    (cache,) = (tmp_path / "cache" / "scalene-trace" / "fleets").iterdir()
    return layout.batches(cache)


def test_batches_that_are_gone_leave_the_cache_after_an_hour(folder: Path, tmp_path: Path) -> None:
    url = f"file://{folder}"
    mirror.index_remote(url)
    expected = sums(url)
    (before,) = layout.batches(folder)
    for batch in cached(tmp_path):
        os.utime(batch, (0, 0))
    again = before.with_name(f"{'0' * 32}.parquet")
    before.rename(again)
    assert sums(url) == expected
    assert [batch.name for batch in cached(tmp_path)] == [again.name]
    again.rename(before)  # what was fetched just now may be of a command that began later
    assert sums(url) == expected
    assert len(cached(tmp_path)) == 2


def test_a_batch_that_is_merged_while_it_is_fetched_is_not_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{folder}"
    monkeypatch.setattr(mirror, "_MOST_FILES", 2)
    assert mirror.index_remote(url).batches == 4
    expected, fetch, fetched = sums(folder), remote.RemoteFleet.fetch, 0

    def after_a_merge(self: remote.RemoteFleet, name: str, to: Path) -> bool:
        nonlocal fetched
        fetched += 1
        if fetched == 2:
            for path in layout.batches(folder):
                path.unlink()
            index_fleet(folder)  # as one batch
        return fetch(self, name, to)

    monkeypatch.setattr(remote.RemoteFleet, "fetch", after_a_merge)
    monkeypatch.setattr(mirror, "_AT_ONCE", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "another"))
    assert sums(url) == expected


def test_merged_batches_are_replaced_at_the_url(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{folder}"
    monkeypatch.setattr(mirror, "_MOST_FILES", 2)
    mirror.index_remote(url)
    expected = sums(folder)
    monkeypatch.setattr(merge, "LEAST_BATCHES", 2)
    assert mirror.index_remote(url).merged == 4
    assert len(layout.batches(folder)) == 1
    assert sums(folder) == expected


def test_several_files_are_fetched_in_groups(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_MOST_FILES", 2)
    seen: list[tuple[int, int]] = []
    found = mirror.index_remote(f"file://{folder}", lambda done, files: seen.append((done, files)))
    assert (found.traces, found.batches) == (6, 4)
    assert seen[0] == (0, 7) and seen[-1] == (7, 7)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_file_that_is_removed_meanwhile_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = remote.RemoteFleet.traces

    def then_removed(self: remote.RemoteFleet) -> list[remote.RemoteFile]:
        found = listed(self)
        (folder / found[-1].name).unlink()
        return found

    monkeypatch.setattr(remote.RemoteFleet, "traces", then_removed)
    found = mirror.index_remote(f"file://{folder}")
    assert (found.files, found.traces + found.unreadable) == (7, 6)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s4://key:SECRET@bucket/x", "s4://bucket/x"),
        ("s3://key:SEC/RET@bucket/x", "s3://bucket/x"),
        ("file:///nowhere/at/all", "/nowhere/at/all"),
    ],
)
def test_where_there_is_no_fleet(url: str, says: str) -> None:
    with pytest.raises(FleetUnreachable, match=says) as found:
        remote.RemoteFleet(url).traces()
    assert "SEC" not in str(found.value) and "RET" not in str(found.value)


def test_a_fleet_without_summaries_and_a_cache_that_cannot_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotIndexed, match=f"fleet index file://{folder}"), fleet_at(f"file://{folder}"):
        pass
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(FleetUnreachable, match="Set XDG_CACHE_HOME"), fleet_at(f"file://{folder}"):
        pass


def test_secrets_of_a_url_are_not_shown() -> None:
    assert remote.shown("s3://key:secret@bucket/a/b?scheme=http&x=y") == "s3://bucket/a/b"
    assert remote.shown("s3://key:sec/ret@bucket/a") == "s3://bucket/a"
    assert remote.shown("s3://key@bucket/a") == "s3://bucket/a"
    assert remote.shown("gs://bucket/a@b") == "gs://bucket/a@b"


def test_the_sdk_of_s3_does_not_write_its_log_to_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    levels: list[object] = []
    monkeypatch.setattr(fs, "initialize_s3", levels.append)
    remote.RemoteFleet("s3://k:s@bucket/a?region=us-east-1")
    assert levels == [fs.S3LogLevel.Off]


def test_what_is_a_url_and_what_is_a_batch() -> None:
    assert remote.is_url("s3://b/x") and not remote.is_url("/traces") and not remote.is_url("C:/x")
    name = "_fleet/1/date=2026-11-28/" + "0" * 32 + ".parquet"
    assert layout.is_batch(name)
    for other in (
        f"x/{name}",
        name.replace("date=", "day="),
        name.replace("_fleet/", "_fleet/../_fleet/"),
        f"{name}.tmp",
    ):
        assert not layout.is_batch(other)


def test_spark_does_not_read_urls(folder: Path) -> None:
    with pytest.raises(SparkRefused, match="Mount it as a folder"), fleet_at(f"file://{folder}", "local[2]"):
        pass
