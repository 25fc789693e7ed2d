"""From the records of names that Python gives threads to the table of threads."""

from __future__ import annotations

from pathlib import Path

from scalene_trace.formats.spool.layout import constants
from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder

WATCHER = constants()["PROCESS_WATCHER"]


def with_threads(*threads: int) -> SpoolBuilder:
    builder = SpoolBuilder().start()
    for thread in threads:
        builder.add("thread_start", thread=thread, t_ns=START_MONO_NS + thread, tid=70 + thread)
    return builder


def named(builder: SpoolBuilder, thread: int, at_ns: int, name: int, process: int = 1) -> None:
    builder.add("thread_name", process, thread=thread, t_ns=START_MONO_NS + at_ns, name=name)


def names_of(builder: SpoolBuilder, folder: Path) -> dict[int, str | None]:
    return {row["thread"]: row["python_name"] for row in rows(tables_of(builder, folder)["thread"])}


def test_the_last_name_of_a_thread_counts_whoever_has_read_it(tmp_path: Path) -> None:
    builder = with_threads(3, 4, 5).type(11, b"first").type(12, "w\u00e4rme".encode()).type(13, b"last")
    named(builder, 3, 50, 13)
    named(builder, 3, 10, 11)
    named(builder, 3, 40, 12, WATCHER)
    named(builder, 4, 20, 11)
    named(builder, 4, 60, 12, WATCHER)
    assert names_of(builder, tmp_path) == {3: "last", 4: "w\u00e4rme", 5: None}


def test_names_of_threads_that_nothing_else_mentions_are_ignored(tmp_path: Path) -> None:
    """A program may have written them. They make no thread."""
    builder = with_threads(3).type(11, b"one")
    named(builder, 3, 10, 11)
    for thread in (0, 9, 2**32 - 1):
        named(builder, thread, 20, 11)
    assert names_of(builder, tmp_path) == {3: "one"}


def test_a_name_whose_text_is_lost_leaves_the_one_before(tmp_path: Path) -> None:
    builder = with_threads(3, 4).type(11, b"one").type(2**64 - 1, b"two")
    named(builder, 3, 10, 11)
    named(builder, 3, 20, 99)
    named(builder, 4, 20, 2**64 - 1)
    assert names_of(builder, tmp_path) == {3: "one", 4: "two"}


def test_a_recording_without_names_has_an_empty_column(tmp_path: Path) -> None:
    assert names_of(with_threads(3), tmp_path) == {3: None}
