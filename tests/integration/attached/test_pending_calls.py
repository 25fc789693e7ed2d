"""How commands get into an interpreter before CPython 3.14: by a call in its queue. Nothing of that harms the program."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalene_trace.recorder.attached.facts import life_of
from scalene_trace.recorder.attached.interpreter import find_interpreter
from scalene_trace.recorder.attached.memory import image
from scalene_trace.recorder.attached.memory.injector import Injector, refusal
from scalene_trace.recorder.attached.memory.padding import paddings_of
from scalene_trace.recorder.attached.memory.pending_call import LAYOUTS
from scalene_trace.recorder.attached.memory.queue import Queue, State
from scalene_trace.recorder.folder.held import HeldFolder
from scalene_trace.recorder.other_memory import read_memory
from scalene_trace.recorder.shim_library import attached_library
from tests.support.interpreters import Interpreter, interpreters
from tests.support.observed_program import Observed, observed
from tests.support.recording import target

OLDER = [each for each in interpreters() if each.version[0] << 8 | each.version[1] in LAYOUTS]
older = pytest.mark.parametrize("older", OLDER, ids=lambda each: each.name)
#: Pieces that are written for a command: three for the text, then those of the queue and what makes the main thread look, and
#: two to put the text's place back.
WRITES = 9


@contextmanager
def allocating(python: Interpreter) -> Iterator[Observed]:
    with observed([str(python.path), str(target("allocating"))]) as program:
        yield program


def injector(pid: int, folder: Path) -> Injector:
    python = find_interpreter(pid)
    assert python is not None
    folder.mkdir(mode=0o700)
    return Injector(pid, life_of(pid), python, HeldFolder(folder), attached_library())


def checked(pid: int, folder: Path, patience_s: float) -> str | None:
    """The result of a command of a recorder of its own."""
    asking = injector(pid, folder)
    try:
        return asking.run("check", patience_s)
    finally:
        asking.close()


def image_of(pid: int) -> image.Image:
    python = find_interpreter(pid)
    assert python is not None
    return image.Image(pid, life_of(pid), python)


def queue_of(pid: int) -> Queue:
    return Queue(image_of(pid))


def waiting(pid: int) -> int:
    """How many calls wait in the queue."""
    return len(queue_of(pid).read().waiting())


def maps_of(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def checks_and_dies(pid: int, folder: Path, writes: int) -> bool:
    """Runs a command in a process that is killed after so many pieces were written; returns whether it was killed."""
    child = os.fork()
    if not child:
        write, count = image.write_pieces, 0

        def write_some(of: int, pieces: Sequence[tuple[int, bytes]]) -> None:
            nonlocal count
            for piece in pieces:
                if count == writes:
                    os.kill(os.getpid(), signal.SIGKILL)
                write(of, [piece])
                count += 1

        def write_some_unless_changed(
            of: int, expected: Sequence[tuple[int, bytes]], pieces: Sequence[tuple[int, bytes]]
        ) -> bool:
            is_same = all(read_memory(of, at, len(data)) == data for at, data in expected)
            if is_same:
                write_some(of, pieces)
            return is_same

        image.write_pieces = write_some
        image.write_unless_changed = write_some_unless_changed
        try:
            os._exit(0 if checked(pid, folder, 5) == "done" else 1)
        finally:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


@older
def test_a_recorder_that_is_killed_between_two_writes(older: Interpreter, tmp_path: Path) -> None:
    # The library is loaded as soon as the call is in the queue: the end comes with another program.
    for first in (0, WRITES - 1):
        with allocating(older) as program:
            before, folder = program.tell("state"), tmp_path / str(first)
            folder.mkdir()
            for number in [*range(first, WRITES), *range(WRITES)]:
                assert checks_and_dies(program.pid, folder / str(len(list(folder.iterdir()))), number)
                program.tell("pid", "pid")
            assert not checks_and_dies(program.pid, folder / "last", 2 * WRITES)
            assert waiting(program.pid) == 0
            after = program.tell("state")
            assert [each for each in before if before[each] != after[each]] == ["files", "mappings"]
            assert program.quit() == (7, b"as ever\n")


@pytest.mark.parametrize("older", [each for each in OLDER if each.name == "3.13"], ids=lambda each: each.name)
def test_a_call_that_a_killed_recorder_has_not_counted(older: Interpreter, tmp_path: Path) -> None:
    """A check changes nothing in the queue. The next recorder counts the call, which is made."""
    with allocating(older) as program:
        assert checks_and_dies(program.pid, tmp_path / "killed", WRITES - 4)
        before = queue_of(program.pid).read()
        assert len(before.waiting()) == 1 and before.lacks_number(0x30D)
        python = find_interpreter(program.pid)
        assert python is not None and refusal(program.pid, life_of(program.pid), python) is None
        assert queue_of(program.pid).read().data == before.data
        assert checked(program.pid, tmp_path / "next", 5) == "done"
        after = queue_of(program.pid).read()
        assert after.waiting() == [] and not after.lacks_number(0x30D)
        assert program.quit() == (7, b"as ever\n")


@pytest.mark.parametrize("older", [each for each in OLDER if each.name == "3.13"], ids=lambda each: each.name)
def test_it_is_counted_too_if_the_queue_was_locked_at_first(
    older: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = Queue.read, 0

    def locked_at_first(queue: Queue) -> State:
        nonlocal reads
        state, reads = read(queue), reads + 1
        state.is_free = (
            state.is_free and reads > 2
        )  # the queue is read when it is opened, and before a call is put there
        return state

    with allocating(older) as program:
        assert checks_and_dies(program.pid, tmp_path / "killed", WRITES - 4)
        with monkeypatch.context() as patch:
            patch.setattr(Queue, "read", locked_at_first)
            assert checked(program.pid, tmp_path / "next", 5) == "done"
        assert waiting(program.pid) == 0
        assert program.quit() == (7, b"as ever\n")


@older
def test_the_main_thread_may_look_between_any_two_writes(
    older: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel copies a piece while the main thread runs, so each eight bytes are a write of their own here."""
    with allocating(older) as program:
        program.begin("churn for long")
        queue, write = queue_of(program.pid), image.write_pieces

        def write_slowly(of: int, expected: object, pieces: Sequence[tuple[int, bytes]]) -> bool:
            for at, data in pieces:
                for start in range(0, len(data), 8):
                    write(of, [(at + start, data[start : start + 8])])
                    write(of, [queue._breaks()[1]])  # the main thread looks into its queue
            return True

        with monkeypatch.context() as patch:
            patch.setattr(image, "write_unless_changed", write_slowly)
            for name in "abc":
                assert checked(program.pid, tmp_path / name, 5) == "done"
        assert waiting(program.pid) == 0
        program.end("churn for long")
        assert program.quit() == (7, b"as ever\n")


