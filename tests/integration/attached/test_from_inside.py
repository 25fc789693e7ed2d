"""A program that records itself: ``scalene_trace.recorder.record``, ``start`` and ``stop``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.observed_program import until
from tests.support.paths import ROOT
from tests.support.recording import Finished, environment, losses, record, report, rows, run

PROGRAM = """
import os, sys, threading, time
from scalene_trace.recorder import mark, memory, pause, record, recording, resume, start, stop
def spin(cpu_s):
    due = time.process_time() + cpu_s
    while time.process_time() < due:
        sum(range(1000))
def before(): spin(0.3)
def within():
    spin(0.4)
    time.sleep(0.3)
def after(): spin(0.3)
def has_children():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
"""
BLOCK = """
import ctypes  # where a Python has a loader of its own, this leaves a file open
threads = sorted(os.listdir("/proc/self/task"))
names = sorted(os.listdir("/proc/self/fd"))
before()
with record(sys.argv[1], ["--cpu-interval", "1ms", "--label", "part=block"]) as made:
    assert recording()
    assert has_children() is None
    with mark("block"):
        within()
    pause()
    after()
    resume()
after()
assert not recording()
assert memory() is None
assert sorted(os.listdir("/proc/self/task")) == threads
assert sorted(os.listdir("/proc/self/fd")) == names
print(made.path)
"""


def own(folder: Path, program: str, python: str, *arguments: str | Path) -> Finished:
    """Runs a program that finds our package, and scalene-record on its path."""
    tree = folder / "tree" / "scalene_trace"
    tree.mkdir(parents=True, exist_ok=True)
    for name in ("recorder", "formats"):
        if not (tree / name).exists():
            (tree / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    extra = {"PATH": path, "PYTHONPATH": str(tree.parent)}
    script = folder / "program.py"
    script.write_text(PROGRAM + program)
    return run([python, script, *arguments], cwd=folder, env=environment(None) | extra)


def test_a_block_is_recorded_and_nothing_else(any_python: Interpreter, tmp_path: Path) -> None:
    done = own(tmp_path, BLOCK, str(any_python.path), "t.parquet")
    trace = tmp_path / "t.parquet"
    assert (done.status, done.stdout.decode().strip()) == (0, str(trace)), done.stderr.decode()
    assert done.stderr == b""
    found = report(trace)
    functions = {row["function"]: row for row in found["functions"]}
    assert {"within", "spin"} <= functions.keys()
    assert "before" not in functions
    assert (
        "after" not in functions or functions["after"]["cumulative_cpu_s"] < 0.05
    )  # it was paused when that had begun
    assert 0.3 < found["totals"]["cpu_s"] < 0.6
    assert functions["within"]["cumulative_wait_s"] > 0.25
    assert losses(found).keys() <= {"attached_lost", "attached_unseen", "paused", "torn_stack", "waits_rare"}
    assert [each["text"] for each in rows(trace, "mark")] == ["block", ""]
    assert found["traces"][0]["processes"] == 1
    assert report(trace, command="info")["traces"][0]["settings"]["labels"] == '{"part": "block"}'


def test_under_the_recorder_it_resumes_and_pauses_its_recording(any_python: Interpreter, tmp_path: Path) -> None:
    program = (
        PROGRAM + "before()\nwith record('other.parquet') as made:\n    kept = bytearray(30_000_000)\n    within()\n"
    )
    program += "after()\nprint(made.path, os.getpid())\n"
    env = {"PYTHONPATH": str(tmp_path / "tree")}
    own(tmp_path, "", sys.executable)
    done = record(tmp_path / "t-%p.parquet", ["-c", program], any_python, ["--pause-at-start"], env=env)
    trace, pid = done.stdout.decode().split()
    assert (done.status, trace) == (0, f"{tmp_path}/t-{pid}.parquet"), done.stderr.decode()
    found = report(Path(trace))
    functions = {row["function"] for row in found["functions"] if row["cumulative_cpu_s"]}
    assert "within" in functions and not {"before", "after"} & functions
    assert found["totals"]["peak_bytes"] > 30_000_000
    assert not (tmp_path / "other.parquet").exists()


ENDS = {
    "killed": "start(sys.argv[1])\nwithin()\nos.kill(os.getpid(), 9)\n",
    "exits": "print(start(sys.argv[1]), start(sys.argv[1]))\nwithin()\n",
    "raises": "with record(sys.argv[1]):\n    within()\n    raise SystemExit(3)\n",
    "forks": """
