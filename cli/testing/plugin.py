"""The hooks of pytest. Inert until ``--scalene-trace`` is given.

Two processes load this: the one that the user has started, which starts the recorder and waits (:mod:`.rerun`), and the
recorded one, which runs the tests. With pytest-xdist, the workers measure, and the controller prints what their reports
carry.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .budgets import Budget
    from .meter import Used

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
        type=int,
        default=5,
        metavar="N",
        help="Tests in each table of the summary [default: 5].",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str], parser: pytest.Parser
) -> Generator[None, Any, Any]:
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
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if config.getoption("scalene_trace") is not None and _is_recorded():
        config.pluginmanager.register(Measurement(config), "scalene-trace-measurement")


def _is_recorded() -> bool:
    """Does a recorder record this process? It may also have been started by hand."""
    return "SCALENE_TRACE_SPOOL" in os.environ


class Measurement:
    """The hooks of the recorded process: measure tests, judge them, tell the summary."""

    def __init__(self, config: pytest.Config) -> None:
        from ...recorder import api
        from . import meter, summary  # noqa: F401 (before a test replaces what they use)
        from .budgets import Budgets
        from .marks import Marks

        self._trace = api.trace_path()
        api.attached_folder = f"{self._trace}.spool"  # should a test empty the environment
        self._budgets = Budgets(config)
        self._marks = Marks()
        self._used: dict[str, Used] = {}  # of this process's tests, until their reports are made
        self._measured: list[tuple[str, Used]] = []

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        from .budgets import BudgetError
        from .meter import Meter

        budget: Budget | None = None
        try:
            budget = self._budgets.of(item)
        except BudgetError as error:
            wrong = str(error)
        if budget is None:  # outside of the handler: the failure would name the error as its context
            pytest.fail(wrong, pytrace=False)
        meter = Meter(collects=budget.leaks is not None)
        try:
            with meter:
                result = yield
        finally:
            used = self._used[item.nodeid] = meter.used()
            self._marks.add(item.nodeid, *meter.moments_ns)
        exceeded = budget.exceeded(used)
        if exceeded:
            pytest.fail("\n".join(exceeded), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "call" and (used := self._used.pop(item.nodeid, None)):
            report.scalene_trace = list(used)  # what pytest-xdist can send to its controller
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from .meter import Used

        if (used := getattr(report, "scalene_trace", None)) is not None:
            self._measured.append((report.nodeid, Used(*used)))

    def pytest_runtest_logfinish(self) -> None:
        self._marks.send_if_due()

    def pytest_sessionfinish(self) -> None:
        self._marks.send()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        from .summary import lines

        terminalreporter.section(f"scalene-trace: {self._trace}")
        for line in lines(self._measured, config.getoption("scalene_top"), self._trace):
            terminalreporter.write_line(line)
