"""The HTML report in a browser, opened from a file: figures, window, sorting, keyboard, and nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.html.page import build_page
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.analyze import command as analyze
from tests.support.browser import Browser, Page, running_browser
from tests.support.hostile_fleet import hostile_fleet, stacks
from tests.support.page_traces import COLUMN, busy_trace, device_trace, empty_traces, hostile_page_trace
from tests.support.trace_builder import MS, SECOND, TraceBuilder, write_wide_trace


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return busy_trace(tmp_path_factory.mktemp("page") / "t.parquet")


@pytest.fixture(scope="module")
def report(trace: Path) -> Path:
    return written(trace)


def written(trace: Path) -> Path:
    """The page about a trace, beside it."""
    path = trace.with_suffix(".html")
    path.write_text(build_page([trace], Selection()))
    return path


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    """The report in a tab. At the end, nothing must have been asked for but the file, and nobody have complained."""
    with browser.page(report) as found:
        yield found
        assert found.requests() == [report.as_uri()]
        assert found.complaints() == []


def figures(page: Page) -> dict[str, float]:
    """The totals of the window, by name."""
    text = "Object.fromEntries([...document.querySelectorAll('[data-figure]')].map(e => [e.dataset.figure, Number(e.dataset.value)]))"
    found: dict[str, float] = page.value(text)
    return found


def check_totals(page: Page, trace: Path, from_s: float | None = None, to_s: float | None = None) -> None:
    """Are the totals of the page those of the query over the same window?"""
    totals, found = build_report([trace], Selection(from_s, to_s)).totals, figures(page)
    for name in ("cpu_s", "wait_s", "peak_bytes", "alloc_bytes", "copy_bytes"):
        assert found[name] == pytest.approx(getattr(totals, name), rel=1e-3, abs=1e-3), name


def column(page: Page, key: str) -> list[str]:
    found: list[str] = page.value(COLUMN.format(key=key))
    return found


def type_window(page: Page, from_s: str, to_s: str) -> None:
    """Types into the two fields, as a person does."""
    for name, text in (("from", from_s), ("to", to_s)):
        page.value(f"document.querySelector('[data-field={name}]').select()")
        page.value(f"document.querySelector('[data-field={name}]').focus()")
        page.type(text)
        page.press("Enter")
    page.value("document.activeElement.blur()")


def test_the_page_opens_with_the_totals_of_the_report(page: Page, trace: Path) -> None:
    check_totals(page, trace)
    report = build_report([trace], Selection())
    assert column(page, "place") == [f"app.py:{line.line}" for line in report.lines]
    assert [float(text) for text in column(page, "cpu") if text] == [
        pytest.approx(line.cpu_percent, abs=0.06) for line in report.lines if line.cpu_percent
    ]


def test_a_window_that_is_typed_holds_what_the_query_says(page: Page, trace: Path) -> None:
    type_window(page, "1.5", "4")
    check_totals(page, trace, 1.5, 4.0)
    report = build_report([trace], Selection(1.5, 4.0))
    python = {f"app.py:{line.line}": line.python_s for line in report.lines}
    page.click("nav > button")  # all columns
    for place, text in zip(column(page, "place"), column(page, "python"), strict=True):
        assert float(text or 0) == pytest.approx(python[place], abs=6e-4)
    page.press("Escape")
    check_totals(page, trace)


def test_a_window_that_is_drawn_re_attributes_every_table(page: Page, trace: Path) -> None:
    before = {key: column(page, key) for key in ("cpu", "growth", "alloc")}
    left, top, width, height = page.box(".timeline .u-over")
    page.drag((left + width * 0.2, top + height / 2), (left + width * 0.4, top + height / 2))
    from_s, to_s = (
        float(page.value(f"document.querySelector('[data-field={name}]').value")) for name in ("from", "to")
    )
    assert (from_s, to_s) == (pytest.approx(2, abs=0.03), pytest.approx(4, abs=0.03))
    check_totals(page, trace, from_s, to_s)
    assert all(column(page, key) != texts for key, texts in before.items())
    assert page.box(".timeline .u-select")[2] == pytest.approx(0.2 * width, abs=3)
    for tab, name in (("functions", "cumulative"), ("threads", "cpu")):
        page.click(f"[data-tab={tab}]")
        narrow = column(page, name)
        page.press("Escape")
        assert column(page, name) != narrow
        page.drag((left + width * 0.2, top + height / 2), (left + width * 0.4, top + height / 2))
        assert column(page, name) == narrow


def test_functions_have_the_times_of_the_query(page: Page, trace: Path) -> None:
    page.click("[data-tab=functions]")
    report = build_report([trace], Selection())
    cpu_s = report.totals.cpu_s or 1
    wanted = {each.function: 100 * (each.cumulative_cpu_s or 0) / cpu_s for each in report.functions}
    found = dict(zip(column(page, "function"), map(float, column(page, "cumulative")), strict=True))
    assert found == {name: pytest.approx(share, abs=0.06) for name, share in wanted.items() if name}


def test_a_header_sorts_one_way_and_the_other(page: Page) -> None:
    numbers = lambda: [float(text.replace(",", "") or 0) for text in column(page, "alloc")]  # noqa: E731
    for order in ("descending", "ascending"):
        page.click(".head [data-key=alloc]")
        page.wait(f"document.querySelector('.head [data-key=alloc]').ariaSort === '{order}'")
        shown = numbers()
        assert shown == sorted(shown, reverse=order == "descending")


def test_the_keyboard_does_what_the_mouse_does(page: Page) -> None:
    page.press("2")
    assert page.value("document.querySelector('[role=tab][aria-selected=true]').dataset.tab") == "functions"
    page.press("1")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert page.value("document.querySelector('.row.selected').ariaRowIndex") == "3"
    place = page.value("document.querySelector('.row.selected').firstChild.textContent")
    page.press("Enter")
    assert page.value("document.querySelector('[role=tab][aria-selected=true]').dataset.tab") == "source"
    source = "document.querySelector('.pane-split .pane-column .row.selected')"
    page.wait(source)
    assert place == f"app.py:{page.value(f'{source}.firstChild.textContent')}"
    page.press("/")
    assert page.value("document.activeElement.type") == "search"
    page.press("Escape")
    page.value("document.querySelector('.timeline').focus()")
    page.press("ArrowRight")
    assert page.value("document.querySelector('[data-field=to]').value") == "1"
    page.press("Shift+ArrowRight")
    assert float(page.value("document.querySelector('[data-field=to]').value")) == pytest.approx(1.1)


def test_flame_graphs_open_and_are_driven_by_keys(page: Page, trace: Path) -> None:
    page.press("3")
    frames = "[...document.querySelectorAll('.flame g.frame')].map(each => each.getAttribute('name'))"
    page.wait(f"{frames}.length > 5")
    names = page.value(frames)
    assert names[0] == "all" and "<module>  app.py" in names and "native code" in names
    cpu_s = build_report([trace], Selection()).totals.cpu_s
    assert page.value("document.querySelector('.flame g.frame').__data__.value") == pytest.approx(cpu_s, rel=1e-3)
    page.press("ArrowDown")
    page.press("ArrowDown")
    chosen = page.value("document.querySelector('.flame .chosen').getAttribute('name')")
    assert chosen in names[1:]
    page.press("Enter")
    page.wait("document.querySelectorAll('.flame .fade').length > 0")
    page.press("Escape")
    page.wait("document.querySelectorAll('.flame .fade').length === 0")
    for kind in ("wait", "live", "alloc"):
        page.click(f"[data-kind={kind}]")
        page.wait(f"{frames}.length > 3")


def rare_trace(path: Path, rare: int, ticks: int) -> Path:
    """A busy function with so many ticks, and so many functions with a tick each."""
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, 10 * SECOND)
    main = ("/home/me/app.py", "main", 1, 2)
    busy = builder.stack(("/home/me/app.py", "busy", 3, 4), main)
    stacks = [busy] * ticks
    stacks += [builder.stack(("/home/me/app.py", f"rare_{n}", 10 * n, 10 * n), main) for n in range(1, rare + 1)]
    for n, stack in enumerate(stacks):
        builder.tick(n * MS, process, thread, stack)
    return builder.write(path)


BLANK = """[...document.querySelectorAll('.flame g.frame')].map(each => each.__data__).filter(each => each.children).map(
    each => each.data.value - each.children.reduce((sum, child) => sum + child.data.value, 0)).reduce((a, b) => a + b, 0)"""


def test_rare_stacks_are_one_grey_frame_in_the_flame_graph(browser: Browser, tmp_path: Path) -> None:
    path = rare_trace(tmp_path / "t.parquet", rare=3_400, ticks=1_600)
    with browser.page(written(path), part="#tab=flame") as page:
        names = "[...document.querySelectorAll('.flame g.frame')].map(each => each.getAttribute('name'))"
        page.wait(f"{names}.length > 2")
        found = page.value(names)
        assert found[:3] == ["all", "main  app.py", "busy  app.py"] and "rare stacks 68 %" in found and len(found) < 6
        colour = "document.querySelector('.flame g.frame[name^=rare] rect').getAttribute('fill')"
        assert page.value(colour) == "#c3c7cb"
        assert page.value(BLANK) == pytest.approx(0, abs=1e-6)
        assert "together 68 %" in page.value("document.querySelector('.rare').textContent")
        assert page.complaints() == []


def test_a_flame_graph_without_rare_stacks_does_not_mention_any(page: Page) -> None:
    page.press("3")
    page.wait("document.querySelectorAll('.flame g.frame').length > 5")
    assert page.value("document.querySelector('.rare').textContent") == ""
    assert page.value("document.querySelectorAll('.flame g.frame[name^=rare]').length") == 0


def test_a_line_says_which_libraries_its_native_time_is_in(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    stack = builder.stack(("/app/a.py", "f", 1, 2))
    builder.add("module", id=7, path="/usr/lib/libfast<b>.so.1", **{"class": "extension"})
    native = {
        "pc_class": "extension",
        "pc_module": 7,
        "pc_offset": 4096,
        "extension_module": 7,
        "extension_offset": 4096,
    }
    builder.tick(5 * MS, process, builder.thread(process, 10 * MS), stack, **native)
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        cells = "[...document.querySelectorAll('#pane .rows .row .cell')].map(each => each.title)"
        assert "libfast<b> 0.010 s" in page.value(cells)
        assert page.complaints() == []


def test_a_line_of_several_functions_is_named_after_the_busiest(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, 30 * MS)
    for number, name in enumerate(["f", "f.<lambda>", "f.<lambda>"]):
        builder.tick((number + 5) * MS, process, thread, builder.stack(("/app/a.py", name, 1, 2)))
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        assert page.value("document.querySelector('#pane .rows .cell').title") == "/app/a.py:2, f.<lambda>"


def test_gpus_have_figures_columns_and_a_track_that_the_window_cuts(browser: Browser, tmp_path: Path) -> None:
    trace = device_trace(tmp_path / "t.parquet")
    with browser.page(written(trace)) as page:
        page.wait("document.querySelectorAll('.timeline .uplot').length === 4")  # CPUs, memory, GPU time, GPU memory
        for from_s, to_s in ((None, None), (2.5, 3.2)):
            if from_s is not None:
                type_window(page, "2.5", "3.2")
            report = build_report([trace], Selection(from_s, to_s))
            totals, found = report.totals, figures(page)
            for name in ("gpu_s", "gpu_peak_bytes", "device_copy_bytes", "device_sync_s"):
                assert found[name] == pytest.approx(getattr(totals, name), abs=1e-5), name
            lines = {f"app.py:{each.line}": each for each in report.lines}
            for place, share, peak, waited in zip(
                *(column(page, key) for key in ("place", "gpu", "gpuPeak", "device_sync")), strict=True
            ):
                line = lines[place]
                assert float(share.removeprefix("~") or 0) == pytest.approx(line.gpu_percent, abs=0.06)
                assert float(peak or 0) == pytest.approx((line.gpu_peak_bytes or 0) / 1e6, abs=1)
                assert float(waited or 0) == pytest.approx(line.device_sync_s, abs=6e-4)
        page.press("Escape")
        assert column(page, "gpu")[column(page, "place").index("app.py:41")].startswith("~")
        titles = page.value("[...document.querySelectorAll('#pane .rows .row .cell')].map(each => each.title)")
        assert "6.000 MB to device, 2.000 MB from device; 0.008 s in the calls" in titles
        page.press("3")
        page.click("[data-kind=gpu]")
        page.wait("document.querySelector('.flame g.frame')?.__data__.value > 1")
        gpu_s = build_report([trace], Selection()).totals.gpu_s
        assert page.value("document.querySelector('.flame g.frame').__data__.value") == pytest.approx(gpu_s, abs=1e-5)
        page.press("4")
        wanted = {"gpu", "gpuPeak", "deviceCopy", "device_sync"}
        keys = "[...document.querySelectorAll('#pane .pane-column .head .cell')].map(each => each.dataset.key)"
        assert wanted <= set(page.value(keys))
        assert page.complaints() == []


def test_a_page_without_a_gpu_does_not_mention_one(page: Page) -> None:
    assert "GPU" not in page.value("document.body.innerText") and "gpu_s" not in figures(page)
    assert not {"gpu", "gpuPeak", "deviceCopy", "device_sync"} & set(
        page.value("[...document.querySelectorAll('.head .cell')].map(each => each.dataset.key)")
    )


def test_the_filter_leaves_what_matches(page: Page) -> None:
    page.press("/")
    page.type("app.py:8")
    assert column(page, "place") == ["app.py:8"]
    page.press("Escape")
    page.press("6")
    assert column(page, "thread") == []
    page.press("/")
    page.type("thread-2")
    assert column(page, "thread") == ["2"]


def test_pointing_at_the_chart_says_what_was_there(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    builder.memory(SECOND, process, builder.thread(process, 10 * MS), None, 10_485_767, 10_485_767)
    builder.add("mark", t_ns=4 * SECOND, end_ns=6 * SECOND, what="mark", text="<b>load</b>")
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        left, top, width, height = page.box(".timeline .u-over")
        page.point(left + width / 2, top + height / 2)
        page.wait("document.querySelector('.reading').textContent.startsWith('mark <b>load</b> · at ')")
        assert page.value("document.querySelector('.reading').textContent").endswith(" s · footprint 10.5 MB")
        assert page.complaints() == []


def test_window_and_tab_are_in_the_address(browser: Browser, report: Path, trace: Path) -> None:
    with browser.page(report, part="#tab=threads&from=2&to=3") as page:
        check_totals(page, trace, 2.0, 3.0)
        assert page.value("document.querySelector('[aria-selected=true]').dataset.tab") == "threads"


@pytest.mark.parametrize("place", range(4), ids=["empty", "bare", "one tick", "memory alone"])
def test_a_page_about_next_to_nothing_is_a_sensible_page(browser: Browser, tmp_path: Path, place: int) -> None:
    path = written(list(empty_traces(tmp_path))[place])
    with browser.page(path) as page:
        for tab in "1234567":
            page.press(tab)
            assert page.value("document.querySelector('main').textContent.length") > 0
        assert page.complaints() == []
        assert "NaN" not in page.value("document.body.innerText")


@pytest.mark.parametrize(
    ("lines", "ticks", "limit"),
    [(1_000, 20_000, 600_000), pytest.param(10_000, 1_000_000, 10_000_000, marks=pytest.mark.long)],
)
def test_many_lines_fit_into_a_page_and_a_table(
    browser: Browser, tmp_path: Path, lines: int, ticks: int, limit: int
) -> None:
    trace = write_wide_trace(tmp_path / "t.parquet", lines, ticks)
    path = written(trace)
    assert path.stat().st_size < limit
    with browser.page(path) as page:
        rows = "document.querySelectorAll('#pane .rows .row').length"
        assert page.value("document.querySelector('#pane .table').ariaRowCount") == str(lines + 1)
        assert 10 < page.value(rows) < 100
        totals = build_report([trace], Selection()).totals
        assert figures(page)["cpu_s"] == pytest.approx(totals.cpu_s, rel=1e-4)
        type_window(page, "1000", "1800")
        windowed = build_report([trace], Selection(1000, 1800)).totals
        assert figures(page)["cpu_s"] == pytest.approx(windowed.cpu_s, rel=1e-4)
        page.press("1")
        page.press("End")
        page.wait("document.querySelector('#pane .row.selected')?.ariaRowIndex > " + str(lines * 9 // 10))
        assert 10 < page.value(rows) < 100
        assert page.complaints() == []


def test_a_hostile_trace_is_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    trace, evil = hostile_page_trace(tmp_path / "t.parquet")
    path = written(trace)
    with browser.page(path) as page:
        elements: Any = page.value("document.querySelectorAll('script, img, b[onclick]').length")
        for tab in "1234567":
            page.press(tab)
            assert page.value("document.querySelectorAll('script, img').length") == elements == 2
        page.press("1")
        assert {"constructor:1", "__proto__:1", "toString:1"} < set(column(page, "place"))
        assert any(evil[1][:20] in text for text in column(page, "source"))
        assert page.value("window.done") is None
        text = page.value("document.body.textContent.replace(document.getElementById('data').textContent, '')")
        assert not set("\x1b\x00\u202e\u2028") & set(text)
        assert page.complaints() == [] and page.requests() == [path.as_uri()]


def test_the_policy_stops_what_would_reach_out(browser: Browser, report: Path) -> None:
    with browser.page(report) as page:
        reach = "fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'stopped')"
        assert page.value(reach) == "stopped"
        parsed = (
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'parsed' } catch { return 'refused' } })()"
        )
        assert page.value(parsed) == "refused"
        assert any("Content Security Policy" in text for text in page.complaints())


def test_the_page_begins_with_the_findings_of_the_report(page: Page, trace: Path) -> None:
    expected = [each for each in build_report([trace], Selection()).findings if each.kind != "loss"]
    assert expected
    shown = page.value("[...document.querySelectorAll('.findings li')].map(e => e.textContent)")
    assert shown == [each.text for each in expected]
    place = next(each for each in expected if each.line is not None)
    page.click(f".findings li:nth-child({expected.index(place) + 1}) button")
    assert page.value("document.querySelector('[data-tab=source]').getAttribute('aria-selected')") == "true"
    type_window(page, "1.5", "4")  # they are about the whole recording, whatever the window
    assert page.value("[...document.querySelectorAll('.findings li')].map(e => e.textContent)") == shown


@pytest.mark.parametrize(("width", "is_folded"), [(900, True), (1400, False)])
def test_the_source_has_forty_columns_and_the_files_make_room(
    width: int, is_folded: bool, browser: Browser, report: Path
) -> None:
    letter = """(() => { const e = document.createElement('span'); e.textContent = 'x'.repeat(100); e.style.position = 'absolute';
        e.style.font = getComputedStyle(document.querySelector('.cell.code')).font; document.body.append(e);
        const w = e.getBoundingClientRect().width / 100; e.remove(); return w; })()"""
    with browser.page(report, width, part="#tab=source") as page:
        assert page.value("document.querySelector('.pane-split').classList.contains('folded')") is is_folded
        for tab in ("source", "lines"):
            page.click(f"[data-tab={tab}]")
            cell = ".rows .cell.code"
            assert page.box(cell)[2] >= 40 * page.value(letter), tab
        page.click("[data-tab=source]")
        page.click(".fold")
        assert page.value("document.querySelector('.pane-split').classList.contains('folded')") is not is_folded
        assert page.value("document.querySelector('.fold').getAttribute('aria-expanded')") == str(is_folded).lower()
        assert page.complaints() == []


def test_the_page_of_a_fleet_shows_its_stacks_and_hostile_names_as_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert analyze.run(["fleet", "flame", "-o", str(path), str(hostile_fleet(tmp_path / "fleet"))]) == 0
    with browser.page(path) as page:
        page.wait("document.querySelectorAll('.flame g.frame').length > 10")
        names = page.value("[...document.querySelectorAll('.flame g.frame')].map(each => each.getAttribute('name'))")
        assert (
            any(name.startswith("</script><img src=x") for name in names) and "kernel" in names and "(other)" in names
        )
        cpu_s = page.value("document.querySelector('.flame g.frame').__data__.value")
        assert cpu_s == pytest.approx(sum(stacks().values()))
        page.press("/")
        page.type("main.py")
        page.wait("document.activeElement.value === 'main.py'")
        assert (page.requests(), page.complaints()) == ([path.as_uri()], [])