start(sys.argv[1])
child = os.fork()
if not child:
    assert stop() is None
    spin(0.2)
    os._exit(0)
os.waitpid(child, 0)
within()
print(stop(), stop())
""",
}


@pytest.mark.parametrize("how", ENDS)
def test_every_end_leaves_a_trace(tmp_path: Path, how: str) -> None:
    done = own(tmp_path, ENDS[how], sys.executable, tmp_path / "t.parquet")
    assert done.status == {"killed": 128 + signal.SIGKILL, "raises": 3}.get(how, 0), done.stderr.decode()
    until(lambda: (tmp_path / "t.parquet").exists() and not (tmp_path / "t.parquet.spool").exists())
    said = {"exits": "True True\n", "forks": f"{tmp_path}/t.parquet None\n"}.get(how, "")
    assert done.stdout.decode() == said
    found = report(tmp_path / "t.parquet")
    assert "within" in {row["function"] for row in found["functions"]}
    assert found["traces"][0]["processes"] == (2 if how == "forks" else 1)


def test_two_recordings_one_after_the_other_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    program = "for _ in range(2):\n    with record('made') as made:\n        within()\n    print(made.path)\n    time.sleep(1)\n"
    done = own(tmp_path, program, sys.executable)
    paths = done.stdout.decode().split()
    assert len(set(paths)) == 2, done.stderr.decode()
    assert sorted(map(str, (tmp_path / "made").iterdir())) == sorted(paths)


@pytest.mark.parametrize(
    ("output", "sentence"),
    [("missing/t.parquet", b"missing does not exist"), ("/dev/null", b"not a regular file")],
)
def test_what_cannot_be_recorded_is_said_and_the_program_goes_on(tmp_path: Path, output: str, sentence: bytes) -> None:
    program = (
        "with record(sys.argv[1]) as made:\n    print(recording())\nprint(made.path, start(sys.argv[1]), stop())\n"
    )
    done = own(tmp_path, program, sys.executable, output)
    assert (done.status, done.stdout.decode()) == (0, "False\nNone False None\n"), done.stderr.decode()
    assert sentence in done.stderr
    assert b"Traceback" not in done.stderr


def test_without_the_tool_the_program_goes_on(tmp_path: Path) -> None:
    own(tmp_path, "", sys.executable)
    program = "import sys; sys.executable = ''\n" + PROGRAM + "print(start('t.parquet'))\n"
    done = run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PATH": "/nowhere", "PYTHONPATH": str(tmp_path / "tree")}
    )
    assert (done.status, done.stdout) == (0, b"False\n"), done.stderr.decode()
    assert b"put scalene-record on PATH" in done.stderr


ODD = {
    "nested": """
with record("t.parquet") as outer:
    with record("inner.parquet") as inner:
        within()
    spin(0.2)
print(outer.path, inner.path, os.path.exists("inner.parquet"))
""",
    "started before": """
start("t.parquet")
with record("inner.parquet") as inner:
    within()
spin(0.2)
print(stop(), inner.path, os.path.exists("inner.parquet"))
""",
    "threads": """
made = [threading.Thread(target=start, args=(f"{name}.parquet",)) for name in "tttt"]
[each.start() for each in made]
[each.join() for each in made]
within()
spin(0.2)
print(stop(), None, False)
""",
    "blocked signals": """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
with record("t.parquet") as made:
    within()
    spin(0.2)
