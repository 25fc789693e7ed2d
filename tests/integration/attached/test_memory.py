"""``scalene-record --pid --memory``: what is recorded from the attach on, that the process goes on as before, and that
everything in it is put back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreters import Interpreter, interpreters
from tests.support.observed_program import Attached, Observed, attached, observed, until
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Finished,
    analyze,
    figure,
    line_of,
    lines_of,
    losses,
    report,
    rows,
    run,
    target,
    tool,
)

FILE = target("allocating")
#: arena_map_bot_t of obmalloc.c: two int32 for each MiB.
TREE_NODE_BYTES = 16_384 * 8
LEAK, ARRAY, SMALL, SLOW = (line_of("allocating", mark) for mark in ("leak", "array", "small", "slow"))
ALL = interpreters()
#: The interpreter is asked in two ways, one before 3.14 and one from then on.
SOME = [each for each in ALL if each == ALL[0] or each.version >= (3, 14)]
everywhere = pytest.mark.parametrize("of", ALL, ids=lambda each: each.name)
in_both_ways = pytest.mark.parametrize("of", SOME, ids=lambda each: each.name)
one_for_each_way = pytest.mark.parametrize("of", list(dict.fromkeys((ALL[0], ALL[-1]))), ids=lambda each: each.name)
#: What every such recording has, and what a busy machine adds.
USUAL = {"attached_lost", "attached_memory", "torn_stack", "waits_rare"}


@contextmanager
def allocating(python: Interpreter, *flags: str) -> Iterator[Observed]:
    with observed([str(python.path), *flags, str(FILE)]) as program:
        yield program


@contextmanager
def recorded(trace: Path, pid: int, *options: str) -> Iterator[Attached]:
    """The recorder, whose library has begun: the process has mapped the spool."""
    before = shared_mappings(pid)
    with attached(trace, pid, "--memory", *options) as recorder:
        until(lambda: recorder.process.poll() is not None or shared_mappings(pid) > before)
        assert recorder.process.poll() is None
        yield recorder


def shared_mappings(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count(" rw-s ")


def growth(found: Any, line: int) -> float:
    return float(lines_of(found, FILE)[line]["growth_bytes"])


def alive(found: Any, line: int) -> float:
    return float(lines_of(found, FILE)[line]["live_at_end_bytes"])


def left_behind(before: Any, after: Any) -> dict[str, Any]:
    """What is different, but for the library, which stays."""
    own = [each for each in after["files"] if not each.endswith("libscalene_attached.so")]
    after = after | {"files": own}
    return {name: (before[name], after[name]) for name in before if name != "mappings" and before[name] != after[name]}


@everywhere
def test_lines_and_footprint_from_the_attach_on(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        program.tell("leak")  # before the attach: on no line
        before = program.tell("state")
        with recorded(tmp_path / "t.parquet", program.pid, "--alloc-interval", "1") as recorder:
            program.tell("leak", "small", "array")
            done = recorder.stop()
        assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
        assert left_behind(before, program.tell("state")) == {}
        assert program.quit() == (7, b"as ever\n")
    found = report(tmp_path / "t.parquet")
    assert alive(found, LEAK) == pytest.approx(2000 * 9_973, rel=0.02)
    # a tuple and an int each (the other one is made by range), and 9 bytes of the list, if its last growth was here. The size
    # that is asked for counts: 3.10 asks for an int without the padding of its type.
    number, grown = (28 if of.version < (3, 11) else 32), (52_000 * 9 if of.version > (3, 14) else 0)
    # An arena in 16 GiB of addresses where none was before needs a node of the tree of arenas; where arenas are is random.
    expected = [50_000 * (64 + number) + grown + node for node in (0, TREE_NODE_BYTES)]
    assert alive(found, SMALL) in [pytest.approx(each, rel=0.03) for each in expected]
    assert growth(found, ARRAY) == pytest.approx(100_000_007, rel=0.01)
    assert set(losses(found)) <= USUAL and "attached_memory" in losses(found)
    (process,) = rows(tmp_path / "t.parquet", "process")
    older = process["start_footprint_bytes"]
    assert 50e6 + 20e6 < older < 110e6
    last = max(rows(tmp_path / "t.parquet", "heap"), key=lambda row: row["t_ns"])
    new = 2000 * 9_973 + 100_000_007 + 50_000 * (64 + 2 * 32)
    assert last["footprint_bytes"] - older == pytest.approx(new, rel=0.1)
    threads = {row["thread"]: row["tid"] for row in rows(tmp_path / "t.parquet", "thread")}
    assert {row["thread"] for row in rows(tmp_path / "t.parquet", "alloc")} <= threads.keys()
    assert list(threads.values()) == [program.pid]


@in_both_ways
def test_a_known_leak_and_a_large_array(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        program.tell("churn", "leak")
        # a sample for 64 KiB: the error is 4 %
        with recorded(tmp_path / "t.parquet", program.pid, "--alloc-interval", "65536") as recorder:
            leaked = program.tell("leak slowly")
            program.tell("large array")
            assert recorder.stop().status == 0
        assert program.quit() == (7, b"as ever\n")
    found = report(tmp_path / "t.parquet")
    figure("512 MB array after a late attach, found", of, growth(found, ARRAY) / 512e6, 1.01, "times")
    assert growth(found, ARRAY) == pytest.approx(512_000_000, rel=0.01)
    figure("leak after a late attach, bytes found", of, alive(found, SLOW) / leaked["bytes"], 1.25, "times")
    assert alive(found, SLOW) == pytest.approx(leaked["bytes"], rel=0.25)
    assert LEAK not in lines_of(found, FILE)
    (process,) = rows(tmp_path / "t.parquet", "process")
    footprints = [(row["t_ns"], row["footprint_bytes"]) for row in rows(tmp_path / "t.parquet", "memory")]
    before = [each for each in sorted(footprints) if each[1] < process["start_footprint_bytes"] + 400e6]
    (first_ns, first), (last_ns, last) = before[len(before) // 10], before[len(before) * 9 // 10]
    rate = (last - first) / (last_ns - first_ns) * 1e9 / (leaked["bytes"] / leaked["seconds"])
    figure("leak after a late attach, rate found", of, rate, 1.25, "times")
    assert rate == pytest.approx(1, rel=0.25)


def test_older_blocks_that_are_freed(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)  # others may rename what is in it: the recording is reached by the recorder's descriptor
    with allocating(ALL[-1]) as program:
        with recorded(tmp_path / "t.parquet", program.pid) as recorder:
            program.tell("free", "churn")
            recorder.stop()
        assert program.quit()[0] == 7
    (process,) = rows(tmp_path / "t.parquet", "process")
    last = max(rows(tmp_path / "t.parquet", "heap"), key=lambda row: row["t_ns"])
    assert process["start_footprint_bytes"] - last["footprint_bytes"] == pytest.approx(51e6, rel=0.1)


@in_both_ways
def test_threads_forks_and_libraries_meanwhile(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        expected, before = program.tell("threads"), program.tell("state")
        for number in range(2):
            with recorded(tmp_path / f"{number}.parquet", program.pid) as recorder:
                assert program.tell("threads") == expected
                assert recorder.stop().status == 0
        first = program.tell("state")
        assert left_behind(before, first) == {}
        assert first["mappings"] <= before["mappings"] + 16  # of the library, and threads' heaps
        assert program.quit() == (7, b"as ever\n")
    found = report(tmp_path / "1.parquet")
    assert set(losses(found)) <= USUAL | {"attached_memory_children", "attached_unseen", "waits_torn"}
    assert "attached_memory_children" in losses(found)


@everywhere
def test_a_recorder_that_is_killed(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        expected, before = program.tell("threads"), program.tell("state")
        with recorded(tmp_path / "t.parquet", program.pid) as recorder:
            program.tell("array")
            recorder.process.kill()
            recorder.wait()
            assert program.tell("threads") == expected
        trace = tmp_path / "t.parquet"
        done = run([*tool("scalene-record"), "--recover", f"{trace}.spool"])
        assert done.status == 0, done.stderr.decode()
        assert growth(report(trace), ARRAY) == pytest.approx(100_000_007, rel=0.01)
        assert "attached_memory" in losses(report(trace))
        until(lambda: program.tell("churn") and left_behind(before, program.tell("state")) == {})
        with recorded(tmp_path / "again.parquet", program.pid) as recorder:
            program.tell("array")
            assert recorder.stop().status == 0
        assert program.quit() == (7, b"as ever\n")
    assert growth(report(tmp_path / "again.parquet"), ARRAY) == pytest.approx(100_000_007, rel=0.01)


@one_for_each_way
def test_a_thread_that_holds_the_lock_of_the_loader(of: Interpreter, tmp_path: Path) -> None:
    """Its callback of dl_iterate_phdr is Python, and waits for the GIL."""
    with allocating(of) as program:
        before = program.tell("hold", "release", "state")
        for number in range(2):
            program.tell("hold for a second")  # the first time, the library must be loaded
            with recorded(tmp_path / f"{number}.parquet", program.pid) as recorder:
                program.tell("hold", "churn")
                if number:
                    program.tell("release")
                assert recorder.stop().status == 0
            if not number:
                program.tell("churn", "release")
            until(lambda: program.tell("churn") and left_behind(before, program.tell("state")) == {})
        assert program.quit() == (7, b"as ever\n")


@in_both_ways
def test_tracemalloc_that_begins_later(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        for number in range(2):
            with recorded(tmp_path / f"{number}.parquet", program.pid) as recorder:
                program.tell("arenas", "trace")
                assert recorder.stop().status == 0
            program.tell("replace arenas", "trace no more", "churn")
        assert program.quit() == (7, b"as ever\n")


@one_for_each_way
def test_exec_before_the_end(of: Interpreter, tmp_path: Path) -> None:
    """The new image has the same addresses, and must not be written to."""
    command = ["setarch", "-R", str(of.path), str(FILE)]
    with observed(command) as program, recorded(tmp_path / "t.parquet", program.pid) as recorder:
        files = program.tell("exec", "state")["files"]
        assert recorder.stop().status == 0
        assert program.tell("state")["files"] == files
        assert program.quit() == (7, b"as ever\n")


@everywhere
def test_handlers_that_raise_in_the_script(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of) as program:
        program.tell("interrupted")
        with recorded(tmp_path / "t.parquet", program.pid) as recorder:
            assert recorder.stop().status == 0
        seen = program.tell("interrupted")
        assert seen["arrived"] == seen["caught"] > 0
        assert program.quit() == (7, b"as ever\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("away", "back"), [("nobody", "pid"), ("root", "root again")])
@in_both_ways
def test_a_program_that_becomes_another_user(of: Interpreter, away: str, back: str, tmp_path: Path) -> None:
    """It cannot open a script that is to end the recording, so it is not asked, and ends it itself."""
    with observed([str(of.path), "-Wignore", str(FILE)], stderr=subprocess.PIPE) as program:
        expected, before = program.tell("threads"), program.tell("state")
        with recorded(tmp_path / "t.parquet", program.pid, "--alloc-interval", "1") as recorder:
            program.tell("leak", "array", away)
            assert recorder.stop() == Finished(0, b"", b"")
        program.tell(back)
        until(lambda: program.tell("churn") and left_behind(before, program.tell("state")) == {})
        assert program.tell("threads") == expected
        assert program.process.communicate(b"quit\n", timeout=PATIENCE_S) == (b"as ever\n", b"")
    found = report(tmp_path / "t.parquet")
    assert alive(found, LEAK) == pytest.approx(2000 * 9_973, rel=0.02)
    assert growth(found, ARRAY) == pytest.approx(100_000_007, rel=0.01)


def refused(folder: Path, pid: int) -> str:
    done = run([*tool("scalene-record"), "-o", folder / "t.parquet", "--pid", str(pid), "--memory"])
    assert (done.status, done.stdout, list(folder.iterdir())) == (125, b"", [])
    assert done.stderr.count(b"\n") == 1
    return done.stderr.decode()


@one_for_each_way
def test_allocators_of_others(of: Interpreter, tmp_path: Path) -> None:
    with allocating(of, "-Xtracemalloc") as program:
        said = refused(tmp_path, program.pid)
        assert "pymalloc's own" in said and "--pause-at-start" in said
        assert program.quit()[0] == 7


@pytest.mark.skipif(ALL[-1].version < (3, 14), reason="needs CPython 3.14 or newer")
def test_no_debugger_is_allowed(tmp_path: Path) -> None:
    with allocating(ALL[-1], "-Xdisable-remote-debug") as program:
        assert "refuses debuggers" in refused(tmp_path, program.pid)
        assert program.quit()[0] == 7


@one_for_each_way
def test_an_audit_hook_that_refuses_the_library(of: Interpreter, tmp_path: Path) -> None:
    with observed([str(of.path), str(FILE)], stderr=subprocess.PIPE) as program:
        program.tell("refuse")
        assert "cannot load the library: RuntimeError('no')" in refused(tmp_path, program.pid)
        out, err = program.process.communicate(b"quit\n")
        assert (out, err) == (b"as ever\n", b"")


def test_without_pid() -> None:
    done = run([*tool("scalene-record"), "--memory", sys.executable, "-c", ""])
    assert done.status == 125 and b"--memory belongs to --pid" in done.stderr


def test_a_filter_of_one_thread(tmp_path: Path) -> None:
    """Recording memory ends before it is set. After that, the process is refused."""
    with allocating(ALL[0]) as program:
        with recorded(tmp_path / "t.parquet", program.pid) as recorder:
            assert program.tell("leak", "filter") == 0
            program.tell("churn")
            recorder.stop()
        assert "attached_memory_ended" in losses(report(tmp_path / "t.parquet"))
        (tmp_path / "t.parquet").unlink()
        assert "has a seccomp filter" in refused(tmp_path, program.pid)
        assert program.quit() == (7, b"as ever\n")


@pytest.mark.leaves_spool
def test_a_killed_recorder_that_nobody_waits_for(tmp_path: Path) -> None:
    with allocating(ALL[0]) as program:
        before = program.tell("state")
        with recorded(tmp_path / "t.parquet", program.pid) as recorder:
            recorder.process.kill()
            until(lambda: program.tell("churn") and left_behind(before, program.tell("state")) == {})


def test_the_report_says_what_is_unknown(tmp_path: Path) -> None:
    with allocating(ALL[0]) as program, recorded(tmp_path / "t.parquet", program.pid) as recorder:
        program.tell("leak")
        recorder.stop()
    said = analyze("report", tmp_path / "t.parquet").stdout.decode()
    assert "blocks from before are in the footprint" in " ".join(said.split())
