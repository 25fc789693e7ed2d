"""Text of a trace reaches terminals, files and scripts only in a form that does nothing there.

The trace has hostile text in every text column of every kind. Every command is run over it, in every format.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from scalene_trace.analyze.exports.export import FORMATS
from scalene_trace.analyze.trace.views import KIND_VIEWS
from scalene_trace.cli.analyze.command import COMMANDS
from scalene_trace.formats.trace import schema
from tests.support import otlp
from tests.support.example_traces import HOSTILE, hostile_builder
from tests.support.trace_builder import SECOND

#: Escape sequences of terminals with seven and eight bits, a formula, marks of direction, ends of lines, markup.
TEXT = "=cmd|' /C calc'!A1\x1b]0;title\x07\x9b31m\x85\x7f\x00\r\u202e\u2066\u200f\u061c\u2028" + HOSTILE[:80]
#: Characters that no output may have: of control, and those that reorder or break lines.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

#: Values of columns that are no text, by type.
NUMBERS = {"int32": 1, "int64": 1, "bool": False, "binary": b"\x97\x00", "list<int32>": [1]}
#: Of these kinds each value has a place in the report, so the rows of the builder stay as they are.
_BUILT = (
    "cpu",
    "wait",
    "memory",
    "alloc",
    "copy",
    "process",
    "thread",
    "location",
    "stack",
    "source",
    "module",
    "symbol",
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with the text in every text column."""
    builder = hostile_builder()
    for kind in schema.KINDS:
        if kind.name not in _BUILT and kind.name not in ("setting", "mark"):
            builder.add(kind.name, **{column.name: _value(column) for column in kind.columns}, **_common(kind))
    builder.settings |= {name: TEXT for name in builder.settings if name not in ("features", "gpu_devices", "command")}
    builder.settings |= {TEXT: TEXT, "labels": TEXT, "command": json.dumps([TEXT, "\udcff"])}
    for kind_name, rows in builder.rows.items():
        texts = [each.name for each in schema.kind(kind_name).columns if each.type == "string"]
        for row in rows:
            row |= {name: TEXT for name in texts if name not in ("pc_class", "scope") and row.get(name)}
    return builder.write(tmp_path_factory.mktemp("hostile") / "t.parquet")


def _value(column: schema.Column) -> Any:
    return {"string": TEXT, "list<string>": [TEXT, ""]}.get(column.type) or NUMBERS[column.type]


def _common(kind: schema.Kind) -> dict[str, Any]:
    return {name: SECOND if name == "t_ns" else 1 for name in kind.common}


def test_every_text_column_is_hostile(trace: Path) -> None:
    for kind in schema.KINDS:
        for column in kind.columns:
            if column.type == "string" and column.name != "pc_class":
                field = f'"{kind.struct}"."{column.name}"'
                (found,) = duckdb.sql(f"SELECT count(*) FROM '{trace}' WHERE contains({field}, chr(27))").fetchall()
                assert found[0] > 0 or column.name == "scope", f"{kind.name}.{column.name}"


def assert_inert(text: str) -> None:
    found = FORBIDDEN.search(text)
    assert found is None, f"{found[0]!r} in {text[max(found.start() - 60, 0) : found.start() + 20]!r}"


#: Commands that print, with the arguments that come after the trace.
PRINTED = [
    *(
        [name]
        for name in COMMANDS
        if name not in ("check", "diff", "export", "html", "live", "mcp", "sql", "report", "memory")
    ),
    *(["report", *more] for more in ([], ["--all"], ["--all-lines"])),
    *(["memory", "--by", by] for by in ("line", "function", "type", "allocator")),
]


@pytest.mark.parametrize("arguments", PRINTED, ids=" ".join)
def test_a_table_is_inert_as_text_and_json(arguments: list[str], run: Any, trace: Path) -> None:
    command, *more = arguments
    for form in ([], ["--json"], ["--plain"]):
        ran = run(command, trace, *more, *form)
        assert ran.code == 0, ran.err
        assert_inert(ran.out + ran.err)
        assert not [line for line in ran.out.split("\n") if line.startswith("fake line")]
        assert form != ["--json"] or (ran.out.isascii() and ran.json)


@pytest.mark.parametrize("form", [[], ["--json"], ["--plain"], ["--markdown"], ["--html", "-"]], ids=str)
def test_a_comparison_is_inert(form: list[str], run: Any, trace: Path, tmp_path: Path) -> None:
    other = hostile_builder()
    other.tick(2 * SECOND, 1, 1, 1)
    ran = run("diff", other.write(tmp_path / "other.parquet"), trace, *form, "--fail-on", "cpu>+5%")
    assert ran.out, ran.err
    assert_inert(ran.out + ran.err)