print(made.path, None, False)
""",
    "adopts orphans": """
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
with record("t.parquet") as made:
    within()
    spin(0.2)
print(made.path, has_children(), False)
""",
    "overlap": """
def other():
    time.sleep(0.2)
    with record("other.parquet") as block:
        time.sleep(0.5)
        within()
    said.append((block.path, block.is_own))
said = []
thread = threading.Thread(target=other)
with record("t.parquet") as first:
    thread.start()
    spin(0.1)
    time.sleep(0.3)
thread.join()
((path, is_own),) = said
spin(0.1)
print(path, first.path, is_own or stop() or os.path.exists("other.parquet"))
""",
    "stop in a block": """
start("t.parquet")
with record("inner.parquet") as inner:
    assert stop() is None
    within()
    spin(0.2)
print(inner.path, stop(), os.path.exists("inner.parquet"))
""",
}


@pytest.mark.parametrize("how", ODD)
def test_one_recording_holds_it_all(tmp_path: Path, how: str) -> None:
    done = own(tmp_path, ODD[how], sys.executable)
    assert (done.status, done.stdout.decode()) == (0, f"{tmp_path}/t.parquet None False\n"), done.stderr.decode()
    assert done.stderr == b""
    assert report(tmp_path / "t.parquet")["totals"]["cpu_s"] == pytest.approx(0.6, abs=0.15)
    assert not [each.name for each in tmp_path.iterdir() if each.name.endswith(".spool")]


def test_a_forked_child_records_itself_elsewhere(tmp_path: Path) -> None:
    program = """
with record("t.parquet", ["--no-children"]) as made:
    child = os.fork()
    if not child:
        with record("child.parquet") as own:
            within()
        print(own.path, flush=True)
        sys.exit()
    os.waitpid(child, 0)
    spin(0.2)
print(made.path)
"""
    done = own(tmp_path, program, sys.executable)
    assert done.stdout.decode().split() == [f"{tmp_path}/child.parquet", f"{tmp_path}/t.parquet"], done.stderr.decode()
    functions = [
        {row["function"] for row in report(tmp_path / name)["functions"]} for name in ("child.parquet", "t.parquet")
    ]
    assert "within" in functions[0] and "within" not in functions[1]
    assert report(tmp_path / "t.parquet")["totals"]["cpu_s"] > 0.15


def test_a_recording_that_runs_is_not_paused_after_a_block(tmp_path: Path) -> None:
    own(tmp_path, "", sys.executable)
    program = (
        PROGRAM + "with record() as made:\n    within()\nif not os.fork():\n    with record():\n        sys.exit()\n"
    )
    program += "os.wait()\nafter()\nprint(made.path)\n"
    env = {"PYTHONPATH": str(tmp_path / "tree")}
    done = record(tmp_path / "t.parquet", ["-c", program], options=["--python", sys.executable], env=env)
    assert done.stdout.decode() == f"{tmp_path}/t.parquet\n", done.stderr.decode()
    assert "after" in {row["function"] for row in report(tmp_path / "t.parquet")["functions"]}
    assert "paused" not in losses(report(tmp_path / "t.parquet"))


@pytest.mark.leaves_spool
@pytest.mark.parametrize("what", ["killed", "stopped"])
def test_a_recorder_that_is_disturbed_holds_nobody_up(tmp_path: Path, what: str) -> None:
    number, sentence = {"killed": (9, b"--recover "), "stopped": (19, b"is stopped. It writes ")}[what]
    program = f"""
