"""A command that needs more memory than it may take says so; so does an export that would be too large."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.shared import size
from scalene_trace.analyze.report import report
from scalene_trace.analyze.trace import memory, traces
from scalene_trace.formats import cgroups
from tests.support.example_traces import rich_trace
from tests.support.trace_builder import write_large_trace

MIB = 1 << 20


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return rich_trace(tmp_path / "t.parquet")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large_trace(tmp_path_factory.mktemp("large") / "t.parquet", ticks=20_000, allocations=1_000)


def limit(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    monkeypatch.setattr(memory, "limit_bytes", lambda threads=None: size_bytes)


@pytest.mark.parametrize("command", ["report", "html"])
def test_a_command_beyond_the_limit_says_what_to_do(
    command: str, run: Any, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 1 * MIB)
    refused = run(command, large, *(["-o", tmp_path / "page.html"] if command == "html" else []))
    assert (refused.code, refused.out) == (3, "")
    assert "Cannot answer: this takes more than" in refused.err and "--from" in refused.err


def test_sql_of_a_user_is_limited_too(run: Any, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 30 * MIB)
    refused = run("sql", trace, "SELECT count(DISTINCT range) FROM range(10000000)")
    assert refused.code == 3 and "Cannot answer: this takes more than 31 MB of memory" in refused.err


def test_where_python_has_no_memory_the_sentence_is_the_same(
    run: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(report, "sums_of", fail)
    refused = run("report", trace)
    assert refused.code == 3 and "more memory than is available" in refused.err


@pytest.mark.parametrize(
    ("groups", "limited"),
    [
        ("0::/user.slice/run.scope\n", "user.slice/run.scope/memory.max"),
        ("0::/user.slice/run.scope\n", "user.slice/memory.max"),
        ("4:cpu,memory:/a/b\n0::/\n", "memory/a/b/memory.limit_in_bytes"),
        ("4:memory:/outside/of/what/is/mounted\n", "memory/memory.limit_in_bytes"),
        ("0::/../../elsewhere\n", "memory.max"),
        ("", "memory.max"),
        (None, "memory/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_each_control_group_above_holds(
    groups: str | None, limited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "groups"
    monkeypatch.setattr(memory, "_cores", lambda: 4)
    monkeypatch.setattr(cgroups, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "_MOUNTED", root)
    if groups is not None:
        (tmp_path / "cgroup").write_bytes(b"0::/\xff\n" + groups.encode())
    (root / limited).parent.mkdir(parents=True, exist_ok=True)
    (root / "memory.max").write_text("max\n")
    (root / limited).write_text(f"{1000 * MIB}\n")
    assert memory.limit_bytes() == memory.limit_bytes(8) == 600 * MIB
    assert memory.limit_bytes(1) == 150 * MIB
    (root / limited).write_text(f"{10 * MIB}\n")
    assert memory.limit_bytes() == memory.LEAST_BYTES


@pytest.mark.parametrize("name", ["collapsed", "speedscope", "chrome"])
def test_an_export_that_repeats_stacks_is_limited(
    name: str, run: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "MOST_BYTES", 10)
    refused = run("export", "--format", name, trace, "-o", tmp_path / "out")
    assert refused.code == 3 and f"Cannot export in the format {name}" in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("limit", "cores", "threads"), [(128 << 20, 8, 1), (600 << 20, 8, 2), (64 << 30, 8, 4), (64 << 30, 1, 1)]
)
def test_a_report_has_as_many_threads_as_cores_and_memory_allow(
    limit: int, cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setattr(memory, "limit_bytes", lambda: limit)
    assert traces._threads_of_a_report() == threads
