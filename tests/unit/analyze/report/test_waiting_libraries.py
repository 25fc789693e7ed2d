"""Which library a wait is charged to: in findings, by thread, and in the view."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.report.threads import build_threads
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.cli.render.text import Screen
from scalene_trace.cli.render.threads import threads_text
from tests.support.recording import analyze
from tests.support.trace_builder import SECOND, TraceBuilder

APP = "/home/me/app.py"
POLL = 7
PYTHON, PQ, TLS = "/usr/bin/python3.12", "/usr/lib/libpq.so.5", "/usr/lib/libssl.so.3"
LIBC, SOCKET = "/usr/lib/libc.so.6", "/usr/lib/python3.12/lib-dynload/_socket.cpython-312-x86_64-linux-gnu.so"
CLASSES = {PYTHON: "interpreter", LIBC: "support"}


class Program(TraceBuilder):
    """A process with one thread that waits on line 9 of app.py."""

    def __init__(self) -> None:
        super().__init__()
        self.settings["features"] = '["cpu", "wait"]'
        self.one = self.process(end_ns=10 * SECOND)
        self.first = self.thread(self.one, cpu_ns=0)
        self.line = self.stack((APP, "f", 8, 9))

    def native(self, *paths: str, gap_at: int | None = None) -> int:
        """The id of a native stack, a function in each of these images, from the outermost; ``gap_at``: which has a gap."""
        parent = None
        for depth, path in enumerate(paths):
            known = len(self.rows.get("native", [])) + 1
            self.add("module", id=known, path=path, **{"class": CLASSES.get(path, "extension")})
            self.add("symbol", module=known, start_offset=16, end_offset=17, name=f"in_{path.rpartition('/')[2]}")
            self.add("native", id=known, parent=parent, module=known, offset=16, gap=depth == gap_at)
            parent = known
        assert parent
        return parent

    def waits(self, seconds: int, native: int | None, thread: int | None = None) -> None:
        self.wait(SECOND, self.one, thread or self.first, self.line, seconds * SECOND, syscall=POLL, native=native)

    def said(self, folder: Path) -> list[str]:
        found = build_report([self.write(folder / "t.parquet")], Selection())
        return [each.text for each in found.findings if each.kind == "wait"]

    def places(self, folder: Path) -> list[tuple[object, ...]]:
        with open_traces([self.write(folder / "t.parquet")], Selection()) as traces:
            return traces.connection.execute(
                "SELECT image, library, symbol, is_guess FROM waiting_places ORDER BY native"
            ).fetchall()


def test_a_finding_and_a_thread_name_the_library_of_most_of_the_time(tmp_path: Path) -> None:
    program = Program()
    for seconds, stack in ((4, program.native(PYTHON, PQ, LIBC)), (2, program.native(TLS, LIBC)), (1, None)):
        program.waits(seconds, stack)
    (text,) = program.said(tmp_path)
    assert text == "7.00 s waiting for events (poll, select) in libpq at app.py:9."
    (row,) = build_threads([tmp_path / "t.parquet"], Selection(), {"sort": None, "limit": None}).rows
    assert row.waits_in == "libpq"
    shown = analyze("threads", tmp_path / "t.parquet").stdout.decode()
    assert "waits in" in shown and "libpq" in shown


def test_less_than_half_of_the_time_names_no_library(tmp_path: Path) -> None:
    program = Program()
    for seconds, stack in ((3, program.native(PQ, LIBC)), (2, program.native(TLS, LIBC)), (2, None)):
        program.waits(seconds, stack)
    (text,) = program.said(tmp_path)
    assert text == "7.00 s waiting for events (poll, select) at app.py:9."
    (row,) = build_threads([tmp_path / "t.parquet"], Selection(), {"sort": None, "limit": None}).rows
    assert row.waits_in is None


def test_traces_that_wait_in_different_libraries_name_none(tmp_path: Path) -> None:
    paths = []
    for name, library in (("one", PQ), ("two", TLS)):
        program = Program()
        program.waits(5, program.native(library, LIBC))
        paths.append(program.write(tmp_path / f"{name}.parquet"))
    texts = [each.text for each in build_report(paths, Selection()).findings if each.kind == "wait"]
    assert texts == ["10.00 s waiting for events (poll, select) at app.py:9 (2 threads together)."]
    (alone,) = [each.text for each in build_report(paths[:1], Selection()).findings if each.kind == "wait"]
    assert " in libpq at " in alone


@pytest.mark.parametrize("images", [(PYTHON, LIBC), (PYTHON, SOCKET, LIBC), (PQ, PYTHON, LIBC)])
def test_python_itself_waits_without_a_library(images: tuple[str, ...], tmp_path: Path) -> None:
    """Also if a library has called the interpreter: then that one waits."""
    program = Program()
    program.waits(6, program.native(*images))
    assert program.said(tmp_path) == ["6.00 s waiting for events (poll, select) at app.py:9."]
    assert program.places(tmp_path) == [("interpreter", None, None, False)]


def test_a_stack_without_any_library_leads_nowhere(tmp_path: Path) -> None:
    program = Program()
    program.waits(6, program.native(LIBC))
    assert program.places(tmp_path) == [(None, None, None, False)]


@pytest.mark.parametrize(("sure", "guessed", "is_guess"), [(0, 4, True), (1, 3, True), (3, 1, False)])
def test_a_library_that_was_found_by_a_search_is_said_to_be_probable(
    sure: int, guessed: int, is_guess: bool, tmp_path: Path
) -> None:
    """It is sure if the stacks that needed no search are more than half of the time."""
    program = Program()
    program.waits(sure, program.native(PQ, LIBC))
    program.waits(guessed, program.native(PQ, LIBC, LIBC, gap_at=1))
    (text,) = program.said(tmp_path)
    where = ", probably in libpq, at" if is_guess else " in libpq at"
    assert text == f"4.00 s waiting for events (poll, select){where} app.py:9."
    threads = build_threads([tmp_path / "t.parquet"], Selection(), {"sort": None, "limit": None})
    assert [(row.waits_in, row.waits_in_guess) for row in threads.rows] == [("libpq", is_guess)]
    assert ("libpq, probably" in "\n".join(threads_text(threads, Screen()))) is is_guess


@pytest.mark.parametrize(("gap_at", "is_guess"), [(None, False), (0, False), (1, True), (2, True)])
def test_a_library_that_was_found_by_a_search_is_marked(gap_at: int | None, is_guess: bool, tmp_path: Path) -> None:
    """A gap beyond the library says nothing about it: there its own callers are missing."""
    program = Program()
    program.waits(6, program.native(PQ, LIBC, LIBC, gap_at=gap_at))
    assert program.places(tmp_path) == [("extension", "libpq", "in_libpq.so.5", is_guess)]
