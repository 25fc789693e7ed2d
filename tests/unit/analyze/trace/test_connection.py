"""Views that are made when a statement names them, by one thread or by several: each once, after what it reads."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalene_trace.analyze.trace.connection import Connection
from scalene_trace.analyze.trace.making.ahead import is_interrupt
from scalene_trace.analyze.trace.making.unmade import Views
from tests.support.own_threads import ends_its_threads

MACROS = {
    "twice": "CREATE OR REPLACE TEMP MACRO twice(x) AS x * 2;",
    "fourfold": "CREATE OR REPLACE TEMP MACRO fourfold(x) AS twice(twice(x));",
}
SLOW = "SELECT count(*) AS n FROM range(10_000_000_000) t(i), range(1_000) WHERE i % 7 = 3"
LONG = "SELECT count(*) AS n FROM range(12_000_000_000) t(i) WHERE i % 7 = 3"  # a quarter of a minute or more


@contextmanager
def opened(views: Views, at_once: int = 4) -> Iterator[Connection]:
    with ends_its_threads(), closing(Connection(duckdb.connect(":memory:"), at_once)) as connection:
        connection.define(views)
        yield connection


@st.composite
def graphs(draw: st.DrawFn) -> Views:
    """Views that read any of those before them; some are tables, some empty, some have a simpler query."""
    queries: dict[str, str] = {}
    simpler: dict[str, tuple[str, str]] = {}
    for number in range(draw(st.integers(1, 14))):
        read = draw(st.lists(st.sampled_from(sorted(queries)), unique=True, max_size=3)) if queries else []
        parts = [f"SELECT fourfold({number}) AS n", *(f"SELECT n + 1 FROM {name}" for name in read)]
        query = f"SELECT n::BIGINT AS n FROM ({' UNION ALL '.join(parts)}) -- not view_{number + 1}"
        queries[f"view_{number}"] = query + (" LIMIT 0" if draw(st.booleans()) else "")
        if read and draw(st.booleans()):
            simpler[f"view_{number}"] = (read[0], draw(st.sampled_from(read)))
    queries = {name: query.replace(" LIMIT 0", "\nLIMIT 0") for name, query in queries.items()}
    tables = frozenset(draw(st.sets(st.sampled_from(sorted(queries)))))
    return Views(queries, tables, simpler, MACROS)


@settings(deadline=None, max_examples=60)
@given(graphs(), st.randoms(), st.integers(2, 6))
def test_several_threads_make_what_one_makes(views: Views, random: object, at_once: int) -> None:
    statements = [f"SELECT list(n ORDER BY n), twice(1) FROM {name}" for name in views.queries]
    with opened(views, at_once=1) as one:
        expected = {sql: one.execute(sql).fetchall() for sql in statements}
    with opened(views, at_once) as connection:
        asked = random.sample(statements, len(statements))  # type: ignore[attr-defined]
        connection.ahead(asked[: len(asked) // 2 + 1])
        random.shuffle(asked)  # type: ignore[attr-defined]
        assert {sql: connection.execute(sql).fetchall() for sql in asked} == expected
        made = connection.raw.execute("SELECT table_name FROM information_schema.tables").fetchall()
        assert {name for (name,) in made} == views.queries.keys()


def test_answers_are_made_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)
    with opened(Views()) as connection:
        connection.raw.create_function("meet", lambda x: meeting.wait() + x, ["BIGINT"], "BIGINT", side_effects=True)  # type: ignore[list-item]
        statements = ["SELECT meet(0) >= 0", "SELECT meet(0) < 2"]
        connection.ahead(statements)
        assert [connection.execute(sql).fetchall() for sql in statements] == [[(True,)], [(True,)]]


def test_answers_differ_by_their_parameters() -> None:
    with opened(Views({"seen": "SELECT 1 AS n"})) as connection:
        connection.ahead(["SELECT n + $x FROM seen"], {"x": 1})
        connection.ahead(["SELECT n + $x FROM seen"], {"x": 2})
        for x in (2, 1, 3):
            assert connection.execute("SELECT n + $x FROM seen", {"x": x}).fetchall() == [(1 + x,)]


def test_an_error_comes_with_the_answers_that_need_the_view_and_with_no_other() -> None:
    queries = {"bad": "SELECT error('no') AS n", "over": "SELECT n FROM bad", "good": "SELECT 1 AS n"}
    with opened(Views(queries, frozenset(queries))) as connection:
        statements = ["SELECT n FROM over", "SELECT n FROM bad", "SELECT n FROM good", "SELECT nothing"]
        connection.ahead(statements)
        assert connection.execute(statements[2]).fetchall() == [(1,)]
        for sql in (*statements[:2], "SELECT n + 1 FROM over"):
            with pytest.raises(duckdb.Error, match="no"):
                connection.execute(sql)
        with pytest.raises(duckdb.BinderException):
            connection.execute(statements[3])


@pytest.mark.parametrize("is_view", [True, False])
def test_closing_ends_what_nobody_waits_for(is_view: bool) -> None:
    views = Views({"slow": SLOW}, frozenset({"slow"}))
    with opened(views) as connection:
        connection.ahead(["SELECT n FROM slow" if is_view else SLOW])
        time.sleep(0.2)
        start = time.monotonic()
    assert time.monotonic() - start < 20


def test_an_error_wakes_who_waits_for_a_view_that_reads_it() -> None:
    release = threading.Event()
    queries = {"bad": "SELECT error('no') AS n", "held": "SELECT hold(1) AS n", "other": "SELECT 2 AS n"}
    names = [f"over_{number}" for number in range(8)]
    views = Views(
        queries | dict.fromkeys(names, "SELECT n FROM bad UNION ALL SELECT n FROM held"),
        frozenset({"bad", "held"}),
        dict.fromkeys(names, ("held", "other")),
    )
    with opened(views, at_once=2) as connection:
        connection.raw.create_function("hold", lambda x: release.wait() and x, ["BIGINT"], "BIGINT", side_effects=True)  # type: ignore[list-item]
        with pytest.raises(duckdb.Error, match="no"):
            connection.ahead(["SELECT n FROM bad"])
            connection.execute("SELECT n FROM bad")
        found: list[str] = []

        def wait() -> None:
            for name in names:
                with pytest.raises(duckdb.Error, match="no"):
                    connection.execute(f"SELECT n FROM {name}")
                found.append(name)

        connection.ahead(f"SELECT n FROM {name}" for name in names)
        waiting = threading.Thread(target=wait, daemon=True)
        time.sleep(0.2)  # the other thread is held
        waiting.start()
        time.sleep(0.2)
        release.set()
        waiting.join(20)
        assert found == names


@pytest.mark.parametrize("statements", [[LONG], [LONG, f"{LONG} AND i > 1"]])
def test_an_interrupt_ends_what_the_caller_waits_for(statements: list[str]) -> None:
    with opened(Views(), at_once=2) as connection:
        connection.raw.execute("SET threads = 1")
        connection.ahead(statements)
        time.sleep(0.2)  # the other thread has taken the first; the caller takes the second one
        start = time.monotonic()
        interrupt = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        interrupt.start()
        with pytest.raises((KeyboardInterrupt, RuntimeError)) as raised:
            connection.execute(statements[0])
        assert is_interrupt(raised.value)
    assert time.monotonic() - start < 8


@pytest.mark.parametrize("allowed", [0, 1])
def test_the_threads_that_may_be_started_do_it_all(allowed: int) -> None:
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    views = Views({"below": "SELECT 1 AS n", "seen": "SELECT n + 1 AS n FROM below"})
    with patch.object(threading.Thread, "start", limited), opened(views) as connection:
        connection.ahead(["SELECT n FROM seen", "SELECT n FROM below"])
        assert connection.execute("SELECT n FROM below").fetchall() == [(1,)]
        assert connection.execute("SELECT n FROM seen").fetchall() == [(2,)]


def test_a_connection_of_its_own_answers_when_asked() -> None:
    with opened(Views({"seen": "SELECT 1 AS n"}), at_once=1) as connection:
        connection.ahead(["SELECT n FROM seen"])
        assert connection.raw.execute("SELECT count(*) FROM information_schema.tables").fetchall() == [(0,)]
        assert connection.execute("SELECT n FROM seen").fetchall() == [(1,)]


def test_closing_closes_the_answers() -> None:
    with opened(Views({"seen": "SELECT 1 AS n"})) as connection:
        connection.ahead(["SELECT n FROM seen", "SELECT 2"])
        answer = connection.execute("SELECT n FROM seen")
        assert answer.execute("SELECT 3").fetchall() == [(3,)]
    with pytest.raises(duckdb.ConnectionException):
        answer.execute("SELECT 3")