#: Limits that fail on some line, file and function of the trace, and a query whose answer is no number.
LIMITS = '[total]\npeak = "1 B"\ncpu = "1 ms"\n[[file]]\nfile = "*"\ncpu = "1 ms"\n[[function]]\nfunction = "*"\ncpu = "1 ms"\n'
QUERY = '[[sql]]\nname = "names"\nquery = "SELECT name FROM threads"\nmax = 0\n'


@pytest.mark.parametrize(("budget", "code"), [(LIMITS, 1), (QUERY, 2)], ids=["limits", "query"])
def test_a_check_is_inert(budget: str, code: int, run: Any, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text(budget)
    for form in ([], ["--json"]):
        ran = run("check", "--budget", tmp_path / "budget.toml", trace, *form)
        assert ran.code == code, ran.err
        assert_inert(ran.out + ran.err)


@pytest.mark.parametrize("view", [*KIND_VIEWS.values(), "lines", "functions"])
def test_rows_are_inert_in_every_format(view: str, run: Any, trace: Path, tmp_path: Path) -> None:
    place = tmp_path / "rows"
    for form in ("table", "csv", "json"):
        ran = run("sql", trace, f"FROM {view} LIMIT 20", "--format", form, "-o", place)
        assert ran.code == 0, ran.err
        assert_inert(ran.out + ran.err + place.read_text())


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_is_inert(name: str, run: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "export"
    ran = run("export", "--format", name, trace, "-o", out)
    assert ran.code == 0, ran.err
    assert_inert(ran.out + ran.err)
    data = out.read_bytes()
    for text in otlp.texts(otlp.request(data)) if name == "otlp" else _texts(data):
        assert_inert(text)


def _texts(data: bytes) -> Iterator[str]:
    """The texts of an export: all of it, or the strings of pprof's table (field 6 of the message, each after its length)."""
    if not data.startswith(b"\x1f\x8b"):
        yield data.decode()
        return
    at, data = 0, gzip.decompress(data)
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if key & 7 == 2:
            if key >> 3 == 6:
                yield data[at : at + value].decode()
            at += value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def test_a_page_is_inert(run: Any, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    ran = run("html", trace, "-o", out)
    assert ran.code == 0, ran.err
    assert_inert(ran.out + ran.err)
    data = out.read_text().partition('type="application/json"')[2].partition("</script>")[0]
    assert TEXT[:4] in data
    assert_inert(data)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT value::INTEGER FROM settings WHERE name = 'hostname'",
        "SELECT error(name) FROM threads",
        "SELECT name::DATE FROM symbols",
        "SELECT 1 AS x FROM nowhere_\x1b[31m",
    ],
)
def test_an_error_is_inert(query: str, run: Any, trace: Path) -> None:
    refused = run("sql", trace, query)
    assert refused.code == 2 and refused.out == ""
    assert_inert(refused.err)


# ---- statements for another DuckDB ----


def test_statements_are_inert_and_mean_the_same(run: Any, trace: Path, tmp_path: Path) -> None:
    path = trace.rename(trace.with_name("\x1b[31m\u202e'quoted' [x].parquet"))
    try:
        script = run("sql", "--init", path)
        assert script.code == 0
        assert_inert(script.out)
        with duckdb.connect() as connection:
            connection.execute(script.out)
            files = connection.execute("SELECT file FROM user_files ORDER BY file").fetchall()
            assert TEXT in [file for (file,) in files]
            assert connection.execute("SELECT count(*) FROM cpu_ticks").fetchone() == (2,)
    finally:
        path.rename(trace)


# ---- CSV ----

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\n=1", " =1", "\uff1d1", "-cmd", "+", "-1e5x"]
HARMLESS = ["", "x=1", "a-b", "(+1)", "-1", "+1.5", "-1e5", "1", "'=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text: str, run: Any, trace: Path) -> None:
    quoted = text.replace("'", "''")
    ran = run("sql", trace, "--format", "csv", f"SELECT '{quoted}' AS \"{text}\"")
    names, values = csv.reader(io.StringIO(ran.out))
    assert values[0].startswith("'") and names[0].startswith("'")


@pytest.mark.parametrize("text", HARMLESS)
def test_another_text_stays_as_it_is(text: str, run: Any, trace: Path) -> None:
    quoted = text.replace("'", "''")
    ran = run("sql", trace, "--format", "csv", f"SELECT '{quoted}' AS a, 1 AS b")
    assert list(csv.reader(io.StringIO(ran.out)))[1] == [text, "1"]


def test_a_number_stays_a_number(run: Any, trace: Path) -> None:
    query = "SELECT -5 AS a, -1.5::DECIMAL(9, 2) AS b, -2e300 AS c, true AS d, NULL AS e, -170141183460469231731687303715884105727 AS f"
    ran = run("sql", trace, "--format", "csv", query)
    assert ran.out.splitlines()[1] == "-5,-1.50,-2e+300,True,,-170141183460469231731687303715884105727"
