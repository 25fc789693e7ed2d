"""The help pages of both commands: examples, 80 columns, and nothing taken for markup."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from scalene_trace.cli.analyze.command import COMMANDS, GROUPS, build_app
from scalene_trace.cli.fleet.group import COMMANDS as FLEET
from scalene_trace.cli.record.help import application
from scalene_trace.cli.record.options import OPTIONS, read_options, settings_of, split_command_line

PAGES = [*COMMANDS, *GROUPS, *(f"fleet {name}" for name in FLEET)]


def page(name: str) -> str:
    """The help of a command of scalene-analyze, or of scalene-record."""
    app, words = (application(), []) if name == "scalene-record" else (build_app((*COMMANDS, *GROUPS)), name.split())
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words, "--help"])
    assert done.exit_code == 0, done.output
    return done.output


def examples(text: str, command: str) -> list[list[str]]:
    """The words of each example, without the command."""
    lines = [line.strip() for line in text.splitlines() if line.startswith(f"    {command} ")]
    return [shlex.split(line.partition("|")[0])[1:] for line in lines]


@pytest.mark.parametrize("name", ["", "scalene-record", *PAGES])
def test_every_page_has_examples_and_fits_80_columns(name: str) -> None:
    text = page(name)
    assert "Examples:\n" in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    command = "scalene-record" if name == "scalene-record" else "scalene-analyze"
    assert examples(text, command)


@pytest.mark.parametrize("name", ["", "scalene-record", *PAGES])
def test_no_page_names_a_file_that_is_not_installed(name: str) -> None:
    assert "docs/" not in page(name) and ".md" not in page(name)


def test_brackets_are_no_markup() -> None:
    assert '    [total]\n    peak = "500 MB"\n' in page("check")
    assert "[ARGS]" in page("scalene-record")


def test_the_examples_of_the_recorder_are_command_lines() -> None:
    for words in examples(page("scalene-record"), "scalene-record"):
        split = split_command_line(words)
        given = read_options(split.own)
        assert given is not None, words
        assert given.keys() & {"recover", "doctor", "pid"} or split.program
        settings_of(given, split.program)


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_the_analysis_name_its_commands_and_options(name: str) -> None:
    for words in examples(page(name), "scalene-analyze"):
        command = words[0] if words[0] in COMMANDS else "report"
        command = " ".join(words[:2]) if words[0] in GROUPS else command
        known = page(command)
        assert [word for word in words if word.startswith("--") and f"{word} " not in known] == []


def test_every_option_of_the_recorder_is_on_its_page() -> None:
    text = page("scalene-record")
    names = [name for option in OPTIONS for name in (*option.names, *filter(None, [option.off_name]))]
    assert [name for name in names if name not in text] == []
