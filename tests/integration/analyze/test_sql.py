"""`scalene-analyze sql`: formats and files, and the files that a statement must not reach."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace import views
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_sealed
from scalene_trace.analyze.user_sql.run import QueryRefused, run_sql
from scalene_trace.cli.analyze import command as analyze
from tests.support.command_line import as_process
from tests.support.example_traces import TOTALS, rich_builder, rich_trace, small_trace
from tests.support.paths import DOCS


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return rich_trace(tmp_path / "t.parquet")


def sql(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    return as_process("sql", *arguments, input=stdin)


def rows(trace: Path, statement: str) -> list[tuple[Any, ...]]:
    return run_sql([trace], statement, Selection())[1]


# ---- which views there are -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["(SHOW TABLES)", "(Describe)", "( desc )", "information_schema.tables"])
def test_who_looks_at_a_list_of_the_views_sees_all(trace: Path, of: str) -> None:
    column = "table_name" if "tables" in of else "name"
    found = {name for (name,) in rows(trace, f"SELECT {column} FROM {of}")}
    assert found >= {name for name, _, _ in views.describe()}


def test_records_can_be_counted(trace: Path) -> None:
    ((counted, kinds),) = rows(trace, "SELECT count(*), count(DISTINCT kind) FROM records")
    assert (counted, kinds) == rows(trace, "SELECT sum(records), count(*) FROM event_counts")[0]


def test_for_a_mistyped_view_the_right_name_is_suggested(trace: Path) -> None:
    with pytest.raises(QueryRefused, match='Did you mean "process_moments"'):
        rows(trace, "FROM process_moment")


# ---- formats ---------------------------------------------------------------------------------------------------------


def test_parquet_holds_names_types_and_rows(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    query = "SELECT class, t_ns, user_s, user_s AS class FROM cpu_ticks ORDER BY t_ns"
    assert analyze.run(["sql", str(trace), query, "--format", "parquet", "-o", str(out), "--limit", "2"]) == 0
    table = pq.read_table(out)
    assert [str(each) for each in table.schema.types] == ["string", "int64", "double", "double"]
    assert table.to_pylist() == [
        pytest.approx({"class": "python", "t_ns": 1_000_000_000, "user_s": 0.01, "class_2": 0.01}),
        pytest.approx({"class": "extension", "t_ns": 2_000_000_000, "user_s": 0.02, "class_2": 0.02}),
    ]


def test_what_is_explained_can_be_parquet_too(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.parquet"
    assert analyze.run(["sql", str(trace), "EXPLAIN FROM lines", "--format", "parquet", "-o", str(out)]) == 0
    assert pq.read_table(out).num_rows == 1


def test_parquet_goes_through_a_pipe(trace: Path) -> None:
    done = sql(trace, "SELECT 1 AS one", "--format", "parquet")
    assert (done.returncode, done.stderr) == (0, b"")
    assert pq.read_table(io.BytesIO(done.stdout)).to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_every_format_can_go_to_a_file(form: str, trace: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    assert analyze.run(["sql", str(trace), "SELECT 7 AS seven, 'ü' AS text", "--format", form, "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    text = out.read_text(encoding="utf-8")
    if form == "json":
        assert json.loads(text)["rows"] == [{"seven": 7, "text": "ü"}]
    elif form == "csv":
        assert list(csv.reader(io.StringIO(text))) == [["seven", "text"], ["7", "ü"]]
    else:
        assert "seven" in text and "ü" in text and "\x1b" not in text


def test_the_result_cannot_replace_the_trace(trace: Path, capsys: Any) -> None:
    before = trace.read_bytes()
    assert analyze.run(["sql", str(trace), "SELECT 1", "--format", "csv", "-o", str(trace)]) == 2
    assert "is the trace itself" in capsys.readouterr().err
    assert trace.read_bytes() == before


def test_a_statement_that_fails_leaves_the_file_alone(trace: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    out.write_text("older")
    assert analyze.run(["sql", str(trace), "SELEKT 1", "--format", "parquet", "-o", str(out)]) == 2
    assert out.read_text() == "older"


def test_sql_that_is_not_text_is_refused(trace: Path) -> None:
    for done in (sql(trace, stdin=b"SELECT '\xff'"), sql(trace, "SELECT '\udcff'")):
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"not valid UTF-8" in done.stderr


def test_several_traces_are_distinguished_in_every_view(trace: Path) -> None:
    for name, _, columns in views.describe():
        if name != "opcode_calls":
            assert columns[0].name == "trace", name
    found = run_sql([trace, trace], "SELECT trace, sum(bytes) FROM copies GROUP BY trace ORDER BY trace", Selection())
    assert found[1] == [(1, TOTALS["copies"]), (2, TOTALS["copies"])]


def test_every_column_of_every_view_is_explained(capsys: Any) -> None:
    assert analyze.run(["sql", "--schema", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["views"]
    assert [view["view"] for view in listed] == [name for name, _, _ in views.describe()]
    for view in listed:
        assert view["text"] and all(column["text"] for column in view["columns"]), view["view"]
        for column in view["columns"]:
            name, unit = column["name"], column["unit"]
            for ending, wanted in (("_ns", "ns"), ("_s", "s"), ("_bytes", "bytes")):
                assert not name.endswith(ending) or unit == wanted, (view["view"], name)


# ---- what a statement must not reach ---------------------------------------------------------------------------------

REACHING = [
    "SELECT getenv('HOME')",
    "FROM glob('/etc/*')",
    "FROM glob(current_setting('temp_directory') || '/*')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/proc/self/environ')",
    "FROM read_blob('/proc/self/mem')",
    "FROM read_json('/etc/passwd')",
    "FROM read_parquet(['/etc/passwd'])",
    "FROM sniff_csv('/etc/passwd')",
    "FROM parquet_metadata('{trace}')",
    "FROM parquet_schema('/etc/passwd')",
    "FROM read_csv('https://example.com/x')",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "FROM enable_logging()",
    "FROM query('COPY (SELECT 1) TO ''{folder}/new''')",
    "FROM query_table('/etc/passwd')",
    "ATTACH '{folder}/new.duckdb' AS new",
    "INSTALL httpfs FROM community",
    "LOAD '{folder}/evil.duckdb_extension'",
    "PRAGMA enable_profiling",
    "RESET allowed_paths",
    "SET VARIABLE a = 1",
    "SET SESSION temp_directory = '{folder}'",
    "COPY lines TO '{folder}/new.csv'",
    "COPY lines FROM '/etc/passwd'",
    "IMPORT DATABASE '/etc'",
    "USE memory",
    "BEGIN TRANSACTION",
    "EXECUTE a",
    "ANALYZE",
    "UPDATE selection SET from_ns = 1",
    "ALTER VIEW lines RENAME TO rows",
    "SELECT 1; ATTACH '{folder}/new.duckdb'",
    "SELECT 1;\n--\nCOPY lines TO '{folder}/new.csv'",
    "WITH a AS (COPY lines TO '{folder}/new.csv') FROM a",
    "WITH a AS (COPY lines TO (current_setting('temp_directory') || '/new.csv')) SELECT 1",
    "WITH a AS (COPY lines TO (current_setting('temp_directory') || '/0.parquet')) SELECT 1",
    "WITH a AS (ATTACH '{folder}/new.duckdb') SELECT 1",
    "EXPLAIN ANALYZE ATTACH '{folder}/new.duckdb'",
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
]


@pytest.mark.parametrize("statement", REACHING, ids=lambda statement: str(statement)[:60])
def test_a_statement_reaches_nothing_but_the_views(statement: str, trace: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(QueryRefused):
        rows(trace, statement.format(trace=trace, folder=tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_there_is_no_folder_that_a_statement_may_write_to(trace: Path) -> None:
    names = "'temp_directory', 'allowed_directories', 'allowed_paths', 'enable_external_access', 'lock_configuration'"
    found = dict(rows(trace, f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names})"))
    assert found == {
        "temp_directory": "",
        "allowed_directories": "[]",
        "allowed_paths": "[]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }


@pytest.mark.parametrize("name", ["a*b", "a[b", "a?b", "it's", "a;b", "-- x", "a\nb", "\udcff", "$(id)", "{}", "%s"])
def test_a_file_of_any_name_is_read_and_no_other(name: str, tmp_path: Path) -> None:
    rich_trace(tmp_path / "axb.parquet")
    path = rich_trace(tmp_path / "t.parquet").rename(tmp_path / f"{name}.parquet")
    assert rows(path, "SELECT sum(bytes) FROM copies") == [(TOTALS["copies"],)]
    link = f"WITH a AS (COPY (SELECT 1 AS i) TO '{tempdir(path)}/0.parquet' (USE_TMP_FILE false)) SELECT 1"
    before = path.read_bytes()
    with pytest.raises(QueryRefused):
        rows(path, link)
    assert path.read_bytes() == before


def tempdir(path: Path) -> Path:
    """Where an earlier opening had its private folder."""
    with open_sealed([path], "SELECT 1") as traces:
        return traces.temporary


def test_what_a_statement_changes_is_in_memory_and_gone(trace: Path) -> None:
    before = trace.read_bytes()
    assert rows(trace, "WITH a AS (DELETE FROM user_files RETURNING *) FROM a") == [("/home/me/app.py",)]
    assert rows(trace, "SELECT count(*) FROM user_files") == [(1,)]
    assert trace.read_bytes() == before


# ---- through the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "small.parquet")


def test_sql_reads_the_views(run: Any, small: Path) -> None:
    document = run("sql", "--json", small, "SELECT line, ticks, growth_bytes FROM lines").json
    assert document["rows"] == [
        {"line": 4, "ticks": 2, "growth_bytes": 0}, {"line": 5, "ticks": 1, "growth_bytes": 11_000_003}
    ]  # fmt: skip
    assert run("sql", "--json", "--from", "2", small, "SELECT line, ticks FROM lines").json["rows"] == [
        {"line": 5, "ticks": 1}
    ]


def test_sql_may_be_longer_than_a_file_name(run: Any, small: Path) -> None:
    assert run("sql", small, f"SELECT '{'x' * 5_000}' AS text").code == 0


@pytest.mark.parametrize("name", ["my trace.parquet", "run *.parquet", "gone.parquet", "a b.PARQUET "])
@pytest.mark.parametrize("beside", [False, True])
def test_a_trace_that_does_not_exist_is_not_taken_for_sql(
    run: Any, small: Path, tmp_path: Path, name: str, beside: bool
) -> None:
    done = run("sql", *([small] if beside else []), tmp_path / name)
    assert done.code == 3 and "cannot be opened: no such file or directory" in done.err and "Parser" not in done.err


def test_sql_over_several_traces_has_a_column_that_distinguishes_them(run: Any, small: Path, tmp_path: Path) -> None:
    other = small_trace(tmp_path / "u.parquet")
    rows = run(
        "sql", "--json", small, other, "SELECT trace, count(*) AS n FROM cpu_ticks GROUP BY trace ORDER BY trace"
    ).json["rows"]
    assert rows == [{"trace": 1, "n": 3}, {"trace": 2, "n": 3}]


def test_sql_comes_from_stdin_too(small: Path) -> None:
    done = as_process("sql", small, "--format", "csv", input=b"SELECT 1 AS one, NULL AS none, 'a,b' AS text")
    assert list(csv.reader(io.StringIO(done.stdout.decode()))) == [["one", "none", "text"], ["1", "", "a,b"]]


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE lines",
        "SUMMARIZE cpu_ticks",
        "EXPLAIN SELECT * FROM lines",
        "EXPLAIN ANALYZE FROM lines",
        "WITH a AS (FROM lines) FROM a",
    ],
)
def test_sql_that_only_reads_runs(statement: str, run: Any, small: Path) -> None:
    assert run("sql", small, statement).code == 0


def test_numbers_out_of_all_range_are_as_good_as_the_next(run: Any, small: Path, tmp_path: Path) -> None:
    assert run("--json", "--process", 10**11, "--thread", -(10**11), small).json["lines"] == []
    assert run("sql", "--limit", 10**20, "--json", small, "SELECT 1 AS one").json["rows"] == [{"one": 1}]
    out = tmp_path / "rows.parquet"
    assert run("sql", "--limit", 10**20, "--format", "parquet", "-o", out, small, "SELECT 1 AS one").code == 0


def test_values_of_every_kind_become_json(run: Any, small: Path) -> None:
    query = "SELECT 'NaN'::DOUBLE a, '\\xFF'::BLOB b, [1, 2] c, {'k': 1} d, DATE '2026-01-02' e, 1.5::DECIMAL(3, 1) f, 1 AS g, 2 AS g, 3 AS g_2"
    assert run("sql", "--json", small, query).json["rows"] == [
        {"a": None, "b": "ff", "c": [1, 2], "d": {"k": 1}, "e": "2026-01-02", "f": "1.5", "g": 1, "g_3": 2, "g_2": 3}
    ]
    refused = run("sql", small, "SELECT TIMESTAMPTZ '2026-01-02 00:00:00+00'")
    if refused.code:  # without pytz, which DuckDB would ask
        assert (
            refused.err
            == "scalene-analyze: Cannot return times with a time zone. Cast them to text, as in now()::VARCHAR.\n"
        )


HOSTILE_SQL = [
    "COPY (SELECT 1) TO '{trace}'",
    "COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)",
    "WITH a AS (COPY (SELECT 1) TO '{trace}' (FORMAT parquet, USE_TMP_FILE false)) SELECT 1",
    "WITH a AS (COPY (SELECT 1) TO '{folder}/new.csv' (USE_TMP_FILE false)) FROM lines",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)",
    "EXPLAIN /* */ ANALYZE COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)",
    "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)) FROM lines",
    "SELECT 1; COPY (SELECT 1) TO '{trace}' (USE_TMP_FILE false)",
    "EXPORT DATABASE '{folder}/export'",
    "ATTACH '{folder}/new.duckdb'",
    "FROM read_text('{folder}/secret.txt')",
    "FROM '{folder}/secret.txt'",
    "FROM read_csv('{folder}/secret.txt')",
    "FROM read_parquet('{trace}')",
    "FROM glob('{folder}/*')",
    "FROM query('FROM read_text(''{folder}/secret.txt'')')",
    "SELECT * FROM settings, read_blob('{folder}/secret.txt')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE TABLE a AS FROM lines",
    "DROP VIEW lines",
    "INSERT INTO selection VALUES (1, 2, NULL, NULL)",
    "PREPARE a AS SELECT 1",
    "VACUUM",
    "CHECKPOINT",
    "FROM hostile_variable",
    "SELEKT 1",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("statement", HOSTILE_SQL)
def test_hostile_sql_reads_nothing_else_and_writes_nothing(statement: str, run: Any, small: Path) -> None:
    (small.parent / "secret.txt").write_text("secret,words\n1,2\n")
    before = {path: path.read_bytes() for path in small.parent.iterdir()}
    refused = run("sql", small, statement.format(trace=small, folder=small.parent))
    assert refused.code == 2
    assert refused.out == "" and "words" not in refused.err
    assert {path: path.read_bytes() for path in small.parent.iterdir()} == before


def test_the_views_are_listed_without_a_trace(run: Any) -> None:
    listed = run("sql", "--schema")
    assert listed.code == 0
    assert "cpu_ticks" in listed.out and "user_s" in listed.out and "[s]" in listed.out
    names = {view["view"] for view in run("sql", "--schema", "--json").json["views"]}
    assert {
        "cpu_ticks",
        "memory_samples",
        "rss_samples",
        "processes",
        "threads",
        "locations",
        "stacks",
        "codes",
    } <= names
    assert {"modules", "sources", "settings", "losses", "lines", "functions"} <= names


def test_init_builds_the_same_views_in_a_plain_duckdb(run: Any, tmp_path: Path) -> None:
    import duckdb

    path = small_trace(tmp_path / "it's [a] *.parquet")
    script = run("sql", "--init", path)
    assert script.code == 0
    with duckdb.connect(":memory:") as connection:
        connection.execute(script.out)
        rows = connection.execute("SELECT line, ticks FROM lines").fetchall()
    assert rows == [(4, 2), (5, 1)]
    with duckdb.connect(":memory:") as connection:
        connection.execute(run("sql", "--init", "--from", "0.5", "--to", "2", "--process", "1", path).out)
        assert connection.execute("SELECT line, ticks FROM lines").fetchall() == [(4, 1), (5, 0)]


RECIPES = re.findall(r"```sql\n(.*?)```", (DOCS / "sql.md").read_text(), re.DOTALL)


def test_every_recipe_of_the_documents_has_an_answer(tmp_path: Path) -> None:
    builder = rich_builder()
    builder.add("native", id=1, parent=None, module=1, offset=100, gap=False)
    builder.rows["wait"][0]["native"] = 1
    trace = builder.write(tmp_path / "t.parquet")
    assert len(RECIPES) == 11
    empty = [recipe for recipe in RECIPES if not rows(trace, recipe)]
    assert empty == []
    named = {recipe: value for recipe in RECIPES for row in rows(trace, recipe) for value in row if value is not None}
    assert set(named) == set(RECIPES), "each has a row that is not all NULL"


def test_the_views_of_the_documents_have_the_columns_that_they_name(run: Any) -> None:
    table = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", (DOCS / "sql.md").read_text(), re.MULTILINE)
    known = {view["view"]: view for view in run("sql", "--schema", "--json").json["views"]}
    first = [name for name, _ in table]
    assert first == ["lines", "functions", "waits", "threads", "allocations"] == list(known)[:5]
    shown = run("sql", "--schema").out
    assert shown.startswith("Most questions need one of these views:\n\nlines\n")
    assert "\n\nThe other views:\n\nrecords\n" in shown
    for name, columns in table:
        found = {column["name"] for column in known[name]["columns"]}
        assert set(re.findall(r"`(\w+)`", columns)) <= found, name


def test_the_columns_of_lines_are_those_of_the_report(trace: Path) -> None:
    report = build_report([trace], Selection())
    found = rows(trace, "SELECT file, line, cpu_s, wait_s, sleep_s, runnable_s, alloc_bytes FROM lines")
    expected = {
        (each.file, each.line): (each.cpu_s, each.wait_s, each.waits.sleep_s, each.waits.runnable_s, each.alloc_bytes)
        for each in report.lines
    }
    assert {row[:2] for row in found} == set(expected)
    for file, line, *figures in found:
        assert figures == pytest.approx(list(expected[file, line]), abs=1e-6), (file, line)


def test_system_calls_have_names(trace: Path) -> None:
    asked = "SELECT syscall_name(202), syscall_name(230), syscall_name(9999), syscall_name(NULL)"
    assert rows(trace, asked) == [("futex", "clock_nanosleep", "system call 9999", None)]


def test_system_calls_have_the_numbers_of_their_processor(trace: Path, tmp_path: Path) -> None:
    builder, other = rich_builder(), tmp_path / "arm64.parquet"
    builder.settings["machine"] = "aarch64"
    builder.write(other)
    asked = "SELECT syscall_name(98), syscall_name(115), syscall_name(202), syscall_name(NULL)"
    assert rows(other, asked) == [("futex", "clock_nanosleep", "accept", None)]
    assert run_sql([trace, other], asked, Selection())[1] == [
        ("system call 98", "system call 115", "system call 202", None)
    ]
    assert rows(other, "SELECT syscall_name_on(202, 'x86_64'), syscall_name_on(98, 'aarch64')") == [("futex", "futex")]


@pytest.mark.parametrize("settings", [{}, {"hostname": "h"}, {"machine": "i686"}, {"machine": "' || x"}])
def test_what_is_not_of_arm64_has_the_numbers_of_x86_64(trace: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    builders = [rich_builder(), rich_builder()]
    builders[0].settings, builders[1].settings["machine"] = settings, "aarch64"
    found = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for builder, path in zip(builders, found, strict=True):
        builder.write(path)
    assert rows(found[0], "SELECT syscall_name(202)") == [("futex",)]
    assert run_sql([found[0], trace], "SELECT syscall_name(202)", Selection())[1] == [("futex",)]
    assert run_sql(found, "SELECT syscall_name(202)", Selection())[1] == [("system call 202",)]


def test_the_schema_of_the_named_views_alone(run: Any) -> None:
    shown = run("sql", "--schema", "waits", "lines")
    assert shown.code == 0
    names = [line for line in shown.out.splitlines() if line and not line.startswith(" ")]
    assert [name for name in names if name in ("waits", "lines")] == ["waits", "lines"]
    views = run("sql", "--schema", "lines", "--json").json["views"]
    assert [view["view"] for view in views] == ["lines"]
    assert "wait_s" in [column["name"] for column in views[0]["columns"]]
    wrong = run("sql", "--schema", "linse")
    assert (wrong.code, wrong.out) == (2, "") and "There is no view linse. Did you mean lines" in wrong.err
