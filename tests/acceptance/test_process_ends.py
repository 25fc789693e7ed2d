"""The ends of processes: how each ended, with which status, and all of its CPU time; also of processes that were killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import TARGETS
from tests.support.recording import Json, analyze, bare, losses, record, report, rows, target

#: The ends of the children of ``ends.py``, for each of its five kinds of wait: end and exit status.
ENDS = [("quick_exit", 3), ("quick_exit", 200), ("killed", 137), ("killed", 143), ("killed", 139), ("exec", None)]
WAITS = 5


def by_process(trace: Path) -> list[Json]:
    return sorted(rows(trace, "process"), key=lambda row: row["process"])


def test_waits_return_what_they_return_bare_and_tell_all_ends(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("ends")], python)
    assert done.status == 0, done.stderr.decode()
    assert done.stdout == bare([target("ends")], python).stdout
    processes = by_process(trace)
    root, images = processes[0], {row["process"]: row for row in processes[1:]}
    assert (root["end"], root["exit_status"]) == ("exit", 0)
    forked = [row for row in images.values() if row["cause"] == "fork"]
    assert [(row["end"], row["exit_status"]) for row in forked[: len(ENDS) * WAITS]] == ENDS * WAITS
    shells = [row for row in images.values() if row["cause"] == "exec"]
    assert [row["exit_status"] for row in shells] == [6] * WAITS
    killed = [row for row in forked if row["end"] == "killed"]
    assert all(row["end_ns"] > row["t_ns"] for row in killed)
    assert all(row["peak_rss_bytes"] > 5e6 for row in killed[: 3 * (WAITS - 1)])
    assert all(row["peak_rss_bytes"] is None for row in killed[3 * (WAITS - 1) :])  # waitid does not tell it
    assert all(row["user_ns"] is None for row in killed)
    assert [row["exit_status"] for row in forked[len(ENDS) * WAITS :]] == [4, 99]
    spawned = {row["exit_status"] for row in images.values() if row["cause"] == "spawn"}
    assert spawned == {9, 4} and "processes_running" not in losses(report(trace))


def test_the_cpu_time_of_ends_is_counted(python: Interpreter, tmp_path: Path) -> None:
    """What the kernel takes to end forked children: it belongs to no line, and to the whole."""
    code = (
        "import json, os, resource, time\n"
        "block = bytearray(100_000_000)\n"
        "for _ in range(20):\n"
        "    if not (pid := os.fork()):\n"
        "        block[::4096] = bytes(len(block[::4096]))\n"  # its own pages, which its end frees
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps(usage.ru_utime + usage.ru_stime))\n"
    )
    done = record(tmp_path / "t.parquet", ["-c", code], python)
    children = by_process(tmp_path / "t.parquet")[1:]
    told_s, found = float(done.stdout), rows(tmp_path / "t.parquet", "thread")
    assert sum(row["user_ns"] + row["system_ns"] for row in children) / 1e9 == pytest.approx(told_s, abs=0.001)
    ids = {row["process"] for row in children}
    assert sum(row["cpu_ns"] for row in found if row["process"] in ids) / 1e9 == pytest.approx(told_s, rel=0.02)
    ends = [row for row in rows(tmp_path / "t.parquet", "cpu") if row["process"] in ids and row.get("stack") is None]
    assert sum(row["system_ns"] for row in ends) / 1e9 > 0.05 * told_s


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 9)", "libc.syscall(231, 0)"])
def test_the_time_of_children_is_not_that_of_their_parent(end: str, any_python: Interpreter, tmp_path: Path) -> None:
    """However the parent has waited for them: with libc, without the shim (libc's ``system`` waits by itself) or without libc;
    however it ends; and if a program that was not recorded had waited for children before, in the same process."""
    code = (
        "import ctypes, os, sys, time\n"
        "libc = ctypes.CDLL(None)\n"
        "def burn():\n"
        "    end = time.process_time() + 0.2\n"
        "    while time.process_time() < end: pass\n"
        "    os._exit(0)\n"
        "for how in range(3):\n"
        "    if not (outer := os.fork()):\n"
        "        if how == 0:\n"
        "            os.system(f'{sys.executable} -c \"import time\\nwhile time.process_time() < 0.2: pass\"')\n"
        "        elif not (inner := os.fork()):\n"
        "            burn()\n"
        "        elif how == 1:\n"
        "            libc.syscall(61, inner, None, 0, None)\n"  # wait4
        "        else:\n"
        "            os.wait()\n"
        f"        {end}\n"
        "    os.waitpid(outer, 0)\n"
    )
    done = record(tmp_path / "t.parquet", ["-c", code], any_python)
    assert done.status == 0, done.stderr.decode()
    processes = {row["process"]: row for row in by_process(tmp_path / "t.parquet")}
    outer = [row for row in processes.values() if row["parent"] == 1 and row["cause"] == "fork"]
    assert len(outer) == 3 and all((row["user_ns"] or 0) + (row["system_ns"] or 0) < 100_000_000 for row in outer)
    used = {row["process"]: row["cpu_ns"] for row in rows(tmp_path / "t.parquet", "thread")}
    assert all(used[row["process"]] < 100_000_000 for row in outer)


def test_a_filter_sees_the_waits_that_the_program_makes(any_python: Interpreter, tmp_path: Path) -> None:
    """It refuses wait4 with a fourth argument, which waitpid does not give."""
    program = tmp_path / "filtered.py"
    program.write_text(
        f"import os, sys; sys.path.insert(0, {str(TARGETS)!r}); import bpf\n"
        "def one(*words): return bpf.instruction(*words)\n"
        "bpf.install([one(bpf.LOAD, 0, 0, 0), one(bpf.JUMP_EQUAL, 0, 3, 61), one(bpf.LOAD, 0, 0, 40),\n"
        "             one(bpf.JUMP_EQUAL, 1, 0, 0), one(bpf.RETURN, 0, 0, bpf.EPERM), one(bpf.RETURN, 0, 0, bpf.ALLOW)])\n"
        "if not (pid := os.fork()): os._exit(6)\n"
        "print(os.waitpid(pid, 0)[1])\n"
    )
    done = record(tmp_path / "t.parquet", [program], any_python)
    assert (done.status, done.stdout) == (0, b"1536\n") == (bare([program], any_python).status, b"1536\n")
    assert by_process(tmp_path / "t.parquet")[1]["exit_status"] == 6


def test_a_process_that_runs_on_is_said_to_run(any_python: Interpreter, tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0:\n    [os.close(fd) for fd in (0, 1, 2)]\n    time.sleep(60)\nprint(1)"
    done = record(tmp_path / "t.parquet", ["-c", code], any_python)
    root, child = by_process(tmp_path / "t.parquet")
    try:
        assert (done.status, root["end"], child["end"], child["end_ns"]) == (0, "exit", "running", None)
        assert losses(report(tmp_path / "t.parquet"))["processes_running"] == 1
        assert " running " in analyze("processes", tmp_path / "t.parquet").stdout.decode()
    finally:
        os.kill(child["pid"], signal.SIGKILL)


def test_a_daemon_that_begins_as_the_program_ends_is_a_loss(any_python: Interpreter, tmp_path: Path) -> None:
    """It begins just before the records are read, or after that: there is no record of it, or not even an id."""
    code = (
        "import os, time\n"
        "while time.process_time() < 0.5: sum(range(10000))\n"  # what reads the records is loaded by then
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "[os.close(fd) for fd in (0, 1, 2)]\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(1)\n"
    )
    for number in range(4):
        done = record(tmp_path / f"{number}.parquet", ["-c", code], any_python)
        assert done.status == 0
        assert losses(report(tmp_path / f"{number}.parquet"))["processes_running"] in (1, 2)
