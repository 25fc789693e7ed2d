"""What fits into the page and what the address keeps: columns, marks, libraries, callers of leaks, settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from scalene_trace.analyze.html.page import build_page
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.browser import Browser, Page, running_browser
from tests.support.page_traces import COLUMN, busy_trace, device_trace
from tests.support.trace_builder import MS, SECOND, TraceBuilder

KB = 1_000
LEAKS = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about the trace with most kinds of samples."""
    return written(busy_trace(tmp_path_factory.mktemp("page") / "t.parquet"))


def written(trace: Path) -> Path:
    path = trace.with_suffix(".html")
    path.write_text(build_page([trace], Selection()))
    return path


def column(page: Page, key: str) -> list[str]:
    found: list[str] = page.value(COLUMN.format(key=key))
    return found


def leaky_trace(path: Path) -> Path:
    """A line that keeps what it allocates, called by two others: mostly by ``handle``, below which two functions of a library
    ask for it, each for less than what ``start`` leads to."""
    builder = TraceBuilder()
    process = builder.process(end_ns=12 * SECOND)
    thread = builder.thread(process, 12 * SECOND)
    leak, main = ("/home/me/app.py", "keep", 30, 31), ("/home/me/app.py", "main", 1, 2)
    copied = [("/usr/lib/python3.12/copy.py", name, line, line) for line, name in ((60, "copy"), (120, "deepcopy"))]
    often = [builder.stack(each, leak, ("/home/me/app.py", "handle", 20, 21), main) for each in copied]
    seldom = builder.stack(leak, ("/home/me/app.py", "start", 10, 11), main)
    for number in range(LEAKS):
        t_ns = number * 11 * SECOND // LEAKS
        stack = seldom if number % 5 < 2 else often[number % 2]
        builder.alloc(t_ns, process, thread, stack, 400 * KB, None, interval_bytes=262_144)
        builder.memory(t_ns, process, thread, stack, 400 * KB, (number + 1) * 400 * KB)
        builder.tick(t_ns, process, thread, stack)
    return builder.write(path)


OVERFLOWING = """[...document.querySelectorAll('#pane .table')].filter(each => each.scrollWidth > each.clientWidth)
    .map(each => [each.ariaLabel, each.scrollWidth, each.clientWidth])"""


@pytest.mark.parametrize("tab", ["lines", "functions", "leaks", "threads", "recording"])
def test_all_columns_of_a_table_are_visible_at_1400_pixels(tab: str, browser: Browser, report: Path) -> None:
    with browser.page(report, 1400, part=f"#tab={tab}") as page:
        assert page.value(OVERFLOWING) == []


@pytest.mark.parametrize("tab", ["lines", "functions", "leaks", "threads", "recording"])
def test_tables_leave_out_columns_that_do_not_fit_into_900_pixels(tab: str, browser: Browser, tmp_path: Path) -> None:
    with browser.page(written(leaky_trace(tmp_path / "t.parquet")), 900, part=f"#tab={tab}") as page:
        assert page.value(OVERFLOWING) == []
        if tab == "leaks":
            assert {"place", "source", "bytes_per_s", "probability", "live_at_end_bytes"} <= set(page.value(HEADS))


HEADS = "[...document.querySelectorAll('#pane .table .head .cell')].map(each => each.dataset.key)"


def test_tables_of_a_gpu_leave_out_columns_that_do_not_fit(browser: Browser, tmp_path: Path) -> None:
    report = written(device_trace(tmp_path / "t.parquet", has_memory=True))
    more = "[...document.querySelectorAll('nav > button:not([hidden])')].map(each => [each.textContent, each.title])"
    with browser.page(report, 1400) as page:
        for tab in ("functions", "threads", "source", "lines"):
            page.click(f"[data-tab={tab}]")
            page.settle()
            assert page.value(OVERFLOWING) == [], tab
        first = page.value(HEADS)
        assert {"gpu", "gpuPeak", "deviceCopy", "device_sync", "growth", "alloc", "live"} <= set(first)
        assert "python" not in first
        ((text, title),) = page.value(more)
        assert text == "all columns" and "Python s" in title
        bar = "document.querySelector('#pane .row:not(.head) .graph:has(.bar i)').title"
        assert page.value(bar).startswith("Python ")
        page.click("nav > button")
        assert "python" in page.value(HEADS)
        page.click(".head [data-key=python]")
        page.click("nav > button")  # fewer, but the one that the table is sorted by
        assert "python" in page.value(HEADS) and page.value(OVERFLOWING) == []
        page.tab.set_viewport_size({"width": 2000, "height": 1000})
        page.wait(f"{HEADS}.length > {len(first)} && document.querySelector('nav > button').hidden")
        assert page.complaints() == []


