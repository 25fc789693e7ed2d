"""Who answers a command to a recording: its recorder, nobody else, and in time."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scalene_trace.recorder.api import exchange
from scalene_trace.recorder.control.client import ask, find_recording
from scalene_trace.recorder.errors import ControlError
from scalene_trace.recorder.folder.files import CONTROL_NAME, SPOOL_NAME
from scalene_trace.recorder.folder.output import create_spool_folder
from tests.support.recording import Finished, run, tool

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
STRANGER = 4711
STATUS = {"command": "status"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, with a spool in it."""
    path = Path(tempfile.mkdtemp(prefix="peers-", suffix=".spool"))
    path.chmod(0o755)
    (path / SPOOL_NAME).write_bytes(b"spool")
    yield path
    shutil.rmtree(path)


@contextmanager
def answering(folder: Path, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Somebody listens in the place of a recorder, as this user; ``answer`` gets each connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / CONTROL_NAME))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(4096)
                        answer(connection)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        (folder / CONTROL_NAME).unlink()


def sending(line: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(line)


def _answer(user: int, folder: Path, is_ready: int) -> None:
    """Answers every connection; the other side may have closed it already."""
    folder.chmod(0o777)
    os.setuid(user)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / CONTROL_NAME))
        (folder / CONTROL_NAME).chmod(0o777)
        listener.listen()
        os.write(is_ready, b".")
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(4096)
                connection.sendall(b'{"ok": true, "changed": true, "output": "/lie"}\n')


@contextmanager
def answering_as(user: int, folder: Path) -> Iterator[None]:
    """Another user's process listens, and says that all is well."""
    ready, is_ready = os.pipe()
    child = os.fork()
    if not child:
        try:
            _answer(user, folder, is_ready)
        finally:  # the fixtures are the parent's
            os._exit(1)
    os.close(is_ready)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    try:
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def ask_as(user: int, folder: Path) -> str:
    """What the user is told who asks for the status: the answer or the error."""
    told, telling = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(user)
        try:
            text = json.dumps(ask(folder, STATUS))
        except ControlError as error:
            text = str(error)
        os.write(telling, text.encode())
        os._exit(0)
    os.close(telling)
    os.waitpid(child, 0)
    with os.fdopen(told) as file:
        return file.read()


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("answers", "asks", "owns", "is_believed"),
    [
        (STRANGER, 0, 0, False),
        (STRANGER, 0, STRANGER, True),
        (STRANGER, STRANGER + 1, STRANGER, False),
        (STRANGER, STRANGER, STRANGER, True),
        (0, STRANGER, 0, True),
    ],
)
def test_only_the_recorder_is_believed(answers: int, asks: int, owns: int, is_believed: bool, folder: Path) -> None:
    os.chown(folder, owns, -1)
    with answering_as(answers, folder):
        told = ask_as(asks, folder)
    assert ("/lie" in told) == is_believed
    assert is_believed or "belongs to another user" in told


def test_a_recorder_that_stays_silent_or_drips_is_waited_for_only_so_long(folder: Path) -> None:
    def drip(connection: socket.socket) -> None:
        for _ in range(200):
            connection.sendall(b" ")
            time.sleep(0.02)

    for answer in (drip, lambda _: time.sleep(0.6)):
        with answering(folder, answer):
            start_s = time.monotonic()
            with pytest.raises(ControlError, match="does not answer"):
                ask(folder, STATUS, timeout_s=0.3)
            assert time.monotonic() - start_s < 3


def test_an_answer_without_end_or_of_endless_depth_is_refused(folder: Path) -> None:
    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    with answering(folder, flood), pytest.raises(ValueError, match="too long"):
        exchange(str(folder), STATUS, 10_000_000)
    for answer in (b"[" * 500_000 + b"\n", b'{"ok": ' * 100_000 + b"\n"):
        with answering(folder, sending(answer)), pytest.raises(ControlError):
            ask(folder, STATUS)


ANSWERS = {
    "nothing else": {"ok": True},
    "texts for numbers": {"ok": True, "events": "\x1b[2J", "output": 7, "size_bytes": "x", "changed": 1},
    "settings that are a list": {"ok": True, "settings": [1], "paused": 0, "output": "o", "pid": 1, "recorded_s": "s"},
}


