"""A process that cannot be attached to: one sentence says why, and one what to do. Nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter, interpreters
from tests.support.observed_program import attached, observed, observed_by
from tests.support.recording import Finished, losses, report, run, tool

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NOBODY = 65534
#: By scope: what Yama's setting is, and what the sentence says.
YAMA = {
    0: ("protected", "CAP_SYS_PTRACE"),
    1: ("was not started by scalene-record", "sudo"),
    2: ("without CAP_SYS_PTRACE", "sudo"),
    3: ("until the next boot", "--pause-at-start"),
}


def attach(folder: Path, *words: str, **more: object) -> Finished:
    return run([*tool("scalene-record"), "-o", folder / "t.parquet", *words], **more)


def refused(folder: Path, words: Sequence[str], *texts: str, **more: object) -> None:
    done = attach(folder, *words, **more)
    said = done.stderr.decode()
    assert done.status == 125 and done.stdout == b""
    assert all(text in said for text in texts), said
    assert said.startswith("scalene-record: ") and said.count("\n") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pid"], "needs a value"),
        (["--pid", "me"], "needs the number of a process"),
        (["--pid", "0"], "needs the number of a process"),
        (["--pid", "-1"], "needs the number of a process"),
        (["--pid", "4194305"], "no process 4194305"),
        (["--pid", "1", "app.py"], "starts no program, but app.py was given"),
        (["--pid", "1", "--no-wait"], "--no-wait has no effect"),
        (["--pid", "1", "--native-alloc"], "--native-alloc has no effect"),
        (["--pid", "1", "--python", sys.executable], "--python has no effect"),
    ],
)
def test_command_lines(tmp_path: Path, words: list[str], text: str) -> None:
    refused(tmp_path, words, text)


def test_a_thread_of_the_kernel_and_a_zombie(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    refused(tmp_path, ["--pid", str(ended.pid)], "has no memory", "Name another process")
    ended.wait()


def said_to_nobody(pid: int) -> str:
    """What another user is told of a process. The folders of this checkout may be closed to that user, so only the check
    runs with those rights."""
    from scalene_trace.recorder.attached.permission import check_attachable
    from scalene_trace.recorder.errors import SetupError

    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            check_attachable(pid)
        except SetupError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.wait()
    return text


@NEEDS_ROOT
def test_another_users_process(any_python: Interpreter) -> None:
    with observed_by(any_python) as program:
        text = said_to_nobody(program.pid)
    assert "belongs to another user (uid 0)" in text and "with sudo" in text


@NEEDS_ROOT
def test_a_process_that_has_become_that_user(any_python: Interpreter) -> None:
    """The kernel protects it, since it may still know what only root should."""
    code = f"import os\nos.setgid({NOBODY})\nos.setuid({NOBODY})\nprint('ready', flush=True)\ninput()"
    with subprocess.Popen([any_python.path, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        text = said_to_nobody(program.pid)
        program.communicate(b"\n")
    assert "is protected" in text and "Use sudo" in text


@NEEDS_ROOT
def test_a_container(any_python: Interpreter, tmp_path: Path) -> None:
    command = ["unshare", "--mount", any_python.path, "-c", "print('ready', flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        refused(tmp_path, ["--pid", str(program.pid)], "runs in a container", "in that container")
        program.communicate(b"\n")


@NEEDS_ROOT
def test_memory_of_a_process_with_another_root_folder(tmp_path: Path) -> None:
    newest = interpreters()[-1]
    if newest.version < (3, 14):
        pytest.skip("needs CPython 3.14 or newer")
    (tmp_path / "root").mkdir()
    code = f"import os\nos.chroot({str(tmp_path / 'root')!r})\nprint('ready', flush=True)\ninput()"
    with subprocess.Popen([newest.path, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        (tmp_path / "out").mkdir()
        refused(tmp_path / "out", ["--pid", str(program.pid), "--memory"], "another root folder (chroot)")
        program.communicate(b"\n")


@NEEDS_ROOT
def test_memory_of_a_process_that_cannot_reach_the_recording(tmp_path: Path) -> None:
    newest = interpreters()[-1]
    if newest.version < (3, 14):
        pytest.skip("needs CPython 3.14 or newer")
    tmp_path.chmod(0o775)
    code = "print('ready', flush=True)\ninput()"
    words = ["setpriv", "--bounding-set=-sys_ptrace,-chown", "--inh-caps=-sys_ptrace,-chown", newest.path, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        (tmp_path / "out").mkdir()
        refused(
            tmp_path / "out", ["--pid", str(program.pid), "--memory"], "other users may rename a folder", "name an -o"
        )
        program.communicate(b"\n")


@NEEDS_ROOT
def test_children_in_containers_are_left_out_and_counted(tmp_path: Path) -> None:
    answer = '{"done": "pid", "said": 0}'
    words = ["/bin/sh", "-c", f"read line; echo '{answer}'; read line; unshare --mount sh -c 'sleep 1; true'; exit 4"]
    with observed(words) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.begin("go")
        assert recorder.wait().status == 0
    assert losses(report(tmp_path / "t.parquet"))["attached_missed"] == 1


def test_children_that_may_not_be_read_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalene_trace.recorder.attached import follow

    def refuse(pid: int) -> None:
        raise PermissionError(pid)

    counted: list[str] = []
    follower = follow.Follower(os.getppid(), True, True, counted.append)
    monkeypatch.setattr(follow, "_request", lambda *_: None)
    monkeypatch.setattr(follow, "children_of", lambda pid: [] if pid == 1 else [1])
    monkeypatch.setattr(follow, "command_of", lambda pid: refuse(pid) if pid == 1 else b"python")
    follower.attach()
    for _ in range(3):
        monkeypatch.setattr(follower, "_next_s", 0.0)
        follower.turn()
    assert counted == ["attached_missed"]


@pytest.mark.parametrize("scope", YAMA)
def test_what_yama_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scope: int) -> None:
    """Yama is not in every kernel, so its answers are scripted here: the setting, and the error of the read."""
    from scalene_trace.recorder.attached import permission
    from scalene_trace.recorder.errors import SetupError

    (tmp_path / "ptrace_scope").write_text(f"{scope}\n")
    monkeypatch.setattr(permission, "_YAMA", tmp_path / "ptrace_scope")
    monkeypatch.setattr(permission, "_read_error", lambda _: 1)
    with pytest.raises(SetupError) as found:
        permission.check_attachable(os.getppid())
    assert all(text in str(found.value) for text in YAMA[scope])


def test_a_filter_that_forbids_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalene_trace.recorder.attached import permission
    from scalene_trace.recorder.errors import SetupError

    monkeypatch.setattr(permission, "_read_error", lambda _: 38)  # ENOSYS, as old filters answer
    with pytest.raises(SetupError, match="seccomp filter, has no process_vm_readv"):
        permission.check_attachable(os.getppid())
