"""Which files are opened by names of a program, and with whose rights."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalene_trace.recorder.convert.finish import recover
from scalene_trace.recorder.folder.facts import write_facts
from scalene_trace.recorder.folder.files import SPOOL_NAME
from scalene_trace.recorder.folder.origin import create_origin
from scalene_trace.recorder.rights.announced import announce, announced, create_rights
from scalene_trace.recorder.rights.identity import (
    NOBODY,
    OWN_RIGHTS,
    WITHHELD,
    Identity,
    Rights,
    identity_in,
    own_identity,
    read_identity,
)
from scalene_trace.recorder.rights.observer import RightsObserver, common_rights
from scalene_trace.recorder.rights.opening import ProgramFiles, Withheld, open_regular_file
from tests.support.conversion import facts, with_stack
from tests.support.recording import rows
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on the rights of others")
ROOT = Identity(0, 0, frozenset(), True)
STATUS = b"Name:\tx: y\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nCapEff:\t%016x\n"


def contents(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# ---- what is opened at all ----


def link_to(path: str) -> Callable[[Path], Any]:
    return lambda place: place.symlink_to(path)


def bind(place: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(place))


STRANGE: dict[str, Callable[[Path], Any]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": bind,
    "a link to a device": link_to("/dev/zero"),
    "a link to the recorder's environment": link_to("/proc/self/environ"),
    "a link through a process's folder": link_to(f"/proc/self/cwd/{Path(__file__).name}"),
    "a link to an open file": link_to("/proc/self/fd/0"),
    "a link to a file of the kernel": link_to("/sys/kernel/mm/transparent_hugepage/enabled"),
    "a link to itself": lambda place: place.symlink_to(place.name),
}


@pytest.mark.parametrize("what", STRANGE)
def test_only_regular_files_are_opened(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    STRANGE[what](tmp_path / "strange")
    before = descriptors()
    with pytest.raises((ValueError, OSError)):
        open_regular_file(tmp_path / "strange")
    assert descriptors() == before


def test_a_pipe_that_is_named_is_not_touched(tmp_path: Path) -> None:
    """A writer that waits for a reader must wait on."""
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w'); print('opened')"])
    for _ in range(20):
        with pytest.raises(ValueError, match="not a regular file"):
            open_regular_file(tmp_path / "pipe")
    with pytest.raises(subprocess.TimeoutExpired):
        writer.wait(0.3)
    writer.kill()
    writer.wait()


def test_a_name_with_a_nul_is_not_cut_off_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match="not a path"):
        open_regular_file(Path(f"{tmp_path}/file\0.py"))


def test_links_are_followed_to_regular_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert contents(open_regular_file(tmp_path / "link")) == b"text"


def test_nothing_is_opened_of_a_strangers_recording() -> None:
    with ProgramFiles(WITHHELD) as files, pytest.raises(Withheld):
        files.open(Path(__file__))


# ---- with whose rights ----


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="rights-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def file_of(folder: Path, user: int, group: int, mode: int) -> Path:
    path = folder / f"{user}-{group}-{mode:o}"
    path.write_text(path.name)
    os.chown(path, user, group)
    path.chmod(mode)
    return path


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("identities", "user", "group", "mode", "readable"),
    [
        ((), 0, 0, 0o600, True),
        ((ROOT,), 0, 0, 0o600, True),
        ((NOBODY,), 0, 0, 0o600, False),
        ((NOBODY,), 0, 0, 0o604, True),
        ((NOBODY,), 65534, 0, 0o600, True),
        ((NOBODY,), 0, 65534, 0o640, True),
        ((Identity(4711, 4712),), 4711, 0, 0o400, True),
        ((Identity(4711, 4712),), 0, 4712, 0o040, True),
        ((Identity(4711, 4712),), 0, 4713, 0o040, False),
        ((Identity(4711, 4712, frozenset({4713, 4714})),), 0, 4713, 0o040, True),
        ((Identity(0, 0),), 4711, 0, 0o600, False),
        ((Identity(0, 0),), 0, 0, 0o600, True),
        ((Identity(4711, 4712), NOBODY), 4711, 0, 0o604, True),
        ((Identity(4711, 4712), NOBODY), 4711, 0, 0o600, False),
    ],
)
def test_a_file_is_opened_if_each_identity_may_read_it(
    identities: tuple[Identity, ...], user: int, group: int, mode: int, readable: bool, shared: Path
) -> None:
    path = file_of(shared, user, group, mode)
    before = descriptors()
    with ProgramFiles(Rights(frozenset(identities))) as files:
        if readable:
            assert contents(files.open(path)) == path.name.encode()
        else:
            with pytest.raises(Withheld):
                files.open(path)
    assert descriptors() == before
    assert own_identity() == read_identity(os.getpid()), "the calling thread keeps its own rights"


@NEEDS_ROOT
def test_folders_in_between_count(shared: Path) -> None:
    folder = shared / "closed"
    folder.mkdir(0o700)
    path = file_of(folder, 0, 0, 0o644)
    with ProgramFiles(Rights(frozenset({NOBODY}))) as files, pytest.raises(Withheld):
        files.open(path)


# ---- whose rights these are ----


def test_the_identity_of_a_process_is_that_for_files() -> None:
    assert identity_in(STATUS % 0) == Identity(4, 8, frozenset({9, 10}))
    assert identity_in(STATUS % (1 << 2)) == Identity(4, 8, frozenset({9, 10}), True)
    assert identity_in(STATUS % (1 << 12)) == Identity(4, 8, frozenset({9, 10}))
    for cut in range(len(STATUS) - 10):
        assert identity_in((STATUS % 0)[:cut].rpartition(b"\n")[0]) is None


def test_an_ended_process_has_its_identity_until_it_is_reaped() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert read_identity(child) == own_identity()
    os.waitpid(child, 0)
    assert read_identity(child) is None


def test_capabilities_in_another_namespace_of_users_are_none() -> None:
    process = subprocess.Popen(["unshare", "--user", "sleep", "60"], stderr=subprocess.DEVNULL)
    try:
        while (name := Path(f"/proc/{process.pid}/comm").read_text()) != "sleep\n" and process.poll() is None:
            pass
        if name != "sleep\n":
            pytest.skip("no namespace of users can be made here")
        identity = read_identity(process.pid)
        assert identity is not None and not identity.reads_all
    finally:
        process.kill()
        process.wait()


def test_rights_are_those_that_all_have_in_common() -> None:
    worker = Identity(33, 33, frozenset({5}))
    assert common_rights(ROOT, set(), set()) == Rights()
    assert common_rights(ROOT, {worker}, {Identity(33, 0), Identity(34, 0), Identity(0, 0)}) == Rights(
        frozenset({worker, Identity(34, 0)})
    )
    crowd = {Identity(user, user) for user in range(1, 40)}
    assert common_rights(ROOT, crowd, set()) == Rights(frozenset({NOBODY}))


@pytest.fixture
def observer(tmp_path: Path) -> RightsObserver:
    header = SimpleNamespace(losses=[0] * 64)
    return RightsObserver(tmp_path, create_rights(tmp_path), header)


def test_what_a_process_takes_back_in_the_spool_is_remembered(observer: RightsObserver) -> None:
    assert observer.rights() == OWN_RIGHTS
    losses = observer._header.losses
    losses[:] = [1] * 64
    observer.turn([])
    losses[:] = [0] * 64
    observer.turn([])
    assert observer.rights() == Rights(frozenset({NOBODY}))


def test_few_processes_are_observed_at_a_time_and_all_at_the_end(
    observer: RightsObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def read(pid: int) -> Identity | None:
        seen.append(pid)
        return None if pid == 500 else own_identity()

    monkeypatch.setattr("scalene_trace.recorder.rights.observer.read_identity", read)
    observer.turn(range(1000))
    assert len(seen) == 4
    observer.turn([2000])
    assert len(seen) == 4, "the next turn comes later"
    observer._turned_s -= 0.275
    observer.turn([])
    assert len(seen) == 24, "as many as in five turns"
    observer.rights()
    assert set(seen) == {*range(1000), 2000}
    del seen[:]
    observer.rights()
    assert 500 not in seen, "it has ended"


@NEEDS_ROOT
def test_a_process_that_changed_before_it_was_observed_is_noticed(observer: RightsObserver) -> None:
    child = subprocess.Popen(["setpriv", "--reuid", "4711", "--regid", "4712", "--groups", "4713", "sleep", "60"])
    while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n":
        pass
    observer.turn([child.pid])
    child.kill()
    child.wait()
    assert observer.rights() == Rights(frozenset({Identity(4711, 4712, frozenset({4713}))}))


def test_announcements_that_are_cut_missing_or_endless_mean_nobody(tmp_path: Path) -> None:
    assert announced(tmp_path) == {NOBODY}
    inode = create_rights(tmp_path)
    assert announced(tmp_path) == announced(tmp_path, inode) == set()
    assert announced(tmp_path, inode + 1) == {NOBODY}, "another file is in its place"
    announce(tmp_path, Identity(33, 34, frozenset({1})))
    assert announced(tmp_path) == {Identity(33, 34)}
    with (tmp_path / "rights").open("ab") as more:
        more.write(b"\1\2\3")
    assert announced(tmp_path) == {Identity(33, 34), NOBODY}
    with (tmp_path / "rights").open("wb") as more:
        more.write(struct.pack("=II", 7, 8) * 10_000)
    assert announced(tmp_path) == {Identity(7, 8), NOBODY}


# ---- folders that are recovered ----


def complete_recording(folder: Path, file: Path) -> Path:
    """The folder of a recording whose recorder has died, with a sample in ``file``."""
    builder = with_stack(SpoolBuilder().start()).code(3, name="named", file=str(file))
    builder.add("node", hash=30, parent=0, code=3, instruction=0)
    builder.add("memory", thread=3, t_ns=START_MONO_NS, stack=30).write(folder / SPOOL_NAME)
    write_facts(folder, facts(folder.parent, origin=create_origin(folder)))
    create_rights(folder)
    return folder


def changed_time(folder: Path) -> None:
    about = (folder / "origin").stat()
    os.utime(folder / "origin", ns=(about.st_atime_ns, about.st_mtime_ns))


def given_away(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(folder / SPOOL_NAME, 4711, 4711)


def linked(folder: Path) -> None:
    (folder / "real").write_bytes(b"")
    (folder / "origin").unlink()
    (folder / "origin").symlink_to("real")


def replaced(folder: Path) -> Path:
    """What unpacking an archive leaves: the same names, contents and times of change that it can set."""
    copy = Path(shutil.copytree(folder, folder.with_name("copy")))
    shutil.rmtree(folder)
    return copy.rename(folder)


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "copied and put in its place": replaced,
    "a file of it touched": changed_time,
    "a file of it given away": given_away,
    "for everybody to write": lambda folder: folder.chmod(0o777),
    "with a file for everybody to write": lambda folder: (folder / SPOOL_NAME).chmod(0o666),
    "with a link": linked,
    "without the file that identifies it": lambda folder: (folder / "origin").unlink(),
}


def sources_of(folder: Path, tmp_path: Path, **options: bool) -> tuple[list[str], dict[str, int]]:
    trace = recover(folder, tmp_path / "t.parquet", **options).output
    losses = {row["name"]: row["count"] for row in rows(trace, "loss")}
    return [row["text"] for row in rows(trace, "source")], losses


@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_that_may_be_a_strangers_gets_no_texts(what: str, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("secret")
    folder = complete_recording(tmp_path / "t.parquet.spool", tmp_path / "secret.py")
    FOLDERS[what](folder)
    found, losses = sources_of(folder, tmp_path)
    assert (found, losses["files_withheld"]) == ([], 1)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("asked", [False, True])
def test_a_folder_of_ones_own_gets_its_texts(asked: bool, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("own")
    folder = complete_recording(tmp_path / "t.parquet.spool", tmp_path / "own.py")
    if asked:
        replaced(folder)
    found, losses = sources_of(folder.rename(tmp_path / "renamed.spool"), tmp_path, with_sources=asked)
    assert found == ["own"] and "files_withheld" not in losses


# ---- who may use our descriptors ----

NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
WITHOUT_CHOWN = ("setpriv", "--bounding-set=-chown,-sys_ptrace", "--inh-caps=-chown,-sys_ptrace")
ASKED = """
import os, sys
from scalene_trace.recorder.rights.identity import may_use_descriptors
print(os.open(sys.argv[1], os.O_RDONLY), flush=True)
print(may_use_descriptors(int(sys.stdin.readline())), flush=True)
sys.stdin.readline()
"""


@NEEDS_ROOT
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((), ()),
        ((), WITHOUT_CHOWN),
        ((), ("setpriv", "--bounding-set=-chown", "--inh-caps=-chown")),
        (NO_CAPABILITIES, NO_CAPABILITIES),
        (NO_CAPABILITIES, ("unshare", "--user")),
    ],
    ids=["equal", "fewer", "may trace", "none", "another namespace"],
)
def test_the_kernel_opens_our_descriptors_for_whom_we_say(
    ours: tuple[str, ...], theirs: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("opened")
    (tmp_path / "file").chmod(0o644)
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    reads = ["sh", "-c", "echo $$; read place; cat $place", "sh"]
    with (
        subprocess.Popen([*theirs, *reads], stderr=subprocess.DEVNULL, **piped) as other,
        subprocess.Popen([*ours, sys.executable, "-c", ASKED, str(tmp_path / "file")], **piped) as own,
    ):
        assert own.stdin and own.stdout and other.stdin and other.stdout
        pid, descriptor = other.stdout.readline(), own.stdout.readline()
        if not pid:
            pytest.skip("the kernel makes no user namespaces here")
        own.stdin.write(f"{other.pid}\n")
        own.stdin.flush()
        said = own.stdout.readline()
        found, _ = other.communicate(f"/proc/{own.pid}/fd/{descriptor}")
        own.communicate("\n")
    assert said == f"{found == 'opened'}\n"