@pytest.mark.parametrize("what", ANSWERS)
@pytest.mark.parametrize("command", ["status", "snapshot"])
def test_an_answer_with_other_contents_is_a_sentence(what: str, command: str, folder: Path) -> None:
    told = control(folder, command, ANSWERS[what])
    assert told.status == 125 and b"not that of a recorder" in told.stderr and b"\x1b" not in told.stderr


def control(folder: Path, command: str, answer: object) -> Finished:
    """``scalene-record --control`` on a live recording whose recorder gives this answer."""
    with (folder / SPOOL_NAME).open() as spool:
        fcntl.flock(spool, fcntl.LOCK_EX)
        line = json.dumps(answer).encode() + b"\n"
        with answering(folder, sending(line)):
            return run([*tool("scalene-record"), "--control", folder, command])


@pytest.mark.parametrize(
    ("more", "told"), [({}, b"recorded 3600.0 s\n"), ({"paused_s": 3420}, b"3600.0 s long, 180.0 s of it recorded\n")]
)
def test_a_status_says_how_much_was_recorded(more: dict[str, float], told: bytes, folder: Path) -> None:
    status = {"ok": True, "output": "o", "pid": 1, "recorded_s": 3600, "paused": False, "processes": 1, "threads": 1}
    assert told in control(folder, "status", status | {"spool_bytes": 1, "settings": {}} | more).stdout


def test_what_a_recorder_says_cannot_move_the_cursor(folder: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\r\n\u202eevil\x9b31m\ud800"
    status = {"output": evil, "pid": evil, "recorded_s": 1, "paused": False, "processes": evil, "threads": evil}
    status |= {"ok": True, "spool_bytes": 1, "settings": {evil: evil}}
    for answer in (status, {"error": evil}):
        told = control(folder, "status", answer)
        assert not set((told.stdout + told.stderr).decode()) & set("\x1b\x07\r\u202e\x9b")
        assert b"evil" in told.stdout + told.stderr


def test_a_name_in_a_message_cannot_move_the_cursor(tmp_path: Path) -> None:
    evil = tmp_path / "\x1b[2J\u202e.spool"
    for words in (["--recover", evil], ["--control", evil, "status"], [evil]):
        told = run([*tool("scalene-record"), *words])
        assert told.status in (125, 126, 127) and b"\\x1b[2J\\u202e" in told.stderr
        assert not set(told.stderr.decode()) & set("\x1b\u202e")


# ---- a recorder that has died ----


@NEEDS_ROOT
def test_recovering_the_folder_of_another_user_is_not_advised(folder: Path) -> None:
    with pytest.raises(ControlError, match=f"--recover {folder}"):
        find_recording(folder)
    os.chown(folder, STRANGER, -1)
    with pytest.raises(ControlError, match="belongs to another user") as error:
        find_recording(folder)
    assert "--recover" not in str(error.value)


@NEEDS_ROOT
@pytest.mark.parametrize("owner", [0, STRANGER])
def test_a_folder_in_the_way_is_recommended_only_if_it_is_ours(owner: int, folder: Path) -> None:
    old = folder / "t.parquet.spool"
    old.mkdir()
    (old / "file").touch()
    os.chown(old, owner, -1)
    said: list[str] = []
    opened: list[int] = []

    def fill(new: Path) -> int:
        opened.append(os.open(new / SPOOL_NAME, os.O_RDWR | os.O_CREAT))
        return opened[0]

    create_spool_folder(str(folder / "t.parquet"), fill, said.append)
    os.close(opened[0])
    assert (folder / "t.parquet.spool.1" / "file").exists()
    assert ("--recover" in said[0]) == (owner == 0) and "t.parquet.spool.1" in said[0]


@pytest.mark.parametrize("what", ["a pipe", "a link"])
def test_a_spool_that_is_not_a_file_is_no_recording(what: str, folder: Path) -> None:
    (folder / SPOOL_NAME).unlink()
    if what == "a pipe":
        os.mkfifo(folder / SPOOL_NAME)
    else:
        (folder / SPOOL_NAME).symlink_to("/dev/zero")
    with pytest.raises(ControlError, match=r"No recording to .* is running"):
        find_recording(folder)
