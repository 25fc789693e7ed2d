"""Tables show the name that Python gives a thread, and the system's where Python gives none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.report.report import query_of
from scalene_trace.analyze.report.threads import build_threads
from scalene_trace.analyze.results.base import Table
from scalene_trace.analyze.results.report import Waits
from scalene_trace.analyze.results.threads import ThreadInfo
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render import threads
from scalene_trace.cli.render.text import Screen
from scalene_trace.cli.render.threads import threads_text
from tests.support.recording import analyze, report
from tests.support.trace_builder import SECOND, TraceBuilder


def two_threads(path: Path, name: str) -> Path:
    builder = TraceBuilder()
    process = builder.process(end_ns=9 * SECOND)
    builder.thread(process, 0, end_ns=9 * SECOND)
    builder.thread(process, 0, python_name=name)
    return builder.write(path)


def test_json_has_both_names(tmp_path: Path) -> None:
    found = report(two_threads(tmp_path / "t.parquet", "fetcher"), command="threads")["threads"]
    assert [(row["name"], row["python_name"]) for row in found] == [("thread-1", None), ("thread-2", "fetcher")]


def test_text_has_pythons_name_where_there_is_one(tmp_path: Path) -> None:
    text = analyze("threads", two_threads(tmp_path / "t.parquet", "fetcher")).stdout.decode()
    assert "thread-1" in text and "fetcher" in text and "thread-2" not in text


@pytest.mark.parametrize("is_cut", [True, False])
def test_on_a_terminal_a_long_name_leaves_room_for_times(is_cut: bool, tmp_path: Path) -> None:
    path, screen = two_threads(tmp_path / "t.parquet", "n" * 200), Screen(width=140, is_cut=is_cut)
    lines = list(threads_text(build_threads([path], Selection(), query_of(Selection())), screen))
    assert any("n" * 23 + "…" in line for line in lines) == is_cut
    assert any("n" * 200 in line for line in lines) != is_cut
    assert any(line.rstrip().endswith("GIL  started at") for line in lines)


@pytest.mark.parametrize(
    ("width", "sort", "titles"),
    [
        (
            200,
            None,
            "process thread tid name start end CPU Python native system wait sleep waits_in disk runnable GIL started_at",
        ),
        (120, None, "process thread name CPU Python native wait sleep waits_in runnable GIL started_at"),
        (80, None, "process thread name CPU wait sleep waits_in started_at"),
        (80, "tid", "thread tid name CPU wait sleep waits_in started_at"),
        (60, None, "thread name CPU wait waits_in"),
    ],
)
def test_a_terminal_leaves_out_columns_that_do_not_fit(
    width: int, sort: str | None, titles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "trace_lines", lambda trace, screen: [])
    waits = Waits(sleep_s=12.5, disk_s=0.1, runnable_s=2.5, gil_s=0.75)
    row = ThreadInfo(
        1, 1, 2, 2002, "pool-1", 0.1, 20.5, 1.25, 1.0, 0.2, 0.05, 15.85, waits,
        waits_in="libpq", started_file="/srv/application.py", started_line=1234,
    )  # fmt: skip
    table = Table("threads", {"sort": sort, "limit": None}, [None], [row])
    first, head, *lines = threads_text(table, Screen(width=width, is_cut=True))
    assert first == "" and max(map(len, [head, *lines])) <= width
    assert head.replace("waits in", "waits_in").replace("started at", "started_at").split() == titles.split()
    hidden = f"Not shown in {width} columns: "
    assert any(line.startswith(hidden) for line in lines) == (width < 200)
    whole = list(threads_text(table, Screen(width=width)))
    assert whole[1].split()[:3] == ["process", "thread", "tid"], "a pipe has all columns"


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\u202eb"])
def test_a_name_cannot_change_the_terminal(name: str, tmp_path: Path) -> None:
    text = analyze("threads", two_threads(tmp_path / "t.parquet", name)).stdout.decode()
    assert name not in text and len([line for line in text.splitlines() if "2002" in line]) == 1


@pytest.mark.parametrize(("name", "shown"), [("a\tb", "a\\tb "), ("  ", "'  ' "), ("a b", "a b ")])
def test_a_name_is_no_gap_between_columns(name: str, shown: str, tmp_path: Path) -> None:
    text = analyze("threads", two_threads(tmp_path / "t.parquet", name)).stdout.decode()
    (row,) = [line for line in text.splitlines() if "2002" in line]
    assert shown in row.split("2002")[1]


def test_short_threads_whose_names_differ_in_numbers_share_a_row(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=9 * SECOND)
    for number in range(40):
        builder.thread(process, 0, python_name=f"Thread-{number} (work)")
    for _ in range(40):
        builder.thread(process, 0, python_name="beat 7")
    lines = analyze("threads", builder.write(tmp_path / "t.parquet")).stdout.decode().splitlines()
    assert len([line for line in lines if "Thread-* (work)" in line]) == 1
    assert len([line for line in lines if "beat 7" in line]) == 1
