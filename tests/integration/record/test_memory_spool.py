"""On file systems where a full disk could be a SIGBUS in the program, the spool lies in /dev/shm."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalene_trace.recorder.folder import place
from scalene_trace.recorder.folder.output import remove_recording
from scalene_trace.recorder.spool.drain import FEWEST_CHUNKS
from tests.support.packages import needed
from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, losses, record, record_command, report, run, target, tool

EXACT = ["--alloc-interval", "1"]
MIB = 1 << 20
#: Writes a few hundred records, says so, and waits to be killed.
WAITS = "kept = [bytearray(500) for _ in range(300)]; print('ready', flush=True); import time; time.sleep(600)"
#: Writes about 95 chunks, so that the spool is drained.
CHURN = "for _ in range(16): kept = [bytearray(600) for _ in range(3000)]"


def spools_in_memory() -> set[str]:
    return {path.name for path in place.MEMORY_FOLDER.glob("scalene-trace-*")}


@pytest.fixture(autouse=True)
def nothing_stays_in_memory() -> Iterator[None]:
    before = spools_in_memory()
    yield
    assert spools_in_memory() <= before


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system that may copy on write."""
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    for folder in (lower, upper, work, merged):
        folder.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if subprocess.run(["mount", "-t", "overlay", "-o", options, "none", merged], capture_output=True).returncode:
        pytest.skip("no overlay can be mounted here")
    yield merged
    subprocess.run(["umount", merged], check=True)
    shutil.rmtree(work)


@pytest.fixture
def btrfs(tmp_path: Path) -> Iterator[Path]:
    """A small file system that copies on write."""
    (image := tmp_path / "image").write_bytes(b"")
    os.truncate(image, 128 * MIB)
    run([needed("btrfs"), "-q", image])
    (folder := tmp_path / "btrfs").mkdir()
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True).returncode:
        pytest.skip("no btrfs can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


# ---- where it lies ----


@pytest.mark.parametrize(
    ("kind", "in_place"),
    [(0xEF53, True), (0x58465342, True), (0x01021994, True), (0x9123683E, False), (0x2FC12FC1, False), (-1, False)],
    ids=["ext4", "xfs", "tmpfs", "btrfs", "zfs", "unknown"],
)
def test_only_known_file_systems_hold_the_spool(
    kind: int, in_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "_file_system", lambda folder: kind)
    assert place.writes_in_place(tmp_path) is in_place


@pytest.mark.parametrize(
    ("size_mib", "free_mib", "chunks"),
    [(1_000, 4, 0), (1_000, 7, 0), (1_000, 64, 502), (200_000, 100_000, 4086), (64, 64, 246), (64, 15, 0)],
)
def test_the_size_in_memory_follows_what_is_free(
    size_mib: int, free_mib: int, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(f_blocks=size_mib * MIB // 4096, f_bavail=free_mib * MIB // 4096, f_frsize=4096)
    monkeypatch.setattr(place, "_file_system", lambda folder: 0x01021994)
    monkeypatch.setattr(os, "statvfs", lambda folder: free)
    assert place.memory_chunks() == chunks
    assert chunks == 0 or chunks > 2 * FEWEST_CHUNKS


@pytest.mark.parametrize("name", ["victim", "scalene-trace-00.spool", "../shm/scalene-trace-" + 24 * "0" + ".spool"])
def test_a_link_of_a_strangers_folder_is_neither_followed_nor_removed(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "scalene-trace-000000000000000000000000.spool"
    victim.write_bytes(b"kept")
    (folder := tmp_path / "t.parquet.spool").mkdir()
    (folder / "spool").symlink_to(victim if name == "victim" else place.MEMORY_FOLDER / name)
    assert place.spool_of(folder) == folder / "spool"
    remove_recording(folder)
    assert victim.read_bytes() == b"kept" and not folder.exists()


def test_a_spool_that_is_gone_from_memory_is_reported(tmp_path: Path) -> None:
    (folder := tmp_path / "t.parquet.spool").mkdir()
    (folder / "spool").symlink_to(place.memory_path())
    done = run([*tool("scalene-record"), "--recover", folder])
    assert done.status != 0 and b"was in memory and is gone" in done.stderr
    remove_recording(folder)
    assert not folder.exists()


# ---- recordings ----


def test_a_recording_on_an_overlay_is_complete_and_leaves_nothing_in_memory(overlay: Path) -> None:
    code = f"import os; print(os.readlink({str(overlay / 't.parquet.spool/spool')!r})); {CHURN}"
    done = record(overlay / "t.parquet", ["-c", code.replace("; for", "\nfor")], None, EXACT)
    assert done.status == 0, done.stderr.decode()
    assert done.stdout.startswith(b"/dev/shm/scalene-trace-")
    found = report(done.trace, command="info")["traces"][0]
    assert found["events"]["alloc"] > 48_000 and not losses(report(done.trace))
    assert [path.name for path in overlay.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("removed", [False, True])
def test_a_recording_in_memory_is_recovered_after_a_kill(removed: bool, overlay: Path) -> None:
    trace, folder = overlay / "t.parquet", overlay / "t.parquet.spool"
    recorder = subprocess.Popen(
        record_command(trace, ["-c", WAITS], None, EXACT),
        env=environment(None),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert recorder.stdout and recorder.stdout.readline() == b"ready\n"
    early = run([*tool("scalene-record"), "--recover", folder])
    assert early.status != 0 and b"still being recorded" in early.stderr
    if removed:
        shutil.rmtree(folder)
        recorder.send_signal(signal.SIGINT)
    else:
        os.killpg(recorder.pid, signal.SIGKILL)
    recorder.communicate(timeout=PATIENCE_S)
    if not removed:
        assert run([*tool("scalene-record"), "--recover", folder]).status == 0
    assert report(trace, command="info")["traces"][0]["events"]["alloc"] >= 300


def test_a_container_with_little_shared_memory_is_recorded(overlay: Path) -> None:
    command = record_command(overlay / "t.parquet", ["-c", CHURN], None, EXACT)
    inside = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "sh", *command]
    done = run(inside, env=environment(None))
    if b"unshare" in done.stderr or b"mount" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    assert done.status == 0, done.stderr.decode()
    assert not {"spool_full", "unmapped_chunk"} & losses(report(overlay / "t.parquet")).keys()


def test_a_full_disk_that_copies_on_write_is_no_signal_in_the_program(btrfs: Path) -> None:
    began_s = time.monotonic()
    done = record(btrfs / "t.parquet", [target("full_disk"), btrfs / "big"], None, EXACT)
    assert time.monotonic() - began_s < PATIENCE_S
    assert (done.status, done.stdout) == (0, b"over\n"), done.stderr.decode()
    assert report(done.trace, command="info")["traces"][0]["events"]["alloc"] > 20_000
