"""Help of every option and every message: whole, with the right number, and with nothing cited that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
from typer.main import get_command

from scalene_trace.cli.analyze.command import COMMANDS, GROUPS, build_app
from scalene_trace.cli.fleet.group import COMMANDS as FLEET
from scalene_trace.cli.notebook.magics import magic_options
from scalene_trace.cli.record.help import application
from scalene_trace.cli.testing.plugin import pytest_addoption
from tests.support.paths import ROOT

WIDTHS = (60, 80, 120, 200)
VALUE = "\0"
PACKAGES = ("analyze", "cli", "formats", "recorder")


def commands() -> dict[str, tuple[Any, list[str], Any]]:
    """Every command and subcommand, as typer has it: the program, the words that lead to it, and the command."""
    found: dict[str, tuple[Any, list[str], Any]] = {}
    for name, app in (("scalene-record", application()), ("scalene-analyze", build_app((*COMMANDS, *GROUPS)))):
        program = get_command(app)
        found[name] = (program, [], program)
        for sub, command in getattr(program, "commands", {}).items():
            found[f"{name} {sub}"] = (program, [sub], command)
            for inner, each in getattr(command, "commands", {}).items():
                found[f"{name} {sub} {inner}"] = (program, [sub, inner], each)
    return found


ALL = commands()


def options_of_plugin() -> list[str]:
    """The options that the plugin gives pytest."""
    parser = Mock()
    pytest_addoption(parser)
    return [call.args[0] for call in parser.getgroup.return_value.addoption.call_args_list]


#: Every spelling of an option of either program, of the plugin of pytest, and of the magic commands. typer adds --help.
OPTIONS = {"--help", "-h", *options_of_plugin(), *magic_options().option_strings()} | {
    name for _, _, command in ALL.values() for each in command.params for name in (*each.opts, *each.secondary_opts)
}


def packed(text: str) -> str:
    """Text without layout, so that it does not matter where it was wrapped."""
    return "".join(text.replace("\b", " ").split())


def test_both_programs_are_enumerated() -> None:
    words = {*COMMANDS, *GROUPS, *(f"fleet {name}" for name in FLEET)}
    assert {"scalene-record", "scalene-analyze"} | {f"scalene-analyze {each}" for each in words} == set(ALL)
    assert {"--cpu-interval", "--no-children", "--scalene-trace", "--fail-on", "--json", "--version"} < OPTIONS and len(
        OPTIONS
    ) > 50


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_every_option_is_on_its_page_whole(name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    program, words, command = ALL[name]
    program.main(args=[*words, "--help"], prog_name=name.split()[0], standalone_mode=False)
    text: str = capsys.readouterr().out
    helps = [each.help for each in command.params if getattr(each, "help", None)]
    for paragraph in [*helps, *(command.help or "").split("\n\n"), command.epilog or ""]:
        assert packed(paragraph) in packed(text), "nothing of it is taken for markup or broken by other lines"
    assert [each for each in helps[:-1] if each[-1] not in ".)" or not each[0].isupper()] == [], "sentences"
    for each in command.params:
        names = [spelling for spelling in (*each.opts, *each.secondary_opts) if spelling.startswith("-")]
        assert [spelling for spelling in names if spelling not in text] == []
    assert max(map(len, text.splitlines())) <= 80
    assert "\n\n\n" not in text and broken_sentences(text) == []


def broken_sentences(text: str) -> list[str]:
    """Paragraphs that go on with a sentence of the one before, which is not a list of examples."""
    pieces = [each.strip() for each in re.split(r"\n\s*\n", text)]
    return [
        now
        for before, now in pairwise(pieces)
        if re.match(r"[a-z]+ [a-z]", now) and before[-1:] not in ".:)" and ":\n" not in before
    ]


def test_a_broken_sentence_is_found() -> None:
    assert broken_sentences("Samples of a\n\nthread that has\n\nWhole ones.\n\nset is one.") == ["thread that has"]


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def messages(source: str) -> Iterator[str]:
    """Texts of a file that are written for people, without documentation: with VALUE for each value in them."""
    tree = parsed(source)
    other = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            other.update(id(each) for each in ast.walk(node) if each is not node)
    for node in ast.walk(tree):
        if id(node) in other:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(each.value) if isinstance(each, ast.Constant) else VALUE for each in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def all_messages() -> list[tuple[str, str]]:
    return sorted({(str(path.relative_to(ROOT)), text) for path in SOURCES for text in messages(path.read_text())})


#: The texts of losses are written in C, where the shim and Python read them.
LOSSES = (ROOT / "formats" / "spool" / "losses.h").read_text()
#: Options of other programs, in examples and advice, or read from a script.
_OTHERS = {"--chdir", "--fast", "--shm-size", "--unset"}
_OPTION = re.compile(rf"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w{VALUE}-])")


def unknown_options(text: str) -> list[str]:
    return [name for name in _OPTION.findall(text) if name not in OPTIONS | _OTHERS]


def test_messages_cite_options_that_exist() -> None:
    found = {(path, name) for path, text in all_messages() for name in unknown_options(text)}
    found |= {("losses.h", name) for name in unknown_options(LOSSES)}
    assert found == set()


def test_messages_cite_no_file_that_is_not_installed() -> None:
    cited = re.compile(r"\b(?:docs|tests|benchmarks|examples)/|\b[\w-]+\.md\b")
    assert [(path, text) for path, text in all_messages() if " " in text and cited.search(text)] == []
    assert not cited.search(re.sub(r"//.*|/\*.*?\*/", "", LOSSES, flags=re.DOTALL))


def is_sentence(text: str) -> bool:
    return bool(re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", text)) and "\n" not in text.strip()


def test_sentences_have_single_spaces() -> None:
    assert [
        (path, text) for path, text in all_messages() if is_sentence(text) and re.search(r"\w[.,;:]?  +\w", text)
    ] == []


def test_sentences_have_a_space_between_them() -> None:
    """A text that is written in two pieces lacks it easily."""
    missing = re.compile(r"[a-z]{2}[.;][A-Z][a-z]|[a-z]{2},[a-z]{2}|[a-z]{3}\.[a-z]+ing ")
    assert [(path, text) for path, text in all_messages() if is_sentence(text) and missing.search(text)] == []


_VERB = re.compile(r"^ (is|are|was|were|has|have|does|do)\b")
_PLURAL_VERBS = {"is": "are", "was": "were", "has": "have", "does": "do"}


def counts(source: str) -> Iterator[tuple[str, str, str]]:
    """Both forms of each counted thing, and the text after it."""
    tree = parsed(source)
    after: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, [*node.values[1:], None], strict=True):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                    after[id(value.value)] = str(text.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("counted", "not_shown"):
            forms = [each.value if isinstance(each, ast.Constant) else "" for each in node.args[1:3]]
            yield str(forms[0]), str(forms[1]), after.get(id(node), "")


def wrong_counts(source: str) -> list[tuple[str, str, str]]:
    """Counted things with one form for all numbers, or with a verb that fits one of the two alone."""
    found = []
    for one, many, text in counts(source):
        verbs = {singular for singular in _PLURAL_VERBS if re.search(rf"\b{singular}\b", one)}
        fits = all(re.search(rf"\b{_PLURAL_VERBS[verb]}\b", many) for verb in verbs)
        if (one and one == many) or not fits or _VERB.match(text):
            found.append((one, many, text))
    return found


def test_what_is_counted_has_the_right_form_for_one_and_many() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    texts = {path: text for path, text in texts.items() if "counted(" in text or "not_shown(" in text}
    assert [(path, *each) for path, text in texts.items() for each in wrong_counts(text)] == []
    assert sum(1 for text in texts.values() for _ in counts(text)) >= 15


@pytest.mark.parametrize(
    ("one", "many", "after", "is_wrong"),
    [
        ("line", "lines", " of it", False),
        ("line is", "lines are", " lost", False),
        ("line", "lines", " are lost", True),
        ("line is", "lines is", " lost", True),
        ("lines", "lines", "", True),
    ],
)
def test_the_rule_for_counts_finds_violations(one: str, many: str, after: str, is_wrong: bool) -> None:
    assert bool(wrong_counts(f"f\"{{counted(n, '{one}', '{many}')}}{after}\"")) == is_wrong
