"""The hooks of the recorded process: they measure tests, judge them, and print what they used.

What is used while tests run is imported here, before a test can replace it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ...recorder import api
from .budgets import Budget, BudgetError, Budgets
from .marks import Marks
from .meter import Meter, Used
from .summary import lines


class Measurement:
    """A plugin of pytest for one run. ``trace``: its path; ``folder``: of the recording."""

    def __init__(self, config: pytest.Config, trace: str, folder: str) -> None:
        self._trace = trace
        api.attached_folder = folder  # should a test empty the environment
        self._budgets = Budgets(config)
        self._marks = Marks()
        self._used: dict[str, Used] = {}  # of this process's tests, until their reports are made
        self._measured: list[tuple[str, Used]] = []

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
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
        if (used := getattr(report, "scalene_trace", None)) is not None:
            self._measured.append((report.nodeid, Used(*used)))

    def pytest_runtest_logfinish(self) -> None:
        self._marks.send_if_due()

    def pytest_sessionfinish(self) -> None:
        self._marks.send()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        terminalreporter.section(f"scalene-trace: {self._trace}")
        for line in lines(self._measured, config.getoption("scalene_top"), self._trace):
            terminalreporter.write_line(line)
