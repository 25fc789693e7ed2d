"""A recording's folder that was damaged or put among other files, a spool that its own program writes into, a disk that
refuses in the middle, hardly any descriptors: sentences and counted losses, and nothing else is touched."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.formats.dataclass import asdict
from scalene_trace.formats.errors import TraceWriteError
from scalene_trace.formats.spool.chunks import SLOT_BYTES, part_path, read_chunks, view_of
from scalene_trace.formats.spool.layout import constants, struct_dtype
from scalene_trace.recorder.control.client import ask
from scalene_trace.recorder.convert import finish
from scalene_trace.recorder.errors import ControlError
from scalene_trace.recorder.folder.files import CONTROL_NAME, FACTS_NAME, RSS_STRUCT, append_whole
from scalene_trace.recorder.folder.marks import MarkFile, read_marks
from scalene_trace.recorder.sampling.rss import RssSampler
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool import drain as drain_module
from scalene_trace.recorder.spool.drain import Drain
from scalene_trace.recorder.spool.spool_file import FULL_AHEAD, SpoolFile
from tests.support.conversion import facts
from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import record, rows, run, tool
from tests.support.spool_builder import SpoolBuilder
from tests.support.spool_writer import NAMESPACE, Writer, ticks_of, turn

MANY = 2**62
SCRIPT = "import time; time.sleep(0.3); print('hi')"


# ---- a folder that was damaged ----


def marks(line: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "marks").write_text(line + "\n")


def told(**changes: Any) -> Callable[[Path], Any]:
    """recording.json with other values."""

    def change(folder: Path) -> None:
        path = folder / FACTS_NAME
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "the id of a mark is a list": marks('{"t_ns": 1, "what": "mark", "id": [1], "pid": 3}'),
    "the pid of a mark is a text": marks('{"t_ns": 1, "what": "mark", "id": 1, "pid": "x"}'),
    "the pid of a mark is a truth": marks('{"t_ns": 1, "what": "mark", "id": 1, "pid": true}'),
    "the pid of a mark is no pid": marks(f'{{"t_ns": 1, "what": "mark", "id": 1, "pid": {2**70}}}'),
    "the marks are a pipe": lambda folder: os.mkfifo(folder / "marks"),
    "the resident sizes are a pipe": lambda folder: os.mkfifo(folder / "rss"),
    "the resident sizes are without end": lambda folder: (folder / "rss").symlink_to("/dev/zero"),
    "a part file is a folder": lambda folder: part_path(folder / "spool", 1).mkdir(),
    "the trace's id is a number": told(trace_id=5),
    "the output is a list": told(output=[1]),
    "the output is no name": told(output="/a\0b-%p"),
    "the host is a list": told(host=[1]),
    "a fact of the host is a list": told(host={"kernel": [1]}),
    "the facts nest without end": lambda folder: (folder / FACTS_NAME).write_text("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_beside_a_spool_are_ignored(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet.spool"
    SpoolBuilder().start(1).write(folder / "spool")
    (folder / FACTS_NAME).write_text(json.dumps(asdict(facts(tmp_path))))
    DAMAGES[damage](folder)
    done = run([*tool("scalene-record"), "--recover", folder])
    assert done.status == 0 and b"Traceback" not in done.stderr
    assert len(rows(tmp_path / "t.parquet", "process")) == 1
    shutil.rmtree(folder, ignore_errors=True)  # files that are not part of a recording have stayed


def test_a_recording_that_is_recovered_among_other_files_leaves_them(tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    SpoolBuilder().start(1).write(folder / "spool", drained=1)
    (folder / FACTS_NAME).write_text(json.dumps(asdict(facts(tmp_path))))
    others = {"letter.txt": "dear", "trace.parquet": "of somebody", "spool.parts-list": "of a printer"}
    for name, text in others.items():
        (folder / name).write_text(text)
    assert run([*tool("scalene-record"), "--recover", folder, "-o", tmp_path / "t.parquet"]).status == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == others


# ---- a disk that refuses in the middle ----


def full_after(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """os.write has room for so many bytes, then for none."""
    real = os.write
    left = [room]

    def write(descriptor: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(descriptor, data[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)


def test_what_found_half_of_its_room_leaves_no_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path / "rss", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    full_after(monkeypatch, 32 + 20)
    assert append_whole(descriptor, b"a" * 32)
    assert not append_whole(descriptor, b"b" * 32)
    assert not append_whole(descriptor, b"c" * 32)
    monkeypatch.undo()
    assert append_whole(descriptor, b"d" * 32)
    assert (tmp_path / "rss").read_bytes() == b"a" * 32 + b"d" * 32


def test_a_user_mark_that_was_half_written_damages_no_other_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = MarkFile(tmp_path / "marks")
    full_after(monkeypatch, 60)
    assert [file.add("mark", number, text=f"mark {number}") for number in range(3)] == [True, False, False]
    monkeypatch.undo()
    assert file.add("mark", 3, text="mark 3")
    file.close()
    assert [mark.text for mark in read_marks(tmp_path / "marks")] == ["mark 0", "mark 3"] and file.left_out == 2


def space_and_drain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SpoolFile, Drain]:
    monkeypatch.setattr(drain_module, "FEWEST_CHUNKS", 0)
    monkeypatch.setattr(drain_module, "_RETRY_S", 0.0)
    space = SpoolFile(tmp_path / "spool", Settings())
    space.offer_ahead()
    return space, Drain(space, tmp_path / "spool")


@pytest.mark.parametrize("written", [0, 64, 4096])
def test_a_slot_that_cannot_be_emptied_is_stored_once_and_tried_again(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, drain = space_and_drain(tmp_path, monkeypatch)
    writer, real = Writer(space), os.pwrite
    slots = {writer.fill() for _ in range(3)}

    def refusing(descriptor: int, data: bytes, offset: int) -> int:
        if descriptor != space.descriptor:
            return real(descriptor, data, offset)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:written], offset)

    monkeypatch.setattr(os, "pwrite", refusing)
    for _ in range(5):
        turn(space, drain)
    stored = part_path(tmp_path / "spool", 1).stat().st_size
    assert set(space.in_use) == slots and drain.parts == 1
    monkeypatch.setattr(os, "pwrite", real)
    for _ in range(5):
        turn(space, drain)
    assert not space.in_use and part_path(tmp_path / "spool", 1).stat().st_size == stored
    assert ticks_of(space, tmp_path) == list(range(3 * 1023))
    assert all(space.first_bytes(slot, 65536)[64:] == bytes(65472) for slot in slots)


def test_a_chunk_that_is_in_the_part_files_twice_is_read_once(tmp_path: Path) -> None:
    builder = SpoolBuilder().start(1)
    builder.write(tmp_path / "spool", drained=1)
    part_path(tmp_path / "spool", 2).write_bytes(part_path(tmp_path / "spool", 1).read_bytes())
    with (tmp_path / "spool").open("rb") as file:
        view = view_of(tmp_path / "spool", file.fileno(), 10)
    assert [chunk.offer for chunk in read_chunks(view)] == [0]


def test_a_trace_that_finds_no_room_elsewhere_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "written").write_bytes(b"trace")

    def refused(source: Any, target: Any) -> None:
        assert os.fstat(target.fileno()).st_mode & 0o777 == 0o600, "nobody else may read what is only half there"
        target.write(b"tr")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", refused)
    with pytest.raises(TraceWriteError, match="No space left"):
        finish._copy_in_place(tmp_path / "written", tmp_path / "t.parquet", replaces=False)
    assert [path.name for path in tmp_path.iterdir()] == ["written"]


# ---- a program that writes into the spool's header ----


def test_offers_that_the_program_has_overwritten_are_those_that_were_made(tmp_path: Path) -> None:
    space = SpoolFile(tmp_path / "spool", Settings())
    space.offer_ahead()
    space._ring[0], space._ring[1] = 2**32 - 1, 12_345
    space.header.taken = 3
    assert space.notice_taken() == [0, 1, 2]
    space.header.offered = space.header.taken = MANY
    space.header.chunks_used = 2**32 - 1
    for wrong in (MANY, 2, 0):
        space.header.taken = wrong
        assert space.notice_taken() == []
        space.offer_ahead()
    space.header.taken = FULL_AHEAD
    assert space.notice_taken() == list(range(3, FULL_AHEAD))
    for _ in range(5):
        space.offer_ahead()
    assert space.header.chunks_used == 2 * FULL_AHEAD and space.header.offered == 2 * FULL_AHEAD


# ---- hardly any descriptors ----


@pytest.mark.parametrize("limit", range(7, 13))
def test_a_program_that_was_started_is_waited_for_however_few_descriptors_there_are(limit: int, tmp_path: Path) -> None:
    done = record(
        tmp_path / "t.parquet",
        ["-c", SCRIPT],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert (done.status, done.stdout) in ((0, b"hi\n"), (125, b""))
    assert done.status == 0 or [path.name for path in tmp_path.iterdir()] == []
    assert b"Traceback" not in done.stderr


def test_many_processes_leave_the_recorder_the_descriptors_that_it_needs(
    any_python: Interpreter, tmp_path: Path
) -> None:
    """Sixty that wait, and then so many short ones that chunks are stored while the recorder still imports."""
    code = """
