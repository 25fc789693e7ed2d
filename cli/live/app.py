"""The live tables in a terminal, with Textual."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs

from ...formats.units import seconds
from ..render.text import Screen, clean
from .asked import Asked, Readings
from .heading import Shown, heading
from .reader import Reader, Wanted
from .reading import Reading
from .source import source_lines
from .tables import VIEWS, Column, View, arranged, shown

#: Windows of time that keys choose from, in seconds; None = since the start.
WINDOWS = (2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, None)
#: Rows that a table has at most.
MOST_ROWS = 1000
_LOOK_S = 0.25
_LEAST_TEXT = 20
_SOON_S = 0.15
#: Tabs, titles, three rows and the line of keys.
_OTHER_LINES = 8


class _Found(Message):
    """What the reader has found, and what was wanted of it."""

    def __init__(self, wanted: Wanted, reading: Reading | None, message: str) -> None:
        super().__init__()
        self.wanted, self.reading, self.message = wanted, reading, message


class LiveApp(App[None]):
    """Takes readings in a thread of its own and shows the last one."""

    TITLE = "scalene-analyze live"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #heading { height: auto; padding: 0 1; }
    #filter { display: none; height: 1; border: none; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    #source { height: auto; max-height: 40%; padding: 0 1; display: none; border-top: solid $primary; }
    #source.open { display: block; }
    #message { height: auto; padding: 0 1; color: $warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"view('{name}')", name, show=False) for number, name in enumerate(VIEWS, start=1)),
        Binding("q", "quit", "quit"),
        Binding("space", "freeze", "freeze"),
        Binding("slash", "filter", "filter"),
        Binding("s", "sort(1)", "sort"),
        Binding("S", "sort(-1)", "sort back", show=False),
        Binding("r", "reverse", "reverse"),
        Binding("w", "window(1)", "longer"),
        Binding("W", "window(-1)", "shorter"),
        Binding("v", "source", "source"),
        Binding("tab", "next_view", "next view", priority=True),
        Binding("escape", "escape", "back", show=False),
    ]

    def __init__(self, asked: Asked, readings: Readings) -> None:
        super().__init__()
        self._readings = readings
        self._reader = Reader(readings, self._post)
        self._view: View = VIEWS[asked.view]
        self._sorts = {name: view.sortable()[0] for name, view in VIEWS.items()} | (
            {asked.view: asked.sort} if asked.sort else {}
        )
        self._is_reversed = self._is_frozen = False
        self._text, self._window_s = asked.text, asked.window_s
        self._reading: Reading | None = None
        self._rows: list[Any] = []
        self._next_s = 0.0
        self._soon: Timer | None = None

    # ---- layout ----

    def compose(self) -> ComposeResult:
        yield Tabs(
            *(Tab(f"{number} {name}", id=name) for number, name in enumerate(VIEWS, start=1)), active=self._view.name
        )
        with Vertical():
            yield Static(id="heading", markup=False)
            yield Static(id="message", markup=False)
            yield DataTable(id="table", cursor_type="row", zebra_stripes=True)
            yield Static(id="source", markup=False)
        yield Input(self._text, placeholder="filter by file, function or source; Esc shows all", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(ValueError, RuntimeError):  # not in this thread
                loop.add_signal_handler(number, self.exit, None, 128 + number)
        self.query_one(DataTable).focus()
        self.set_interval(_LOOK_S, self._look)
        self._look()

    def on_unmount(self) -> None:
        self._reader.end()

    # ---- readings ----

    def _post(self, wanted: Wanted, reading: Reading | None, message: str) -> None:
        with suppress(RuntimeError):  # the app has ended, and its loop is closed
            self.post_message(_Found(wanted, reading, message))

    def _look(self) -> None:
        if not self._is_frozen and time.monotonic() >= self._next_s:
            self._next_s = float("inf")
            self._reader.ask(Wanted(self._window_s, self._view.name, is_new=True))

    @on(_Found)
    def _taken(self, found: _Found) -> None:
        """What the reader has found; it is shown if it is still wanted."""
        wanted, reading, message = found.wanted, found.reading, found.message
        if wanted.is_new:
            self._next_s = time.monotonic() + self._readings.pause_s
        if reading is not None or message:  # without both, there was no snapshot to read again
            for box in self.query("#message").results(Static):  # none is left while the app ends
                box.update(Text(clean(message)))
                box.display = bool(message)
        if (wanted.window_s, wanted.view) != (self._window_s, self._view.name):
            self._again()
        elif reading is not None and not (wanted.is_new and self._is_frozen):
            self._reading = reading
            self._show()

    def _again(self) -> None:
        """Reads the last snapshot for what is asked for now."""
        self._reader.ask(Wanted(self._window_s, self._view.name, is_new=False))

    # ---- what is shown ----

    def _screen(self) -> Screen:
        return Screen(max(self.size.width - 2, 40), has_color=True, has_unicode=True, is_cut=True)

    def _show(self) -> None:
        reading, view = self._reading, self._view
        if reading is None or reading.view != view.name or not self.query(DataTable):  # the app ends
            return
        screen = self._screen()
        asked = Shown(self._sorts[view.name], self._is_reversed, self._text, self._is_frozen)
        lines = heading(reading, asked, screen)[: max(self.size.height - _OTHER_LINES, 1)]
        self.query_one("#heading", Static).update(Text.from_ansi("\n".join(lines)))
        table = self.query_one(DataTable)
        key = view.key(self._rows[table.cursor_row]) if 0 <= table.cursor_row < len(self._rows) else None
        top = table.scroll_y
        self._rows = arranged(view, reading, self._sorts[view.name], self._is_reversed, self._text)[:MOST_ROWS]
        table.clear(columns=True)
        columns = shown(view, reading, screen)
        titles = [self._title(column) for column in columns]
        rows = [
            [_cell(column.text(row, reading, screen), column.is_number) for column in columns] for row in self._rows
        ]
        widths = [max(each.cell_len for each in column) + 2 for column in zip(titles, *rows, strict=True)]
        room = max(self.size.width - sum(widths[:-1]) - 2, _LEAST_TEXT)  # of the last column, which has text
        for title, column in zip(titles, columns, strict=True):
            table.add_column(title, key=column.title)
        for cells in rows:
            cells[-1].truncate(room, overflow="ellipsis")
            table.add_row(*cells)
        place = next((number for number, row in enumerate(self._rows) if view.key(row) == key), None)
        if place is not None:
            table.move_cursor(row=place, scroll=False)
            table.scroll_to(y=top, animate=False)
        self._show_source()

    def _title(self, column: Column) -> Text:
        title = Text(column.title, justify="right" if column.is_number else "left")
        if column.title == self._sorts[self._view.name]:
            title.append(" ▲" if self._is_reversed else " ▼")
        return title

    def _show_source(self) -> None:
        if not self.query("#source"):  # the app ends
            return
        panel, table = self.query_one("#source", Static), self.query_one(DataTable)
        if not panel.has_class("open") or self._reading is None or not 0 <= table.cursor_row < len(self._rows):
            return
        place = self._view.place(self._rows[table.cursor_row])
        lines: Iterable[str] = (
            ["There is no source of this row."]
            if place is None
            else source_lines(self._reading, *place, self._screen())
        )
        panel.update(Text.from_ansi("\n".join(lines)))

    # ---- keys and clicks ----

    def on_resize(self) -> None:
        self._show_soon()

    def _show_soon(self) -> None:
        """Shows it when nothing more has come for a moment: a table of many rows takes a while."""
        if self._soon:
            self._soon.stop()
        self._soon = self.set_timer(_SOON_S, self._show)

    def on_data_table_row_highlighted(self) -> None:
        self._show_source()

    def on_data_table_row_selected(self) -> None:
        self.action_source()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        title = event.column_key.value or ""
        if title in self._view.sortable():
            self._is_reversed = title == self._sorts[self._view.name] and not self._is_reversed
            self._sorts[self._view.name] = title
            self._show()

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        name = event.tab.id or self._view.name
        if name != self._view.name:
            self._view, self._rows = VIEWS[name], []
            self.query_one(DataTable).clear(columns=True)
            self._again()
        self.query_one(DataTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._text = event.value
        self._show_soon()

    def on_input_submitted(self) -> None:
        self.query_one("#filter").remove_class("open")
        self.query_one(DataTable).focus()

    def action_view(self, name: str) -> None:
        """Shows another table."""
        self.query_one(Tabs).active = name

    def action_next_view(self) -> None:
        """Shows the next table."""
        names = list(VIEWS)
        self.action_view(names[(names.index(self._view.name) + 1) % len(names)])

    def action_freeze(self) -> None:
        """Stops the refreshing, or goes on with it. The recording goes on in any case."""
        self._is_frozen = not self._is_frozen
        self._show()

    def action_filter(self) -> None:
        """Asks for the text of the filter."""
        box = self.query_one("#filter", Input)
        box.add_class("open")
        box.focus()

    def action_escape(self) -> None:
        """Closes the filter and shows all rows; closes the source."""
        box = self.query_one("#filter", Input)
        box.remove_class("open")
        box.value = ""
        self.query_one("#source").remove_class("open")
        self.query_one(DataTable).focus()

    def action_sort(self, step: int) -> None:
        """Sorts by the next column that is shown."""
        if self._reading is None or self._reading.view != self._view.name:
            return
        titles = [column.title for column in shown(self._view, self._reading, self._screen()) if column.figure]
        sort = self._sorts[self._view.name]
        at = titles.index(sort) if sort in titles else -step
        self._sorts[self._view.name] = titles[(at + step) % len(titles)]
        self._is_reversed = False
        self._show()

    def action_reverse(self) -> None:
        """Turns the order around."""
        self._is_reversed = not self._is_reversed
        self._show()

    def action_window(self, step: int) -> None:
        """Chooses the next longer or shorter window of time."""
        lengths = [window or float("inf") for window in WINDOWS]
        now_s = self._window_s or float("inf")
        at = min(range(len(lengths)), key=lambda place: abs(min(lengths[place], 1e9) - min(now_s, 1e9)))
        self._window_s = WINDOWS[min(max(at + step, 0), len(WINDOWS) - 1)]
        self.notify("since the start" if self._window_s is None else f"last {seconds(self._window_s)}", timeout=2)
        self._again()

    def action_source(self) -> None:
        """Shows the source around the row, or hides it."""
        self.query_one("#source").toggle_class("open")
        self._show_source()


def _cell(text: str, is_number: bool) -> Text:
    """Text of a trace is never markup; the only control sequences in cells are our own colours (:func:`..render.text.clean`)."""
    cell = Text.from_ansi(text) if "\x1b" in text else Text(text)
    cell.justify = "right" if is_number else "left"
    cell.no_wrap = True
    return cell
