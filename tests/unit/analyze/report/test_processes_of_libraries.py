"""Processes that a library starts with a line of ``-c``: that line is the library's, unless a user has typed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.formats.cpython.command_line import called_package
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
SITE = "/venv/lib/python3.11/site-packages"
TRACKER = "from joblib.externals.loky.backend.resource_tracker import main; main(4, False)"


@pytest.mark.parametrize(
    ("code", "package"),
    [
        (TRACKER, "joblib"),
        ("from loky.backend.resource_tracker import main; main(7, True)", "loky"),
        ("from multiprocess.resource_tracker import main;main(6)", "multiprocess"),
        ("from multiprocess.spawn import spawn_main; spawn_main(tracker_fd=7, pipe_handle=14)", "multiprocess"),
        (
            "from multiprocess.forkserver import main; main(22, 23, ['__main__'], **{'sys_path': ['/a']})",
            "multiprocess",
        ),
        ("from billiard.semaphore_tracker import main;main(5)", "billiard"),
        ("from billiard.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)", "billiard"),
        ("from ipyparallel.cluster.launcher import ssh_waitpid; ssh_waitpid(81, timeout=10)", "ipyparallel"),
        ("from turtledemo.__main__ import main; main()", "turtledemo"),
        ("import numpy.f2py as f2py2e;f2py2e.main()", "numpy"),
        ("import distributed.cli.dask_spec; distributed.cli.dask_spec.main('a')\n", "distributed"),
        ("__import__('idlelib.run').run.main(True)", "idlelib"),
        ("from joblib import Parallel; Parallel()([])", None),
        ("from a.b import main; main(1); print(2)", None),
        ("from a.b import main; other(1)", None),
        ("from a.b import main\nmain(1)", None),
        ("import a.b; print(a.b.c())", None),
        ("from a.b import main; main", None),
        ("from json.decoder import JSONDecoder; JSONDecoder().decode('[1]')", None),
        ("from a.b import main; main(sum(range(9)))", None),
        ("pass", None),
    ],
)
def test_a_line_that_calls_a_module_names_its_package(code: str, package: str | None) -> None:
    assert called_package(code) == package


def files(tmp_path: Path, code: str = TRACKER, library: str = f"{SITE}/joblib/a.py", **columns: Any) -> set[str | None]:
    """The user's files where a program of app.py has a process that runs ``code``, whose code object has no name of its own
    in the first process, but one in the second."""
    builder = TraceBuilder()
    main = builder.process(end_ns=10 * SECOND)
    started = {"parent_pid": 1001, "cause": "spawn", "command": ["/usr/bin/python3", "-B", "-c", code]}
    child = builder.process(1 * SECOND, **(started | columns))
    name = f"<string> -c '{code[:40]}…'"
    stacks = (
        (main, ((APP, "<module>", 1, 2),)),
        (main, (("<string>", "__init__", 1, 2), (APP, "<module>", 1, 3))),
        (child, ((library, "main", 1, 2), (name, "<module>", 1, 1))),
    )
    for process, frames in stacks:
        thread = builder.thread(process, cpu_ns=0)
        builder.tick(2 * SECOND, process, thread, builder.stack(*frames), user_ns=10 * MS)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    return {line.file for line in report.lines}


def test_the_line_by_which_a_library_starts_a_process_is_not_the_users(tmp_path: Path) -> None:
    """Nor does it make methods of dataclasses the user's."""
    assert files(tmp_path) == {APP}


NAME = f"<string> -c '{TRACKER[:40]}…'"


@pytest.mark.parametrize(
    "columns",
    [
        {"cause": "root"},
        {"parent_pid": 77},  # a shell's, which is not recorded
    ],
)
def test_a_line_that_a_user_may_have_typed_is_the_users(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert files(tmp_path, **columns) == {APP, "<string>", NAME}


def test_a_line_that_calls_a_package_of_the_users_is_the_users(tmp_path: Path) -> None:
    own = "/home/me/joblib/a.py"
    assert files(tmp_path, library=own) == {APP, "<string>", own}


def test_a_program_of_the_users_stays_the_users_beside_one_of_a_library(tmp_path: Path) -> None:
    code = TRACKER[:40] + "x import main\nmain(4)"
    assert files(tmp_path, code) == {APP, "<string>", NAME}


def test_a_line_that_was_typed_is_the_users_beside_the_same_one_of_a_library(tmp_path: Path) -> None:
    builder = TraceBuilder()
    typed = builder.process(command=["python3", "-c", TRACKER], end_ns=10 * SECOND)
    builder.process(1 * SECOND, parent_pid=1001, cause="spawn", command=["python3", "-c", TRACKER])
    stack = builder.stack((f"{SITE}/joblib/a.py", "main", 1, 2), ("<string>", "<module>", 1, 1))
    builder.tick(2 * SECOND, typed, builder.thread(typed, cpu_ns=0), stack, user_ns=10 * MS)
    builder.source("<string>", TRACKER)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert [line.file for line in report.lines] == ["<string>"]


def test_a_line_of_a_library_whose_text_is_stored_is_not_the_users(tmp_path: Path) -> None:
    """Where no other code was executed, its code object has the name that Python gives it."""
    builder = TraceBuilder()
    main = builder.process(end_ns=10 * SECOND)
    child = builder.process(1 * SECOND, parent_pid=1001, cause="spawn", command=["python3", "-c", TRACKER])
    for process, frames in (
        (main, ((APP, "<module>", 1, 2),)),
        (child, ((f"{SITE}/joblib/a.py", "main", 1, 2), ("<string>", "<module>", 1, 1))),
    ):
        thread = builder.thread(process, cpu_ns=0)
        builder.tick(2 * SECOND, process, thread, builder.stack(*frames), user_ns=10 * MS)
    builder.source("<string>", TRACKER)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert [line.file for line in report.lines] == [APP]
