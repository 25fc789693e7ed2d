"""Process trees: every process is in the trace, with its CPU time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import Json, figure, hold_median, record, report, rows, target, total

#: How the processes are started, and the cause that some of them must have.
CAUSES = {
    "fork": "fork",
    "pool-fork": "fork",
    "pool-spawn": "spawn",
    "pool-forkserver": "spawn",
    "futures": "fork",
    "subprocess": "spawn",
    "shell": "spawn",
    "daemon": "fork",
    "exec": "exec",
}
TREES = tuple(CAUSES)


def tree_error(how: str, python: Interpreter, trace: Path, work_s: float = 0.4) -> float:
    """Records a tree and holds its processes; the error of its CPU time, in percent."""
    done = record(trace, [target("tree"), how, str(work_s)], python, ["--cpu-interval", "200us"])
    assert done.status == 0, done.stderr.decode()
    found, path = report(trace), str(target("tree"))
    processes = rows(trace, "process")
    assert {each["pid"] for each in done.facts} <= {row["pid"] for row in processes}
    assert CAUSES[how] in {row["cause"] for row in processes} and "root" in {row["cause"] for row in processes}
    assert found["traces"][0]["processes"] == len(processes)
    found_s = total([row for row in found["functions"] if row["file"] == path and row["function"] == "work"], "cpu_s")
    error = 100 * (found_s / sum(each["work_s"] for each in done.facts) - 1)
    figure(f"CPU time of a process tree, {how}", python, error, 3, "percent")
    return error


@pytest.mark.samples
@pytest.mark.parametrize("how", TREES)
def test_every_process_of_a_tree_is_in_the_trace(how: str, python: Interpreter, tmp_path: Path) -> None:
    hold_median(lambda trace: {how: tree_error(how, python, trace)}, tmp_path, 3)


@pytest.mark.parametrize("how", TREES)
def test_every_process_of_a_tree_is_known_with_its_cause(how: str, any_python: Interpreter, tmp_path: Path) -> None:
    tree_error(
        how, any_python, tmp_path / "t.parquet", 0.1
    )  # holds the processes; the error of their time is not held here


def test_without_children_only_the_first_process_is_recorded(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("tree"), "fork", "0.1"], any_python, ["--no-children"])
    assert done.status == 0 and len(done.facts) == 4
    assert len(rows(trace, "process")) == 1


def test_children_of_a_shell_script_are_recorded(python: Interpreter, tmp_path: Path) -> None:
    script, trace = tmp_path / "start.sh", tmp_path / "t.parquet"
    script.write_text(f"#!/bin/sh\n'{python.path}' -c 'print(sum(range(10**6)))'\nexec '{python.path}' -c 'print(2)'\n")
    script.chmod(0o755)
    done = record(trace, [script])
    assert (done.status, done.stdout) == (0, b"499999500000\n2\n")
    versions = [row["python_version"] for row in rows(trace, "process")]
    assert sum(version is not None and version.startswith(python.name) for version in versions) == 2


def tree(trace: Path) -> dict[int, Json]:
    """The rows of ``scalene-analyze processes`` by id; parents come before their children."""
    found: dict[int, Json] = {}
    for row in report(trace, command="processes")["processes"]:
        assert row["depth"] == (found[row["parent"]]["depth"] + 1 if row["parent"] in found else 0)
        found[row["process"]] = row
    return found


def lineage(found: dict[int, Json], row: Json) -> list[str]:
    """The causes of a process and of what it comes from, up to the root."""
    causes = [row["cause"]]
    while row["parent"] is not None:
        row = found[row["parent"]]
        causes.append(row["cause"])
    return causes


@pytest.mark.parametrize(
    ("how", "causes"),
    [
        ("daemon", ["fork", "fork", "root"]),
        ("shell", ["exec", "fork", "spawn", "root"]),
        ("exec", ["exec", "root"]),
        ("pool-forkserver", ["fork", "spawn", "root"]),
    ],
)
def test_the_tree_says_who_started_whom(how: str, causes: list[str], any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("tree"), how, "0.2"], any_python)
    assert done.status == 0, done.stderr.decode()
    found = tree(trace)
    root = next(iter(found.values()))
    assert (root["parent"], root["depth"], root["cause"]) == (None, 0, "root")
    deepest = max(found.values(), key=lambda row: row["depth"])
    assert lineage(found, deepest) == causes
    for row in found.values():
        parts = sum(row[name] for name in ("python_s", "native_s", "system_s"))
        assert parts == pytest.approx(row["cpu_s"], abs=0.2)


def test_a_process_is_selected_by_its_id(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert record(trace, [target("tree"), "fork", "0.3"], any_python).status == 0
    whole, parts = report(trace)["totals"]["cpu_s"], tree(trace)
    alone = [report(trace, "--process", str(each))["totals"]["cpu_s"] for each in parts]
    assert len(alone) == 4 and sum(alone) == pytest.approx(whole)
    assert max(alone) < 0.9 * whole
    only = report(trace, "--process", "2", command="processes")["processes"]
    assert [row["process"] for row in only] == [2]


@pytest.mark.samples
@pytest.mark.parametrize(("how", "factor"), [("together", 2), ("in turn", 1)])
def test_the_peak_of_a_tree_is_that_of_the_sum(how: str, factor: int, any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("peaks"), how, "199999991"], any_python)
    assert done.status == 0, done.stderr.decode()
    totals, rows = report(trace)["totals"], tree(trace).values()
    assert totals["peak_bytes"] == pytest.approx(factor * 200e6, rel=0.15)
    assert totals["peak_rss_bytes"] == pytest.approx(factor * 200e6, rel=0.4)
    assert sum(row["peak_bytes"] for row in rows) > 400e6


def test_without_children_a_whole_tree_leaves_one_process(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    for how in ("shell", "pool-spawn", "daemon"):
        done = record(trace, [target("tree"), how, "0.1"], any_python, ["--no-children"])
        assert done.status == 0, done.stderr.decode()
        assert len(tree(trace)) == 1
        trace.unlink()
