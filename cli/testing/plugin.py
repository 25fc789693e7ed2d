"""The hooks of pytest. Inert until ``--scalene-trace`` is given.

Two processes load this: the one that the user has started, which starts the recorder and waits (:mod:`.rerun`), and the
recorded one, which runs the tests. With pytest-xdist, the workers measure, and the controller prints what their reports
carry.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

#: Set for the processes of a run that this plugin has started: the process that started it compares the traces.
RERUN_VARIABLE = "SCALENE_TRACE_PYTEST"
_OPTION, _DEFAULT = "--scalene-trace", "trace.parquet"
#: How long a recorder may take to say what it records to: the run depends on it.
_TIMEOUT_US = 10_000_000
#: What :func:`_trace_of` has found: the recorder is asked once.
_TRACE = pytest.StashKey[str]()
_MARKERS = (
    "scalene(cpu=None, wall=None, peak=None, leaks=None): fail the test if it uses more; needs --scalene-trace",
    "limit_memory(size): fail the test if its peak exceeds the size; needs --scalene-trace, or pytest-memray",
    "limit_leaks(size): fail the test if it keeps more than the size; needs --scalene-trace, or pytest-memray",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("scalene-trace", "recording the tests with scalene-trace")
    group.addoption(
        _OPTION,
        nargs="?",
        const=_DEFAULT,
        metavar="=FILE",
        help=f"Record the run, and report what each test uses. FILE is the trace [default: {_DEFAULT}].",
    )
    group.addoption(
        "--scalene-options",
        default="",
        metavar="OPTIONS",
        help="Options of scalene-record, like '--native-alloc --cpu-interval 1ms'.",
    )
    group.addoption(
        "--scalene-compare",
        action="append",
        default=[],
        metavar="BASELINE",
        help="Compare with this trace of an earlier run, and fail if a line or a total became worse by more than noise. "
        "May be repeated: several runs show smaller changes.",
    )
    group.addoption(
        "--scalene-top",
        type=_number,
        default=5,
        metavar="N",
        help="Tests in each table of the summary [default: 5].",
    )


def _number(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not a number of tests")
    return int(text)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # any pytest knows these; this module is loaded in every run
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str], parser: pytest.Parser
) -> Generator[None, Any, None]:
    """Before anything of the tests is loaded, and before pytest captures the output: records the run instead."""
    options = early_config.known_args_namespace
    if options.scalene_trace is not None:
        # `--scalene-trace tests` means the folder tests, not a trace of that name.
        args[:] = [f"{_OPTION}={_DEFAULT}" if each == _OPTION else each for each in args]
        options = early_config.known_args_namespace = parser.parse_known_args(args)
        if not (options.help or options.version or _trace_of(early_config)):
            from .rerun import rerun

            status = rerun(early_config, options)
            sys.stdout.flush()
            os._exit(status)  # what else is registered for the end (coverage) belongs to the run that was recorded
        if options.scalene_compare and RERUN_VARIABLE not in os.environ:
            raise pytest.UsageError(
                "--scalene-compare cannot be used under scalene-record: the trace is not written yet."
            )
    elif options.scalene_compare:
        raise pytest.UsageError("--scalene-compare needs --scalene-trace: only a recorded run can be compared.")
    yield


def pytest_configure(config: pytest.Config) -> None:
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    option = config.option
    if option.scalene_trace is not None and not (option.help or option.version) and (trace := _trace_of(config)):
        from ...recorder.api import recording_folder
        from .measurement import Measurement

        measurement = Measurement(config, trace, recording_folder())
        config.pluginmanager.register(measurement, "scalene-trace-measurement")


def _trace_of(config: pytest.Config) -> str:
    """The trace that this process is recorded to, as its recorder says when it is asked first; "" if it is not recorded.

    The recorder may also have been started by hand. Raises pytest.UsageError where there is a recorder that does not answer.
    """
    if _TRACE not in config.stash:
        config.stash[_TRACE] = _asked_for_trace()
    return config.stash[_TRACE]


def _asked_for_trace() -> str:
    from ...recorder.api import output_of, recording_folder

    folder = recording_folder()
    error: Exception | None = None
    if folder:
        try:
            return output_of(folder, _TIMEOUT_US)
        except (OSError, ValueError, KeyError, TypeError) as caught:
            error = caught
    if folder or RERUN_VARIABLE in os.environ:
        from .rerun import refusal

        if sentence := refusal(folder, error):
            raise pytest.UsageError(sentence)
    return ""
