"""Closed traces that are sent to a URL: names, failures, limits, several recorders, and secrets; the URL is a folder here."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scalene_trace.cli.record import command
from scalene_trace.cli.record.sent import recover_and_send
from scalene_trace.formats.errors import FleetUnreachable, TraceError
from scalene_trace.formats.fleet import remote
from scalene_trace.recorder.errors import SetupError, UsageError
from scalene_trace.recorder.folder.output import remove_recording
from scalene_trace.recorder.rotate.layout import closed_traces
from scalene_trace.recorder.rotate.turns import short_turns
from scalene_trace.recorder.upload import uploader as uploader_module
from scalene_trace.recorder.upload import waiting
from scalene_trace.recorder.upload.place import Destination, destination_at, destination_in, folder_for
from scalene_trace.recorder.upload.uploader import Uploader
from tests.support.paths import PATIENCE_S
from tests.support.recording import run, tool

SIZE = 1_000_003
FOLDER = "service=shop/date=2026-11-28"
SECRET = "s3://KEYID:SEC%2FRET@bucket/a?endpoint_override=127.0.0.1:9&scheme=http&session_token=TOKEN"


def name_of(second: int) -> str:
    return f"web1-17-20261128T2215{second:02}.123Z.parquet"


@pytest.fixture
def destination(tmp_path: Path) -> Destination:
    return destination_at(f"file://{tmp_path}/bucket/traces", tmp_path / "spool")


def wait_there(destination: Destination, *seconds: int, folder: str = FOLDER) -> list[Path]:
    """Traces that wait."""
    (day := destination.folder / folder).mkdir(parents=True, exist_ok=True)
    paths = [day / name_of(each) for each in seconds]
    for path in paths:
        path.write_bytes(bytes(SIZE))
    return paths


def arrived(tmp_path: Path) -> list[str]:
    bucket = tmp_path / "bucket" / "traces"
    return sorted(str(each.relative_to(bucket)) for each in bucket.rglob("*") if each.is_file())


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.01)
    assert condition()


def test_traces_arrive_under_their_names_and_are_removed_here(destination: Destination, tmp_path: Path) -> None:
    own = destination.folder / FOLDER / "notes.parquet"
    wait_there(destination, 2, 1)
    wait_there(destination, 3, folder="date=2025-01-02")
    own.write_text("mine")
    assert waiting.send_traces(destination.folder, remote.RemoteFleet(destination.url)) == 3
    assert arrived(tmp_path) == sorted(
        [f"date=2025-01-02/{name_of(3)}", f"{FOLDER}/{name_of(1)}", f"{FOLDER}/{name_of(2)}"]
    )
    assert closed_traces(destination.folder) == [] and own.read_text() == "mine"
    assert not (destination.folder / "date=2025-01-02").exists()  # an old day that is empty


def test_the_oldest_are_given_up_but_not_one_that_is_being_sent(destination: Destination) -> None:
    first, *_, last = wait_there(destination, 1, 2, 3, 4)
    with first.open("rb") as sent:
        fcntl.flock(sent, fcntl.LOCK_EX)
        assert waiting.give_up(destination.folder, 2 * SIZE) == 2
        assert closed_traces(destination.folder) == [first, last]
        with pytest.raises(FleetUnreachable):
            waiting.send_traces(destination.folder, remote.RemoteFleet(f"file://{first}"))
    assert waiting.give_up(destination.folder, 2 * SIZE) == 0
    assert waiting.give_up(destination.folder, 1) == 1 and closed_traces(destination.folder) == [last]


def test_one_trace_that_is_refused_does_not_stop_the_others(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, refused, send = [], {f"{FOLDER}/{name_of(1)}"}, remote.RemoteFleet.send

    def refuses(self: remote.RemoteFleet, file: FileIO, name: str) -> None:
        calls.append(name)
        if name in refused:
            raise FleetUnreachable("file:///bucket", f"{name} is refused")
        send(self, file, name)

    monkeypatch.setattr(remote.RemoteFleet, "send", refuses)
    first, *_ = wait_there(destination, 1, 2, 3)
    fleet = remote.RemoteFleet(destination.url)
    with pytest.raises(FleetUnreachable, match=f"{name_of(1)} is refused"):
        waiting.send_traces(destination.folder, fleet)
    assert closed_traces(destination.folder) == [first] and len(arrived(tmp_path)) == 2
    wait_there(destination, 4, 5, 6)
    refused |= {f"{FOLDER}/{name_of(each)}" for each in (4, 5, 6)}
    calls.clear()
    with pytest.raises(FleetUnreachable, match=name_of(1)):
        waiting.send_traces(destination.folder, fleet)
    assert len(calls) == 2, "an outage, which costs a timeout for each"


def test_locks_are_those_that_nfs_gives_and_their_failure_is_reported(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, told = fcntl.flock, list[str]()

    def of_nfs(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    wait_there(destination, 1)
    waiting.recover_unfinished(destination.folder, told.append)
    assert waiting.send_traces(destination.folder, remote.RemoteFleet(destination.url)) == 1 and told == []

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fails)
    wait_there(destination, 2)
    Uploader(destination, 1 << 30, told.append).finish(0.2)
    assert [text.count("nput/output error") for text in told] == [1, 1, 1]
    assert "1 trace was not sent" in told[2] and len(arrived(tmp_path)) == 1


def test_a_link_in_place_of_the_folder_is_not_followed(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger who owns a folder above swaps ours while it is read."""
    wait_there(destination, 1)
    secret = tmp_path / "secret" / FOLDER / name_of(1)
    secret.parent.mkdir(parents=True)
    secret.write_text("secret")

    def swaps(folder: Path) -> list[Path]:
        found = closed_traces(folder)
        destination.folder.rename(tmp_path / "moved")
        destination.folder.symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(waiting, "closed_traces", swaps)
    assert waiting.send_traces(destination.folder, remote.RemoteFleet(destination.url)) == 1
    (sent,) = arrived(tmp_path)
    assert (tmp_path / "bucket" / "traces" / sent).stat().st_size == SIZE and secret.exists()
    with pytest.raises(OSError):
        waiting.send_traces(destination.folder, remote.RemoteFleet(destination.url))
    assert destination_in(destination.folder) is None and waiting.give_up(destination.folder, 0) == 0


