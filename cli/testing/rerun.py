"""The process that the user has started: it runs pytest again under the recorder, and compares the trace afterwards."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .plugin import RERUN_VARIABLE

#: ``-P``: the folder in which pytest was started has no say in what is imported.
_RECORD = (sys.executable, "-P", "-c", "from scalene_trace.cli.record.command import main; main()")
_ANALYZE = (sys.executable, "-P", "-c", "from scalene_trace.cli.analyze.command import main; main()")
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def rerun(config: pytest.Config, trace: str, options: argparse.Namespace) -> int:
    """Runs the command that runs now under the recorder; returns the exit status for it.

    Raises pytest.UsageError where that is not possible.
    """
    command, given = sys.orig_argv, [str(each) for each in config.invocation_params.args]
    if given and command[-len(given) :] != given:
        raise pytest.UsageError(
            "--scalene-trace runs the command again, and pytest was called by a program with other arguments. Record that "
            "program instead: scalene-record PROGRAM."
        )
    baselines = [Path(each) for each in options.scalene_compare]
    if baselines and ("%" in trace or Path(trace).is_dir()):
        raise pytest.UsageError(
            f"--scalene-compare needs the name of the new trace, and {trace} is none: --scalene-trace=FILE."
        )
    for baseline in baselines:
        if not baseline.exists():
            raise pytest.UsageError(f"--scalene-compare: there is no trace {baseline}.")
        if baseline.resolve() == Path(trace).resolve():
            raise pytest.UsageError(
                f"{baseline} would be replaced by this run. Write to another file: --scalene-trace=FILE."
            )
    recorder = [*_RECORD, "-o", trace, *shlex.split(options.scalene_options), "--", sys.executable, *command[1:]]
    status = _wait_for(recorder, os.environ | {RERUN_VARIABLE: "1"})
    if baselines and status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return _compare(baselines, trace) or status
    return status


def _compare(baselines: Sequence[Path], trace: str) -> int:
    """Prints what changed. Returns 1 if something became worse by more than noise, or the analysis's own status."""
    before = [word for baseline in baselines for word in ("--before", str(baseline))]
    print(flush=True)
    return _wait_for([*_ANALYZE, "diff", *before, "--after", trace, "--fail-on", "worse"], dict(os.environ))


def _wait_for(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit status of ``command``, as a shell gives it. Signals that arrive meanwhile are its own."""
    with subprocess.Popen(command, env=environment) as process, _signals_of(process):
        status = process.wait()
    return 128 - status if status < 0 else status


@contextmanager
def _signals_of(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Passes signals on. Ctrl-C reaches all processes of the terminal anyway."""
    handlers = {each: signal.signal(each, lambda number, frame: process.send_signal(number)) for each in _PASSED_ON}
    handlers[signal.SIGINT] = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
