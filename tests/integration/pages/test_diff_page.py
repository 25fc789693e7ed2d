"""The page about a comparison, in a browser: figures, verdicts, both sources, the flame graph of both, and nothing from
anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.diff.compare import Asked, compare, read_sides
from scalene_trace.analyze.diff.results import Diff
from scalene_trace.analyze.html import comparison
from scalene_trace.analyze.html.comparison import build_comparison, comparison_document
from scalene_trace.cli.analyze.command import EXIT_USAGE, run
from tests.support.browser import Browser, Page, running_browser
from tests.support.page_traces import COLUMN, empty_traces, hostile_page_trace, unpacked
from tests.support.trace_builder import MS, SECOND, TraceBuilder, write_wide_trace

OLD_APP, NEW_APP = "/srv/one/app.py", "/srv/two/app.py"
OLD = ["import tool", "", "def work(rows):", "    for row in rows:", "        tool.crunch(row)", "    tool.store(rows)", "", "work([1])"]  # fmt: skip
#: Two lines at the top, the function renamed, its loop edited, what it stores gone, something new.
NEW = ["import sys", "import tool", "", "def process(rows):", "    for row in sorted(rows):", "        tool.crunch(row)", "    log[rows[0]] = 77", "", "process([1])"]  # fmt: skip
HEADS = "[...document.querySelectorAll('#pane .table .head .cell')].map(each => each.dataset.key)"
LIBRARY = "/opt/{}/lib/python3.12/site-packages/tool.py"


def trace(path: Path, ticks: dict[int, int], is_new: bool, crunch_ns: int = 10 * MS) -> Path:
    """A version with so many ticks by line; those of the line that crunches are in a library."""
    builder = TraceBuilder()
    builder.settings |= {"features": json.dumps(["cpu", "memory", "alloc", "copy"])}
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    file, function, first = (NEW_APP, "process", 4) if is_new else (OLD_APP, "work", 3)
    crunching = 6 if is_new else 5
    outer = (file, "<module>", 1, 9 if is_new else 8)
    builder.source(file, "\n".join(NEW if is_new else OLD))
    for line, count in ticks.items():
        own = (file, function, first, line)
        library = (LIBRARY.format("new" if is_new else "old"), "crunch", 10, 12)
        stack = builder.stack(library, own, outer) if line == crunching else builder.stack(own, outer)
        for index in range(count):
            builder.tick(index * MS, process, thread, stack, user_ns=crunch_ns if line == crunching else 10 * MS)
        builder.alloc(SECOND, process, thread, stack, 40_000_003 if is_new else 10_000_019, SECOND)
    return builder.write(path)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sides")
    old = trace(folder / "old.parquet", {4: 100, 5: 1_000, 6: 50}, is_new=False)
    return old, trace(folder / "new.parquet", {5: 105, 6: 250, 7: 80}, is_new=True)


def made(before: list[Path], after: list[Path], asked: Asked | None = None) -> tuple[Diff, str]:
    """The comparison and the page about it."""
    asked = asked or Asked()
    runs = read_sides(before, after, asked)
    diff = compare(*runs, asked)
    return diff, build_comparison(diff, runs, asked.selection)


def known(before: list[Path], after: list[Path], asked: Asked | None = None) -> tuple[Diff, dict[str, Any]]:
    """The comparison and what the page about it knows."""
    asked = asked or Asked()
    runs = read_sides(before, after, asked)
    diff = compare(*runs, asked)
    return diff, comparison_document(diff, runs, asked.selection)


@pytest.fixture(scope="module")
def report(sides: tuple[Path, Path]) -> tuple[Diff, Path]:
    diff, page = made([sides[0]], [sides[1]])
    path = sides[0].with_suffix(".html")
    path.write_text(page)
    return diff, path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser, report: tuple[Diff, Path]) -> Iterator[Page]:
    """The comparison in a tab. At the end, nothing must have been asked for but the file, and nobody have complained."""
    with browser.page(report[1]) as found:
        yield found
        assert found.requests() == [report[1].as_uri()]
        assert found.complaints() == []


def test_the_lines_leave_out_columns_that_do_not_fit_into_900_pixels(
    browser: Browser, report: tuple[Diff, Path]
) -> None:
    table = "document.querySelector('#pane .table')"
    button = "document.querySelector('nav > button')"
    with browser.page(report[1], 900) as page:
        assert page.value(f"{table}.scrollWidth <= {table}.clientWidth")
        assert page.value(f"{button}.textContent") == "all columns" and "what changed" in page.value(f"{button}.title")
        assert "also" not in page.value(HEADS) and {"verdict", "change", "source"} <= set(page.value(HEADS))
        page.click("nav > button")
        assert "also" in page.value(HEADS) and page.value(f"{button}.textContent") == "fewer columns"
        page.click("[data-tab=runs]")
        assert page.value(f"{button}.hidden") is True
        assert page.complaints() == []


@pytest.mark.parametrize(("width", "is_folded"), [(900, True), (1400, False)])
def test_both_versions_fit_side_by_side(
    width: int, is_folded: bool, browser: Browser, report: tuple[Diff, Path]
) -> None:
    table = "document.querySelector('#pane .pane-column .table')"
    heads = f"[...{table}.querySelectorAll('.head .cell')].map(e => e.dataset.key)"
    with browser.page(report[1], width, part="#tab=source") as page:
        assert page.value("document.querySelector('.pane-split').classList.contains('folded')") is is_folded
        assert page.value(f"{table}.scrollWidth <= {table}.clientWidth")
        assert {"before-text", "after-text", "change"} <= set(page.value(heads))
        assert ("before" in page.value(heads)) is not is_folded
        if is_folded:
            page.click("nav > button")
            assert {"before", "after", "verdict"} <= set(page.value(heads))
        page.click(".fold")
        assert page.value("document.querySelector('.fold').getAttribute('aria-expanded')") == str(is_folded).lower()
        assert page.complaints() == []


def column(page: Page, key: str) -> list[str]:
    found: list[str] = page.value(COLUMN.format(key=key))
    return found


def frames(page: Page) -> dict[str, tuple[float, float]]:
    """The calls of the flame graph that is shown: seconds before and after by name."""
    text = """[...document.querySelectorAll('.flame g.frame')].map(each => each.__data__.data)
        .map(({name, before, after}) => [name, before, after])"""
    return {name: (before, after) for name, before, after in page.value(text)}


def test_the_page_opens_with_the_sentence_the_totals_and_the_lines(page: Page, report: tuple[Diff, Path]) -> None:
    diff = report[0]
    assert page.value("document.querySelector('.sentence').textContent") == diff.summary
    assert "2.6× faster, almost all from app.py:6" in diff.summary
    cells = "[...document.querySelectorAll('[data-measure={}] [data-side]')].map(each => Number(each.dataset.value))"
    for name in ("cpu_s", "alloc_bytes"):
        change = diff.totals[name]
        assert change and page.value(cells.format(name)) == pytest.approx([change.before, change.after], rel=1e-5)
    assert column(page, "place") == [f"app.py:{line.place[1]}" for line in diff.lines]
    assert (column(page, "place")[0], column(page, "verdict")[0]) == ("app.py:6", "better")
    first = {key: column(page, key)[0] for key in ("status", "before", "after", "change", "source")}
    assert first == {"status": "was 5", "before": "10.00 s", "after": "2.50 s", "change": "−75.0 %", "source": "tool.crunch(row)"}  # fmt: skip
    assert {"new", "removed", "edited, was 4"} <= set(column(page, "status"))


def test_another_measure_is_a_click_away(page: Page, report: tuple[Diff, Path]) -> None:
    page.click("nav [data-kind=alloc_bytes]")
    line = next(line for line in report[0].lines if line.line == 6)
    change = line.change("alloc_bytes")
    at = column(page, "place").index("app.py:6")
    assert (column(page, "before")[at], column(page, "after")[at]) == ("10.0 MB", "40.0 MB")
    assert column(page, "verdict")[at] == change.verdict == "worse"
    assert column(page, "change")[at] == "+300.0 %"


def test_both_versions_of_a_line_stand_side_by_side(page: Page) -> None:
    page.press("1")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('.pane-split .pane-column .row.selected')")
    text = (
        "[...document.querySelector('.pane-split .pane-column .row.selected').children].map(each => each.textContent)"
    )
    old = ["5", "10.00 s", "        tool.crunch(row)"]
    assert page.value(text) == [*old, "6", "2.50 s", "        tool.crunch(row)", "−75.0 %", "better"]
    rows = page.value(
        """[...document.querySelectorAll('.pane-split .pane-column .rows .row')]
        .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
        .map(row => [row.children[0].textContent, row.children[3].textContent, row.className])"""
    )
    assert ["", "1", "row added"] in [[old, new, name.replace(" differs", "")] for old, new, name in rows]
    assert [new for _, new, _ in rows if new] == [str(number) for number in range(1, len(NEW) + 1)]
    assert [old for old, _, _ in rows if old] == [str(number) for number in range(1, len(OLD) + 1)]
    assert "differs" in next(name for old, new, name in rows if (old, new) == ("4", "5"))


def test_the_flame_graph_shows_both_versions_of_each_call(page: Page) -> None:
    page.press("3")
    page.wait("document.querySelectorAll('.flame g.frame').length > 3")
    found = frames(page)
    assert found["all"] == pytest.approx((11.5, 4.35))
    assert found["process  app.py"] == pytest.approx((11.5, 4.35)), "renamed, and still one call"
    assert found["crunch  tool.py"] == pytest.approx((10.0, 2.5)), "the library is installed elsewhere"
    widths = "[...document.querySelectorAll('.flame g.frame')].map(each => each.__data__.value)"
    before = page.value(widths)
    fill = "document.querySelector('.flame g.frame rect').getAttribute('fill').match(/\\d+/g).map(Number)"
    red, green, _ = page.value(fill)
    assert green > red, "less"
    page.click("[data-kind=after]")
    assert page.value(widths) != before
    page.press("ArrowDown")
    page.click("[data-kind=alloc]")
    page.wait("document.querySelector('[data-kind=alloc]').ariaChecked === 'true'")
    assert frames(page)["all"] == pytest.approx((30_000_057, 120_000_009))
    red, green, _ = page.value(fill)
    assert red > green, "more"


def test_the_flame_graph_is_driven_by_keys(page: Page) -> None:
    page.press("3")
    page.wait("document.querySelectorAll('.flame g.frame').length > 3")
    page.press("ArrowDown")
    page.press("ArrowDown")
    details = page.value("document.querySelector('.flame').parentNode.querySelector('.details').textContent")
    assert "11.50 s before, 4.35 s after, -62.2 %" in details
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelectorAll('.flame .fade').length > 0")
    page.press("Escape")
    page.wait("document.querySelectorAll('.flame .fade').length === 0")


def test_filter_tabs_and_address_work_by_keyboard(page: Page, browser: Browser, report: tuple[Diff, Path]) -> None:
    page.press("/")
    page.type("store")
    assert column(page, "source") == ["tool.store(rows)"]
    page.press("Escape")
    page.press("4")
    assert column(page, "side") == ["before", "after"]
    with browser.page(report[1], part="#tab=flame") as other:
        assert other.value("document.querySelector('[role=tab][aria-selected=true]').dataset.tab") == "flame"


def test_a_comparison_has_order_measure_and_line_in_its_address(browser: Browser, report: tuple[Diff, Path]) -> None:
    with browser.page(report[1]) as page:
        page.click("[data-kind=alloc_bytes]")
        page.click(".head [data-key=place]")
        page.click("#pane .rows .row[aria-rowindex='2']")
        address, rows = page.value("location.hash"), column(page, "place")
        assert address.startswith("#tab=lines&measure=alloc_bytes&sort=lines.place.up&line=")
        page.click("[data-tab=runs]")
        page.value("history.back()")
        page.wait(f"location.hash === '{address}'")
    with browser.page(report[1], part=address) as page:
        chosen = "document.querySelector('#pane .row.selected > [role=gridcell]:nth-child(2)')?.textContent"
        assert (column(page, "place"), page.value(chosen)) == (rows, rows[0])
        for evil in ("__proto__", "<img src=x>", "lines.constructor.up", "-/srv/one/app.py:x"):
            page.value(f"location.hash = '#tab=lines&measure={evil}&sort={evil}&line={evil}'")
            page.wait("location.hash === '#tab=lines'")
        page.value("location.hash = '#tab=source&line=-%2Fsrv%2Fone%2Fapp.py%3A6'")  # a line that was removed
        page.wait(
            "document.querySelector('#pane .pane-column .row.selected')?.textContent.includes('tool.store(rows)')"
        )
        assert page.complaints() == []


def test_several_runs_are_means(sides: tuple[Path, Path], browser: Browser, tmp_path: Path) -> None:
    more = [trace(tmp_path / f"{turn}.parquet", {5: 105, 6: 250 + 10 * turn, 7: 80}, is_new=True) for turn in (1, 3)]
    asked = Asked()
    runs = read_sides([sides[0]] * 3, [sides[1], *more], asked)
    diff = compare(*runs, asked)
    document, text = comparison_document(diff, runs, asked.selection), build_comparison(diff, runs, asked.selection)
    assert document["diff"]["runs"] == [3, 3] and len(document["traces"]) == 6
    (tmp_path / "p.html").write_text(text)
    with browser.page(tmp_path / "p.html") as page:
        page.press("3")
        page.wait("document.querySelectorAll('.flame g.frame').length > 3")
        change = diff.totals["cpu_s"]
        assert change and frames(page)["all"] == pytest.approx((change.before, change.after))
        assert "3 runs, of which the first" in page.value("document.body.innerText")
        assert page.complaints() == []


@pytest.mark.parametrize("place", range(4), ids=["empty", "bare", "one tick", "memory alone"])
def test_a_comparison_of_next_to_nothing_is_a_sensible_page(
    browser: Browser, tmp_path: Path, place: int, sides: tuple[Path, Path]
) -> None:
    thin = list(empty_traces(tmp_path))[place]
    pairs = {"same": (thin, thin), "other": (sides[0], thin), "back": (thin, sides[1])}
    for name, pair in pairs.items() if place == 0 else [list(pairs.items())[place % 2 + 1]]:
        path = tmp_path / f"{name}.html"
        path.write_text(made([pair[0]], [pair[1]])[1])
        with browser.page(path) as page:
            for tab in "1234":
                page.press(tab)
                assert page.value("document.querySelector('main').textContent.length") > 0
            assert page.complaints() == []
            text = page.value("document.body.innerText")
            assert not [word for word in ("NaN", "undefined", "null", "Infinity") if word in text]


def test_hostile_traces_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    first, evil = hostile_page_trace(tmp_path / "a.parquet")
    second, _ = hostile_page_trace(tmp_path / "b.parquet")
    page_path = tmp_path / "p.html"
    text = made([first], [second])[1]
    assert text.isascii() and text.lower().count("</script") == 2 and text.count("<!--") == 1
    page_path.write_text(text)
    with browser.page(page_path) as page:
        for tab in "1234":
            page.press(tab)
            assert page.value("document.querySelectorAll('script, img').length") == 2
        page.press("1")
        assert {"constructor:1", "__proto__:1", "toString:1"} < set(column(page, "place"))
        assert any(evil[1][:20] in each for each in column(page, "source"))
        page.press("ArrowDown")
        page.press("Enter")
        assert page.value("window.done") is None
        shown = page.value("document.body.textContent.replace(document.getElementById('data').textContent, '')")
        assert not set("\x1b\x00\u202e\u2028") & set(shown)
        assert page.complaints() == [] and page.requests() == [page_path.as_uri()]


def test_the_lines_of_a_page_are_those_of_the_comparison(sides: tuple[Path, Path]) -> None:
    diff, document = known([sides[0]], [sides[1]])
    names = document["diff"]["names"]
    for line, row in zip(diff.lines, document["diff"]["lines"], strict=True):
        status, file, _, number, source, _, function, before_line, before_source, changes = row
        assert (names[status], names[file], number, source) == (line.status, line.file, line.line, line.source)
        assert (names[function], before_line) == (line.before_function, line.before_line)
        assert (source if before_source == 0 else before_source) == line.before_source
        for name, columns in changes.items():
            change, (before, after, verdict, *_) = line.change(name), [*columns, None, None, None]
            assert (before or 0, after or 0) == pytest.approx((change.before or 0, change.after or 0), rel=1e-5)
            assert (verdict or "") == change.shown_verdict
    calls = [sum(map(bool, unpacked(each["nodes"]["parents"]))) for each in document["traces"]]
    assert all(calls) and all(each["bins"]["count"] == 1 for each in document["traces"])


@pytest.mark.long
def test_twice_five_thousand_lines_fit_into_a_page_and_a_table(browser: Browser, tmp_path: Path) -> None:
    traces = [write_wide_trace(tmp_path / f"{seed}.parquet", 5_000, 100_000, seed) for seed in (1, 2)]
    diff, text = made([traces[0]], [traces[1]])
    path = tmp_path / "p.html"
    path.write_text(text)
    assert len(diff.lines) == 5_000 and path.stat().st_size < 5_000_000
    with browser.page(path) as page:
        assert page.value("document.querySelector('#pane .table').ariaRowCount") == "5001"
        for tab in "123":
            page.press(tab)
            assert page.value("document.querySelectorAll('#pane .rows .row').length") < 150
        assert page.complaints() == []


def test_rates_are_shown_where_they_were_compared(sides: tuple[Path, Path]) -> None:
    _, document = known([sides[0]], [sides[1]], Asked(per_second=True))
    assert document["query"]["per_second"] is True
    assert document["diff"]["totals"]["cpu_s"][:2] == pytest.approx([1.15, 0.435])


@pytest.mark.parametrize(("per_second", "unit"), [(False, " MB"), (True, " MB/s")])
def test_growth_and_its_range_are_per_second_if_rates_were_compared(
    browser: Browser, tmp_path: Path, per_second: bool, unit: str
) -> None:
    traces = []
    for number, net in enumerate((30_000_000, 50_000_000)):
        builder = TraceBuilder()
        builder.settings |= {"features": json.dumps(["cpu", "memory"])}
        thread = builder.thread(process := builder.process(end_ns=10 * SECOND), cpu_ns=0)
        stack = builder.stack((NEW_APP, "process", 4, 5))
        for index in range(1, 6):
            builder.memory(index * SECOND, process, thread, stack, net, index * net)
        traces.append(builder.write(tmp_path / f"{number}.parquet"))
    diff, text = made(traces[:1], traces[1:], Asked(per_second=per_second))
    change = diff.totals["growth_bytes"]
    assert change and change.ratio is None and change.low is not None
    path = tmp_path / "page.html"
    path.write_text(text)
    with browser.page(path) as page:
        row = "[...document.querySelectorAll('[data-measure=growth_bytes] .number')].map(each => each.textContent)"
        before, after, moved, ends = page.value(row)
        peak = page.value("[...document.querySelectorAll('[data-measure=peak_bytes] .number')][0].textContent")
    assert (before, after) == (("15.0 MB/s", "25.0 MB/s") if per_second else ("150 MB", "250 MB"))
    assert moved == f"+{10 if per_second else 100}.0{unit}" and ends.endswith(unit) and " to " in ends
    assert peak == "150 MB"


def test_what_moved_stands_where_it_is_on_either_side() -> None:
    pairs = [(1, 1), (2, 5), (3, 6), (4, 2), (7, 7)]
    same = comparison._in_order(pairs)
    assert same == [(1, 1), (2, 5), (3, 6), (7, 7)]
    rows = list(comparison._rows(list(range(1, 8)), list(range(1, 9)), same))
    assert [old for old, _ in rows if old] == list(range(1, 8)) and [new for _, new in rows if new] == list(range(1, 9))
    assert set(same) <= set(rows)
    unrolled = [
        (old and old + step, new and new + step) for old, new, count in comparison._runs(rows) for step in range(count)
    ]
    assert unrolled == rows


def test_the_page_is_written_beside_the_text(
    sides: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = [str(each) for each in sides]
    assert run(["diff", *pair, "--html", "diff.html"]) == 0
    said = capsys.readouterr()
    assert "2.6× faster" in said.out and said.err.startswith("Written: diff.html (")
    assert Path("diff.html").read_text().startswith("<!doctype html>")
    assert Path("diff.html").stat().st_mode & 0o777 == 0o600
    assert run(["diff", "--json", *pair, "--html", "diff.html", "--fail-on", "alloc>+10%"]) == 1
    assert json.loads(capsys.readouterr().out)["gates"][0]["failed"] is True
    assert run(["diff", *pair, "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_no_other_file_is_replaced_by_a_page(
    sides: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.html").write_text("my own page")
    for target, said in (
        ("mine.html", "is not a report of this command. Name another file."),
        ("/nowhere/x", "no folder"),
    ):
        assert run(["diff", *map(str, sides), "--html", target]) == EXIT_USAGE
        assert said in capsys.readouterr().err
    assert Path("mine.html").read_text() == "my own page"
    before = sides[0].read_bytes()
    assert run(["diff", *map(str, sides), "--html", str(sides[0])]) == EXIT_USAGE and sides[0].read_bytes() == before