open("t.parquet", "w").close()
start("t.parquet")
from scalene_trace.recorder import inside
pid = inside._state.recording.pid
os.kill(pid, {number})
time.sleep(0.3)
print(stop(), pid)
"""
    done = own(tmp_path, program, sys.executable)
    said, pid = done.stdout.decode().split()
    assert (done.status, said) == (0, "None"), done.stderr.decode()
    assert sentence in done.stderr
    if what == "stopped":
        os.kill(int(pid), signal.SIGKILL)


FAILING = [
    "start('a\\0b')",
    "start(7)",
    "start('t.parquet', ['--no-such'])",
    "start('t.parquet', ['--help'])",
    "start('t.parquet', '--no-children')",
    "start('t.parquet', ['-o', 'other.parquet'])",
    "start('t.parquet', ['-vp4711'])",
    "start('t.parquet', ['--no-children', sys.executable, '-c', 'open(\"made\", \"w\")'])",
    "start('t.parquet', ['--no-children', 'touch', 'made'])",
    "start('t.parquet', [1, 2])",
    "(os.mkdir('gone'), os.chdir('gone'), os.rmdir('../gone'), start('t.parquet'))[-1]",
    "(os.chdir('/tmp'), __import__('resource').setrlimit(7, (5, 5)), start('t.parquet'))[-1]",
]


def test_a_failed_start_says_why_and_raises_nothing(tmp_path: Path) -> None:
    calls = (f"print('--', file=sys.stderr, flush=True)\nprint({call}, stop())\n" for call in FAILING)
    done = own(tmp_path, "".join(calls), sys.executable)
    assert (done.status, done.stdout.decode()) == (0, "False None\n" * len(FAILING)), done.stderr.decode()
    said = done.stderr.decode().split("--\n")[1:]
    assert [each.partition(": ")[0] for each in said] == ["scalene-record"] * len(FAILING), said
    assert not (tmp_path / "made").exists() and not (tmp_path / "other.parquet").exists()
    assert "Traceback" not in done.stderr.decode()


def test_a_recorder_that_has_ended_does_not_count(tmp_path: Path) -> None:
    program = "os.environ['SCALENE_TRACE_SPOOL'] = sys.argv[1] + '/gone.parquet.spool/spool'\n"
    program += "with record('t.parquet') as made:\n    within()\n    with mark('block'): pass\nprint(made.path)\n"
    done = own(tmp_path, program, sys.executable, tmp_path)
    assert (done.stdout.decode(), done.stderr) == (f"{tmp_path}/t.parquet\n", b"")
    assert [each["text"] for each in rows(tmp_path / "t.parquet", "mark")] == ["block"]


def test_descriptors_that_the_program_has_closed_are_left_alone(tmp_path: Path) -> None:
    program = """
start("t.parquet")
os.closerange(3, 100)
files = [open(sys.argv[0]) for _ in range(20)]
within()
print(stop())
assert all(each.read() for each in files)
"""
    done = own(tmp_path, program, sys.executable)
    assert (done.status, done.stdout.decode()) == (0, f"{tmp_path}/t.parquet\n"), done.stderr.decode()


def test_a_signal_handler_that_starts_a_recording_during_a_start_does_not_wait(tmp_path: Path) -> None:
    program = """
import signal
said = []
def handle(*_):
    said.append(start("other.parquet"))
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.05)
print(start("t.parquet"))
within()
print(said, stop(), os.path.exists("other.parquet"))
"""
    done = own(tmp_path, program, sys.executable)
    assert done.stdout.decode() == f"True\n[False] {tmp_path}/t.parquet False\n", done.stderr.decode()
    assert b"a signal handler cannot start or stop" in done.stderr


@pytest.mark.parametrize("when", ["it writes", "it has written"])
def test_after_a_recorder_has_ended_a_new_one_records(tmp_path: Path, when: str) -> None:
    """It has a few milliseconds left when its trace is there."""
    program = """
import socket
def takes_commands():
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("1.parquet.spool/control")
    except ConnectionRefusedError:
        return False
    return True
print(start("1.parquet", ["--duration", "100ms"]))
due = time.monotonic() + 30
while (takes_commands() if sys.argv[1] == "it writes" else not os.path.exists("1.parquet")) and time.monotonic() < due:
    pass
