"""How often a recording is asked, and what is read again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.live import asked
from scalene_trace.cli.live.asked import Asked, Readings
from scalene_trace.cli.live.following import RECORDING, Status
from scalene_trace.cli.live.reading import Reading
from scalene_trace.cli.live.tables import FUNCTIONS, LINES, shown
from scalene_trace.cli.render.text import Screen
from scalene_trace.recorder.errors import ControlError
from tests.support.trace_builder import MS, SECOND, TraceBuilder

WANTED = Asked("lines", None, 0.2, Selection(), None, 20, "")


class Slow:
    """A recording that takes its time. ``version``: of its snapshot."""

    def __init__(self, trace: Path, taken_s: float) -> None:
        self.trace, self.taken_s, self.version, self.fails = trace, taken_s, 1, False

    def take(self) -> Status:
        time.sleep(self.taken_s)
        if self.fails:
            raise ControlError("silent")
        return Status(RECORDING, self.trace, (self.version,), 10.0, 7)


def two_shops(path: Path) -> Path:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=30 * MS)
    for file in ("/app/a/shop.py", "/app/b/shop.py", "/app/buy.py"):
        builder.tick(9 * SECOND, process, thread, builder.stack((file, "f", 1, 2)))
    return builder.write(path)


@pytest.mark.parametrize("fails", [False, True])
def test_pauses_are_four_times_as_long_as_a_reading_and_as_long_as_asked(fails: bool, tmp_path: Path) -> None:
    slow = Slow(two_shops(tmp_path / "t.parquet"), 0.3)
    readings = Readings(WANTED, slow)  # type: ignore[arg-type]
    slow.fails = fails
    begun_s = time.monotonic()
    try:
        readings.take(None, "lines")
    except ControlError:
        assert fails
    assert 1.2 <= readings.pause_s <= 4 * (time.monotonic() - begun_s)
    slow.taken_s = 0.0
    patient = Readings(Asked("lines", None, 60.0, Selection(), None, 20, ""), slow)  # type: ignore[arg-type]
    slow.fails = False
    patient.take(None, "lines")
    assert patient.pause_s == 60.0


def test_an_unchanged_snapshot_is_read_once_for_a_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, read = Slow(two_shops(tmp_path / "t.parquet"), 0.0), list[str]()
    real = asked.read

    def counted(*arguments: Any) -> Reading:
        read.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(asked, "read", counted)
    readings = Readings(WANTED, slow)  # type: ignore[arg-type]
    assert readings.again(None, "lines") is None
    readings.take(None, "lines")
    readings.take(None, "lines")
    readings.again(None, "threads")
    found = readings.take(None, "threads")
    assert read == ["lines", "threads"] and found.view == "threads"
    slow.version = 2
    readings.take(None, "threads")
    assert read == ["lines", "threads", "threads"]


def test_files_of_one_name_have_their_folder_and_rare_columns_are_left_out(tmp_path: Path) -> None:
    slow, screen = Slow(two_shops(tmp_path / "t.parquet"), 0.0), Screen(200)
    found = Readings(WANTED, slow).take(None, "lines")  # type: ignore[arg-type]
    (line,) = [column for column in LINES.columns if column.title == "line"]
    assert {line.text(row, found, screen) for row in found.rows} == {"a/shop.py:2", "b/shop.py:2", "buy.py:2"}
    assert "unclassified" in [column.title for column in FUNCTIONS.columns]
    assert "unclassified" not in [column.title for column in shown(LINES, found, screen)]
