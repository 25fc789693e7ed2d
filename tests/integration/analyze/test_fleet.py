"""``scalene-analyze fleet``: a folder of traces becomes summaries once, and every question is answered from them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.fleet import index as indexing
from scalene_trace.analyze.fleet.reduce import Summary
from scalene_trace.cli.fleet.group import COMMANDS
from scalene_trace.formats.fleet import layout
from scalene_trace.formats.trace.writer import write_trace
from tests.support.command_line import as_process
from tests.support.example_traces import APP, HOSTILE, rich_builder, small_trace
from tests.support.paths import PATIENCE_S
from tests.support.trace_builder import MS, SECOND, TraceBuilder

#: What commands need besides a fleet.
MORE = {
    "sql": ["SELECT * FROM selected_traces, fleet_traces, fleet_figures"],
    "diff": ["--before", "version=1", "--after", "version=2"],
}
#: ``send`` needs an endpoint (tests/unit/send).
ANSWERS = [name for name in COMMANDS if name != "send"]
#: Text that could move the cursor of a terminal.
FORBIDDEN = ("\x1b", "\x07", "\x00", "\u202e", "\x9b")


def written(path: Path, number: int, builder: TraceBuilder | None = None, **settings: str) -> Path:
    """A trace with an id of its own; ``settings`` replace those of the builder."""
    builder = builder or rich_builder()
    builder.settings |= settings
    path.parent.mkdir(parents=True, exist_ok=True)
    write_trace(path, f"{number:032x}", [builder.tables()])
    return path


def moved(first_line: int, ticks: int) -> TraceBuilder:
    """A function that begins at ``first_line``, with ticks of 10 ms on its second line."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.source(APP, "\n" * (first_line - 1) + "def work():\n    return crunch()\n")
    stack = builder.stack((APP, "work", first_line, first_line + 1))
    for tick in range(ticks):
        builder.tick(tick * SECOND, process, thread, stack, user_ns=10 * MS)
    return builder


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three traces of two hosts and two versions, in which a line has moved, one trace twice, and what is no trace."""
    folder = tmp_path_factory.mktemp("fleet")
    labels = {version: json.dumps({"service": "shop", "version": version}) for version in ("1", "2")}
    written(folder / "a.parquet", 1, moved(3, 2), hostname="h1", labels=labels["1"])
    written(folder / "deep" / "down" / "b.parquet", 2, moved(30, 5), hostname="h2", labels=labels["2"])
    written(folder / "c.parquet", 3, rich_builder(), hostname="h2", labels=labels["2"])
    written(folder / "copy.parquet", 1, moved(3, 2), hostname="h1", labels=labels["1"])
    (folder / "text.parquet").write_text("no trace")
    written(folder / "_temporary" / "d.parquet", 4)
    written(folder / ".hidden.parquet", 5)
    outside = written(tmp_path_factory.mktemp("outside") / "e.parquet", 6)
    (folder / "link.parquet").symlink_to(outside)
    (folder / "folder.parquet").mkdir()
    os.mkfifo(folder / "pipe.parquet")
    done = as_process("fleet", "index", "--json", folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["files"], found["traces"], found["unreadable"], found["known"]) == (5, 4, 1, 0)
    return folder


def test_what_is_known_is_not_read_again(fleet: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "summaries", lambda paths: pytest.fail("nothing is new"))
    before = layout.batches(fleet)
    assert run("fleet", "index", "--json", fleet).json["known"] == 5
    assert "0 traces summarized" in run("fleet", "index", fleet).out
    assert layout.batches(fleet) == before


def test_a_line_that_moved_is_one_row(fleet: Path, run: Any) -> None:
    done = run("fleet", "report", "--json", fleet)
    assert "1 file could not be read" in done.err
    assert done.json["fleet"] == {
        "folder": str(fleet),
        "traces": 3,
        "hosts": 2,
        "versions": 2,
        "exposure": pytest.approx(30 / 3600),
        "per": None,
        "first_day": "2026-01-02",
        "last_day": "2026-01-02",
        "unreadable": 1,
        "without_exposure": 0,
    }
    (row,) = [each for each in done.json["lines"] if each["source"] == "return crunch()"]
    assert (row["line"] in (4, 31)) and (row["traces"], row["hosts"], row["samples"]) == (2, 2, 7)
    assert row["cpu_s"] == pytest.approx(0.07)
    assert sum(each["cpu_s"] for each in done.json["lines"]) + done.json["unattributed"]["cpu_s"] == pytest.approx(
        done.json["totals"]["cpu_s"]
    )


def test_the_sums_are_those_of_a_report_on_the_same_traces(run: Any, tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{number}.parquet", number) for number in (1, 2)]
    paths.append(written(tmp_path / "3.parquet", 3, moved(40, 7)))
    wanted = run("report", "--json", *paths).json
    run("fleet", "index", tmp_path)
    found = run("fleet", "report", "--json", tmp_path).json
    by_line = {(row["file"], row["line"]): row for row in wanted["lines"]}
    assert {(row["file"], row["line"]) for row in found["lines"]} == by_line.keys()
    for row in [*found["lines"], found["unattributed"], found["totals"]]:
        one = (
            wanted["totals"] if "peak_bytes" in row else by_line.get((row["file"], row["line"]), wanted["unattributed"])
        )
        one = one | one["waits"]
        for name in row.keys() & one.keys() - {"first_line", "cpu_percent", "source"}:
            assert row[name] == (one[name] if isinstance(one[name], str) else pytest.approx(one[name])) or (
                not row[name] and not one[name]
            ), (name, row["cpu_s"])


@pytest.mark.parametrize(
    ("options", "cpu_s"),
    [
        (["--where", "version=1"], 0.02),
        (["--host", "h2", "--where", "service=shop"], 0.111),
        (["--since", "2026-01-03"], 0.0),
        (["--until", "2026-01-03"], 0.131),
    ],
)
def test_traces_are_selected(fleet: Path, run: Any, options: list[str], cpu_s: float) -> None:
    done = run("fleet", "report", "--json", *options, fleet)
    assert (done.json["totals"]["cpu_s"] or 0.0) == pytest.approx(cpu_s, abs=1e-6)
    assert ("No trace is selected" in done.err) == (cpu_s == 0)


def test_functions_memory_leaks_and_stacks(fleet: Path, run: Any) -> None:
    functions = {row["function"]: row for row in run("fleet", "functions", "--json", fleet).json["functions"]}
    assert functions["main"]["cumulative_cpu_s"] == pytest.approx(0.031) and functions["main"]["line"] == 10
    memory = run("fleet", "memory", "--json", "--limit", "1", fleet).json["lines"]
    assert [(row["line"], row["live_at_end_bytes"]) for row in memory] == [(12, 3_000_017)]
    assert run("fleet", "leaks", "--json", fleet).json["leaks"] == []
    stacks = dict(line.rsplit(" ", 1) for line in run("fleet", "flame", fleet).out.splitlines())
    assert stacks[f"work ({APP}:4)"] == "20000" and stacks[f"work ({APP}:31)"] == "50000"
    out = fleet.parent / "stacks.txt"
    assert run("fleet", "flame", "-o", out, fleet).out == "" and out.read_text().count("\n") == len(stacks)
    assert run("fleet", "flame", "-o", fleet / "a.parquet", fleet).code == 2


def test_the_traces_behind_a_line_are_listed_largest_first(fleet: Path, run: Any) -> None:
    traces = run("fleet", "traces", "--json", "--file", APP, fleet).json["traces"]
    assert [(row["path"], round(row["value"], 3)) for row in traces] == [
        ("deep/down/b.parquet", 0.05), ("c.parquet", 0.031), ("a.parquet", 0.02),
    ]  # fmt: skip
    assert traces[0]["labels"] == {"service": "shop", "version": "2"}
    (row,) = run("fleet", "traces", "--json", "--file", APP, "--line", "4", "--host", "h1", fleet).json["traces"]
    assert row["path"] == "a.parquet"
    moved_line = run("fleet", "traces", "--json", "--file", APP, "--line", "31", fleet).json["traces"]
    assert [row["path"] for row in moved_line] == ["deep/down/b.parquet", "a.parquet"], "it was line 4 there"
    (row,) = run("fleet", "traces", "--json", "--unreadable", fleet).json["traces"]
    assert row["path"] == "text.parquet" and "not a Parquet file" in row["reason"]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_command_has_text_and_json(fleet: Path, run: Any, name: str) -> None:
    more = MORE.get(name, [])
    text, document = run("fleet", name, fleet, *more), run("fleet", name, fleet, *more, "--json")
    assert text.code == 0 and text.out, text.err
    assert document.json["schema"] == f"scalene-trace/fleet-{name}/1"
    assert run("fleet", name, fleet / "missing", *more).code == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--sort", "cost"], "Cannot sort by cost"),
        (["report", "--where", "x"], "not a label"),
        (["report", "--since", "soon"], "no time"),
        (["traces", "--line", "3"], "--file"),
        (["sql"], "No SQL"),
    ],
)
def test_wrong_usage_is_explained(fleet: Path, run: Any, arguments: list[str], said: str) -> None:
    done = run("fleet", *arguments, *([] if arguments == ["sql"] else [fleet]))
    assert (done.code, done.out) == (2, "") and said in done.err


# ---- SQL ----

WRITES = "WITH a AS (COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)) SELECT 1"


def test_sql_of_a_user_reads_the_views_and_nothing_else(fleet: Path, run: Any, tmp_path: Path) -> None:
    assert run("fleet", "sql", fleet, "SELECT count(*) AS n FROM fleet_figures", "--json").json["rows"][0]["n"] > 20
    assert "exposure" in run("fleet", "sql", "--schema").out
    (batch,) = layout.batches(fleet)
    before = batch.read_bytes()
    names = [tmp_path / "x", batch, *(f"/proc/self/fd/{number}" for number in range(3, 30))]
    for name in map(str, names):
        assert run("fleet", "sql", fleet, WRITES.format(name)).code == 2
    refused = [
        "SELECT * FROM read_text('/etc/passwd')",
        f"SELECT * FROM '{fleet / 'a.parquet'}'",
        "DROP TABLE fleet_traces",
        "SELECT 1; SELECT 2",
        "ATTACH 'x.db'",
        "SET enable_external_access = true",
        "SELECT * FROM every_trace",
    ]
    for sql in refused:
        assert run("fleet", "sql", fleet, sql).code == 2, sql
    assert batch.read_bytes() == before and list(tmp_path.iterdir()) == []


# ---- what is hostile ----


def test_hostile_text_is_inert(run: Any, tmp_path: Path) -> None:
    builder = rich_builder()
    builder.source(HOSTILE, HOSTILE)
    builder.tick(SECOND, 1, 1, builder.stack((HOSTILE, HOSTILE, 1, 1)), user_ns=90 * MS)
    builder.settings |= {
        "hostname": HOSTILE,
        "command": json.dumps([HOSTILE, "\udcff"]),
        "started_at": "9999-12-31T00:00",
        "labels": json.dumps({"a": HOSTILE[:99]}),
    }
    builder.add("mark", t_ns=SECOND, what="mark", text=HOSTILE)
    written(tmp_path / "a\x1b[31m.parquet", 1, builder)
    (tmp_path / "b\x1b[31m\udcff.parquet").write_text("no trace")
    assert run("fleet", "index", tmp_path).code == 0
    for name in ANSWERS:
        more = MORE.get(name, [])
        for form in ([], ["--json"]):
            done = run("fleet", name, tmp_path, *more, *form)
            is_refused = name in ("diff", "trend", "outliers") and done.code == 2  # there is nothing to compare
            assert done.code == 0 or is_refused, done.err
            assert not any(each in done.out + done.err for each in FORBIDDEN), (name, form)
    for more in (["--unreadable"], ["--file", HOSTILE.replace("\x00", "")], ["--plain"]):
        done = run("fleet", "traces", tmp_path, *more)
        assert done.code == 0 and not any(each in done.out + done.err for each in FORBIDDEN)
    assert run("fleet", "index", "--json", tmp_path).json["known"] == 2


# ---- several indexers, and their ends ----


def test_several_indexers_at_once_make_one_fleet(run: Any, tmp_path: Path) -> None:
    for number in range(6):
        written(tmp_path / f"{number}.parquet", number, moved(3, 2), hostname=f"h{number}")
    command = [
        sys.executable,
        "-c",
        "from scalene_trace.cli.analyze.start import main; main()",
        "fleet",
        "index",
        tmp_path,
    ]
    indexers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(PATIENCE_S) for each in indexers] == [0, 0]
    document = run("fleet", "report", "--json", tmp_path).json
    assert document["fleet"]["traces"] == 6 and document["totals"]["cpu_s"] == pytest.approx(6 * 0.02)


def test_an_indexer_that_is_killed_leaves_nothing_that_is_read(run: Any, tmp_path: Path) -> None:
    small_trace(tmp_path / "a.parquet")
    code = """if True:
        import os, sys
        from pathlib import Path
        from scalene_trace.analyze.fleet.index import index_fleet
        Path.replace = lambda *_: os.kill(os.getpid(), 9)
        index_fleet(Path(sys.argv[1]))"""
    killed = subprocess.run([sys.executable, "-c", code, tmp_path], timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    left = layout.unfinished(tmp_path)
    assert layout.batches(tmp_path) == [] and len(left) == 1
    assert run("fleet", "index", "--json", tmp_path).json["traces"] == 1 and layout.unfinished(tmp_path) == left
    os.utime(left[0], (time.time() - 4000,) * 2)
    run("fleet", "index", tmp_path)
    assert layout.unfinished(tmp_path) == [] and len(layout.batches(tmp_path)) == 1


def test_a_trace_that_changes_while_it_is_read_waits_for_the_next_time(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_trace(tmp_path / "a.parquet")
    real: Callable[..., Any] = indexing.summaries

    def replacing(paths: list[Path]) -> Any:
        yield from real(paths)
        written(path, 7)

    monkeypatch.setattr(indexing, "summaries", lambda paths: iter(list(replacing(paths))))
    assert run("fleet", "index", "--json", tmp_path).json["traces"] == 0
    monkeypatch.undo()
    assert run("fleet", "index", "--json", tmp_path).json["traces"] == 1


@pytest.mark.leaves_spool
def test_what_could_not_be_read_is_read_again_if_asked(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_trace(tmp_path / "a.parquet")
    (tmp_path / "b.parquet.spool").mkdir()
    small_trace(tmp_path / "b.parquet.spool" / "trace.parquet")  # of a recording that is under way
    reason = [Summary(path, {}, {}, "no space", is_passing=True)]
    monkeypatch.setattr(indexing, "summaries", lambda paths: iter(reason))
    done = run("fleet", "index", "--json", tmp_path).json
    assert (done["traces"], done["unreadable"], done["left"], done["batches"]) == (0, 0, 1, 0)
    assert "1 file is left for the next run" in run("fleet", "index", tmp_path).out
    reason[0] = Summary(path, {}, {}, "it is damaged")
    assert "--retry" in run("fleet", "index", tmp_path).out
    monkeypatch.undo()
    assert run("fleet", "index", "--json", tmp_path).json["known"] == 1
    assert run("fleet", "index", "--json", "--retry", tmp_path).json["traces"] == 1
    coverage = run("fleet", "traces", "--json", tmp_path).json["fleet"]
    assert (coverage["traces"], coverage["unreadable"]) == (1, 0)


def test_a_folder_that_cannot_be_written_is_named(run: Any, tmp_path: Path) -> None:
    small_trace(tmp_path / "a.parquet")
    (tmp_path / "_fleet").touch()
    done = run("fleet", "index", tmp_path)
    assert done.code == 3 and "could not be written: Not a directory" in done.err


def test_summaries_stay_when_traces_are_removed(run: Any, tmp_path: Path) -> None:
    small_trace(tmp_path / "a.parquet")
    run("fleet", "index", tmp_path)
    (tmp_path / "a.parquet").unlink()
    assert run("fleet", "index", "--json", tmp_path).json["files"] == 0
    assert run("fleet", "report", "--json", tmp_path).json["fleet"]["traces"] == 1
