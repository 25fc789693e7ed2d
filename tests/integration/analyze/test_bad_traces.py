"""The command line on traces that are damaged, nearly empty or hostile."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS
from scalene_trace.cli.analyze import command as analyze
from scalene_trace.formats.trace import integrity, schema
from tests.support.example_traces import (
    DAMAGED,
    THIN,
    damaged,
    gappy_trace,
    hostile_builder,
    hostile_trace,
    rich_builder,
    small_trace,
    thin_trace,
)
from tests.support.trace_builder import TraceBuilder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "t.parquet")


# ---- bad traces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("command", ["report", "functions", "leaks", "memory", "timeline", "info"])
def test_a_bad_trace_is_refused_by_name(command: str, kind: str, run: Any, tmp_path: Path) -> None:
    path = damaged(kind, tmp_path / "bad.parquet")
    refused = run(command, path)
    assert (refused.code, refused.out) == (3, "")
    assert str(path) in refused.err and "Traceback" not in refused.err
    assert 1 <= refused.err.count(". ") + 1 <= 3


def test_flipped_bytes_are_never_read(run: Any, trace: Path) -> None:
    data = trace.read_bytes()
    draw = random.Random(1_999_993)
    for _ in range(200):
        at = draw.randrange(len(data))
        trace.write_bytes(data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :])
        refused = run(trace)
        assert (refused.code, refused.out) == (3, ""), at
        assert str(trace) in refused.err


def test_a_newer_major_version_is_refused(run: Any, trace: Path) -> None:
    data = trace.read_bytes()
    version = bytes([len(schema.FORMAT_VERSION)]) + schema.FORMAT_VERSION.encode()
    key_at = data.rfind(schema.METADATA_VERSION.encode())
    at = data.index(version, key_at) + 1
    changed = bytearray(data[:at] + b"2" + data[at + 1 :])
    digits_at = changed.rfind(b"scalene_trace.crc32") + len("scalene_trace.crc32") + 2
    changed[digits_at : digits_at + 8] = integrity.PLACEHOLDER
    trace.write_bytes(changed)
    with trace.open("r+b") as file:
        integrity.seal(file.fileno())
    refused = run(trace)
    assert refused.code == 3
    assert "trace format 2." in refused.err and "Update" in refused.err


@pytest.mark.parametrize("kind", ["process", "thread", "stack", "location", "module"])
def test_two_rows_with_one_id_are_damage(kind: str, run: Any, tmp_path: Path) -> None:
    builder = rich_builder()
    builder.rows[kind].append(dict(builder.rows[kind][0]))
    good, bad = rich_builder().write(tmp_path / "good.parquet"), builder.write(tmp_path / "bad.parquet")
    assert run("info", good).code == 0
    refused = run("report", good, bad)
    assert (refused.code, refused.out) == (3, "")
    assert f"{bad} is damaged: several of its rows of the kind {kind} have the id 1" in refused.err


# ---- thin traces -----------------------------------------------------------------------------------------------------

#: Commands that take traces alone and print a table.
TABLES = {"report", "functions", "leaks", "memory", "timeline", "threads", "libraries", "processes", "info"}


@pytest.mark.parametrize("kind", THIN)
@pytest.mark.parametrize("command", [name for name in analyze.COMMANDS if name in TABLES])
def test_a_thin_trace_is_answered_sensibly(command: str, kind: str, run: Any, tmp_path: Path) -> None:
    path = thin_trace(kind, tmp_path / "t.parquet")
    text, document = run(command, path), run(command, "--json", path)
    assert (text.code, text.err) == (0, "")
    assert text.out.strip()
    assert document.json["schema"] == f"scalene-trace/{command}/1"
    if command == "report" and kind.startswith("no"):
        assert "no samples" in text.out


# ---- values that are missing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("build", "seed"), [(rich_builder, 1), (hostile_builder, 3)])
def test_missing_values_end_no_command(build: Callable[[], TraceBuilder], seed: int, run: Any, tmp_path: Path) -> None:
    path, other = (gappy_trace(build(), seed + n, tmp_path / f"{n}.parquet") for n in range(2))
    asked = [[command, path] for command in sorted(TABLES)] + [["report", path, other]]
    asked += [["export", "--format", name, path, "-o", tmp_path / name] for name in FORMATS]
    asked += [["html", path, "-o", tmp_path / "report.html"], ["diff", path, path]]
    for arguments in asked:
        ran = run(*arguments)
        assert ran.code == 0, (arguments, ran.err)


# ---- hostile text ----------------------------------------------------------------------------------------------------


def test_a_hostile_file_name_is_inert(run: Any, tmp_path: Path) -> None:
    path = small_trace(tmp_path / "t.parquet").rename(tmp_path / "\x1b[31m\udcff.parquet")
    assert "\x1b" not in run(path).out
    assert "\x1b" not in run(tmp_path / "\x1b[31mmissing").err


def test_an_error_of_duckdb_does_not_print_what_is_in_the_trace(run: Any, tmp_path: Path) -> None:
    path = hostile_trace(tmp_path / "t.parquet")
    refused = run("sql", path, "SELECT value::INTEGER FROM settings WHERE name = 'hostname'")
    assert refused.code == 2
    assert "\x1b" not in refused.err and "\x00" not in refused.err