def test_no_more_is_alive_than_the_footprint(browser: Browser, tmp_path: Path) -> None:
    """A sample stands for 89 MB, and 41 MB were there, as the report says too."""
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    stack = builder.stack(("/home/me/app.py", "main", 1, 3))
    builder.alloc(SECOND, process, thread, stack, 40_000_000, None, interval_bytes=2**26)
    builder.memory(2 * SECOND, process, thread, None, 41_000_003, 41_000_003)
    path = builder.write(tmp_path / "t.parquet")
    assert build_report([path], Selection()).totals.live_at_end_bytes == 41_000_003
    with browser.page(written(path)) as page:
        assert page.value("document.querySelector('[data-figure=live_at_end_bytes]').dataset.value") == "41000003"
        assert (column(page, "kept"), column(page, "live")) == (["41.0"], ["41.0"])


def test_several_processes_have_no_more_alive_at_the_peak_than_the_footprint(browser: Browser, tmp_path: Path) -> None:
    """What is alive at their ends, which are different moments, may be more."""
    builder = TraceBuilder()
    for start_ns in (0, 5 * SECOND):
        process = builder.process(end_ns=start_ns + 4 * SECOND)
        thread = builder.thread(process, cpu_ns=0)
        stack = builder.stack(("/home/me/app.py", "main", 1, 3))
        builder.alloc(start_ns + SECOND, process, thread, stack, 40_000_000, None, interval_bytes=2**26)
        builder.memory(start_ns + 2 * SECOND, process, thread, None, 41_000_003, 41_000_003)
    path = builder.write(tmp_path / "t.parquet")
    with browser.page(written(path)) as page:
        (kept,), (live,) = column(page, "kept"), column(page, "live")
        peak = int(page.value("document.querySelector('[data-figure=peak_bytes]').dataset.value"))
    assert float(live) <= peak / 1e6 < float(kept)


