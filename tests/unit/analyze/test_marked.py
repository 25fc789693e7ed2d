"""Which samples a user mark stands for: its time, the process that set it, and what comes from that process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.marked import MarkError, placed
from scalene_trace.analyze.trace.selection import Selection
from tests.support.trace_builder import TraceBuilder

SECOND = 1_000_000_000


def trace(folder: Path, *marks: tuple[str, int, int | None, int | None]) -> Path:
    """A recording of ten seconds with processes 1 (pid 10, all the time), 2 (forked from it), 3 (spawned by it), 4 (pid 20,
    the first half), 5 (pid 20 again, the second half), and these marks: text, begin, end in seconds, pid."""
    builder = TraceBuilder()
    builder.process(0, pid=10, end_ns=10 * SECOND)
    builder.process(SECOND, pid=11, parent=1, parent_pid=10, end_ns=10 * SECOND)
    builder.process(SECOND, pid=12, parent=None, parent_pid=10, cause="spawn", end_ns=9 * SECOND)
    builder.process(SECOND, pid=20, parent=None, parent_pid=1, end_ns=5 * SECOND)
    builder.process(6 * SECOND, pid=20, parent=None, parent_pid=1, end_ns=10 * SECOND)
    for text, begin_s, end_s, pid in marks:
        end_ns = None if end_s is None else end_s * SECOND
        builder.add("mark", t_ns=begin_s * SECOND, what="mark", text=text, end_ns=end_ns, pid=pid)
    builder.add("setting", name="wall_ns", value=str(10 * SECOND))
    return builder.write(folder / "t.parquet")


@pytest.mark.parametrize(
    ("mark", "window"),
    [
        (("own", 2, 3, 10), (2, 3, (1, 2, 3))),
        (("a child's", 2, 3, 11), (2, 3, (2,))),
        (("first of its pid", 2, 3, 20), (2, 3, (4,))),
        (("second of its pid", 7, 8, 20), (7, 8, (5,))),
        (("begun before its process", 0, 2, 20), (0, 2, (4,))),
        (("from outside", 2, 3, None), (2, 3, ())),
        (("without an end", 4, None, 11), (4, 10, (2,))),
        (("z" * 1000, 2, 3, 11), (2, 3, (2,))),
    ],
)
def test_a_mark_is_a_window_and_processes(tmp_path: Path, mark: Any, window: Any) -> None:
    path = trace(tmp_path, mark, ("another", 1, 9, 10))
    asked = mark[0] + "z" * 500 if mark[0].startswith("z") else mark[0]  # names are cut when they are stored
    found = placed(Selection(mark=asked, threads=(7,)), [path])
    assert (found.from_s, found.to_s, found.processes) == window
    assert (found.mark, found.threads) == (asked, (7,))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "two",
            "The mark 'two' was set 2 times. Select one: --from 2.000000000 --to 3.000000000 --process 1 --process 2",
        ),
        ("gone", "The process that set the mark 'gone' is not in the trace."),
        ("tow", "Did you mean 'two'?"),
        ("checkout", "Did you mean 'tests/test_shop.py::test_checkout'?"),
        ("'; DROP TABLE marks --", "`scalene-analyze info` lists the marks."),
        ("\udcff", "`scalene-analyze info` lists the marks."),
    ],
)
def test_a_mark_that_is_none_or_several_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    same = ("two", 2, 3, 10), ("two", 2, 3, 20), ("gone", 2, 3, 99), ("tests/test_shop.py::test_checkout", 4, 5, 10)
    with pytest.raises(MarkError) as error:
        placed(Selection(mark=text), [trace(tmp_path, *same)])
    assert sentence in str(error.value)


def test_names_of_other_encodings_are_found(tmp_path: Path) -> None:
    path = trace(tmp_path, ("test_\\udcff.py::test", 2, 3, 11))
    assert placed(Selection(mark="test_\udcff.py::test"), [path]).from_s == 2
