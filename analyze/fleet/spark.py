"""Runs a fleet's questions on Spark: the same statements over the same batches, and the indexer's own function as the map.

What is about traces (a row for each) stays in DuckDB: it is small, and decides which traces count. Statements that read figures
are translated to Spark's dialect (sqlglot) and run there; tables of DuckDB that they name are sent to Spark as they are.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.errors import SparkMissing, SparkRefused
from ...formats.fleet import schema
from ..report.batches import batches_of
from .find import Found
from .index import Progress, Publish, Published, added_up, publish
from .opening import IMPOSSIBLE, Fleet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ..trace.connection import Connection

#: The view of figures, which is Spark's.
_FIGURES = "fleet_figures"
_SPARK_TYPES = {"string": "string", "int32": "int", "int64": "bigint", "double": "double"}
#: What is true of a figure of a recording; NaN is larger than all numbers.
_POSSIBLE = {
    "value": f"value BETWEEN -{schema.MOST_VALUE} AND {schema.MOST_VALUE}",
    "variance": f"variance IS NULL OR variance BETWEEN 0 AND {schema.MOST_VARIANCE}",
}
#: What Hadoop reads as a pattern in a path.
_PATTERN, _ESCAPED = re.compile(r"([\\\[\]{}*?])"), r"\\\1"
#: A task reduces this part of what one process may hold at a time: some seconds of work, and planning is a fifth of it.
_TASKS = 4
_COUNTS = "traces bigint, unreadable bigint, batches bigint, left bigint"
_LOCAL = ("local", "local[", "local-cluster[")


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session of Spark at ``master``: ``spark://HOST:PORT``, ``yarn``, ``local-cluster[2,1,1024]``, or ``sc://HOST:PORT``
    for Spark Connect. It is stopped at the end. Raises SparkMissing, and SparkRefused for what it raises."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing(str(error)) from error
    builder = SparkSession.builder.appName("scalene-analyze fleet")
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        if master.startswith(_LOCAL):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master).config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkMissing(f"it cannot be reached at {master}: {_first_line(error)}") from error
    try:
        if not master.startswith("sc://"):
            session.sparkContext.setLogLevel("ERROR")  # what matters is raised
        yield session
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise SparkRefused(_first_line(error).rstrip(".")) from error
    finally:
        session.stop()


def _first_line(error: Exception) -> str:
    """What to say of an error; of an impossible figure, by which :meth:`Fleet.__exit__` finds the batch, what the query says."""
    if found := re.search(rf"{IMPOSSIBLE} \w+", str(error)):
        return found[0]
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def on_spark(fleet: Fleet, session: SparkSession) -> Fleet:
    """The same fleet, whose statements about figures run in ``session``. Its batches must have the same paths on all machines."""
    connection: Any = SparkConnection(fleet.connection, session, fleet.batches)
    return replace(fleet, connection=connection)


def publishing(session: SparkSession) -> Publish:
    """The map on Spark: each task publishes the summaries of some files, which must have the same paths on all machines, as the
    fleet must. A task that is run again, because its machine was lost, publishes batches whose traces count once."""

    def publish_all(folder: Path, files: Sequence[Found], progress: Progress) -> Published:
        by_path = {file.path: file for file in files}
        groups, _ = batches_of(list(by_path), _TASKS)
        texts = [(pickle.dumps([by_path[path] for path in group]),) for group in groups]
        frame = session.createDataFrame(texts, "files binary").repartition(len(texts))
        found = frame.mapInArrow(partial(_publish_each, folder), _COUNTS)
        rows = found.collect()
        progress(len(files), len(files))
        return added_up(Published(**row.asDict()) for row in rows)

    return publish_all


def _publish_each(folder: Path, batches: Iterator[Any]) -> Iterator[Any]:
    """One task: publishes the files of each row of Arrow's record batches."""
    for batch in batches:
        for row in batch.to_pylist():
            counts = publish(folder, pickle.loads(row["files"]), lambda done, files: None)
            yield type(batch).from_pylist([vars(counts)])


def _checked(name: str) -> Column:
    """A column of figures; the statement that reads an impossible value fails, as in DuckDB."""
    from pyspark.sql import functions as f

    if name not in _POSSIBLE:
        return f.col(name)
    error = f.raise_error(f.lit(f"{IMPOSSIBLE} {name}"))
    return f.when(f.expr(_POSSIBLE[name]), f.col(name)).otherwise(error.cast("double")).alias(name)