import os, subprocess, time
waiting = [subprocess.Popen(["sleep", "90"]) for _ in range(60)]
for _ in range(70):
    os.waitpid(os.fork() or os._exit(0), 0)
for each in waiting:
    each.terminate()
    each.wait()
print("hi")
"""
    done = record(
        tmp_path / "t.parquet",
        ["-c", code],
        any_python,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (66, 66)),
    )
    assert (done.status, done.stdout, done.stderr) == (0, b"hi\n", b"")
    assert len(rows(tmp_path / "t.parquet", "process")) == 131
    lost = {row["name"] for row in rows(tmp_path / "t.parquet", "loss")}
    assert {"waits_crowded", "rss_processes"} <= lost


#: Signals itself while it waits for the program, as a library of the recorder's may.
SIGNALS_ITSELF = """
import os, signal, sys
from scalene_trace.recorder.run.supervise import hold_signals, wait_for

left = [1]

def turn():
    if left:
        signal.raise_signal(left.pop() and signal.SIGINT)
    return 0.01

hold_signals()
pid = os.posix_spawn("/bin/sleep", ["sleep", "0.3"], {}, setsigmask=[], setsigdef=[signal.SIGINT])
sys.exit(wait_for(pid, turn).status)
"""


def test_a_signal_that_the_recorder_raises_itself_is_not_the_programs() -> None:
    done = run([sys.executable, "-c", SIGNALS_ITSELF])
    assert (done.status, done.stderr) == (0, b"")


# ---- a namespace of its own for pids ----


def test_the_resident_set_of_a_namespace_is_not_that_of_another_process(
    any_python: Interpreter, tmp_path: Path
) -> None:
    if run(["unshare", "--pid", "--fork", "true"]).status != 0:
        pytest.skip("no namespace can be made here")
    done = record(tmp_path / "t.parquet", ["unshare", "--pid", "--fork", any_python.path, "-c", SCRIPT])
    assert done.status == 0 and done.stdout == b"hi\n"
    inside = {row["process"] for row in rows(tmp_path / "t.parquet", "process") if row["pid"] == 1}
    assert inside, "its process took part in the recording"
    for kind in ("rss", "wait"):
        assert not inside & {row["process"] for row in rows(tmp_path / "t.parquet", kind)}


@pytest.mark.parametrize(("namespace", "left_out"), [(NAMESPACE, 0), (NAMESPACE + 1, 1), (0, 0)])
def test_resident_sets_are_read_by_pids_of_our_own_namespace(namespace: int, left_out: int, tmp_path: Path) -> None:
    space = SpoolFile(tmp_path / "spool", Settings())
    space.offer_ahead()
    slot = Writer(space, namespace=namespace).fill(count=1, closed=False)
    start = np.zeros(1, struct_dtype("record_process_start"))
    start["head"], start["pid"] = constants()["RECORD_PROCESS_START"] | 1 << 16, os.getpid()
    os.pwrite(space.descriptor, start.tobytes(), Writer.offset(slot) + SLOT_BYTES)
    residents = RssSampler(space, tmp_path / "rss")
    residents.notice(space.notice_taken())
    residents.sample_if_due()
    residents.close()
    assert residents.left_out == left_out
    assert (tmp_path / "rss").stat().st_size == RSS_STRUCT.size * (1 - left_out)


# ---- the other end of the control socket ----


def serve(folder: Path, answer: bytes | None) -> threading.Thread:
    """Somebody listens in the place of a recorder: says ``answer``, or hangs up before anything was said."""
    folder.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / CONTROL_NAME))
    listener.listen()

    def answer_all() -> None:
        with listener:
            for _ in range(20):
                connection, _ = listener.accept()
                if answer is not None:
                    connection.recv(4096)
                    connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=answer_all, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("answer", [b"[]\n", b"7\n", b'"ok"\n', b"null\n"])
def test_an_answer_that_is_none_is_a_sentence(answer: bytes, tmp_path: Path) -> None:
    serve(tmp_path / "gone", answer)
    with pytest.raises(ControlError, match="not a recorder's control socket"):
        ask(tmp_path / "gone", {"command": "status"})


def test_a_recorder_that_hangs_up_ends_no_program_that_lets_sigpipe_end_it(tmp_path: Path) -> None:
    serve(tmp_path / "gone", None)
    code = (
        "import signal, socket, time\n"
        "from scalene_trace.recorder import mark, resume\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "connect = socket.socket.connect\n"
        "def slowly(self, address):\n"
        "    connect(self, address)\n"
        "    time.sleep(0.05)\n"
        "socket.socket.connect = slowly\n"
        "for _ in range(5):\n"
        "    mark('here')\n"
        "    resume()\n"
        "print('done')\n"
    )
    environment = os.environ | {"SCALENE_TRACE_SPOOL": str(tmp_path / "gone" / "spool")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")


# ---- a program that writes onto the board ----

FORGER = """
import os, struct, sys, time
pid, namespace = int(sys.argv[1]), int(sys.argv[2]) or os.stat("/proc/self/ns/pid").st_ino
head, place, size = struct.Struct("=IIIiiI"), int(sys.argv[3]) + 9 * 128, 128
entry = head.pack(2, 77, 77, pid, pid, 0) + bytes(32) + struct.pack("=qqqqQ", time.monotonic_ns(), 0, 0, 0, namespace)
with open(os.environ["SCALENE_TRACE_SPOOL"], "r+b", buffering=0) as spool:
    os.pwrite(spool.fileno(), entry.ljust(size, b"\\0"), place)
    os.pwrite(spool.fileno(), struct.pack("=II", 10, 1000), int(sys.argv[4]))
