"""What stands above the live table: time that no line has, the window, what the memory table is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.live.following import RECORDING, WAITING, Status
from scalene_trace.cli.live.heading import Shown, heading
from scalene_trace.cli.live.reading import Reading, read
from scalene_trace.cli.live.tables import MEMORY, THREADS
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder

SCREEN = Screen(200)


def reading(folder: Path, view: str = "lines", window_s: float | None = None, note: str = "") -> Reading:
    """Half of the CPU time is in a library. 100 KB are allocated in the first second, 1 KB in the last."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=20 * MS)
    own = builder.stack(("/app/shop.py", "buy", 1, 2))
    builder.tick(9 * SECOND, process, thread, own)
    builder.tick(
        9 * SECOND + 1, process, thread, builder.stack(("/venv/lib/python3.12/site-packages/lib/a.py", "f", 1, 1))
    )
    builder.alloc(SECOND, process, thread, own, 100_000)
    builder.alloc(9 * SECOND, process, thread, own, 1_000)
    builder.add("module", id=1, path="/usr/lib/libwait.so", **{"class": "extension"})
    builder.add("native", id=1, parent=None, module=1, offset=5, gap=False)
    builder.wait(2 * SECOND, process, thread, own, SECOND, native=1)
    trace = builder.write(folder / "t.parquet")
    status = Status(WAITING if note else RECORDING, trace, (1, 1), 10.0, 7, note)
    return read(status, Selection(), window_s, view)


def text_of(found: Reading) -> str:
    return "\n".join(heading(found, Shown("CPU %"), SCREEN))


def test_cpu_time_that_no_line_has_is_said_with_its_package(tmp_path: Path) -> None:
    text = text_of(reading(tmp_path, window_s=5.0))
    assert "last 5.00 s" in text and "table:" not in text
    assert "50.0 % of the CPU time was spent outside the program's own code: lib 50.0 %." in text


def test_memory_is_since_the_start_and_as_in_the_report(tmp_path: Path) -> None:
    found = reading(tmp_path, "memory", window_s=5.0)
    assert "last 5.00 s · table: since the start" in text_of(found)
    (row,) = found.rows
    alive = next(column for column in MEMORY.columns if column.title == "alive")
    assert (row.live_at_end_bytes, alive.text(row, found, SCREEN)) == (101_000, "0.1 MB")


def test_a_refusal_is_said(tmp_path: Path) -> None:
    text = text_of(reading(tmp_path, note="No space.\x1b"))
    assert "waiting for the recorder" in text and "No space.\\x1b" in text


def test_where_a_thread_waits_is_a_guess_if_the_report_says_so(tmp_path: Path) -> None:
    found = reading(tmp_path, "threads")
    column = next(column for column in THREADS.columns if column.title == "waits in")
    sure, guess = (replace(found.rows[0], waits_in_guess=is_guess) for is_guess in (False, True))
    assert [column.text(row, found, SCREEN) for row in (sure, guess)] == ["libwait", "libwait, probably"]
