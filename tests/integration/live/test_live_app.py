"""The live tables in a terminal: keys, sizes, many rows, hostile text. The recording is a trace that grows."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.live.app import LiveApp
from scalene_trace.cli.live.asked import Asked, Readings
from scalene_trace.cli.live.command import VIEW_NAMES
from scalene_trace.cli.live.following import ENDED, RECORDING, Status
from scalene_trace.cli.live.tables import VIEWS
from scalene_trace.recorder.errors import ControlError
from tests.support.example_traces import hostile_builder
from tests.support.paths import PATIENCE_S
from tests.support.trace_builder import MS, SECOND, TraceBuilder

LINES, PROCESSES = 1000, 40

FEW = 100


class Script:
    """Stands for a recording: gives each of ``statuses`` in turn, the last one again and again."""

    def __init__(self, *statuses: Status | Exception) -> None:
        self.statuses, self.taken = list(statuses), 0

    def take(self) -> Status:
        status = self.statuses[min(self.taken, len(self.statuses) - 1)]
        self.taken += 1
        if isinstance(status, Exception):
            raise status
        return status


def status_of(trace: Path, state: str = RECORDING) -> Status:
    found = trace.stat()
    return Status(state, trace, (found.st_ino, found.st_mtime_ns), 10.0 if state == RECORDING else None, 4711)


def many(path: Path, ticks: int = 1, lines: int = LINES, processes: int = PROCESSES) -> Path:
    """A trace in which the last line has most CPU time and memory."""
    builder = TraceBuilder()
    builder.settings["wall_ns"] = str(10 * SECOND)
    builder.source("/app/many.py", "\n".join(f"line_{number}()" for number in range(1, lines + 1)))
    cpu_ns = [ticks * line * MS for line in range(lines + 1)]
    for number in range(processes):
        process = builder.process(command=["python3", f"worker-{number}.py"], parent=1 if number else None)
        builder.thread(process, cpu_ns=sum(cpu_ns[number + 1 :: processes]), python_name=f"thread of {number}")
    for line in range(1, lines + 1):
        stack = builder.stack(("/app/many.py", f"function_{line % 10}", 1, line))
        number = (line - 1) % processes + 1
        builder.tick(9 * SECOND + line * 1000, number, number, stack, user_ns=cpu_ns[line])
        builder.alloc(line * MS, number, number, stack, 1000 * line)
    return builder.write(path)


def few(path: Path, ticks: int = 1) -> Path:
    return many(path, ticks, lines=FEW, processes=4)


def run_app(script: Script, size: tuple[int, int], steps: Callable[[LiveApp, Pilot[None]], Awaitable[None]]) -> None:
    asked = Asked("lines", None, 0.2, Selection(), None, 20, "")
    app = LiveApp(asked, Readings(asked, script))  # type: ignore[arg-type]

    async def main() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.query_one(DataTable).row_count > 0)
            await steps(app, pilot)

    asyncio.run(main())


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, "it did not happen"
        await pilot.pause(0.05)


def cells(app: App[Any], row: int) -> list[str]:
    return [str(cell) for cell in app.query_one(DataTable).get_row_at(row)]


def titles(app: App[Any]) -> list[str]:
    return [str(column.label) for column in app.query_one(DataTable).ordered_columns]


def shown_text(app: App[Any], name: str) -> str:
    return str(app.query_one(name, Static).render())


@pytest.mark.parametrize("size", [pytest.param((200, 50), marks=pytest.mark.long), (80, 24)], ids=["200", "80"])
def test_a_thousand_lines_and_forty_processes(size: tuple[int, int], tmp_path: Path) -> None:
    async def steps(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(DataTable)
        assert table.row_count == LINES and "line_1000()" in cells(app, 0)[-1]
        assert "40 processes, 40 threads" in shown_text(app, "#heading")
        assert table.virtual_size.width <= size[0]
        assert ("system" in titles(app)) is (size[0] > 100)
        assert tuple(VIEWS) == VIEW_NAMES
        for number, name in enumerate(VIEWS, start=1):
            await pilot.press(str(number))
            await until(pilot, lambda name=name: bool(app._rows) and getattr(app._reading, "view", "") == name)
            assert table.row_count == (
                PROCESSES if name in ("threads", "processes") else 10 if name == "functions" else LINES
            )

    run_app(Script(status_of(many(tmp_path / "t.parquet"))), size, steps)


def test_keys_sort_filter_turn_around_and_freeze(tmp_path: Path) -> None:
    first, second = few(tmp_path / "a.parquet"), few(tmp_path / "b.parquet", ticks=2)
    script = Script(status_of(first), status_of(first), status_of(second), status_of(second, ENDED))

    async def steps(app: LiveApp, pilot: Pilot[None]) -> None:
        table = app.query_one(DataTable)
        await pilot.press("space")
        taken = script.taken
        assert "display frozen" in shown_text(app, "#heading")
        await pilot.press("r")
        assert "line_1()" in cells(app, 0)[-1] and "reversed" in shown_text(app, "#heading")
        await pilot.press("s")
        assert not app._is_reversed and app._sorts["lines"] != "CPU %"
        await pilot.press("slash", *"line_9")
        await until(pilot, lambda: {int(row.line or 0) for row in app._rows} == {9, *range(90, 100)})
        await pilot.press("enter", "down", "v")
        assert re.search(r">\s+9[0-9]?\b", shown_text(app, "#source")), "the source around the row"
        assert script.taken == taken, "frozen"
        await pilot.press("escape")
        await until(pilot, lambda: table.row_count == FEW)
        assert not app.query_one("#filter", Input).has_class("open")
        cpu = cells(app, 0)[0]
        await pilot.press("space")
        await until(pilot, lambda: "ended" in shown_text(app, "#heading"))
        assert float(cells(app, 0)[0].lstrip("~")) == pytest.approx(2 * float(cpu.lstrip("~")), rel=0.1)

    run_app(script, (120, 40), steps)


def test_the_window_is_chosen_and_the_rest_is_left_out(tmp_path: Path) -> None:
    async def steps(app: LiveApp, pilot: Pilot[None]) -> None:
        whole = float(cells(app, 0)[0].lstrip("~"))
        await pilot.press(*["w", "W"] * 4, *"WWWWW")  # since the start, 1,800 s, …, 5 s
        assert sum(each.name == "readings" for each in threading.enumerate()) == 1
        await until(pilot, lambda: "last 5.00 s" in shown_text(app, "#heading"))
        assert float(cells(app, 0)[0].lstrip("~")) == pytest.approx(2 * whole, rel=0.2), "of half of the time"

    trace = few(tmp_path / "t.parquet")
    run_app(Script(status_of(trace), status_of(trace), status_of(trace, ENDED)), (120, 40), steps)


def test_an_error_is_shown_and_what_was_read_stays(tmp_path: Path) -> None:
    trace = few(tmp_path / "t.parquet")
    script = Script(status_of(trace), ControlError("The recorder does not answer. \x1b[31mred"))

    async def steps(app: LiveApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "does not answer" in shown_text(app, "#message"))
        assert "\x1b" not in shown_text(app, "#message") and app.query_one(DataTable).row_count == FEW
        script.statuses.append(status_of(trace))  # only now: on a busy machine the message would not be seen
        await until(pilot, lambda: not app.query_one("#message").display)

    run_app(script, (120, 40), steps)


def test_hostile_text_does_nothing(tmp_path: Path) -> None:
    async def steps(app: LiveApp, pilot: Pilot[None]) -> None:
        for number in (1, 4, 5):
            await pilot.press(str(number))
            await until(pilot, lambda: bool(app._rows))
            await pilot.press("v")
            for text in (*cells(app, 0), shown_text(app, "#heading"), shown_text(app, "#source")):
                assert text.replace("\n", "").isprintable(), repr(text)
            await pilot.press("v")

    run_app(Script(status_of(hostile_builder().write(tmp_path / "t.parquet"))), (120, 40), steps)
