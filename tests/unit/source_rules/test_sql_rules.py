"""The rules of the queries (analyze/sql/README.md), and planted violations of each: a rule must be able to fail."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from scalene_trace.analyze.leaks.rule import laplace
from scalene_trace.analyze.trace import catalogue, queries, views
from scalene_trace.analyze.trace.catalogue import Definition
from scalene_trace.analyze.trace.traces import open_traces
from tests.support.paths import DOCS
from tests.support.trace_builder import TraceBuilder

VIEWS = sorted(queries.paths(queries.VIEWS))
STATEMENTS = sorted(queries.paths(queries.STATEMENTS))
KINDS = {*views.KIND_VIEWS.values(), views.RECORDS_VIEW, *views.SELECTION_TABLES}
MOST_LINES = 75
SUFFIXES = {"rows": [], "list": STATEMENTS}


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a parse tree."""
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from nodes(each)


def tables_of(sql: str) -> set[str]:
    """The tables and views that a query names, by DuckDB's own parser."""
    with duckdb.connect() as connection:
        (text,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("",)
    tree = json.loads(text)
    assert not tree["error"], tree
    found = {node["table_name"] for node in nodes(tree) if node.get("type") == "BASE_TABLE"}
    within = {entry["key"] for node in nodes(tree) if "cte_map" in node for entry in node["cte_map"]["map"]}
    return found - within


def wrong_reads(name: str) -> set[str]:
    """Names that the header of a query lists and the query does not use, or the other way round."""
    return set(queries.header(name).reads) ^ tables_of(queries.body(name))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a query into a folder of its own and names it."""

    def plant(text: str, folder: str = queries.VIEWS) -> str:
        (tmp_path / folder / "subject").mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "subject" / "planted.sql").write_text(text)
        return "planted"

    (tmp_path / queries.STATEMENTS).mkdir()
    (tmp_path / queries.VIEWS).mkdir()
    queries.shared_columns()
    with monkeypatch.context() as patch:
        patch.setattr(queries, "SQL_DIRECTORY", tmp_path)
        forget()
        yield plant
    forget()


def forget() -> None:
    queries.paths.cache_clear()
    queries.sql.cache_clear()


HEADER = "-- Answers: what?\n-- Reads: {reads}\n-- Stored: {stored}\n-- Columns:\n--   {columns}\n-- Order: none\n"
QUERY = "WITH ticks AS (FROM cpu_rows) SELECT trace FROM ticks SEMI JOIN stacks USING (trace, stack)"


def misshapen(path: Path) -> list[str]:
    """What is wrong with the size or the first line of a SQL file."""
    lines = path.read_text().splitlines()
    wrong = [] if lines and lines[0].startswith("-- ") else [f"{path.name} does not open with what it answers"]
    return wrong + [f"{path.name} has {len(lines)} lines"] * (len(lines) > MOST_LINES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-- Ticks.\nSELECT 1;\n", []),
        ("SELECT 1;\n", ["q.sql does not open with what it answers"]),
        ("", ["q.sql does not open with what it answers"]),
        ("-- Ticks.\n" * 76, ["q.sql has 76 lines"]),
    ],
)
def test_every_sql_file_is_short_and_says_what_it_answers(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "q.sql").write_text(text)
    assert misshapen(tmp_path / "q.sql") == found
    assert [wrong for path in queries.SQL_DIRECTORY.rglob("*.sql") for wrong in misshapen(path)] == []


def test_a_name_stands_for_one_file() -> None:
    files = [path for folder in (queries.VIEWS, queries.STATEMENTS) for path in queries.paths(folder).values()]
    assert sorted(files) == sorted(queries.SQL_DIRECTORY.glob("[vs]*/*/*.sql")) and len(files) > 80
    assert [name for name, count in Counter(path.stem for path in files).items() if count > 1] == []
    assert KINDS & {*VIEWS, *STATEMENTS, *queries.macros()} == set()


@pytest.mark.parametrize("name", [*VIEWS, *STATEMENTS])
def test_a_header_lists_what_its_query_reads(name: str) -> None:
    assert wrong_reads(name) == set()
    assert list(queries.header(name).reads) == sorted(queries.header(name).reads)
    assert set(queries.header(name).reads) <= KINDS | set(VIEWS)


@pytest.mark.parametrize(("reads", "wrong"), [("cpu_rows", {"stacks"}), ("cpu_rows, stacks, waits", {"waits"})])
def test_a_wrong_list_is_found(reads: str, wrong: set[str], planted: Any) -> None:
    assert wrong_reads(planted(HEADER.format(reads=reads, stored="no", columns="trace") + QUERY)) == wrong


@pytest.mark.parametrize(
    ("folder", "change"),
    [
        (queries.VIEWS, {"stored": "perhaps"}),
        (queries.STATEMENTS, {"stored": "yes"}),
        (queries.VIEWS, {"reads": ""}),
        (queries.VIEWS, {"columns": "no_such_shared_column"}),
    ],
)
def test_a_wrong_header_is_refused(folder: str, change: dict[str, str], planted: Any) -> None:
    header = HEADER.format(**({"reads": "cpu_rows, stacks", "stored": "no", "columns": "trace"} | change))
    with pytest.raises(ValueError, match=r"the header of planted\.sql"):
        queries.header(planted(header + QUERY, folder))


@pytest.mark.parametrize("name", VIEWS)
def test_what_opening_reads_of_a_header_is_what_it_says(name: str) -> None:
    header, found = queries.header(name), catalogue.definitions()[name]
    assert (found.reads, found.stored, found.simpler) == (header.reads, header.stored, header.simpler)
    if header.simpler is not None:
        assert set(header.simpler) <= set(VIEWS) and header.simpler[1] in header.reads
        assert catalogue.definitions()[header.simpler[0]].stored == "yes"
        columns = [[each.name for each in queries.header(view).columns] for view in (name, header.simpler[1])]
        assert sorted(columns[0]) == sorted(columns[1])


def test_views_come_after_what_they_read() -> None:
    seen = set(KINDS)
    for name, definition in catalogue.definitions().items():
        assert set(definition.depends) <= seen, name
        seen.add(name)
    assert seen == KINDS | set(VIEWS)


def test_a_circle_of_views_is_refused() -> None:
    circle = {"a": Definition(("b",), "no"), "b": Definition(("c",), "no"), "c": Definition(("a",), "no")}
    with pytest.raises(ValueError, match="a -> b -> c -> a"):
        catalogue.in_order(circle)


def subject_definitions(definitions: dict[str, Definition], subject: dict[str, str]) -> dict[str, Definition]:
    """Which subjects each subject reads, as definitions."""
    reads: dict[str, set[str]] = {each: set() for each in subject.values()}
    for name, definition in definitions.items():
        reads[subject[name]] |= {subject[each] for each in definition.depends if each in subject} - {subject[name]}
    return {name: Definition(tuple(sorted(each)), "no") for name, each in reads.items()}


def test_subjects_do_not_read_each_other_in_a_circle() -> None:
    subject = {name: path.parent.name for name, path in queries.paths(queries.VIEWS).items()}
    found = subject_definitions(dict(catalogue.definitions()), subject)
    assert len(catalogue.in_order(found)) == len(found) > 10
    with pytest.raises(ValueError, match="circle"):
        catalogue.in_order(subject_definitions(dict(catalogue.definitions()), subject | {"thread_ticks": "report"}))


def test_no_folder_has_more_than_15_files() -> None:
    folders = Counter(path.parent for path in queries.SQL_DIRECTORY.rglob("*.sql"))
    assert [str(folder) for folder, count in folders.items() if count > 15] == []


def repeated(described: list[tuple[str, queries.Described]], shared: Any) -> list[str]:
    """Columns that headers describe as another one or as the shared description does."""
    own = [column for _, column in described if column != shared.get(column.name)]
    twice = [column.name for column, count in Counter(own).items() if count > 1]
    return twice + [column.name for column in own if column.text == getattr(shared.get(column.name), "text", None)]


def test_a_column_is_described_once() -> None:
    described = [(name, column) for name in (*VIEWS, *STATEMENTS) for column in queries.header(name).columns]
    shared = queries.shared_columns()
    assert repeated(described, shared) == []
    used = Counter(column.name for _, column in described if column == shared.get(column.name))
    assert [name for name in shared if used[name] < 2] == []
    planted = queries.Described("depth", "", "1 = innermost")
    assert repeated([*described, ("x", planted), ("y", planted)], shared) == ["depth"]


def test_shared_columns_are_in_alphabetical_order_and_all_understood() -> None:
    lines = [line for line in (queries.SQL_DIRECTORY / queries.COLUMNS).read_text().splitlines() if line[:1] != "#"]
    names = [re.split(r"\W", line)[0] for line in lines if line]
    assert names == sorted(queries.shared_columns()) and len(names) > 50


def test_a_suffix_has_one_meaning() -> None:
    for suffix, allowed in SUFFIXES.items():
        assert {name for name in (*VIEWS, *STATEMENTS) if name.endswith(f"_{suffix}")} <= set(allowed), suffix


def literals_of(text: str, pattern: str) -> list[str]:
    return re.findall(pattern, re.sub(r"--[^\n]*", "", text))


@pytest.mark.parametrize(
    ("pattern", "violation"),
    [
        (r"\b(?:process_ids|thread_ids)\b", "process_ids IS NULL OR list_contains(process_ids, process)"),
        (r"68719476736|68\.719476736", "round(user_ns * 68.719476736)"),
        (r"\b0\.9[058]\b|\b0\.05", "frees <= 0.05 * mallocs"),
    ],
)
def test_what_macros_say_is_said_nowhere_else(pattern: str, violation: str) -> None:
    assert literals_of(violation, pattern)
    found = {name: literals_of(queries.body(name), pattern) for name in (*VIEWS, *STATEMENTS)}
    assert {name for name, each in found.items() if each} <= ({"gpu_figures"} if "0" in pattern[:4] else set())


def test_every_macro_is_used_and_comes_after_those_that_it_names() -> None:
    text = queries.macros()
    assert len(text) == sum(path.read_text().count("CREATE ") for path in (queries.SQL_DIRECTORY / "macros").iterdir())
    recipes = (DOCS / "sql.md").read_text()
    everything = " ".join([*map(queries.body, (*VIEWS, *STATEMENTS)), *text.values(), recipes])
    seen: set[str] = set()
    for name, statement in text.items():
        assert len(re.findall(rf"\b{name}\(", everything)) > 1, name
        assert {other for other in text if re.search(rf"\b{other}\(", statement)} - {name} <= seen
        seen.add(name)


def test_the_rule_of_succession_is_the_same_in_sql_and_in_python(tmp_path: Path) -> None:
    with open_traces([TraceBuilder().write(tmp_path / "t.parquet")]) as opened:
        rows = opened.connection.execute("""
            SELECT mallocs, frees, is_probably_kept(mallocs, frees), is_mostly_kept(mallocs, frees)
            FROM (SELECT unnest(range(300)) AS mallocs), (SELECT unnest(range(20)) AS frees)""").fetchall()
        (least,) = opened.connection.execute("SELECT leak_rule('least_survivors')").fetchone() or (0,)
    for mallocs, frees, probably, mostly in rows:
        assert (probably, mostly) == (laplace(mallocs, frees) >= 0.95, frees <= (1 - 0.95) * mallocs), (mallocs, frees)
    assert laplace(least, 0) >= 0.95 > laplace(least - 1, 0)


def test_an_allocation_at_exactly_nine_tenths_is_no_evidence(tmp_path: Path) -> None:
    with open_traces([TraceBuilder().write(tmp_path / "t.parquet")]) as opened:
        found = opened.connection.execute("""
            SELECT t_ns FROM (SELECT unnest([99, 100, 899, 900]) AS t_ns) WHERE is_evidence(judged_place(t_ns, 0, 1000))
            ORDER BY t_ns""").fetchall()
    assert found == [(100,), (899,)]
