"""``pytest --scalene-trace``: the run is recorded once, each test is measured, and everything else is as without it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.observed_program import until
from tests.support.paths import PATIENCE_S
from tests.support.recording import analyze, record, report, rows, tool
from tests.support.suites import clean_environment, command, outcomes, run_suite, suite

TESTS = """
def test_spins():
    spin(0.3)
def test_grows():
    bytearray(40_000_000)
def test_keeps():
    kept.append(bytearray(5_000_000))
@pytest.mark.parametrize("number", range(30))
def test_little(number):
    assert number >= 0
def test_fails():
    assert os.getpid() == 0
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected():
    assert 0
def test_in_a_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.4: pass"], check=True)
"""
MEASURED = 36  # all but the skipped one


def test_nothing_happens_until_it_is_asked_for(tmp_path: Path) -> None:
    suite(
        tmp_path,
        """
@pytest.mark.scalene(cpu="1ms", leaks=0)
@pytest.mark.limit_memory("1 KB")
def test_inert():
    spin(0.05)
    kept.append(bytearray(1_000_000))
    ours = sorted(name for name in sys.modules if name.startswith("scalene_trace."))
    assert ours == ["scalene_trace.cli", "scalene_trace.cli.testing", "scalene_trace.cli.testing.plugin"], ours
    assert not {"duckdb", "pyarrow", "cffi", "ctypes", "typer"} & sys.modules.keys()
