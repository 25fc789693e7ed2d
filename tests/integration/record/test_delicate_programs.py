"""Programs that a recorder could harm; each one once was harmed, or nearly."""

from __future__ import annotations

import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import perf_events
from tests.support.interpreters import Interpreter, interpreters
from tests.support.native import library as build_library
from tests.support.observed_program import record_attached
from tests.support.paths import TARGETS
from tests.support.recording import losses, record, report, target, total

COUNTING = "x = 0\nfor i in range(3_000_000): x += i\nprint('alive')"


def test_threads_that_are_cancelled_at_once_still_run(any_python: Interpreter, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    program = tmp_path / "cancelled"
    subprocess.run([compiler, "-O1", "-o", program, TARGETS / "cancelled.c", "-lpthread"], check=True)
    assert record(tmp_path / "t.parquet", [program]).stdout == b"100\n"


def test_without_room_for_queued_signals_the_program_lives(python: Interpreter, tmp_path: Path) -> None:
    def no_queue() -> None:
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))

    done = record(tmp_path / "t.parquet", ["-c", COUNTING], python, preexec_fn=no_queue)
    assert (done.status, done.stdout) == (0, b"alive\n")
    assert losses(report(tmp_path / "t.parquet"))["signal_budget"] >= 1


def test_an_alternate_stack_too_small_for_a_signal_is_left_alone(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("small_stack")], python, ["--cpu-interval", "1ms"])
    assert done.status == 0
    if done.stdout == b"accepted\n":
        assert losses(report(tmp_path / "t.parquet"))["small_alternate_stack"] == 1


def test_code_objects_at_one_address_are_distinguished(python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("reused_code")], python, ["--cpu-interval", "1ms"])
    found = report(tmp_path / "t.parquet")
    made = {row["file"]: row["cumulative_cpu_s"] for row in found["functions"] if row["file"].startswith("made_")}
    assert made == {f"made_{number}.py": pytest.approx(0.3, rel=0.5) for number in range(10)}


@pytest.mark.parametrize("of", [each for each in interpreters() if each.version < (3, 12)], ids=lambda each: each.name)
@pytest.mark.parametrize("how", ["by ticks", "from outside", "by samples", "by events"])
def test_code_that_differs_in_its_line_table_alone(of: Interpreter, how: str, tmp_path: Path) -> None:
    """From 3.12 on, each code object has a number of its own."""
    trace, is_cpu = tmp_path / "t.parquet", how in ("by ticks", "from outside")
    program = [target("recompiled"), *([] if is_cpu else ["allocates"])]
    if how == "from outside":
        record_attached(trace, program, of, "--cpu-interval", "1ms")
    else:
        record(trace, program, of, ["--alloc-interval", "1"] if how == "by events" else ["--cpu-interval", "1ms"])
    found = {row["line"]: row for row in report(trace)["lines"] if row["file"].endswith("made.py")}
    each, error = (0.2, 0.9) if is_cpu else (10_000_019, 0.01)  # without the mend, some lines have nothing
    values = {line: found[line]["cpu_s" if is_cpu else "alloc_bytes"] for line in found if line > 1}
    assert values == {line: pytest.approx(each, rel=error) for line in range(2, 12)}


def test_what_a_parent_holds_is_not_its_childrens_growth(python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("forked_memory")], python)
    found = report(tmp_path / "t.parquet")
    assert (
        total([*found["lines"], found["unattributed"]], "growth_bytes") < 12_000_000
    )  # with the interpreter's own; not 20


def test_stacks_are_read_after_the_first_thread_has_ended(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("first_thread_gone")], python)
    assert (done.status, done.stdout) == (0, b"done\n"), done.stderr
    found = report(tmp_path / "t.parquet")
    assert total(found["lines"], "cpu_s") >= 0.4 and losses(found).get("torn_stack", 0) <= 3  # else all are


LIMITED = """
import resource, time
def burn(seconds):
    x, end_s = 0, time.thread_time() + seconds
    while time.thread_time() < end_s:
        for i in range(20_000): x += i
def after(): burn(0.6)
soft, hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)
resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, hard))
burn(0.8)
resource.setrlimit(resource.RLIMIT_SIGPENDING, (soft, hard))
after()
"""


def test_ticks_come_back_with_the_room_for_their_signals(python: Interpreter, tmp_path: Path) -> None:
    perf_events.needed()
    assert record(tmp_path / "t.parquet", ["-c", LIMITED], python).status == 0
    found = report(tmp_path / "t.parquet", "--all", command="functions")
    assert losses(report(tmp_path / "t.parquet"))["signal_budget"] >= 1
    assert total([row for row in found["functions"] if row["function"] == "after"], "cumulative_cpu_s") >= 0.3


SUB_INTERPRETER = """
import time, _xxsubinterpreters as interpreters
def work(end_s):
    while time.process_time() < end_s: pass
work(time.process_time() + 0.2)
made = interpreters.create() if {made} else None
work(time.process_time() + 0.2)
if made is not None: interpreters.destroy(made)
print('done')
"""


@pytest.mark.parametrize("made", [False, True])
def test_a_sub_interpreter_that_is_made_after_many_ticks_is_reported(
    python: Interpreter, tmp_path: Path, made: bool
) -> None:
    if python.version[:2] > (3, 11):
        pytest.skip("from 3.12 on, a thread's state leads to its own interpreter")
    code = SUB_INTERPRETER.format(made=made)
    done = record(tmp_path / "t.parquet", ["-c", code], python, ["--cpu-interval", "1ms"])
    assert (done.status, done.stdout) == (0, b"done\n")
    assert losses(report(tmp_path / "t.parquet")).get("sub_interpreters", 0) == made


LIBRARIES = """
import ctypes, sys, time
kept = [ctypes.CDLL(f"{sys.argv[1]}/{number}.so") for number in range(1100)]
end_s = time.process_time() + 0.3
while time.process_time() < end_s: pass
print(kept[-1].main())
"""


def test_more_libraries_than_are_remembered_are_a_loss(any_python: Interpreter, tmp_path: Path) -> None:
    library = build_library(tmp_path, "answer.c")
    (copies := tmp_path / "copies").mkdir()
    for number in range(1100):
        shutil.copy(library, copies / f"{number}.so")
    done = record(tmp_path / "t.parquet", ["-c", LIBRARIES, copies], any_python)
    assert (done.status, done.stdout) == (0, b"seven\n7\n"), done.stderr
    found = losses(report(tmp_path / "t.parquet"))
    assert found["images_crowded"] == 1 and "spool_full" not in found
