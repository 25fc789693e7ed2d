"""The table that is printed again and again: for terminals without Textual, and for pipes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator

from ...formats.errors import TraceError
from ..analyze.shared.output import print_lines, write
from ..render.table import columns_text
from ..render.text import Screen, cut, not_shown
from .asked import Asked, Readings
from .following import ENDED
from .heading import Shown, heading
from .reading import Reading
from .tables import VIEWS, arranged, shown

_CLEAR = "\x1b[H\x1b[J"


def print_tables(asked: Asked, readings: Readings, screen: Screen, count: int | None) -> None:
    """Prints the table until the recording ends, or ``count`` times. Raises ControlError, TraceError."""
    number = 0
    while count is None or number < count:
        if number:
            time.sleep(readings.pause_s)
        try:
            reading = readings.take(asked.window_s, asked.view)
        except TraceError:
            if not number:
                raise
            continue
        lines = list(table_lines(reading, asked, screen, _height(screen)))
        if screen.is_cut:
            write(_CLEAR)
        elif number:
            write("\n")
        print_lines(lines)
        number += 1
        if reading.status.state == ENDED:
            return


def _height(screen: Screen) -> int:
    """The lines that the terminal shows; 0 = no limit."""
    height = shutil.get_terminal_size((0, 0)).lines if screen.is_cut and sys.stdout.isatty() else 0
    return height - 1 if height > 1 else 0


def table_lines(reading: Reading, asked: Asked, screen: Screen, height: int) -> Iterator[str]:
    """The heading and the table. ``height``: the most lines; 0 = as many as are asked for."""
    view = VIEWS[asked.view]
    head = heading(reading, Shown(asked.sort or view.sortable()[0], text=asked.text), screen)
    found = arranged(view, reading, asked.sort, False, asked.text)
    room = min(asked.limit, max(height - len(head) - 3, 1)) if height else asked.limit
    columns = shown(view, reading, screen)
    rows = [[column.text(row, reading, screen) for column in columns] for row in found[:room]]
    yield from head
    yield ""
    numbers = {place for place, column in enumerate(columns) if column.is_number}
    if rows:
        yield from columns_text([column.title for column in columns], rows, screen, numbers)
    else:
        yield "Nothing yet."
    if found[room:]:
        yield cut(screen.paint(not_shown(len(found) - room, "row", "rows") + ".", "dim"), screen.width)