time.sleep(4)
"""


@pytest.mark.parametrize(("namespace", "looked_at"), [(0, False), (1, False), (0, True)])
def test_a_process_that_is_not_recorded_is_not_read(
    namespace: int, looked_at: bool, any_python: Interpreter, tmp_path: Path
) -> None:
    """A recorded program puts another process on the board; ``looked_at``: one that has the spool mapped, as a control."""
    if os.geteuid() != 0 and not (namespace or looked_at):
        pytest.skip("who is not root may look at whatever the program may look at")
    header = struct_dtype("spool_header").fields
    assert header is not None and header["table_changes"][1] == header["table_end"][1] + 4
    sleep = ["-c", "import time; time.sleep(60)"]
    forged = [str(namespace), str(constants()["SPOOL_THREAD_TABLE_OFFSET"]), str(header["table_end"][1])]
    code = (
        "import subprocess, sys\n"
        f"victim = subprocess.Popen([sys.executable, *{sleep!r}])\n"
        f"done = subprocess.run([sys.executable, '-c', {FORGER!r}, str(victim.pid), *{forged!r}])\n"
        "victim.kill()\nvictim.wait()\nsys.exit(done.returncode)\n"
    )
    if not looked_at:  # the victim is started without what makes it be recorded
        code = code.replace(f"*{sleep!r}]", f"*{sleep!r}], env={{'SCALENE_TRACE_SPOOL': '/elsewhere'}}", 1)
    assert record(tmp_path / "t.parquet", ["-c", code], any_python).status == 0
    assert (77 in {row["process"] for row in rows(tmp_path / "t.parquet", "wait")}) == looked_at
    assert ("waits_off" in {row["name"] for row in rows(tmp_path / "t.parquet", "loss")}) == (not looked_at)


@pytest.mark.parametrize("is_setuid", [False, True])
def test_another_program_under_the_pid_of_a_recorded_one_is_not_read(
    is_setuid: bool, any_python: Interpreter, tmp_path: Path
) -> None:
    """The program calls exec by a system call of its own, so its thread stays in the table as if it lived. A setuid program
    that a process without rights starts so has more rights than that process."""
    if os.geteuid() != 0:
        pytest.skip("who is not root may look at whatever the program may look at")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(shutil.copy("/bin/sleep", folder))
        Path(folder).chmod(0o755)
        program.chmod(0o4755 if is_setuid else 0o755)
        words = "(ctypes.c_char_p * 3)(b'sleep', b'2', None), (ctypes.c_char_p * 1)(None)"
        code = (
            "import ctypes, os, time\n"
            "os.setuid(65534)\n"
            "time.sleep(0.5)\n"
            "if os.fork():\n"
            "    time.sleep(0.5)\n"
            f"    ctypes.CDLL(None).syscall(59, {os.fsencode(program)!r}, {words})\n"
            "time.sleep(1)\n"
            "with open(f'/proc/{os.getppid()}/status') as status:\n"
            "    print(next(line for line in status if line.startswith('Uid')).split()[2])\n"
        )
        done = record(tmp_path / "t.parquet", ["-c", code], any_python)
        assert (done.status, done.stdout) == (0, b"0\n" if is_setuid else b"65534\n"), "the rights of the new program"
    (child,) = {row["process"] for row in rows(tmp_path / "t.parquet", "process") if row["cause"] == "fork"}
    waits = rows(tmp_path / "t.parquet", "wait")
    waited_ns = sum(row["duration_ns"] for row in waits if row["process"] != child)
    assert 0.6e9 < waited_ns < 1.5e9
