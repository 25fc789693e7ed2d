"""Threads have the names that Python gives them, not those of the system alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import library as build_library
from tests.support.recording import Json, record, report, rows, target

#: A longer name is cut off.
MOST_CHARACTERS = 200


def shown(name: str) -> str:
    """What of the name the trace can hold: lone surrogates are not text."""
    return "".join("?" if "\ud800" <= each < "\ue000" else each for each in name)[:MOST_CHARACTERS]


def names_of(trace: Path) -> dict[int, str | None]:
    return {row["tid"]: row["python_name"] for row in rows(trace, "thread")}


def expected(facts: Json) -> dict[int, str]:
    return {int(tid): shown(name) for tid, name in facts.items()}


def test_every_kind_of_thread_has_its_last_name(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("named_threads")], python)
    names = expected(done.facts)
    assert {"fetcher", "two", "other name", "as dict", "pool_0", "brief", "w\xe4rme as text"} <= set(names.values())
    found = names_of(done.trace)
    main = rows(done.trace, "process")[0]["pid"]
    assert found.pop(main) is None
    assert found == names


def test_threads_that_a_library_begins_inside_of_start_have_no_name(python: Interpreter, tmp_path: Path) -> None:
    library = build_library(tmp_path, "started_beside.c")
    done = record(tmp_path / "t.parquet", [target("started_beside"), library], python)
    assert done.status == 0, done.stderr.decode()
    names = [row["python_name"] for row in rows(done.trace, "thread")]
    assert len(names) >= 3 and names.count("python's") == 1
    assert set(names) == {None, "python's"}


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "_exit"])
def test_threads_of_a_killed_process_keep_their_names(how: str, python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("named_threads"), how], python)
    found = names_of(done.trace)
    assert {tid: found[tid] for tid in expected(done.facts)} == expected(done.facts)


def test_without_waits_the_name_at_the_start_and_at_the_end_is_known(python: Interpreter, tmp_path: Path) -> None:
    """A rename is then seen only if the thread ends afterwards."""
    done = record(tmp_path / "t.parquet", [target("named_threads"), "SIGKILL"], python, ["--no-wait"])
    found, names = names_of(done.trace), expected(done.facts)
    running = {tid for tid, name in names.items() if "daemon" in name or name == "other name"}
    assert {tid: found[tid] for tid in names.keys() - running} == {tid: names[tid] for tid in names.keys() - running}
    assert {found[tid] for tid in running} == {"daemon", "renamed daemon"}


def test_tables_show_the_name_that_python_gives(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("named_threads")], python)
    found = report(done.trace, command="threads")["threads"]
    (fetcher,) = [row for row in found if row["python_name"] == "fetcher"]
    to_kernel = "fetcher" if python.version >= (3, 14) else found[0]["name"]
    assert fetcher["name"] == to_kernel and found[0]["python_name"] is None
