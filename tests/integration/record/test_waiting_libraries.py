"""Waits name the library that waits: of calls in Python lines, and of threads that libraries have started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze import open as open_traces
from tests.support import native
from tests.support.interpreters import Interpreter
from tests.support.recording import Json, line_of, record, report, target

#: A wait is named at the second observation. They are at most 50 ms apart, and much more on a busy machine; the waits last
#: for 0.5 s.
LEAST_S = 0.25

WAITS = """
    SELECT o.line, p.image, p.library, p.symbol, p.is_guess, sum(wait_s) AS wait_s
    FROM selected_waits w LEFT JOIN waiting_places p ON p.trace = w.trace AND p.native = w.native
    LEFT JOIN stack_owners o ON o.trace = w.trace AND o.stack = w.stack
    WHERE class = 'sleep' GROUP BY ALL ORDER BY wait_s DESC"""


def waits_of(trace: Path) -> list[Json]:
    found: list[Json] = open_traces(trace).sql(WAITS).arrow().to_pylist()
    return found


def built(folder: Path, frames: str) -> Path:
    """The library that waits. In libc, the stack pointer leads to the caller, except with "libc by rbp"."""
    if frames != "libc by rbp":
        return native.library(folder, "waiters.c", f"-f{'no-' * (frames == 'rbp')}omit-frame-pointer")
    options = ("-shared", "-fPIC", "-fno-omit-frame-pointer")
    wrapped = native.build(folder, "wrapped_poll.c", *options, name="libc-wrapped.so")
    return native.library(folder, "waiters.c", "-DWRAPPED", "-Wl,--no-as-needed", str(wrapped))


@pytest.mark.parametrize("frames", ["stack pointer", "rbp", "libc by rbp"])
def test_waits_name_the_library_that_waits(frames: str, python: Interpreter, tmp_path: Path) -> None:
    library = built(tmp_path, frames)
    done = record(tmp_path / "t.parquet", [target("waiting_libraries"), library], python)
    assert done.status == 0 and done.facts == {"said": "database is locked"}
    found = waits_of(done.trace)
    longest = {line: next(row for row in found if row["line"] == line) for line in {row["line"] for row in found}}

    def at(mark: str) -> Json:
        return longest[line_of("waiting_libraries", mark)]

    for mark in ("short", "long"):
        assert (at(mark)["library"], at(mark)["symbol"]) == ("waiters", "waiter_polls"), found
        assert at(mark)["is_guess"] == (frames == "libc by rbp"), found
    assert at("sqlite")["library"] == "libsqlite3", found
    for mark in ("libc", "sleep", "lock"):
        assert (at(mark)["image"], at(mark)["library"]) == ("interpreter", None), found
    for mark in ("sqlite", "short", "long", "libc", "sleep", "lock"):
        assert at(mark)["wait_s"] > LEAST_S, found
    idle = longest[None]
    assert (idle["library"], idle["symbol"], idle["is_guess"]) == ("waiters", "waiter_idles", False), found
    main, started = report(done.trace, command="threads")["threads"]
    assert started["waits_in"] == "waiters", (main, started)


def test_idle_threads_of_a_real_library_name_it(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("idle_blas")], python)
    assert done.status == 0 and done.facts == {"corner": 400}
    main, *others = report(done.trace, command="threads")["threads"]
    assert main["waits_in"] is None and len(others) == 1, (main, others)
    assert "openblas" in (others[0]["waits_in"] or ""), others
