"""A fleet at a URL is indexed and answered for as a folder is; here at file://, in the long tests at an S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.fleet import mirror
from scalene_trace.analyze.fleet.index import index_fleet
from scalene_trace.analyze.fleet.opening import open_fleet
from scalene_trace.formats.errors import FleetMissing, SparkRefused
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


def sums(folder: Path) -> list[tuple[object, ...]]:
    with open_fleet(folder) as fleet:
        return fleet.connection.execute(SUMS).fetchall()


def test_a_url_gives_what_the_folder_gives(folder: Path) -> None:
    url = f"file://{folder}"
    first = mirror.index_remote(url)
    assert (first.files, first.known, first.traces, first.unreadable) == (7, 0, 6, 1)
    again = mirror.index_remote(url)
    assert (again.files, again.known, again.traces, again.batches) == (7, 7, 0, 0)
    by_url = sums(mirror.mirrored(url))
    assert by_url == sums(folder)  # the batches lie beside the traces
    assert index_fleet(folder).known == 7  # name, size and time are those of the folder


def test_batches_that_are_gone_are_removed_from_the_cache(folder: Path) -> None:
    url = f"file://{folder}"
    mirror.index_remote(url)
    (copied,) = layout.batches(mirror.mirrored(url))
    for batch in layout.batches(folder):
        batch.unlink()
    assert layout.batches(mirror.mirrored(url)) == []
    assert not copied.exists()


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
    [("s4://bucket/x", "s4"), ("file:///nowhere/at/all", "/nowhere/at/all")],
)
def test_where_there_is_no_fleet(url: str, says: str) -> None:
    with pytest.raises(FleetMissing, match=says):
        mirror.mirrored(url) if url.startswith("s4") else remote.RemoteFleet(url).traces()


def test_secrets_of_a_url_are_not_shown() -> None:
    assert remote.shown("s3://key:secret@bucket/a/b?scheme=http&x=y") == "s3://bucket/a/b"
    assert remote.shown("gs://bucket/a@b") == "gs://bucket/a@b"


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
    from scalene_trace.analyze.fleet.places import fleet_at

    with pytest.raises(SparkRefused, match="Mount it as a folder"), fleet_at(f"file://{folder}", "local[2]"):
        pass
