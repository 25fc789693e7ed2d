"""Programs may use signals in any way: they behave as they do unrecorded, and their CPU time is recorded."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import TARGETS
from tests.support.recording import Recording, bare, line_of, lines_of, record, report, rows, run, target

#: Targets, with the CPU seconds that each surely spends on its marked line.
BURNS = {
    "signals_default": 0.3,
    "signals_ignored": 0.3,
    "signals_handled": 0.4,
    "signals_blocked": 0.6,
    "signals_waited": 0.4,
    "signals_masks": 0.7,
    "signals_children": 0.3,
}
COMMON = str(TARGETS / "signals_common.py")


def recorded_like_bare(
    name: str, python: Interpreter, trace: Path, *more: str, options: tuple[str, ...] = ()
) -> Recording:
    """Runs a target bare and recorded; both must say and end the same."""
    alone = bare([target(name), *more], python)
    done = record(trace, [target(name), *more], python, ["--cpu-interval", "1ms", *options])
    assert (done.stdout.decode(), done.stderr.decode()) == (alone.stdout.decode(), alone.stderr.decode())
    assert done.status == alone.status
    return done


def burned_s(trace: Path) -> float:
    """CPU seconds on the line that the targets work on."""
    row = lines_of(report(trace, "--all"), COMMON).get(line_of("signals_common", "burn"), {"cpu_s": 0})
    return float(row["cpu_s"])


@pytest.mark.parametrize("name", BURNS)
def test_a_program_that_uses_signals_behaves_as_bare_and_ticks_go_on(
    name: str, python: Interpreter, tmp_path: Path
) -> None:
    trace = tmp_path / "t.parquet"
    assert recorded_like_bare(name, python, trace).status == 0
    assert burned_s(trace) > 0


@pytest.mark.parametrize("name", [name for name in BURNS if name != "signals_children"])
def test_the_same_with_the_system_timer(name: str, any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert recorded_like_bare(name, any_python, trace, options=("--cpu-engine", "posix")).status == 0
    assert burned_s(trace) > 0


@pytest.mark.measures
@pytest.mark.parametrize("engine", ["auto", "posix"])
@pytest.mark.parametrize("name", [name for name in BURNS if name != "signals_children"])
def test_the_time_of_a_program_that_uses_signals_is_recorded(
    name: str, engine: str, any_python: Interpreter, tmp_path: Path
) -> None:
    options = ["--cpu-interval", "1ms", "--cpu-engine", engine]
    assert record(tmp_path / "t.parquet", [target(name)], any_python, options).status == 0
    assert burned_s(tmp_path / "t.parquet") > BURNS[name] / 2


@pytest.mark.parametrize("behind_the_last", [0, 3])
def test_a_program_dies_of_a_real_time_signal(behind_the_last: int, python: Interpreter, tmp_path: Path) -> None:
    number, trace = signal.SIGRTMAX - behind_the_last, tmp_path / "t.parquet"
    done = recorded_like_bare("signals_default", python, trace, str(number))
    assert done.status == 128 + number
    assert rows(trace, "process")[0]["exit_status"] == 128 + number


def test_every_signal_has_the_disposition_that_it_has_bare(tmp_path: Path) -> None:
    """posix_spawn ignores a signal that glibc uses itself (32), and programs hand that on to all that they start."""
    command = ["grep", "-E", "^Sig(Blk|Ign)|^ShdPnd", "/proc/self/status"]
    done = record(tmp_path / "t.parquet", ["--", *command])
    assert (done.status, done.stdout) == (0, run(command).stdout)
