"""Recording never harms a program, and what it has recorded survives: the short form. The long one is part of
``make stress`` (tests marked long, tests/long/regression.py)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long.kills import VICTIMS, kill_often
from tests.long.regression import compare
from tests.support import fuzz_targets
from tests.support.gunicorn_load import WORKERS, clients, free_port, gunicorn, serving
from tests.support.interpreters import Interpreter, interpreters, newest
from tests.support.memory_group import memory_group
from tests.support.native import build
from tests.support.packages import needed
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Finished,
    Recording,
    analyze,
    bare,
    environment,
    line_of,
    lines_of,
    losses,
    record,
    record_command,
    report,
    rows,
    run,
    target,
    tool,
    total,
)
from tests.support.target_environments import environment_python, recorded_interpreters
from tests.support.trace_builder import MS, TraceBuilder

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="other users, mounts and control groups need root")
FAST = ("--cpu-interval", "1ms")
EXACT = (*FAST, "--alloc-interval", "1")
PYTHONS = recorded_interpreters()
#: The environments with servers and event loops.
SERVERS = [Interpreter(environment_python(each, "servers"), each.version) for each in interpreters()]


def same(done: Finished, alone: Finished) -> None:
    """Both runs ended alike and said the same."""
    assert done.stdout.decode() == alone.stdout.decode()
    assert done.stderr.decode() == alone.stderr.decode()
    assert done.status == alone.status


@pytest.fixture(params=SERVERS, ids=lambda each: each.name)
def libraries(request: pytest.FixtureRequest) -> Interpreter:
    """An interpreter that has gunicorn, gevent, uvloop and contourpy."""
    found: Interpreter = request.param
    assert found.path.exists(), "make the environments: python -m tests.support.target_environments"
    return found


# ---- CPython's own tests (all of them: tests/long/regression.py) ----


@pytest.mark.parametrize("file", ["test_fork1", "test_wait4"])
def test_files_of_cpythons_own_tests_pass_as_they_do_bare(file: str, any_python: Interpreter) -> None:
    compared = compare(newest(), file, repeats=1, outputs=None)
    assert compared.new == [] and compared.status_recorded == compared.status_bare
    assert compared.passed_recorded == compared.passed_bare > 0


# ---- waits ----


def test_waits_return_what_they_return_bare(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("timed_calls")], python, EXACT)
    alone = bare([target("timed_calls")], python)
    results = [each.stdout.decode().splitlines()[0] for each in (done, alone)]
    assert results[0] == results[1] and done.status == 0, done.stderr.decode()


@pytest.mark.measures
def test_waits_take_as_long_as_bare(any_python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("timed_calls")], any_python, EXACT)
    assert done.facts["least_s"] < 1.5 * bare([target("timed_calls")], any_python).facts["least_s"]


# ---- one thread, other users ----


@NEEDS_ROOT
def test_what_only_one_thread_may_do_works_and_warns_as_bare(python: Interpreter, tmp_path: Path) -> None:
    program = ["-W", "error::DeprecationWarning", target("single")]
    done = record(tmp_path / "t.parquet", [python.path, *program], None, FAST)
    same(done, bare(program, python))
    assert b"EPERM" not in done.stdout and b"Error" not in done.stdout


# ---- servers ----


@pytest.mark.parametrize("libraries", [SERVERS[0], SERVERS[-1]], indirect=True, ids=lambda each: each.name)
def test_gunicorn_is_recorded_through_a_reload_and_fails_no_request(libraries: Interpreter, tmp_path: Path) -> None:
    trace, port = tmp_path / "t.parquet", free_port()
    command = record_command(trace, gunicorn(port, log_level="info"), libraries, FAST)
    with serving(command, port) as server:
        before = clients(port, 40)
        reload = threading.Timer(0.1, lambda: server.send_signal(signal.SIGHUP))
        reload.start()
        during = clients(port, 120)
        after = [clients(port, 40)]
        while (
            before.answered.keys() & after[-1].answered.keys() and len(after) < 60
        ):  # the old ones are asked to go at 0.1 s
            time.sleep(0.25)
            after.append(clients(port, 40))
    assert server.returncode == 0 and server.stderr is not None
    assert before.failures + during.failures + [each for load in after for each in load.failures] == []
    assert {before.count, *(each.count for each in after)} == {160} and during.count == 480
    assert not before.answered.keys() & after[-1].answered.keys(), "all workers are new after SIGHUP"
    seen = before.answered.keys() | during.answered.keys() | after[-1].answered.keys()
    processes = {row["pid"]: row for row in rows(trace, "process")}
    assert seen <= processes.keys() and len(processes) >= 1 + 2 * WORKERS
    # Gunicorn sends SIGTERM again and again until a worker has gone. One that comes while the interpreter finalizes, when
    # the worker's handlers are gone, kills it; gunicorn logs that, and such a process has no end in the trace.
    killed = {int(pid) for pid in re.findall(rb"Worker \(pid:(\d+)\) was sent SIGTERM!", server.stderr.read())}
    assert {processes[pid]["end"] for pid in seen - killed} == {"exit"} and len(seen & killed) < len(seen) / 2
    compute = lines_of(report(trace), target("web"))[line_of("web", "compute")]
    assert compute["cpu_s"] > 0


# ---- kills ----


@pytest.mark.parametrize("victim", VICTIMS)
def test_after_a_kill_all_that_was_published_is_in_the_trace(
    victim: str, any_python: Interpreter, tmp_path: Path
) -> None:
    outcome = kill_often(any_python, victim, f"short {victim}", 3, tmp_path)
    assert outcome.missing == outcome.repeated == 0
    assert outcome.found >= outcome.published > 0
    assert outcome.recovered > 0 or victim in ("program", "child")


# ---- too little of everything ----


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 150 MB of memory."""
    with memory_group(150_000_000) as folder:
        yield folder


