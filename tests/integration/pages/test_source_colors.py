"""The colours of the page's source texts: they are those of Python, and the text stays what it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scalene_trace.analyze.html import texts
from scalene_trace.analyze.html.page import build_page
from scalene_trace.analyze.trace.selection import Selection
from tests.support.browser import Browser, running_browser
from tests.support.trace_builder import SECOND, TraceBuilder

#: A file, and the coloured texts of each of its lines.
SAMPLE = {
    '@cached  # 1 "no string"': ["@=definition", '# 1 "no string"=comment'],
    "async def total(self, x: int = 0x1F) -> str | None:": [
        "async=keyword",
        "def=keyword",
        "total=definition",
        "0x1F=number",
        "None=keyword",
    ],
    '    """Two lines, # no comment,': ['"""Two lines, # no comment,=string'],
    '    of one text."""': ['    of one text."""=string'],
    "    return f'{x!r:>{1}} if' if await x else r'\\'": [],
    "class Määß(Base): pass": ["class=keyword", "Määß=definition", "pass=keyword"],
    "\tmatch, case, type = 1, 2, 3": ["1=number", "2=number", "3=number"],
}
#: Sources that are no Python, or would be costly or wrong to colour.
HOSTILE = [
    "(" * 100_000,
    "'" + "x" * 1_000,
    "\U0001f600" * 300 + " '\U0001f600' \U0001f600",
    "#" + "\U0001f600" * 300,
    "x = '" + "\U0001f600" * 300,
    "a' \u202e if \U000e0001 else\x00\x1b[31m \u2028 '",
    "if " * 5_000,
    "def f(" + "[{" * 10_000,
    "</script><script>alert(1)</script><!-- 'if'",
    'f"{' * 3_000,
]
CELLS = "document.querySelectorAll('.pane-column .rows .cell.code')"
TEXTS = f"[...{CELLS}].map(e => e.textContent)"
COLOURS = (
    f"""[...{CELLS}].map(cell => [...cell.querySelectorAll('span')].map(e => `${{e.textContent}}=${{e.className}}`))"""
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


def page_of(folder: Path, file: str, text: str, line: int = 1) -> Path:
    builder = TraceBuilder()
    process = builder.process(end_ns=SECOND)
    thread = builder.thread(process, SECOND)
    builder.source(file, text)
    builder.tick(SECOND // 2, process, thread, builder.stack((file, "main", 1, line)))
    page = builder.write(folder / "t.parquet").with_suffix(".html")
    page.write_text(build_page([folder / "t.parquet"], Selection()))
    return page


@pytest.mark.parametrize(
    "file", ["/home/me/app.py", "/home/me/.venv/bin/tool", "<string>", "/home/me/a.b/book.ipynb", "/bin/tool-3.12"]
)
def test_python_has_the_colours_of_its_syntax(file: str, browser: Browser, tmp_path: Path) -> None:
    with browser.page(page_of(tmp_path, file, "\n".join(SAMPLE)), part="#tab=source") as page:
        assert page.value(TEXTS) == [line.replace("\t", "    ") for line in SAMPLE]
        found = page.value(COLOURS)
        for line, colours, expected in zip(SAMPLE, found, SAMPLE.values(), strict=True):
            assert not expected or colours == expected, line
        assert {"return=keyword", "await=keyword", "if=keyword"} <= set(found[4])
        assert any(each.endswith("=string") for each in found[4])
        assert page.complaints() == []


@pytest.mark.parametrize("file", ["/home/me/page.html", "/home/me/app.py.j2", "/home/me/query.sql", "<template>"])
def test_other_languages_have_none(file: str, browser: Browser, tmp_path: Path) -> None:
    with browser.page(page_of(tmp_path, file, "\n".join(SAMPLE)), part="#tab=source") as page:
        assert page.value(TEXTS)[0] == next(iter(SAMPLE))
        assert not any(page.value(COLOURS))


def test_excerpts_that_may_begin_within_a_text_have_no_colours(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '"""' + "\nText\n" * 5 + '    of a docstring."""\nif x: pass\n' + "x = 1\n" * 5 + "if x: pass"
    lines = text.split("\n")
    for line, words in ((len(lines), ["if=keyword", "pass=keyword"]), (lines.index("if x: pass") + 1, [])):
        folder = tmp_path / str(line)
        folder.mkdir()
        monkeypatch.setattr(texts, "MAX_CHARACTERS", 0)
        with browser.page(page_of(folder, "/home/me/app.py", text, line), part="#tab=source") as page:
            shown = page.value(TEXTS)
            assert shown[0] == "⋮" and len(shown) < len(lines)
            at = len(shown) - 1 - shown[::-1].index("if x: pass")
            assert page.value(COLOURS)[at] == words, line
    monkeypatch.undo()
    for inside in ("x" * 3_000, "x" * 1_000 + "\u2028" + "x" * 1_500):
        cut = f's = """{inside}"""\nif x: pass'
        with browser.page(page_of(tmp_path, "/home/me/app.py", cut), part="#tab=source") as page:
            assert page.value(TEXTS)[1] == "if x: pass" and not any(page.value(COLOURS))


def test_hostile_sources_are_text_that_is_only_cut(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=SECOND)
    thread = builder.thread(process, SECOND)
    names = [(f"/home/me/{number}.py", f"/home/me/{number}.txt") for number in range(len(HOSTILE))]
    for pair, text in zip(names, HOSTILE, strict=True):
        for file in pair:
            builder.source(file, f"before = 1\n{text}\nafter")
            builder.tick(SECOND // 2, process, thread, builder.stack((file, "main", 1, 1)))
    html = builder.write(tmp_path / "t.parquet").with_suffix(".html")
    html.write_text(build_page([tmp_path / "t.parquet"], Selection()))
    with browser.page(html, part="#tab=source") as page:
        for pair, text in zip(names, HOSTILE, strict=True):
            shown = []
            for file in pair:  # with colours, and without
                page.value(f"location.hash = '#tab=source&line={file}:1'")
                page.wait(f"document.querySelector('.pane-column').textContent.includes('{file}')")
                page.settle()
                shown.append(page.value(TEXTS))
                assert page.complaints() == []
            coloured, plain = shown
            assert len(plain) == 3 and (plain[0], plain[2]) == ("before = 1", "after")
            assert coloured == plain, pair
            assert len(plain[1]) <= 401 * 8 and plain[1].endswith("…") == (len(text.encode("utf-16-le")) > 800)
