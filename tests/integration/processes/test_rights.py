"""Files that a recorded program names are read with the rights that its processes had, never with more."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, record, record_command, rows, run, tool
from tests.support.steered_recording import steered

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
SECRET, PUBLIC = "the text of a secret", "the text that everybody may read"
#: Allocates in code objects that name the files of the arguments as their source.
NAMES_FILES = """
import ctypes, glob, os, sys, time
def name_files():
    kept = []
    for path in sys.argv[1:]:
        exec(compile('kept += [bytearray(100) for _ in range(20)]', path, 'exec'), {'kept': kept})
def raw(number, *arguments):
    assert ctypes.CDLL(None, use_errno=True).syscall(number, *map(ctypes.c_long, arguments)) == 0
def forked(become, noticed=lambda: None):
    waits, wakes = os.pipe()
    child = os.fork()
    if not child:
        become()
        os.read(waits, 1)
        name_files()
        os._exit(0)
    noticed()
    os.write(wakes, b"1")
    assert os.waitpid(child, 0)[1] == 0
def observed():
    while not sum(map(os.path.getsize, glob.glob(os.environ["RECORDINGS"] + "/*/rights"))):
        time.sleep(0.01)
"""
#: Ways to become another user (test_rights.c has all of libc's). The last two go past libc, so that only the recorder can
#: notice them: the child waits until the recorder has written down whom it has observed.
BECOMES = {
    "setuid": "forked(lambda: os.setuid(65534))",
    "setfsuid": "forked(lambda: ctypes.CDLL(None).setfsuid(65534))",
    "chroot": "forked(lambda: (os.chroot('/proc'), os.setuid(65534)))",
    "the program itself by a system call": "raw(105, 65534); name_files()",
    "a system call": "forked(lambda: raw(105, 65534), observed)",
}


@pytest.fixture
def files() -> Iterator[list[Path]]:
    """A file that only its owner may read, and one for everybody, in a folder for everybody."""
    folder = Path(tempfile.mkdtemp(prefix="rights-"))
    folder.chmod(0o755)
    secret, public = folder / "secret.txt", folder / "public.txt"
    secret.write_text(SECRET)
    public.write_text(PUBLIC)
    secret.chmod(0o600)
    public.chmod(0o644)
    yield [secret, public]
    shutil.rmtree(folder)


def texts(trace: Path) -> set[str]:
    """The source texts in a trace that are those of the files."""
    return {row["text"] for row in rows(trace, "source")} & {SECRET, PUBLIC}


def lost(trace: Path) -> set[str]:
    return {row["name"] for row in rows(trace, "loss")}


@NEEDS_ROOT
@pytest.mark.parametrize("how", BECOMES)
def test_a_process_that_gives_up_its_rights_names_no_file_that_it_may_not_read(
    how: str, any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    program = ["-c", NAMES_FILES + BECOMES[how], *files]
    recordings = {"RECORDINGS": str(tmp_path)}
    done = record(tmp_path / "t.parquet", program, any_python, ["--alloc-interval", "1"], recordings)
    assert (done.status, done.stderr) == (0, b"")
    assert texts(tmp_path / "t.parquet") == {PUBLIC}
    assert "files_withheld" in lost(tmp_path / "t.parquet")
    assert ("rights_unannounced" in lost(tmp_path / "t.parquet")) == (how == "chroot")


@NEEDS_ROOT
def test_a_snapshot_has_no_such_files_either(any_python: Interpreter, files: list[Path], tmp_path: Path) -> None:
    code = NAMES_FILES + "os.setuid(65534); name_files(); print(1, flush=True); sys.stdin.read()"
    program = ["-c", code, *files]
    with steered(tmp_path / "t.parquet", any_python, "--alloc-interval", "1", program=program) as live:
        assert live.process.stdout is not None
        live.process.stdout.readline()
        live.control("snapshot")
        assert texts(live.trace) == {PUBLIC} and "files_withheld" in lost(live.trace)
        live.quit()


#: Another folder in the place of the recording's, which says that nobody has changed and that the output is elsewhere.
REPLACES_THE_FOLDER = """
import json
folder = os.path.dirname(os.environ["SCALENE_TRACE_SPOOL"])
def become():
    os.setuid(65534)
    os.rename(folder, folder + ".away")
    os.mkdir(folder)
    os.symlink(folder + ".away/spool", folder + "/spool")
    open(folder + "/rights", "w").close()
    facts = {"trace_id": "ab" * 16, "output": ELSEWHERE, "command": [], "command_code": None, "cwd": "/", "sources": True}
    with open(folder + "/recording.json", "w") as file:
        json.dump(facts | {"argv": True, "host": {}, "origin": ""}, file)
