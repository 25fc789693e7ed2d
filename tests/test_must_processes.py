"""Process trees: every process is in the trace, with its CPU time."""

from __future__ import annotations

from pathlib import Path

import pytest

from interpreters import Interpreter
from recording import figure, record, report, rows, target, total

TREES = ("fork", "pool-fork", "pool-spawn", "subprocess", "exec")
CAUSES = {"fork": "fork", "pool-fork": "fork", "pool-spawn": "spawn", "subprocess": "spawn", "exec": "exec"}


@pytest.mark.parametrize("how", TREES)
def test_every_process_of_a_tree_is_in_the_trace(how: str, python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("tree"), how, "0.6"], python, ["--cpu-interval", "400us"])
    assert done.status == 0, done.stderr.decode()
    found, path = report(trace), str(target("tree"))
    processes = rows(trace, "process")
    assert {each["pid"] for each in done.facts} <= {row["pid"] for row in processes}
    assert CAUSES[how] in {row["cause"] for row in processes} and "root" in {row["cause"] for row in processes}
    assert found["traces"][0]["processes"] == len(processes)
    work_s = total([row for row in found["functions"] if row["file"] == path and row["function"] == "work"], "cpu_s")
    ratio = work_s / sum(each["work_s"] for each in done.facts)
    figure(f"CPU time of a process tree, {how}", python, 100 * (ratio - 1), 3, "percent")
    assert ratio == pytest.approx(1, abs=0.03)


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