def test_traces_are_sent_before_those_of_dead_recorders_are_made(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(uploader_module, "recover_unfinished", lambda *_: seen.append(arrived(tmp_path)))
    wait_there(destination, 1)
    Uploader(destination, 1 << 30, lambda _: None).finish()
    assert seen == [[f"{FOLDER}/{name_of(1)}"]]


def test_what_may_kill_the_recorder_is_tried_twice(destination: Destination) -> None:
    (dead := destination.folder / "t.parquet.spool").mkdir()
    for name in ("rotation.json", "spool"):
        (dead / name).write_text("")
    told: list[str] = []
    for _ in range(4):
        waiting.recover_unfinished(destination.folder, told.append)
    assert ["cannot be made" in each for each in told] == [True, True, False, False]
    assert (
        told[2] == told[3]
        and f"were not made in 2 attempts. Make them with: scalene-record --recover {dead}" in told[2]
    )
    waiting.recover_unfinished(destination.folder, told.append, is_asked=True)
    assert "cannot be made" in told[4]
    remove_recording(dead, rotates=True)
    assert not dead.exists()


@pytest.mark.parametrize("kind", ["azure", "hdfs"])
def test_a_trace_replaces_itself_where_moving_does_not(kind: str, destination: Destination, tmp_path: Path) -> None:
    (path,) = wait_there(destination, 1)
    fleet = remote.RemoteFleet(destination.url)
    files: Any = fleet._files
    written: list[str] = []

    class Strange:
        type_name = {"azure": "abfs"}.get(kind, kind)

        def __getattr__(self, name: str) -> Any:
            return getattr(files, name)

        def open_output_stream(self, path: str) -> Any:
            written.append(path)
            return files.open_output_stream(path)

        def move(self, source: str, target: str) -> None:
            if kind == "azure":
                raise pa.ArrowNotImplementedError("without Hierarchical Namespace")
            if Path(target).exists():
                raise OSError("cannot rename")
            files.move(source, target)

    fleet._files = Strange()
    for size in (7, SIZE):
        path.write_bytes(bytes(size))
        with FileIO(path) as file:
            fleet.send(file, name_of(1))
        assert arrived(tmp_path) == [name_of(1)]
        assert (tmp_path / "bucket" / "traces" / name_of(1)).stat().st_size == size
    assert {Path(each).name for each in written} == {f".{name_of(1)}.tmp"}, "arrow would empty the object at once"
    files.delete_file(f"{tmp_path}/bucket/traces/{name_of(1)}")
    files.create_dir(f"{tmp_path}/bucket/traces/{name_of(1)}")
    if kind == "hdfs":
        with FileIO(path) as file, pytest.raises(FleetUnreachable, match="cannot rename"):
            fleet.send(file, name_of(1))


def test_a_failed_attempt_is_repeated_and_reported_once(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader_module, "FIRST_DELAY_S", 0.01)
    calls, told, send = [], [], remote.RemoteFleet.send

    def fails_first(self: remote.RemoteFleet, file: FileIO, name: str) -> None:
        if str(tmp_path) in self.url:  # not of a thread that an earlier test has left
            calls.append(name)
            if len(calls) <= 3:
                raise FleetUnreachable("file:///bucket", "no network")
        send(self, file, name)

    monkeypatch.setattr(remote.RemoteFleet, "send", fails_first)
    wait_there(destination, 1)
    sending = Uploader(destination, 1 << 30, told.append)
    sending.start()
    until(lambda: len(arrived(tmp_path)) == 1)
    wait_there(destination, 2)
    sending.closed()
    until(lambda: len(arrived(tmp_path)) == 2)
    sending.finish()
    assert len(calls) == 5 and len(told) == 1
    assert f"cannot be sent to file://{tmp_path}/bucket/traces: no network. The recording goes on" in told[0]


def test_the_end_waits_a_bounded_time_and_says_what_is_left(
    destination: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(remote.RemoteFleet, "send", lambda *_: time.sleep(PATIENCE_S))
    wait_there(destination, 1, 2, 3)
    sending = Uploader(destination, 2 * SIZE, told.append)
    begun_s = time.monotonic()
    sending.finish(0.2)
    assert time.monotonic() - begun_s < 5
    assert sending.given_up == 1
    assert ["the oldest are given up" in each for each in told] == [True, False]
    assert "2 traces were not sent" in told[1] and f"--recover {destination.folder}" in told[1]
    assert "sending them takes longer than 0.2 s. They wait" in told[1]


def test_the_end_says_that_another_recorder_sends(destination: Destination) -> None:
    told: list[str] = []
    (path,) = wait_there(destination, 1)
    with path.open("rb") as sent:
        fcntl.flock(sent, fcntl.LOCK_EX)
        Uploader(destination, 1 << 30, told.append).finish()
    assert len(told) == 1 and ": another recorder is sending them. They wait" in told[0]


def test_what_cannot_be_read_here_is_not_published(
    destination: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails in the middle of a trace."""
    (path,) = wait_there(destination, 1)
    monkeypatch.setattr(remote, "_PIECE_BYTES", SIZE // 3)
    reads: list[int | None] = []

    class Failing(FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            reads.append(size)
            if len(reads) == 3:
                raise OSError(5, "Input/output error")
            return super().read(size) or b""

    for store in (False, True):  # also where an object appears when its stream is closed
        reads.clear()
        monkeypatch.setattr(remote, "_OBJECT_STORES", ("local",) if store else ())
        if store:
            (tmp_path / "bucket" / "traces" / FOLDER).mkdir(parents=True, exist_ok=True)
        with Failing(path) as file, pytest.raises(OSError, match="Input/output"):
            remote.RemoteFleet(destination.url).send(file, f"{FOLDER}/{name_of(1)}")
        assert arrived(tmp_path) == []


def test_recover_sends_what_waits(destination: Destination, tmp_path: Path) -> None:
    wait_there(destination, 1, 2)
    (bucket := tmp_path / "bucket").write_text("in the way")
    recover = {"recover": str(destination.folder)}
    failed = recover_and_send(recover)
    assert failed and not failed[0] and f"2 traces were not sent to file://{bucket}/traces: " in failed[1]
    bucket.unlink()
    with pytest.raises(UsageError, match=f"has traces for file://{bucket}/traces: name that URL"):
        recover_and_send({**recover, "output": f"file://{tmp_path}/elsewhere"})
    assert recover_and_send(recover) == (True, f"2 traces were sent to file://{bucket}/traces.")
    assert recover_and_send(recover) == (True, f"0 traces were sent to file://{bucket}/traces.")
    assert arrived(tmp_path) == [f"{FOLDER}/{name_of(1)}", f"{FOLDER}/{name_of(2)}"]
    assert recover_and_send({"recover": str(tmp_path)}) is None
    with pytest.raises(UsageError, match="No traces wait for a URL") as found:
        recover_and_send({"recover": str(tmp_path), "output": "s3://k:SECRET@b/x"})
    assert "SECRET" not in str(found.value)
    with pytest.raises(TraceError, match="contains no spool"):
        recover_and_send({"recover": str(destination.folder / "x.parquet.spool")})


def test_nothing_is_imported_that_would_delay_the_program() -> None:
    code = "import sys, scalene_trace.cli.record.sent; print([x for x in ('numpy', 'pyarrow', 'typer') if x in sys.modules])"
    assert run([sys.executable, "-c", code]).stdout == b"[]\n"


def test_secrets_are_neither_kept_nor_told(tmp_path: Path) -> None:
    found = destination_at(SECRET, tmp_path)
    assert stat.S_IMODE(found.folder.stat().st_mode) == 0o700
    kept = destination_in(found.folder)
    assert kept and kept.url == "s3://bucket/a?endpoint_override=127.0.0.1:9&scheme=http"
    assert destination_at(kept.url, tmp_path).folder == found.folder  # other keys, or those of the environment
    text = "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file()) + repr(found) + found.shown
    fleet: Any = object.__new__(remote.RemoteFleet)
    fleet.url = SECRET
    text += str(fleet._failed(OSError(f"{SECRET} SEC/RET SEC%2FRET KEYID TOKEN")))
    assert not [each for each in ("KEYID", "SEC", "TOKEN") if each in text]


def test_folders_of_others_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="Name another folder with --spool"):
        destination_at("s3://bucket/a", Path("/proc/nowhere"))
    found = destination_at("s3://bucket/a", tmp_path)
    assert destination_in(tmp_path) is None
    named_by_hand = found.folder.rename(tmp_path / "own")
    assert destination_in(named_by_hand) == Destination("s3://bucket/a", named_by_hand)
    named_by_hand.chmod(0o755)
    assert destination_in(named_by_hand) is None and stat.S_IMODE(named_by_hand.stat().st_mode) == 0o755
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(SetupError, match="another user may enter the folder, or owns it"):
        destination_at("s3://bucket/a", tmp_path)


def test_a_folder_of_ours_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    """As kubelet leaves it, which gives each volume to the pod's group when it is mounted."""
    found = destination_at("s3://bucket/a", tmp_path)
    for again in (lambda: destination_at("s3://bucket/a", tmp_path), lambda: destination_in(found.folder)):
        found.folder.chmod(0o2770)
        assert again() == found and stat.S_IMODE(found.folder.stat().st_mode) == 0o700
    (found.folder / "destination.json").write_text('{"url": "s3://of-another/a"}')  # who could enter
    assert destination_in(found.folder) is None
    destination_at("s3://bucket/a", tmp_path)
    assert destination_in(found.folder) == found


def test_the_default_folder_is_that_of_state_or_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = destination_at("s3://bucket/a", None).folder
    assert own.parent == tmp_path / "state" / "scalene-trace"
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    temporary = destination_at("s3://bucket/a", None).folder.parent
    assert temporary == tmp_path / f"scalene-trace-{os.geteuid()}"
    (tmp_path / "strangers").mkdir()
    temporary.rename(tmp_path / "aside")
    temporary.symlink_to(tmp_path / "strangers")
    other = destination_at("s3://bucket/a", None).folder.parent
    assert other.name.startswith(f"{temporary.name}-") and [*(tmp_path / "strangers").iterdir()] == []
    made = (own.parent.parent, own.parent, own, tmp_path / "aside", other)
    assert {stat.S_IMODE(each.stat().st_mode) for each in made} == {0o700}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["-o", "s3://k:SECRET@b/x.parquet"],
            r"Traces are sent to s3://b/x.parquet when they are closed: give --rotate",
        ),
        (["-o", "s3://b/x", "--rotate", "1h", "--keep", "9h"], "by a lifecycle rule"),
        (["-o", "s3://k:SEC/RET@b/x", "--rotate", "1h"], "-o s3://b/x is no URL of a folder"),
        (["-o", "ftp://b/x", "--rotate", "1h"], "is no URL of a folder"),
        (["-o", "file://rel/x", "--rotate", "1h"], "is no URL of a folder"),
        (["--rotate", "1h", "--spool", "x"], "-o names a URL"),
        (["-o", "s3://b/x", "--rotate", "1h", "--spool-limit", "1"], "1MB or more"),
        (["-o", "s3://k:SECRET@b/x", "--pid", "1"], "--pid writes one trace"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as found:
        command.run([*words, *(() if "--pid" in words else ["x.py"])])
    assert "SEC" not in str(found.value)


def test_the_doctor_examines_where_traces_wait(tmp_path: Path) -> None:
    assert folder_for(tmp_path / "a" / "b") == tmp_path and folder_for(Path("/proc/x")) == Path("/proc")
    words = [
        *tool("scalene-record"),
        "--doctor",
        "-o",
        "s3://k:SECRET@b/x",
        "--rotate",
        "1h",
        "--spool",
        tmp_path / "a",
    ]
    done = run(words)
    assert str(tmp_path).encode() in done.stdout and b"SECRET" not in done.stdout + done.stderr


def test_turns_are_short_until_the_last_thread_is_done() -> None:
    before_s = sys.getswitchinterval()
    with short_turns():
        with short_turns():
            pass
        assert sys.getswitchinterval() == pytest.approx(0.0002)
    assert sys.getswitchinterval() == before_s


def test_forms_of_urls() -> None:
    good = "s3://b s3://b/x?region=a gs://anonymous@b/x file:///srv/x abfs://c@acc.dfs.core.windows.net/x hdfs://h:1/x"
    assert [each for each in good.split() if not remote.is_valid(each)] == []
    bad = "s3:// s3:///x file:/// file://x s3://b/x#y s3://k:a/b@c/x x://b/y"
    assert [each for each in [*bad.split(), "s3://b/a b"] if remote.is_valid(each)] == []
    assert remote.without_keys("abfs://c:KEY@acc/x?enable_tls=true&sas=1") == "abfs://c@acc/x?enable_tls=true"