""",
    )
    done = run_suite(tmp_path, "--strict-markers")
    assert (done.status, outcomes(done)) == (0, ["1 passed"]), done.stdout.decode()
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(b"plugins: ")]
    assert not any(b"scalene" in line for line in said)
    assert {each.name for each in tmp_path.iterdir()} <= {"test_suite.py", "__pycache__"}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_is_recorded_and_each_test_is_measured(tmp_path: Path, workers: int) -> None:
    suite(tmp_path, TESTS)
    parallel = ["-n", str(workers)] if workers else []
    bare = run_suite(tmp_path, *parallel)
    done = run_suite(tmp_path, *parallel, "--scalene-trace", "--scalene-top", "2")
    assert (done.status, outcomes(done)) == (bare.status, outcomes(bare)) == (1, outcomes(bare)), done.stdout.decode()
    trace = tmp_path / "trace.parquet"
    said = done.stdout.decode()
    assert f"scalene-trace: {trace} " in said
    tables = said.partition(f"scalene-trace: {trace} ")[2].partition("short test summary")[0].splitlines()
    names = [line.split()[-1].partition("::")[2] for line in tables if "::" in line and "--mark" not in line]
    assert set(names[:2]) == {"test_in_a_child", "test_spins"}, said
    assert names[2:4] == ["test_grows", "test_keeps"]
    assert names[4:] == ["test_keeps"]
    marks = rows(trace, "mark")
    assert len(marks) == len({each["text"] for each in marks}) == MEASURED
    assert all(each["text"].startswith("test_suite.py::test_") for each in marks)
    assert len({each["pid"] for each in marks}) == max(workers, 1)
    assert all(0 < each["t_ns"] <= each["end_ns"] for each in marks)


def test_lines_of_one_test_are_selected_by_its_name(tmp_path: Path) -> None:
    suite(tmp_path, TESTS)
    run_suite(tmp_path, "-n", "2", "--scalene-trace=t.parquet")
    trace = tmp_path / "t.parquet"
    one = report(trace, "--mark", "test_suite.py::test_spins")
    assert one["query"]["mark"] == "test_suite.py::test_spins"
    assert one["totals"]["cpu_s"] == pytest.approx(0.3, abs=0.1)
    spun = {row["function"]: row["cpu_s"] for row in one["functions"]}["spin"]
    assert spun > 0.8 * one["totals"]["cpu_s"]
    child = report(trace, "--mark", "test_suite.py::test_in_a_child")
    assert child["totals"]["cpu_s"] == pytest.approx(0.4, abs=0.15)
    grown = report(trace, "--mark", "test_suite.py::test_grows")
    assert grown["totals"]["peak_bytes"] >= 40_000_000
    query = "SELECT sum(alloc_bytes) AS bytes FROM lines"
    per_line = analyze("sql", trace, "--mark", "test_suite.py::test_grows", query, "--format", "csv")
    assert float(per_line.stdout.split()[1]) == pytest.approx(40_000_000, rel=0.05)
    same = analyze("diff", trace, trace, "--mark", "test_suite.py::test_spins", "--json")
    assert same.status == 0, same.stderr.decode()
    assert b'"mark": "test_suite.py::test_spins"' in same.stdout


REFUSED = [
    (["--mark", "test_suite.py::test_spin"], "Did you mean 'test_suite.py::test_spins'?"),
    (["--mark", ""], "`scalene-analyze info` lists the marks."),
    (["--mark", "twice"], "The mark 'twice' was set 2 times. Select one: --from "),
    (["--mark", "twice", "--to", "3"], "Leave out --from, --to and --process."),
    (["--mark", "twice", "t.parquet"], "in others, the mark has other times. Name one trace."),
]


def test_a_mark_that_says_too_little_is_refused(tmp_path: Path) -> None:
    program = "from scalene_trace.recorder import mark\nfor _ in range(2):\n with mark('twice'): sum(range(10**6))\n"
    program += "mark('test_suite.py::test_spins')\n"
    trace = tmp_path / "t.parquet"
    done = record(trace, ["-c", program], options=["--python", sys.executable])
    assert done.status == 0, done.stderr.decode()
    for arguments, sentence in REFUSED:
        refused = analyze("report", trace, *(str(trace) if each == trace.name else each for each in arguments))
        assert (refused.status, refused.stdout) == (2, b"")
        assert sentence in refused.stderr.decode()


def test_a_folder_after_the_option_is_a_folder_of_tests(tmp_path: Path) -> None:
    suite(tmp_path, "def test_left_out(): assert 0\n")
    suite(tmp_path, "def test_asked_for(): pass\n", "some/test_some.py")
    done = run_suite(tmp_path, "--scalene-trace", "some")
    assert (done.status, outcomes(done)) == (0, ["1 passed"]), done.stdout.decode()
    assert (tmp_path / "trace.parquet").is_file()


@pytest.mark.parametrize("configured", [False, True])
def test_options_of_a_folders_conftest_are_known(tmp_path: Path, configured: bool) -> None:
    suite(tmp_path, "def test_asked_for(request): assert request.config.getoption('own') == 'x'\n", "some/test_some.py")
    (tmp_path / "some" / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--own')\n")
    if configured:
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --scalene-trace\n")
    done = run_suite(tmp_path, *([] if configured else ["--scalene-trace"]), "some", "--own", "x")
    assert (done.status, outcomes(done)) == (0, ["1 passed"]), done.stderr.decode()
    assert (tmp_path / "trace.parquet").is_file()


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_option_may_come_from_the_configuration(tmp_path: Path, by_variable: bool) -> None:
    suite(tmp_path, "def test_one(): pass\ndef test_two(): pass\n")
    if not by_variable:
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --scalene-trace\n")
    extra = {"PYTEST_ADDOPTS": "--scalene-trace"} if by_variable else None
    done = run_suite(tmp_path, "test_suite.py::test_two", extra=extra)
    assert (done.status, outcomes(done)) == (0, ["1 passed"]), done.stdout.decode()
    named = run_suite(tmp_path, "--scalene-trace=named-%p.parquet", "test_suite.py::test_two", extra=extra)
    (trace,) = tmp_path.glob("named-*.parquet")
    assert (named.status, f"scalene-trace: {trace} " in named.stdout.decode()) == (0, True), named.stdout.decode()
    assert [each["text"] for each in rows(tmp_path / "trace.parquet", "mark")] == ["test_suite.py::test_two"]


def test_options_reach_the_recorder(tmp_path: Path) -> None:
    suite(tmp_path, "@pytest.mark.scalene(peak='1MB')\ndef test_one(): pass\n")
    done = run_suite(tmp_path, "--scalene-trace", "--scalene-options=--no-memory --no-wait --label 'run=a b'")
    said = done.stdout.decode()
    assert "The test has a budget of memory, which is not recorded." in said
    assert "Memory was not recorded." in said
    assert done.status == 1
    assert report(tmp_path / "trace.parquet")["traces"][0]["events"]["memory"] is None
    settings = report(tmp_path / "trace.parquet", command="info")["traces"][0]["settings"]
    assert settings["labels"] == '{"run": "a b"}'
    wrong = run_suite(tmp_path, "--scalene-trace", "--scalene-options=--no-such")
    assert wrong.status == 125
    assert b"--no-such" in wrong.stderr


def test_a_recorder_that_was_started_by_hand_is_used(tmp_path: Path) -> None:
    suite(tmp_path, "def test_one(): spin(0.05)\n")
    recorder = [*tool("scalene-record"), "-o", "own.parquet", "--"]
    asked = command("--scalene-trace=ignored.parquet")
    done = subprocess.run(
        [*recorder, *asked], cwd=tmp_path, env=clean_environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout.decode()
    assert f"scalene-trace: {tmp_path}/own.parquet ".encode() in done.stdout
    assert not (tmp_path / "ignored.parquet").exists()
    assert len(rows(tmp_path / "own.parquet", "mark")) == 1
    asked.append("--scalene-compare=own.parquet")
    done = subprocess.run(
        [*recorder, *asked], cwd=tmp_path, env=clean_environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 4
    assert b"the trace is not written yet" in done.stderr


def test_a_recorder_that_has_ended_is_not_used(tmp_path: Path) -> None:
    suite(tmp_path, "def test_one(): pass\n")
    done = run_suite(tmp_path, "--scalene-trace", extra={"SCALENE_TRACE_SPOOL": f"{tmp_path}/gone.parquet.spool/spool"})
    assert (done.status, outcomes(done)) == (0, ["1 passed"]), done.stderr.decode()
    assert len(rows(tmp_path / "trace.parquet", "mark")) == 1


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("", "scalene-record does not record"),
        ("silent", "silent accepts no commands: its file system could not hold a socket."),
        ("gone", "it has just ended, or it has died."),
    ],
)
def test_a_run_that_its_recorder_does_not_answer_is_not_started_again(
    tmp_path: Path, folder: str, sentence: str
) -> None:
    suite(tmp_path, "def test_one(): open('ran', 'w')\n")
    (tmp_path / "silent").mkdir()
    extra = {"SCALENE_TRACE_PYTEST": "1"} | ({"SCALENE_TRACE_SPOOL": f"{tmp_path}/{folder}/spool"} if folder else {})
    done = run_suite(tmp_path, "--scalene-trace=t-%p.parquet", extra=extra)
    assert (done.status, sentence in done.stderr.decode()) == (4, True), done.stderr.decode()
    assert "No test was run, because nothing would be measured." in done.stderr.decode()
    assert not [*tmp_path.glob("t-*"), *tmp_path.glob("ran")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--scalene-compare=a.parquet"], "--scalene-compare needs --scalene-trace"),
        (["--scalene-trace", "--scalene-compare=none.parquet"], "there is no trace none.parquet"),
        (["--scalene-trace=a.parquet", "--scalene-compare=a.parquet"], "a.parquet would be replaced by this run"),
        (["--scalene-trace", "--scalene-compare=a.parquet"], "a.parquet is empty"),
        (["--scalene-trace", "--scalene-compare=."], "is a directory"),
        (["--scalene-trace", "--scalene-options='x"], "No closing quotation"),
        (["--scalene-trace", "--scalene-options=-o other.parquet"], "the trace is named by --scalene-trace=FILE"),
        (["--scalene-trace=%p.parquet", "--scalene-compare=a.parquet"], "needs the name of the new trace"),
    ],
)
def test_wrong_options_are_refused_before_the_tests_run(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    suite(tmp_path, "def test_one(): open('ran', 'w')\n")
    (tmp_path / "a.parquet").write_bytes(b"")
    done = run_suite(tmp_path, *arguments)
    assert done.status == 4
    assert sentence in done.stderr.decode()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments", [["--scalene-trace"], []])
def test_a_program_that_calls_pytest_is_not_run_again(tmp_path: Path, arguments: list[str]) -> None:
    suite(tmp_path, "def test_one(): pass\n")
    if not arguments:
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --scalene-trace\n")
    program = f"import pytest\nprint('once')\nraise SystemExit(pytest.main({arguments}))"
    (tmp_path / "program.py").write_text(program)
    for command_line in (["program.py", *arguments], ["-", *arguments]):
        done = subprocess.run(
            [sys.executable, *command_line],
            input=program.encode(),
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stdout.split()) == (4, [b"once"]), command_line
        assert b"Record that program instead" in done.stderr.replace(b"\n", b" ")


def test_a_slower_suite_fails_the_comparison(tmp_path: Path) -> None:
    text = "def work(turns):\n    total = 0\n    for turn in range(turns):\n        total += turn * turn\n"
    text += "def test_work(): work({turns})\ndef test_spin(): spin(0.3)\n"
    suite(tmp_path, text.format(turns=5_000_000))
    assert run_suite(tmp_path, "--scalene-trace=before.parquet").status == 0
    same = run_suite(tmp_path, "--scalene-trace=same.parquet", "--scalene-compare=before.parquet")
    assert same.status == 0, same.stdout.decode()
    assert b"worse: nothing" in same.stdout
    suite(tmp_path, text.format(turns=25_000_000))
    slower = run_suite(tmp_path, "--scalene-trace=after.parquet", "--scalene-compare=before.parquet")
    assert (slower.status, b"2 passed" in slower.stdout) == (1, True), slower.stdout.decode()
    suite(tmp_path, text.format(turns=5_000_000) + "def test_fails(): assert 0\n")
    failed = run_suite(tmp_path, "--scalene-trace=after.parquet", "--scalene-compare=before.parquet")
    assert failed.status == 1
    assert b"worse: nothing" in failed.stdout
    suite(tmp_path, "def test_work(): pass\n")
    for number in ("", ".2", ".3", ".4", ".5"):  # folders: after.parquet cannot be moved aside, so it stays as it is
        (tmp_path / f"after.old{number}.parquet").unlink(missing_ok=True)
        (tmp_path / f"after.old{number}.parquet").mkdir()
    stale = run_suite(tmp_path, "--scalene-trace=after.parquet", "--scalene-compare=before.parquet")
    assert (stale.status, outcomes(stale)) == (1, ["1 passed"]), stale.stdout.decode()
    assert b"nothing was compared, because this run has not written after.parquet." in stale.stderr
    shutil.rmtree(tmp_path / "after.parquet.spool")


def waiting(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """pytest, once its test waits."""
    suite(folder, "def test_waits():\n    open('waits', 'w').close()\n    time.sleep(600)\n")
    process = subprocess.Popen(command(*arguments), cwd=folder, env=clean_environment(), **options)
    until((folder / "waits").exists)
    return process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 2), (signal.SIGTERM, 143)])
def test_signals_reach_the_tests(tmp_path: Path, number: signal.Signals, status: int) -> None:
    process = waiting(tmp_path, "--scalene-trace", stdout=subprocess.PIPE, start_new_session=True)
    process.send_signal(number)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status, said.decode()
    assert (tmp_path / "trace.parquet").is_file()


def test_a_key_of_the_terminal_reaches_the_tests_once(tmp_path: Path) -> None:
    terminal, inner = os.openpty()
    process = waiting(
        tmp_path, "--scalene-trace", stdin=inner, stdout=inner, stderr=inner, preexec_fn=lambda: os.login_tty(0)
    )
    os.close(inner)
    os.write(terminal, b"\x03")
    said = b""
    with suppress(OSError):  # nobody has the other end open any more
        while part := os.read(terminal, 65536):
            said += part
    os.close(terminal)
    assert process.wait(PATIENCE_S) == 2, said.decode()
    assert b"no tests ran" in said, said.decode()  # a second interruption would have ended the report
    assert (tmp_path / "trace.parquet").is_file()
