"""Spark runs the statements of a fleet's questions in its own dialect; that it gives the same rows is tested in the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from scalene_trace.analyze.fleet.spark import SparkConnection, _first_line
from scalene_trace.analyze.trace import queries

FLEET = queries.SQL_DIRECTORY / "fleet"
#: Statements about traces alone, which DuckDB answers for both engines.
OPENING = FLEET / "opening"
#: Functions of both that sqlglot does not know.
SPARKS = {"map_values", "map_keys"}
STATEMENTS = [path for path in sorted(FLEET.rglob("*.sql")) if path.parent != OPENING]


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.stem)
def test_a_statement_can_be_said_in_sparks_dialect(path: Path) -> None:
    """Every function is known, and none of them is one that Spark does not have."""
    (statement,) = sqlglot.parse(queries.body(path.stem), read="duckdb")
    assert statement is not None
    assert {each.name for each in statement.find_all(exp.Anonymous)} <= SPARKS
    for select in statement.find_all(exp.Select):  # of two, Spark gives each row of one with each of the other
        assert sum(bool(each.find(exp.Unnest, exp.Explode)) for each in select.expressions) < 2
    (text,) = sqlglot.transpile(
        queries.body(path.stem), read="duckdb", write="spark", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    assert sqlglot.parse_one(text, read="spark") is not None


class _Session:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    def sql(self, text: str, args: object) -> _Frame:
        self.asked.append((text, args))
        return _Frame()


class _Frame:
    columns = ("value",)

    def collect(self) -> list[tuple[int]]:
        return [(1,)]

    def persist(self) -> _Frame:
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 (Spark's name)
        self.name = name


class _Local:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, sql: str, parameters: object = None) -> _Local:
        self.asked.append(sql)
        return self

    def to_arrow_table(self) -> object:
        return None


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> SparkConnection:
    monkeypatch.setattr(SparkConnection, "_figures", lambda *_: _Frame())
    monkeypatch.setattr(SparkConnection, "_frame", lambda self, sql: self._local.execute(sql) and _Frame())
    return SparkConnection(_Local(), _Session(), [])  # type: ignore[arg-type]


def test_what_is_about_figures_goes_to_spark_and_the_rest_to_duckdb(connection: SparkConnection) -> None:
    local, session = connection._local, connection._session
    connection.execute("SELECT count(*) FROM fleet_traces")
    assert not session.asked  # type: ignore[attr-defined]
    asked = "SELECT sum(value) FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace WHERE metric = $metric"
    rows = connection.execute(asked, {"metric": "cpu_s"})
    assert (rows.fetchall(), [name for (name,) in rows.description]) == ([(1,)], ["value"])
    assert {name: column.tolist() for name, column in rows.fetchnumpy().items()} == {"value": [1]}
    ((text, args),) = session.asked  # type: ignore[attr-defined]
    assert ":metric" in text and args == {"metric": "cpu_s"}
    assert local.asked[-1] == "SELECT * FROM selected_traces"  # type: ignore[attr-defined]


def test_tables_made_of_figures_stay_in_spark_and_others_are_sent_again(connection: SparkConnection) -> None:
    local = connection._local
    connection.execute("CREATE OR REPLACE TEMP TABLE parts AS SELECT trace, value FROM fleet_figures")
    for _ in range(2):
        connection.execute("SELECT * FROM parts JOIN selected_traces USING (trace)")
    assert local.asked == ["SELECT * FROM selected_traces"]  # type: ignore[attr-defined]
    made = "CREATE OR REPLACE TEMP TABLE selected_traces AS SELECT trace FROM fleet_traces"
    connection.execute(made)
    connection.execute("SELECT * FROM parts JOIN selected_traces USING (trace)")
    assert local.asked[1:] == [made, "SELECT * FROM selected_traces"]  # type: ignore[attr-defined]


def test_of_a_long_error_an_impossible_value_is_what_is_said() -> None:
    text = "An error occurred while calling o1.\n: org.apache.spark.X: [USER_RAISED_EXCEPTION] a batch has an impossible value SQLSTATE"
    assert _first_line(RuntimeError(text)) == "a batch has an impossible value"
    assert _first_line(RuntimeError("first\nsecond")) == "first"