class Rows:
    """The answer of a statement, as DuckDB's: ``description`` has the names of the columns."""

    def __init__(self, names: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        self.description = [(name,) for name in names]
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self._rows

    def fetchnumpy(self) -> dict[str, Any]:
        """All columns by name."""
        import numpy as np

        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(self.description)
        return {name: np.array(column) for (name,), column in zip(self.description, columns, strict=True)}


class SparkConnection:
    """In the place of a fleet's connection: what names figures, or tables made of them, runs in Spark."""

    def __init__(self, local: Connection, session: SparkSession, batches: Sequence[Path]) -> None:
        self._local, self._session = local, session
        self._in_spark = {_FIGURES}
        self._sent: set[str] = set()
        self._kept: list[DataFrame] = []
        self.raw = self
        self._figures(batches).createOrReplaceTempView(_FIGURES)

    def _figures(self, batches: Sequence[Path]) -> DataFrame:
        from pyspark.sql import functions as f

        names = [(f"{path.parent.name}/{path.name}", number) for number, path in enumerate(batches)]
        # Spark writes = as %3D in the paths of rows. With both spellings here, no row's path is rewritten.
        names += [(name.replace("=", "%3D"), number) for name, number in names if "=" in name]
        numbers = self._session.createDataFrame(names, "batch string, number bigint")
        traces = self._frame("SELECT trace AS kept FROM fleet_traces")
        fields = [("kind", "string"), ("trace", "int")]
        fields += [(column.name, _SPARK_TYPES[column.type]) for column in schema.FIGURE_COLUMNS]
        read = self._session.read.schema(", ".join(f"`{name}` {type_}" for name, type_ in fields))
        rows = read.parquet(*(f"file:{_PATTERN.sub(_ESCAPED, str(path.absolute()))}" for path in batches)).where(
            f.col("kind") == schema.FIGURE
        )
        name = f.substring_index("_metadata.file_path", "/", -2)
        rows = rows.join(f.broadcast(numbers), name == f.col("batch"))
        trace = f.col("number") * schema.MOST_TRACES + f.col("trace")
        rows = rows.select(trace.alias("trace"), *(_checked(column.name) for column in schema.FIGURE_COLUMNS))
        return rows.join(f.broadcast(traces), f.col("trace") == f.col("kept"), "left_semi")

    def execute(self, sql: str, parameters: Any = None) -> Any:
        """Runs a statement. Raises what DuckDB or Spark raises."""
        import sqlglot
        from sqlglot import exp

        statement = sqlglot.parse_one(sql, read="duckdb")
        names = _tables(statement)
        if not names & self._in_spark:
            self._sent -= _made(statement)
            return self._local.execute(sql, parameters)
        self._send(names - self._in_spark)
        query = statement.expression if isinstance(statement, exp.Create) else statement
        frame = self._session.sql(query.sql(dialect="spark"), args=_arguments(parameters))
        if not isinstance(statement, exp.Create):
            return Rows(frame.columns, [tuple(row) for row in frame.collect()])
        (name,) = _made(statement)
        frame = frame.persist() if statement.kind == "TABLE" else frame
        self._kept.append(frame)
        frame.createOrReplaceTempView(name)
        self._in_spark.add(name)
        return Rows([], [])

    def _send(self, names: set[str]) -> None:
        """Lets Spark see these tables of DuckDB."""
        for name in names - self._sent:
            self._frame(f"SELECT * FROM {name}").createOrReplaceTempView(name)
            self._sent.add(name)

    def _frame(self, sql: str) -> DataFrame:
        return self._session.createDataFrame(self._local.raw.sql(sql).to_arrow_table())

    def close(self) -> None:
        """Forgets the tables in Spark, and closes DuckDB's connection."""
        for frame in self._kept:
            frame.unpersist()
        self._local.close()


def _tables(statement: Any) -> set[str]:
    """The tables and views that a statement reads."""
    from sqlglot import exp

    own = {each.alias_or_name for each in statement.find_all(exp.CTE)}
    return {each.name for each in statement.find_all(exp.Table)} - own - _made(statement)


def _made(statement: Any) -> set[str]:
    """The table that a statement makes."""
    from sqlglot import exp

    return {statement.this.name} if isinstance(statement, exp.Create) else set()


def _arguments(parameters: Any) -> dict[str, Any] | list[Any] | None:
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters or ()) or None
