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
        if not (_is_recorded() or options.help or options.version):
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
    if config.getoption("scalene_trace") is not None and _is_recorded():
        from .measurement import Measurement

        config.pluginmanager.register(Measurement(config), "scalene-trace-measurement")


def _is_recorded() -> bool:
    """Does a recorder record this process? It may also have been started by hand."""
    if "SCALENE_TRACE_SPOOL" not in os.environ:
        return False
    from ...recorder.api import recording

    return recording()