@NEEDS_ROOT
def test_a_program_that_the_kernel_kills_for_memory_is_in_the_trace(
    small_group: Path, any_python: Interpreter, tmp_path: Path
) -> None:
    code = "kept = []\nwhile True: kept.append(b'x' * 1_999_961); print(len(kept), flush=True)"
    inside = f'echo $$ > {small_group}/cgroup.procs; exec {any_python.path} -c "$0"'
    done = record(tmp_path / "t.parquet", ["sh", "-c", inside, code], None, FAST)
    alone = run(["sh", "-c", inside, code], env=environment(None))
    assert (done.status, done.stderr) == (alone.status, alone.stderr) == (128 + signal.SIGKILL, b"")
    made = int(done.stdout.split()[-1])
    assert made == pytest.approx(int(alone.stdout.split()[-1]), abs=10)
    grown = sum(row["net_bytes"] for row in rows(done.trace, "memory"))
    assert grown == pytest.approx(1_999_961 * made, abs=12_000_000)


GOES_ON = "import sys; print('ready', flush=True); sys.stdin.read(); print(sum(range(1000)), end=''); sys.exit(5)"


def interrupted(trace: Path, python: Interpreter, meanwhile: str) -> Finished:
    """Records a program, and runs a shell command in the trace's folder while it runs."""
    command = record_command(trace, ["-c", GOES_ON], python)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(None),
        cwd=trace.parent,
    )
    assert process.stdout is not None
    process.stdout.readline()
    subprocess.run(["sh", "-c", meanwhile], check=True, cwd=trace.parent)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Finished(process.returncode, out, err)


