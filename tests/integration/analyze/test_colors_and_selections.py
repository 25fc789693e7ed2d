"""When text has colours, and what is said if the options select nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.analyze.shared.selected import unmatched
from scalene_trace.cli.render.text import screen_for
from tests.support.example_traces import small_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "t.parquet")


class Stream:
    encoding = "utf-8"

    def __init__(self, is_terminal: bool) -> None:
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize(
    ("color", "variables", "expected"),
    [
        ("auto", {}, None),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "", "NO_COLOR": ""}, None),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_when_there_are_colours(
    color: str, variables: dict[str, str], expected: bool | None, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: on a terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream: Any = Stream(is_terminal)
    assert screen_for(stream, color).has_color is (is_terminal if expected is None else expected)


COMMANDS = (
    "report",
    "functions",
    "leaks",
    "memory",
    "timeline",
    "threads",
    "tasks",
    "labels",
    "libraries",
    "processes",
)


@pytest.mark.parametrize("command", [*COMMANDS, "info", "diff"])
def test_every_command_takes_the_option(command: str, run: Any, trace: Path) -> None:
    traces = [trace] * (2 if command == "diff" else 1)
    assert "\x1b[" in run(command, "--color=always", *traces).out
    for off in ("--color=never", "--no-color"):
        assert "\x1b[" not in run(command, off, *traces).out
    wrong = run(command, "--color", "red", *traces)
    assert wrong.code == 2 and "--color red is not known. It can be auto, always or never." in wrong.err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_process_is_said(command: str, run: Any, trace: Path) -> None:
    found = run(command, "--process", "9", trace)
    assert found.code == 0
    assert "--process 9 selects nothing: " in found.err and "`scalene-analyze processes`" in found.err
    assert not run(command, "--process", "1", trace).err


def test_what_selects_nothing_is_explained(run: Any, trace: Path) -> None:
    (info,) = run("info", "--json", trace).json["traces"]
    assert "--thread 99 selects nothing" in run("--thread", "99", trace).err
    assert f"--from {info['wall_s'] + 1:g} selects nothing" in run("--from", info["wall_s"] + 1, trace).err
    assert "--to 0 selects nothing" in run("--from", "-1", "--to", "0", trace).err
    assert not run("--from", "0.1", "--to", "99999", trace).err
    assert list(unmatched(Selection(processes=(9,)), [])) == []


def test_ids_are_named_in_the_right_number(trace: Path) -> None:
    (info,) = build_report([trace], Selection()).traces
    for processes, words in ((1, "the only process is 1."), (3, "processes have the ids 1 to 3."), (0, "no process.")):
        (said,) = unmatched(Selection(processes=(9,)), [replace(info, processes=processes)])
        assert words in said
