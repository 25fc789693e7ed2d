"""The everyday questions of docs/journeys.md: each has an answer in at most three commands that the README names."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from tests.support.paths import ROOT

MOST_COMMANDS = 3
PAGE = ROOT / "docs" / "journeys.md"


def load() -> ModuleType:
    """docs/journeys.py."""
    spec = importlib.util.spec_from_file_location("docs_journeys", ROOT / "docs" / "journeys.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


journeys = load()
COMMANDS: dict[str, list[str]] = journeys.journeys(PAGE.read_text())

#: What the output of the last command says, whatever the figures are.
ANSWERS = {
    "script": r"(?s)of the CPU time is in exponential\.py:20 `total \+= power / factorial`.*_decimal",
    "service": r"(?s)service\.py:21 .*body = self\.rfile\.read",
    "versions": r"× faster, .* exponential\.py \(rewritten\)\.",
    "budget": r"(?s)FAILED  function exponential .*the build fails",
    "page": r"Written: report\.html",
    "sql": r"(?s)line +mb\n.*20 +\d",
}


def words_of_ours(command: str) -> list[str]:
    """The words of a command of this package that a user has to know: command, subcommand, and options before the program."""
    name, *words = re.sub(r'"[^"]*"', "", command).partition("||")[0].rstrip("& ").split()
    if name == "scalene-record":
        options = [word for word in words if word.startswith("-")]
        return [name, *options, *(words[-1:] if "--control" in options else [])]
    return [name, *(word for number, word in enumerate(words) if word.startswith("-") or number == 0)]


def unknown_words(commands: list[str], readme: str) -> list[str]:
    """The words of the commands that the README does not have in a line with the same command."""
    lines = [line for line in readme.splitlines() if line.startswith("$ ")]
    return [
        word
        for command in commands
        for name, *words in [words_of_ours(command)]
        for word in [name, *words]
        if not any(line.startswith(f"$ {name}") and re.search(rf"{re.escape(word)}(?!\w)", line) for line in lines)
    ]


def test_there_are_six_journeys_of_at_most_three_commands() -> None:
    assert list(COMMANDS) == list(ANSWERS)
    assert {name: len(each) for name, each in COMMANDS.items() if not 1 <= len(each) <= MOST_COMMANDS} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_has_all_words_of_a_journey(name: str) -> None:
    assert unknown_words(COMMANDS[name], (ROOT / "README.md").read_text()) == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("scalene-analyze tasks", ["tasks"]),
        ("scalene-analyze --all-lines", ["--all-lines"]),
        ("scalene-record --duration 5 app.py", ["--duration"]),
        ("scalene-record --control trace.parquet pause", ["pause"]),
        ("perf record app.py", ["perf", "record"]),
        ('scalene-analyze sql "SELECT tasks"', []),
    ],
)
def test_a_planted_unknown_word_is_found(command: str, found: list[str]) -> None:
    readme = """
$ scalene-record app.py
$ scalene-analyze sql "SELECT 1"
$ scalene-record --control trace.parquet snapshot
"""
    assert unknown_words([command], readme) == found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_journey_leads_to_its_answer(name: str) -> None:
    """A leak is the surer the longer the service has run; on a busy machine it answers few requests in that time."""
    has_service = any(command.endswith("&") for command in COMMANDS[name])
    for seconds in (12.0, 30.0, 90.0) if has_service else (0.0,):
        done = journeys.run_journey(COMMANDS[name], seconds)
        assert [each for each in done if each.status] == []
        if re.search(ANSWERS[name], done[-1].output):
            return
    pytest.fail(f"no answer: {done[-1].output}")


@pytest.mark.parametrize("name", ANSWERS)
def test_the_page_shows_what_was_printed(name: str) -> None:
    (slot,) = (slot for slot in journeys.SLOT.finditer(PAGE.read_text()) if slot[2] == name)
    assert re.search(ANSWERS[name], slot[3])


def test_the_page_shows_the_budget() -> None:
    (budget,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert budget == (ROOT / "examples" / "budget.toml").read_text()


def test_the_middle_of_a_long_output_is_left_out() -> None:
    first, last = journeys._KEPT_FIRST, journeys._KEPT_LAST
    lines = [str(number) for number in range(first + last + 2)]
    assert journeys.transcript([journeys.Done("a", 0, "\n".join(lines))]) == "\n".join(["$ a", *lines, ""])
    text = journeys.transcript([journeys.Done("a", 0, "\n".join([*lines, "end"]))])
    assert text.splitlines()[first : first + 3] == [str(first - 1), "[... 3 more lines ...]", str(first + 3)]