def test_a_spool_may_be_removed_while_it_is_written(any_python: Interpreter, tmp_path: Path) -> None:
    done = interrupted(tmp_path / "t.parquet", any_python, "rm -r t.parquet.spool")
    assert (done.status, done.stdout, done.stderr) == (5, b"499500", b"")
    assert [row["pid"] > 0 for row in rows(tmp_path / "t.parquet", "process")] == [True]
    assert losses(report(tmp_path / "t.parquet"))["spool_removed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_a_folder_may_be_removed_while_recording(any_python: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = interrupted(folder / "t.parquet", any_python, "rm -r ../gone")
    assert (done.status, done.stdout) == (5, b"499500")
    assert b"Traceback" not in done.stderr and str(folder).encode() in done.stderr and len(done.stderr) < 500


@NEEDS_ROOT
def test_if_the_disk_fills_up_during_the_program_the_recording_is_kept(any_python: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", folder], check=True)
    try:
        done = interrupted(folder / "t.parquet", any_python, "cat /dev/zero > filler || true")
        assert (done.status, done.stdout) == (5, b"499500")
        assert b"No space left" in done.stderr and b"--recover" in done.stderr, done.stderr.decode()
        (folder / "filler").unlink()
        again = run([*tool("scalene-record"), "--recover", folder / "t.parquet.spool"])
        assert again.status == 0, again.stderr.decode()
        assert len(rows(folder / "t.parquet", "process")) == 1
    finally:
        subprocess.run(["umount", folder], check=True)


# ---- libraries ----


def recorded_like_bare(program: list[str | Path], python: Interpreter, trace: Path, **more: object) -> Recording:
    """Records a program with ticks every millisecond; it must end well and say what it says bare."""
    done = record(trace, program, python, FAST, **more)  # type: ignore[arg-type]
    same(done, bare(program, python, **more))  # type: ignore[arg-type]
    assert done.status == 0, done.stderr.decode()
    return done


@pytest.mark.parametrize("way", ["gevent", "uvloop", "extensions"])
def test_event_loops_and_extensions_work_as_bare(way: str, libraries: Interpreter, tmp_path: Path) -> None:
    done = recorded_like_bare([target("libraries"), way], libraries, tmp_path / "t.parquet")
    found = report(done.trace)
    assert found["totals"]["cpu_s"] > 0
    if way != "extensions":
        busy = [row for row in found["functions"] if row["function"] == "busy"]
        assert total(busy, "cumulative_cpu_s") > 0


@pytest.mark.parametrize("way", ["faulthandler", "timers", "profile"])
def test_a_programs_own_timers_and_hooks_work_as_bare(way: str, python: Interpreter, tmp_path: Path) -> None:
    recorded_like_bare([target("libraries"), way], python, tmp_path / "t.parquet")


def test_a_preloaded_library_and_environments_of_children_stay_the_programs(
    python: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "other.c").write_text("int other(void) { return 4; }\n")
    other = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    program = [target("libraries"), "environments"]
    done = recorded_like_bare(program, python, tmp_path / "t.parquet", env={"LD_PRELOAD": str(other)})
    assert done.stdout.decode().splitlines()[0] == f"['{other}']"
    children = [row for row in rows(done.trace, "process") if (row["command"] or [""])[-1] == "child"]
    assert len(children) == 4 and {row["end"] for row in children} == {"exit"}


# ---- events that the kernel stops ----


@pytest.mark.measures
def test_ticks_go_on_when_the_kernel_has_stopped_them(python: Interpreter, tmp_path: Path) -> None:
    done = recorded_like_bare([target("silenced")], python, tmp_path / "t.parquet")
    found = report(done.trace)
    told = losses(found)
    assert "engine_posix" in told or told["perf_silent"] == 1
    work = lines_of(found, target("silenced"))[line_of("silenced", "work")]
    assert work["cpu_s"] == pytest.approx(0.6, rel=0.15)


def test_a_program_that_is_killed_after_an_exec_that_failed_lived_until_then(
    python: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "no_program").write_text("hello")
    (tmp_path / "no_program").chmod(0o755)
    code = f"""
import os, time
try:
    os.execv("{tmp_path}/no_program", ["x"])
except OSError:
    pass
end = time.process_time() + 0.4
while time.process_time() < end:
    pass
os.kill(os.getpid(), 9)
"""
    done = record(tmp_path / "t.parquet", ["-c", code], python, FAST)
    assert (done.status, done.stderr) == (128 + signal.SIGKILL, b"")
    (process,), (thread,) = rows(done.trace, "process"), rows(done.trace, "thread")
    assert (process["end"], process["exit_status"]) == ("killed", 128 + signal.SIGKILL)
    assert process["end_ns"] == thread["end_ns"] > process["t_ns"] + 0.4e9
    assert thread["cpu_ns"] > 0.3e9, "the program used 0.4 s"


# ---- daemons ----


def test_a_program_that_closes_every_descriptor_gets_the_numbers_that_it_gets_bare(
    python: Interpreter, tmp_path: Path
) -> None:
    done = recorded_like_bare([target("daemon"), "closes_all"], python, tmp_path / "t.parquet")
    found = report(done.trace)
    work = lines_of(found, target("daemon"))[line_of("daemon", "work")]
    assert work["cpu_s"] > 0.4, "of 0.8 s"


def test_a_folder_that_disappears_under_a_program_is_not_a_loss(any_python: Interpreter, tmp_path: Path) -> None:
    program = [target("daemon"), "moves", tmp_path]
    done = recorded_like_bare(program, any_python, tmp_path / "t.parquet")
    assert len(rows(done.trace, "process")) == 3
    assert [row["severity"] for row in rows(done.trace, "loss") if row["severity"] != "info"] == []


@NEEDS_ROOT
def test_a_program_that_drops_its_rights_is_recorded_on_and_its_lost_children_are_counted(
    python: Interpreter, tmp_path: Path
) -> None:
    done = recorded_like_bare([target("daemon"), "drops_rights"], python, tmp_path / "t.parquet")
    found = report(done.trace)
    assert lines_of(found, target("daemon"))[line_of("daemon", "work")]["cpu_s"] > 0.15, "of 0.3 s"
    assert losses(found)["process_slots"] == 5
    assert {row["cause"] for row in rows(done.trace, "process")} == {"root", "fork"}


def new_root(folder: Path) -> Path:
    """A folder with a shell, what it needs to run, and a file for /dev/null."""
    needed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout.split()
    for path in ["/bin/sh", *(word for word in needed if word.startswith("/"))]:
        to = folder / path[1:]
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    (folder / "dev").mkdir()
    (folder / "dev" / "null").touch()
    return folder


@NEEDS_ROOT
def test_a_program_that_changes_its_root_is_recorded_on_and_its_lost_children_are_counted(
    python: Interpreter, tmp_path: Path
) -> None:
    root = new_root(tmp_path / "root")
    done = recorded_like_bare([target("daemon"), "changes_root", root], python, tmp_path / "t.parquet")
    found = report(done.trace)
    assert lines_of(found, target("daemon"))[line_of("daemon", "work")]["cpu_s"] > 0.15, "of 0.3 s"
    assert losses(found)["environment_lost"] == 5
    assert {row["cause"] for row in rows(done.trace, "process")} == {"root", "fork"}


# ---- files ----


def modes(folder: Path) -> dict[str, int]:
    """Permissions of everything below a folder."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def test_files_are_their_owners_alone(any_python: Interpreter, tmp_path: Path) -> None:
    code = "import os, sys, pathlib; root = pathlib.Path(sys.argv[1])\n"
    code += "for path in sorted(root.rglob('*')): print(path.relative_to(root), oct(path.stat().st_mode & 0o7777))"
    before = os.umask(0)
    try:
        done = record(tmp_path / "t.parquet", ["-c", code, tmp_path], any_python)
        again = record(tmp_path / "t.parquet", ["-c", code, tmp_path], any_python)
    finally:
        os.umask(before)
    said = [line.split() for line in (done.stdout + again.stdout).decode().splitlines()]
    assert {mode for name, mode in said if name.endswith(".spool")} == {"0o700"}
    assert {mode for name, mode in said if not name.endswith(".spool")} == {"0o600"}
    assert modes(tmp_path) == {"t.parquet": 0o600, "t.old.parquet": 0o600}


def test_planted_links_are_not_followed(any_python: Interpreter, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("trace", "old", "spool", "folder"):
        (elsewhere / name).write_text("precious")
    (elsewhere / "spools").mkdir()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "t.parquet").symlink_to(elsewhere / "trace")
    (folder / "t.old.parquet").symlink_to(elsewhere / "old")
    done = record(folder / "t.parquet", ["-c", "print(1)"], any_python)
    assert (done.status, done.stdout) == (0, b"1\n")
    assert not (folder / "t.parquet").is_symlink() and len(rows(folder / "t.parquet", "process")) == 1
    assert (folder / "t.old.parquet").is_symlink(), "what was there is renamed, link and all"
    (folder / "u.parquet.spool").symlink_to(elsewhere / "spools")
    refused = record(folder / "u.parquet", ["-c", "print(1)"], any_python)
    (folder / "u.parquet.spool").unlink()
    assert refused.status == 125 and refused.stdout == b"" and b"in the way" in refused.stderr
    assert {path.name: path.read_text() for path in elsewhere.iterdir() if path.is_file()} == dict.fromkeys(
        ("trace", "old", "spool", "folder"), "precious"
    )
    assert list((elsewhere / "spools").iterdir()) == []


def test_nothing_is_left_in_the_folder_for_temporary_files(any_python: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    program = ["-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(2)'])"]
    done = record(tmp_path / "t.parquet", program, any_python, env={"TMPDIR": str(folder)})
    killed = record(tmp_path / "k.parquet", ["-c", "import os; os.kill(0, 15)"], any_python, start_new_session=True)
    assert (done.status, killed.status) == (0, 128 + signal.SIGTERM)
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.parquet", "t.parquet", "tmp"]


# ---- checkers of memory ----


def test_memcheck_finds_nothing_in_a_recorded_program(tmp_path: Path) -> None:
    program = build(tmp_path, "forking.c")
    checked = [needed("valgrind"), "-q", "--error-exitcode=9", "--trace-children=yes", program]
    done = record(tmp_path / "t.parquet", checked, None, FAST)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["threads"] >= 6 and found["totals"]["cpu_s"] > 0


def test_ticks_extend_a_stack_under_valgrind(tmp_path: Path) -> None:
    """Valgrind extends the main thread's stack for a signal only if that asks for no alternate stack."""
    checked = [needed("valgrind"), "-q", "--error-exitcode=9", build(tmp_path, "stack_ahead.c")]
    done = record(tmp_path / "t.parquet", checked, None, FAST)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert report(tmp_path / "t.parquet")["totals"]["cpu_s"] > 0


def test_memcheck_finds_in_a_recorded_interpreter_what_it_finds_bare(any_python: Interpreter, tmp_path: Path) -> None:
    """Stacks of 20 calls are walked; what memcheck says of the interpreter itself stays the same."""
    code = "def f(n): return f(n - 1) if n else [str(i) * 20 for i in range(2000)]\nfor _ in range(9): f(20)"
    checked = [needed("valgrind"), any_python.path, "-c", code]
    alone = run(checked, env=environment({"PYTHONMALLOC": "malloc"}))
    done = record(tmp_path / "t.parquet", checked, env={"PYTHONMALLOC": "malloc"})
    assert (done.status, done.stdout) == (0, b"") == (alone.status, alone.stdout)
    assert summary_of(done.stderr) == summary_of(alone.stderr)
    found = report(tmp_path / "t.parquet")
    assert total([row for row in found["lines"] if row["function"] == "f"], "ticks") > 0


def summary_of(said: bytes) -> str:
    """How many errors memcheck counts, from how many places."""
    (found,) = re.findall(r"ERROR SUMMARY: (\d+ errors from \d+ contexts)", said.decode())
    return str(found)


# ---- damaged and invented files (longer: tests/long/fuzz.py) ----


@pytest.mark.parametrize(
    "path", sorted(fuzz_targets.CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_kept_inputs_of_the_fuzzers_end_well_or_in_documented_errors(path: Path, tmp_path: Path) -> None:
    fuzz_targets.TARGETS[path.parent.name](path.read_bytes(), tmp_path)


@pytest.mark.parametrize("path", sorted(fuzz_targets.CORPUS.glob("bytes/*")), ids=lambda path: path.name)
def test_a_trace_with_damaged_metadata_and_the_right_checksum_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(fuzz_targets.sealed(path.read_bytes()))
    done = analyze(tmp_path / "t.parquet")
    assert done.status == 3 and b"t.parquet is damaged: " in done.stderr, done.stderr.decode()
    assert b"Traceback" not in done.stderr


def invented(path: Path, t_ns: int | None) -> Path:
    """A trace with a tick at that time."""
    builder = TraceBuilder()
    process = builder.process()
    builder.tick(t_ns, process, builder.thread(process, 10 * MS), None)  # type: ignore[arg-type]
    return builder.write(path)


def test_a_trace_with_impossible_rows_is_refused_by_name(tmp_path: Path) -> None:
    for name, t_ns in (("timeless", None), ("overflowing", -(2**63))):
        done = analyze(invented(tmp_path / f"{name}.parquet", t_ns))
        words = done.stderr.decode()
        assert done.status in (0, 3) and "Traceback" not in words
        assert done.status == 0 or f"{name}.parquet is damaged" in words, words
    assert analyze(tmp_path / "timeless.parquet").status == 3


def test_a_trace_whose_id_is_not_text_is_read_or_refused(tmp_path: Path) -> None:
    whole = invented(tmp_path / "t.parquet", 5).read_bytes()
    key = b"scalene_trace.trace_id"
    at = whole.rfind(key) + len(key) + 2
    (tmp_path / "t.parquet").write_bytes(fuzz_targets.sealed(whole[:at] + b"\xff\xfe" + whole[at + 2 :]))
    done = analyze(tmp_path / "t.parquet")
    assert done.status in (0, 3) and b"Traceback" not in done.stderr