@older
def test_a_main_thread_that_runs_no_python_code(older: Interpreter, tmp_path: Path) -> None:
    """It is not asked any more when the patience is over, and a later command uses the entry that has remained in the queue."""
    with allocating(older) as program:
        program.begin("sleep")
        time.sleep(0.1)
        for name in "ab":
            assert checked(program.pid, tmp_path / name, 0.15) is None
            assert waiting(program.pid) == 1
        program.end("sleep")
        program.tell("pid")
        assert waiting(program.pid) == 0 and "libscalene_attached" not in maps_of(program.pid)
        assert checked(program.pid, tmp_path / "c", 5) == "done"
        program.begin("sleep")
        time.sleep(0.1)
        assert checked(program.pid, tmp_path / "d", 0.15) is None
        assert waiting(program.pid) == 1
        assert checked(program.pid, tmp_path / "e", 5) == "done" and waiting(program.pid) == 0
        program.end("sleep")
        assert program.quit() == (7, b"as ever\n")


@older
def test_calls_of_the_program_are_all_made(older: Interpreter, tmp_path: Path) -> None:
    with allocating(older) as program:
        program.begin("calls")
        for number in range(8):
            assert checked(program.pid, tmp_path / str(number), 5) == "done"
        said = program.end("calls")
        # One may be lost that was added in the microseconds between the look at the queue and the write to it.
        assert said["added"] - 1 <= said["made"] <= said["added"] and said["made"] > 5
        assert program.quit() == (7, b"as ever\n")


@older
def test_only_one_recorder_asks(older: Interpreter, tmp_path: Path) -> None:
    with allocating(older) as program:
        first = injector(program.pid, tmp_path / "a")
        with pytest.raises(ValueError, match="another scalene-record"):
            injector(program.pid, tmp_path / "b")
        assert first.run("check", 5) == "done"
        first.close()
        assert program.quit() == (7, b"as ever\n")


@older
def test_there_is_room_behind_each_file_that_is_never_unloaded(older: Interpreter) -> None:
    """Also where a file ends within its last page."""
    with allocating(older) as program:
        pages = {int(line.split("-")[0], 16) for line in maps_of(program.pid).splitlines()}
        named = [line.split() for line in maps_of(program.pid).splitlines() if " rw-p " in line and "/lib" in line]
        libm = [[int(each, 16) for each in line[0].split("-")] for line in named if "/libm." in line[-1]]
        paddings = list(paddings_of(image_of(program.pid)))
        assert all(
            image_of(program.pid).read(each.start, len(each.before)) == each.before and each.start not in pages
            for each in paddings
        )
    if not libm:
        pytest.skip("the interpreter is not linked with libm")
    assert all(any(start <= each.start < end for each in paddings) for start, end in libm)