print(start("2.parquet"), start("2.parquet"))
within()
print(stop(), stop())
"""
    done = own(tmp_path, program, sys.executable, when)
    assert (done.stdout.decode(), done.stderr) == (f"True\nTrue True\n{tmp_path}/2.parquet None\n", b"")
    assert "within" in {row["function"] for row in report(tmp_path / "2.parquet")["functions"]}


HELD = """
before()
go, ready = os.pipe()
child = os.fork()
if not child:
    with record():
        os.write(ready, b".")
        time.sleep(0.3)
        within()
    if sys.argv[1] == "ends":
        after()
    else:
        start()
        os.kill(os.getpid(), 9)
    os._exit(0)
os.read(go, 1)
with record() as made:
    spin(0.1)
os.waitpid(child, 0)
time.sleep(0.3)
after()
print(made.path)
"""


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_blocks_of_two_processes_overlap_in_one_recording(tmp_path: Path, how: str) -> None:
    own(tmp_path, "", sys.executable)
    env, options = {"PYTHONPATH": str(tmp_path / "tree")}, ["--pause-at-start", "--python", sys.executable]
    done = record(tmp_path / "t.parquet", ["-c", PROGRAM + HELD, how], options=options, env=env)
    assert done.stdout.decode() == f"{tmp_path}/t.parquet\n", done.stderr.decode()
    found = {row["function"]: row["cumulative_cpu_s"] for row in report(tmp_path / "t.parquet")["functions"]}
    assert found["within"] > 0.25 and not found.get("before") and not found.get("after")


def test_a_recorder_that_does_not_answer_is_not_doubled_and_pauses_again(tmp_path: Path) -> None:
    own(tmp_path, "", sys.executable)
    program = """
import signal
os.kill(os.getppid(), signal.SIGSTOP)
with record("other.parquet") as made:
    os.kill(os.getppid(), signal.SIGCONT)
    time.sleep(0.2)
    within()
after()
print(made.path, os.path.exists("other.parquet"))
"""
    env, options = {"PYTHONPATH": str(tmp_path / "tree")}, ["--pause-at-start", "--python", sys.executable]
    done = record(tmp_path / "t.parquet", ["-c", PROGRAM + program], options=options, env=env)
    assert done.stdout.decode() == f"{tmp_path}/t.parquet False\n", done.stderr.decode()
    assert b"the recorder does not answer" in done.stderr
    found = {row["function"]: row["cumulative_cpu_s"] for row in report(tmp_path / "t.parquet")["functions"]}
    assert found["within"] > 0.25 and not found.get("after")


def test_a_recording_without_a_socket_is_one(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "scalene-record").write_text(
        f"#!{sys.executable}\nfrom scalene_trace.recorder.run import prepare\nprepare.listen = lambda folder: None\n"
        "from scalene_trace.cli.record.command import main\nmain()\n"
    )
    (tools / "scalene-record").chmod(0o755)
    program = f"""
sys.executable, os.environ["PATH"] = "", {str(tools)!r} + ":" + os.environ["PATH"]
began = time.monotonic()
with record("t.parquet") as made:
    assert time.monotonic() - began < 10
    within()
print(made.path)
"""
    done = own(tmp_path, program, sys.executable)
    assert (done.status, done.stdout.decode()) == (0, f"{tmp_path}/t.parquet\n"), done.stderr.decode()
    assert done.stderr.count(b"\n") == 1 and b"its file system could not hold a socket" in done.stderr
    assert "within" in {row["function"] for row in report(tmp_path / "t.parquet")["functions"]}
    under = [tools / "scalene-record", "-o", "u.parquet", sys.executable, "-c"]
    script = PROGRAM + "with record('v.parquet') as made: within()\nprint(made.path, os.path.exists('v.parquet'))\n"
    done = run([*under, script], cwd=tmp_path, env=environment(None) | {"PYTHONPATH": str(tmp_path / "tree")})
    assert done.stdout.decode() == "None False\n", done.stderr.decode()
    assert b"accepts no commands" in done.stderr