def test_a_long_name_of_a_file_is_cut_and_the_number_of_the_line_is_not(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    stack = builder.stack((f"/app/{'long_' * 20}name.py", "f", 1, 12_345))
    builder.tick(5 * MS, process, builder.thread(process, 10 * MS), stack)
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        name, number = (page.box(f"#pane .rows .cell.place > :nth-child({place})") for place in (1, 2))
        cell = page.box("#pane .rows .cell.place")
        assert number[0] + number[2] <= cell[0] + cell[2] + 1 and name[2] > 30
        assert page.value("document.querySelector('#pane .rows .cell.place > :nth-child(2)').textContent") == ":12345"


def test_the_address_is_followed_when_it_changes(browser: Browser, report: Path) -> None:
    tab = "document.querySelector('[aria-selected=true]').dataset.tab"
    fields = "[...document.querySelectorAll('[data-field]')].map(each => each.value)"
    with browser.page(report) as page:
        page.value("location.hash = '#tab=functions&from=2&to=3&filter=work'")
        page.wait(f"{tab} === 'functions'")
        assert page.value(fields) == ["2", "3"]
        assert page.value("document.querySelector('[type=search]').value") == "work"
        assert column(page, "function") == ["work"]
        page.value("location.hash = '#tab=lines'")
        page.wait(f"{tab} === 'lines'")
        assert page.value(fields)[0] == "0" and len(column(page, "place")) > 2
        page.press("/")
        page.type("app.py:8")
        page.wait("location.hash.includes('filter=app.py%3A8')")
        address = page.value("location.hash")
        assert page.complaints() == []
    with browser.page(report, part=address) as page:
        assert column(page, "place") == ["app.py:8"]


TAB = "document.querySelector('[role=tab][aria-selected=true]').dataset.tab"
CHOSEN = "document.querySelector('#pane .row.selected .place')?.textContent ?? ''"
ORDER = """[...document.querySelectorAll('#pane .head .cell')].filter(each => each.ariaSort !== 'none')
    .map(each => [each.dataset.key, each.ariaSort])"""


def test_order_and_selected_line_are_in_the_address_both_ways(browser: Browser, report: Path) -> None:
    with browser.page(report) as page:
        shown = column(page, "place")
        page.click(".head [data-key=alloc]")
        page.click(".head [data-key=alloc]")
        assert page.value("location.hash") == "#tab=lines&sort=lines.alloc.up"
        page.click("#pane .rows .row[aria-rowindex='3']")
        place, rows = page.value(CHOSEN), column(page, "place")
        assert page.value("location.hash").endswith(f"&line=%2Fhome%2Fme%2F{place.replace(':', '%3A')}")
        address = page.value("location.hash")
        page.value("location.hash = '#tab=lines'")
        page.wait(f"({CHOSEN}) === ''")
        assert column(page, "place") == shown
        assert page.complaints() == []
    with browser.page(report, part=address) as page:
        assert (page.value(ORDER), page.value(CHOSEN), column(page, "place")) == ([["alloc", "ascending"]], place, rows)
        assert page.value("location.hash") == address


def test_the_back_button_goes_through_what_was_shown(browser: Browser, report: Path) -> None:
    with browser.page(report) as page:
        steps = []
        for change in (
            lambda: page.click("[data-tab=functions]"),
            lambda: page.click(".head [data-key=alloc]"),
            lambda: page.press("1"),
            lambda: [page.press("ArrowDown") for _ in range(3)],  # one step
            lambda: page.press("Enter"),  # the source of the line
            lambda: [page.press(key) for key in "/wo"],
        ):
            steps.append(page.value("location.hash"))
            change()
            assert page.value("location.hash") != steps[-1]
        last = page.value("location.hash")
        for address in reversed(steps):
            page.value("history.back()")
            page.wait(f"location.hash === '{address}'")
            page.settle()
        assert page.value(TAB) == "lines" and page.value(CHOSEN) == ""
        page.value("history.go(5)")
        page.wait(f"{TAB} === 'source'")
        assert "%3A" in page.value("location.hash") and page.value(
            "document.querySelector('#pane .pane-column .selected')"
        )
        page.value("history.forward()")
        page.wait(f"location.hash === '{last}'")
        assert page.value("document.querySelector('[type=search]').value") == "wo"
        assert page.complaints() == []


HOSTILE = [
    "<img src=x onerror='window.done=1'>",
    "constructor",
    "__proto__",
    "javascript:window.done=1",
    "%ff%00%u202e",
    "\u202e\n",
]
HOSTILE += [
    "x" * 9_999,
    "/home/me/app.py:1e0",
    "lines.__proto__.up",
    "lines.source.up",
    "lines.cpu.down.x",
    "source.line.up",
]


@pytest.mark.parametrize("tab", ["lines", "source"])
def test_hostile_addresses_are_inert(tab: str, browser: Browser, report: Path) -> None:
    state = "[document.querySelector('#pane').innerText, location.hash, document.querySelectorAll('*').length]"
    with browser.page(report, part=f"#tab={tab}") as page:
        before = page.value(state)
        for evil in HOSTILE:
            for names in (["line"], ["from", "to", "line", "sort", "sort", "sort", "x"]):
                address = urlencode([("tab", tab), *((name, evil) for name in names)])
                page.value(f"location.hash = '#{address}'")
                page.wait(f"location.hash === '#tab={tab}'")
        assert page.value(state) == before and page.value("window.done") is None
        assert page.requests() == [report.as_uri()] and page.complaints() == []


def test_a_leak_has_the_calls_that_lead_to_most_of_it(browser: Browser, tmp_path: Path) -> None:
    with browser.page(written(leaky_trace(tmp_path / "t.parquet")), part="#tab=leaks") as page:
        assert column(page, "place") == ["app.py:31"] and column(page, "path") == ["handle ‹ main"]
        assert page.complaints() == []


def test_libraries_have_a_table_with_the_line_that_uses_them_most(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, SECOND)
    for number, name in ((7, "libfast"), (8, "libslow<b>")):
        builder.add("module", id=number, path=f"/usr/lib/{name}.so.1", **{"class": "extension"})
    for number, line, ticks in ((7, 2, 1), (8, 2, 1), (8, 3, 5)):
        facts = {
            "pc_class": "extension",
            "pc_module": number,
            "pc_offset": 64,
            "extension_module": number,
            "extension_offset": 64,
        }
        stack = builder.stack(("/app/a.py", "f", 1, line))
        for tick in range(ticks):
            builder.tick((tick + 1) * 10 * MS, process, thread, stack, **facts)
    with browser.page(written(builder.write(tmp_path / "t.parquet")), part="#tab=functions") as page:
        rows = """[...document.querySelectorAll('.table[aria-label=Libraries] .rows .row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
            .map(row => [...row.children].map(cell => cell.textContent))"""
        assert page.value(rows) == [
            ["libslow<b>", "0.060", "85.7", "2", "a.py:3"], ["libfast", "0.010", "14.3", "1", "a.py:2"]
        ]  # fmt: skip
        assert page.complaints() == []


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("cpu_interval_ns", "10000000", "10 ms"),
        ("gpu_interval_ns", "0", "0"),
        ("wall_ns", "23102432533", "23.10 s"),
        ("cpu_interval_ns", "10000", "10 µs"),
        ("memory_threshold_bytes", "10485767", "10.5 MB"),
        ("copy_threshold_bytes", "4001", "4 KB"),
        ("hostname", "17", "17"),
        ("wall_ns", "not a number", "not a number"),
    ],
)
def test_settings_have_units(name: str, value: str, shown: str, browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.process()
    builder.settings[name] = value
    with browser.page(written(builder.write(tmp_path / "t.parquet")), part="#tab=recording") as page:
        rows: Any = page.value(
            "[...document.querySelectorAll('#pane .rows .row')].map(row => [...row.children].map(each => each.textContent))"
        )
        assert [name, shown] in rows


def test_user_marks_have_their_text_on_the_chart(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    builder.tick(SECOND, process, builder.thread(process, 10 * SECOND), builder.stack(("/app/a.py", "f", 1, 2)))
    builder.memory(SECOND, process, None, None, 1, 1)
    for second, text in ((2, "load <b>"), (5, "x" * 100), (6, "no room")):
        builder.add("mark", t_ns=second * SECOND, what="mark", text=text, end_ns=None)
    builder.add("mark", t_ns=8 * SECOND, what="pause", text="", end_ns=9 * SECOND)
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        page.value("""(() => { window.texts = []; const fill = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { texts.push(text); fill.call(this, text, ...at) } })()""")
        page.tab.emulate_media(color_scheme="dark")
        page.wait("texts.length > 5")
        page.settle()
        texts = page.value("texts")
        assert texts.count("load <b>") == 1, "on the first chart alone"
        assert "x" * 32 + "…" in texts and "no room" not in texts
        assert page.complaints() == []


@pytest.mark.parametrize(
    ("loss", "said", "frame"),
    [
        (None, "8.00 s of it without Python code", "no Python code"),
        ("unknown_python", "8.00 s of it unknown: Python stacks could not be read", "no Python stack"),
    ],
)
def test_waits_without_a_python_stack_stand_apart(
    loss: str | None, said: str, frame: str, browser: Browser, tmp_path: Path
) -> None:
    """An idle thread of a library, which has no stack; or one of Python, of which it could not be read."""
    builder = TraceBuilder()
    if loss:
        builder.loss(loss, "error", 1, "an interpreter was recorded without Python stacks")
    process = builder.process(end_ns=10 * SECOND)
    busy, idle = (builder.thread(process, number * MS) for number in (10, 0))
    stack = builder.stack(("/app/a.py", "f", 1, 2))
    builder.tick(SECOND, process, busy, stack)
    builder.wait(SECOND, process, busy, stack, SECOND, **{"class": "runnable"})
    builder.wait(SECOND, process, idle, None, 8 * SECOND, **{"class": "sleep"})
    with browser.page(written(builder.write(tmp_path / "t.parquet")), part="#tab=flame") as page:
        assert said in page.value("document.querySelector('.figures').textContent")
        page.click("[data-kind=wait]")
        frames = """[...document.querySelectorAll('.flame g.frame')].map(each => each.__data__)
            .map(each => [each.parent?.data.name ?? null, each.data.name, Math.round(each.data.value)])"""
        assert sorted(page.value(frames)[1:]) == [
            ["all", "f  a.py", 1], ["all", frame, 8], ["f  a.py", "runnable", 1], [frame, "sleep", 8]
        ]  # fmt: skip
        assert page.complaints() == []


def test_short_waits_without_a_python_stack_are_not_mentioned(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=SECOND)
    thread = builder.thread(process, 0)
    builder.wait(5 * MS, process, thread, None, 4 * MS, **{"class": "runnable"})
    with browser.page(written(builder.write(tmp_path / "t.parquet"))) as page:
        text = page.value("document.querySelector('.figures').textContent")
        assert "4 ms" in text and "of it" not in text


def test_time_that_is_unclassified_is_neither_pythons_nor_native(browser: Browser, tmp_path: Path) -> None:
    """Three ticks of Python code, one of which it is unknown whether it is, and one in the kernel."""
    builder = TraceBuilder()
    process = builder.process(end_ns=SECOND)
    thread = builder.thread(process, 50 * MS)
    stack = builder.stack(("/app/a.py", "f", 1, 2))
    for number in range(3):
        builder.tick(number * 10 * MS, process, thread, stack)
    builder.tick(40 * MS, process, thread, stack, pc_class="interpreter", opcode=None)
    builder.tick(50 * MS, process, thread, stack, user_ns=0, system_ns=10 * MS)
    path = written(builder.write(tmp_path / "t.parquet"))
    with browser.page(path, part="#tab=threads") as page:
        shares = "[...document.querySelectorAll('.figures .figure:first-child .share')].map(each => each.textContent)"
        assert page.value(shares) == ["Python 60 %", "unclassified 20 %", "system 20 %"]
        assert column(page, "unclassified")[0] == "0.010" and column(page, "cpu")[0] == "0.050"
        page.press("1")
        assert column(page, "unclassified") == ["0.010"] and column(page, "python") == ["0.030"]
        page.press("3")
        frames = "[...document.querySelectorAll('.flame g.frame')].map(each => each.getAttribute('name'))"
        page.wait(f"{frames}.length > 2")
        assert page.value(frames) == ["all", "f  a.py", "kernel", "unclassified"]
        assert page.complaints() == []


def test_calls_that_the_flame_graph_or_the_recording_cuts_are_named(browser: Browser, tmp_path: Path) -> None:
    """A recursion of 450 calls, of which the graph shows 399 below a frame for the callers that the recording has not kept."""
    builder = TraceBuilder()
    process = builder.process(end_ns=SECOND)
    thread = builder.thread(process, 10 * MS)
    stack = builder.stack(*[("/app/a.py", f"f{number}", number, number) for number in range(450, 0, -1)])
    builder.rows["stack"][0]["truncated"] = True
    builder.tick(10 * MS, process, thread, stack)
    with browser.page(written(builder.write(tmp_path / "t.parquet")), part="#tab=flame") as page:
        frames = "[...document.querySelectorAll('.flame g.frame')].map(each => each.getAttribute('name'))"
        page.wait(f"{frames}.length > 2")
        names = page.value(frames)
        assert names[:3] == ["all", "[outer frames not recorded]", "f1  a.py"]
        assert names[-2:] == ["f399  a.py", "deeper calls 100 %"]
        text = page.value("document.querySelector('.rare').textContent")
        assert text == 'calls in more than 400 rows are one grey frame, "deeper calls", together 100 %'
        assert page.complaints() == []
