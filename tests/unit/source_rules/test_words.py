"""What users read: numbers with the right form of a word, no markup, and one word for one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.results.report import WAIT_WORDS, Waits
from scalene_trace.cli.analyze import command as analyze
from scalene_trace.cli.record import help as record_help
from scalene_trace.cli.record.options import OPTIONS
from tests.support.paths import ROOT

PACKAGES = ("analyze", "cli", "formats", "recorder")
#: A word after a number that ends like a plural.
_AFTER_NUMBER = re.compile(r"^ (?:more |other |further |CPU |single )*([a-z]+s)\b")
#: Words that end in s and are no plurals, or units.
_OTHER = frozenset(
    [
        "is",
        "was",
        "has",
        "as",
        "s",
        "ms",
        "this",
        "seconds",
        "bytes",
        "takes",
        "waits",
        "contains",
        "belongs",
        "accepts",
        "points",
        "describes",
        "unfolds",
        "needs",
        "runs",
        "less",
        "does",
        "selects",
        "shows",
    ]
)
#: Places that have made sure that the number is not one; every other one uses formats.units.counted.
GUARDED = {
    ("cli/render/diff.py", "len(traces)", "runs"),
    ("cli/render/diff.py", "have", "losses"),
    ("cli/render/threads.py", "len(found)", "threads"),
    ("cli/render/threads.py", "screen.width", "columns"),  # 60 at least
    ("analyze/diff/summary.py", "tests", "tests"),
    ("analyze/findings/waits.py", "row.threads", "threads"),
    ("analyze/trace/contents.py", "records", "rows"),  # more than the limit, 10,000
    ("recorder/run/interpreter.py", "what", "runs"),  # the name of a program
    ("formats/trace/parquet/thrift.py", "size", "elements"),  # so many that they do not fit
}


def plurals(source: str) -> Iterator[tuple[str, str]]:
    """The expressions that stand before a plural in the f-strings of a file, and the plural."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for number, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant):
                    found = _AFTER_NUMBER.match(str(text.value))
                    if found and found[1] not in _OTHER:
                        yield ast.unparse(number.value), found[1]


def test_no_message_puts_one_before_a_plural() -> None:
    found = {
        (str(path.relative_to(ROOT)), number, word)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for number, word in plurals(path.read_text())
    }
    assert found - GUARDED == set()


def test_the_rule_finds_a_violation() -> None:
    assert list(plurals('print(f"{len(x):,} more lines are here")')) == [("len(x)", "lines")]
    assert list(plurals('print(f"{counted(n, one, many)} is here, {name} is")')) == []


def said_by(arguments: list[str], width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    assert analyze.run(arguments) == 0
    text: str = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_square_brackets_are_no_markup(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert '    [total]\n    peak = "500 MB"\n' in said_by(["check", "--help"], 80, monkeypatch, capsys)


def test_help_of_the_recorder_has_whole_sentences() -> None:
    for option in OPTIONS:
        assert option.help[-1] in ".)" and option.help[0].isupper(), option.name
    assert "\n\n\n" not in record_help.HELP


@pytest.mark.parametrize("path", ["analyze", "cli", "recorder"])
def test_no_message_has_markup(path: str) -> None:
    """Tags of rich or HTML in a text that a terminal shows as it is."""
    tag = re.compile(r"\[/?(bold|dim|red|green|yellow|italic|link)[^\]]*\]|</?(b|i|em|strong)>")
    files = [each for each in sorted(Path(ROOT / path).rglob("*.py")) if "html" not in each.parts]
    assert [str(each) for each in files if tag.search(each.read_text())] == []


#: Other words for the classes of waiting, for which docs/english.md has one each.
_OTHER_WORDS = re.compile(
    r"(?i)\basleep\b|\bwaiting for (?:a|the) CPU\b|\bCPU wait\b|\bon disk\b(?=[,;]? (?:without|waiting|runnable))"
)
#: Transcripts of other programs, and the list of the words to avoid.
_MAY_SAY = ("docs/peers.md", "docs/english.md", "CHANGELOG.md")


def users_texts() -> list[Path]:
    """The files with texts that users read: what prints, the page's source, and the documents."""
    sources = [
        each
        for package in ("analyze", "cli")
        for suffix in ("py", "js", "sql", "txt")
        for each in (ROOT / package).rglob(f"*.{suffix}")
    ]
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return [
        each
        for each in sources + documents
        if "assets" not in each.parts and str(each.relative_to(ROOT)) not in _MAY_SAY
    ]


def test_classes_of_waiting_have_one_word_each() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in users_texts()
        for match in _OTHER_WORDS.finditer(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("asleep 4 %", True),
        ("2 s waiting for a CPU", True),
        ("CPU wait s", True),
        ("on disk, without a CPU", True),
        ("a sleeping thread", False),
        ("the file on disk", False),
    ],
)
def test_another_word_for_a_class_of_waiting_is_found(text: str, is_found: bool) -> None:
    assert bool(_OTHER_WORDS.search(text)) == is_found


def test_the_page_has_the_words_of_the_report() -> None:
    source = (ROOT / "analyze" / "html" / "web" / "src" / "figures.js").read_text()
    (listed,) = re.findall(r"export const WAITS = \[\n(.*?)\n\];", source, re.DOTALL)
    assert dict(re.findall(r'\["(\w+)", "(\w+)"\]', listed)) == WAIT_WORDS
    assert [f"{name}_s" for name in WAIT_WORDS] == [each.name for each in fields(Waits)]
