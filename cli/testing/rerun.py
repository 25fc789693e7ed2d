"""The process that the user has started: it runs pytest again under the recorder, and compares the trace afterwards."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ...formats.errors import TraceError
from ...formats.identity import identity_of
from ...formats.trace.integrity import check_trace
from ...recorder.control.client import unreachable
from ...recorder.folder.output import is_live
from ...recorder.run.supervise import PYTHON_IGNORES, hold_signals, wait_for
from ..analyze import COMMAND as ANALYZE
from ..record import COMMAND as RECORD
from .plugin import RERUN_VARIABLE

_A_DAY_S = 86_400.0


def rerun(config: pytest.Config, options: argparse.Namespace) -> int:
    """Runs the command that runs now under the recorder; returns the exit status for it.

    Raises pytest.UsageError where that is not possible.
    """
    if not _is_command([str(each) for each in config.invocation_params.args]):
        raise pytest.UsageError(
            "--scalene-trace runs the command again, and pytest was called by another program. Record that program instead: "
            "scalene-record PROGRAM."
        )
    trace, baselines = options.scalene_trace, [Path(each) for each in options.scalene_compare]
    if baselines and ("%" in trace or Path(trace).is_dir()):
        raise pytest.UsageError(
            f"--scalene-compare needs the name of the new trace, and {trace} may be any: --scalene-trace=FILE."
        )
    for baseline in baselines:
        if not baseline.exists():
            raise pytest.UsageError(f"--scalene-compare: there is no trace {baseline}.")
        if baseline.resolve() == Path(trace).resolve():
            raise pytest.UsageError(
                f"{baseline} would be replaced by this run. Write to another file: --scalene-trace=FILE."
            )
        try:
            check_trace(baseline)
        except TraceError as error:
            raise pytest.UsageError(f"--scalene-compare: {error}") from None
    recorder = [
        *RECORD,
        "-o",
        trace,
        *_given_options(options.scalene_options),
        "--",
        sys.executable,
        *sys.orig_argv[1:],
    ]
    before = identity_of(Path(trace))
    status = _status_of(recorder, os.environ | {RERUN_VARIABLE: "1"})
    if not baselines or status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return status
    if identity_of(Path(trace)) in ((), before):  # the recorder has said why, and passes on the status of the tests
        print(f"--scalene-compare: nothing was compared, because this run has not written {trace}.", file=sys.stderr)
        return pytest.ExitCode.TESTS_FAILED
    return _compare(baselines, trace) or status


def refusal(folder: str, error: Exception | None) -> str:
    """Why this process cannot be measured, and what to do; "" if it can be run again under a recorder of its own.

    ``folder``: of the recording that it belongs to, "" if there is none; ``error``: what asking its recorder raised. One that
    has ended does not matter, unless this plugin has started it: it would be started again without end.
    """
    is_ours = RERUN_VARIABLE in os.environ
    if not folder:
        why = (
            f"scalene-record does not record {sys.executable}. `scalene-record --doctor --python {sys.executable}` "
            "says why."
        )
    elif error and (is_ours or is_live(Path(folder))):
        why = unreachable(Path(folder), error)
    else:
        return ""
    if is_ours and isinstance(error, FileNotFoundError) and Path(folder).is_dir():  # it has no socket
        why += " Put the trace on another file system: --scalene-trace=FILE."
    return f"--scalene-trace: No test was run, because nothing would be measured. {why}"


def _compare(baselines: Sequence[Path], trace: str) -> int:
    """Prints what changed. Returns 1 if something became worse by more than noise, or the analysis's own status."""
    before = [word for baseline in baselines for word in ("--before", str(baseline))]
    print(flush=True)
    return _status_of([*ANALYZE, "diff", *before, "--after", trace, "--fail-on", "worse"], dict(os.environ))


def _is_command(given: Sequence[str]) -> bool:
    """Is pytest itself the program that was started, with these arguments? Another one would run twice."""
    program = Path(sys.argv[0])
    is_pytest = program.name in ("pytest", "py.test") or program.parts[-2:] == ("pytest", "__main__.py")
    words = sys.orig_argv[len(sys.orig_argv) - len(given) :]
    return is_pytest and sys.argv[1:] == words == [*given]


def _given_options(text: str) -> list[str]:
    """The words of ``--scalene-options``. Raises pytest.UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise pytest.UsageError(f"--scalene-options: {error}.") from None
    if any(word.startswith(("-o", "--output")) for word in words):
        raise pytest.UsageError("--scalene-options: the trace is named by --scalene-trace=FILE.")
    if any(word.partition("=")[0] == "--rotate" for word in words):
        raise pytest.UsageError("--scalene-options: a test run has one trace. Leave out --rotate.")
    return words


def _status_of(command: list[str], environment: dict[str, str]) -> int:
    """Runs ``command`` and returns its exit status, as a shell gives it. Signals that arrive until then are meant for it."""
    before = hold_signals()
    try:
        pid = os.posix_spawn(command[0], command, environment, setsigmask=before, setsigdef=PYTHON_IGNORES)
        return wait_for(pid, lambda: _A_DAY_S).status
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