forked(become)
"""


@NEEDS_ROOT
def test_a_process_that_replaces_the_folder_gains_nothing(
    any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    folder = files[0].parent / "of the worker"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    code = NAMES_FILES + f"ELSEWHERE = {str(tmp_path / 'elsewhere.parquet')!r}\n" + REPLACES_THE_FOLDER
    done = record(folder / "t.parquet", ["-c", code, *files], any_python, ["--alloc-interval", "1"])
    assert done.status == 0 and list(tmp_path.iterdir()) == []
    assert texts(folder / "t.parquet") == {PUBLIC} and "files_withheld" in lost(folder / "t.parquet")


@NEEDS_ROOT
@pytest.mark.parametrize("by", ["setuid", "setpriv", "root"])
def test_a_program_that_may_not_write_to_the_recording_is_a_loss(
    by: str, any_python: Interpreter, tmp_path: Path
) -> None:
    """Until exec, setpriv keeps the capabilities with which root opens every file."""
    code = f"import os\n{'os.setuid(65534)' if by == 'setuid' else ''}\nos.execv('/bin/cat', ['cat', '/dev/null'])"
    program = [any_python.path, "-c", code]
    if by == "setpriv":
        program = ["setpriv", "--reuid", "65534", "--clear-groups", "/bin/cat", "/dev/null"]
    done = record(tmp_path / "t.parquet", program)
    assert (done.status, done.stderr) == (0, b"")
    assert ("process_slots" in lost(tmp_path / "t.parquet")) == (by != "root")


@NEEDS_ROOT
def test_a_worker_keeps_the_files_of_its_group(any_python: Interpreter, files: list[Path], tmp_path: Path) -> None:
    os.chown(files[0], 0, 4711)
    files[0].chmod(0o640)
    for become in ("os.setgroups([4711])", "os.setgid(4711)"):
        code = NAMES_FILES + f"forked(lambda: ({become}, os.setuid(4712), time.sleep(1)))"
        record(tmp_path / "t.parquet", ["-c", code, *files], any_python, ["--alloc-interval", "1"])
        assert texts(tmp_path / "t.parquet") == {SECRET, PUBLIC}, become


@pytest.mark.parametrize("how", ["nobody changes", "the same user", "asked for"])
def test_processes_that_keep_their_rights_have_all_of_their_files(
    how: str, any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    if how == "asked for" and os.geteuid() != 0:
        pytest.skip("only root has rights to give up")
    become = {"nobody changes": "0", "the same user": "os.setuid(os.getuid())", "asked for": "os.setuid(65534)"}
    code = NAMES_FILES + f"import subprocess\nsubprocess.run(['true'])\nforked(lambda: {become[how]})"
    options = ["--alloc-interval", "1", *(["--with-sources"] if how == "asked for" else [])]
    record(tmp_path / "t.parquet", ["-c", code, *files], any_python, options)
    assert texts(tmp_path / "t.parquet") == {SECRET, PUBLIC}
    assert not {"files_withheld", "rights_unannounced"} & lost(tmp_path / "t.parquet")


# ---- recovery ----


def crashed(python: Interpreter, files: list[Path], folder: Path, become: str = "") -> Path:
    """The folder of a recording whose recorder was killed."""
    code = NAMES_FILES + f"{become}\nname_files(); print(1, flush=True); time.sleep(600)"
    command = record_command(folder / "t.parquet", ["-c", code, *files], python, ["--alloc-interval", "1"])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(None), start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    return folder / "t.parquet.spool"


def recovered(folder: Path, *options: str) -> Path:
    trace = folder.parent / "recovered.parquet"
    done = run([*tool("scalene-record"), "-o", trace, *options, "--recover", folder])
    assert done.status == 0, done.stderr
    return trace


def test_a_recording_of_ones_own_is_recovered_with_its_sources(
    any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    trace = recovered(crashed(any_python, files, tmp_path))
    assert texts(trace) == {SECRET, PUBLIC} and "files_withheld" not in lost(trace)


@NEEDS_ROOT
def test_a_recovery_knows_which_rights_were_given_up(
    any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    trace = recovered(crashed(any_python, files, tmp_path, "forked(lambda: os.setuid(65534))"))
    assert texts(trace) == {PUBLIC} and "files_withheld" in lost(trace)


def test_a_recording_that_was_copied_is_recovered_without_sources(
    any_python: Interpreter, files: list[Path], tmp_path: Path
) -> None:
    """A stranger's recording arrives like this. Its owner is whoever has unpacked it."""
    folder = crashed(any_python, files, tmp_path)
    (folder / "control").unlink()
    for name, options, found in (("a.spool", [], set()), ("b.spool", ["--with-sources"], {SECRET, PUBLIC})):
        trace = recovered(Path(shutil.copytree(folder, tmp_path / name)), *options)
        assert texts(trace) == found and ("files_withheld" in lost(trace)) == (not found)
    shutil.rmtree(folder)


def test_a_spool_that_is_a_link_is_not_recovered(any_python: Interpreter, files: list[Path], tmp_path: Path) -> None:
    folder = crashed(any_python, files, tmp_path)
    strange = tmp_path / "strange.spool"
    strange.mkdir()
    (strange / "spool").symlink_to(folder / "spool")
    done = run([*tool("scalene-record"), "--recover", strange])
    assert done.status == 125 and b"contains no spool" in done.stderr
    shutil.rmtree(strange)
    shutil.rmtree(folder)
