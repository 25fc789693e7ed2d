"""Copy volume: loops that copy a known number of bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, line_of, lines_of, record, report, target


def test_a_known_volume_is_on_its_line(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("copies")], python)
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace)
    lines = lines_of(found, target("copies"))
    for mark, volume in done.facts.items():
        row = lines[line_of("copies", mark)]
        error = 100 * (row["copy_bytes"] / volume - 1)
        figure(f"copy volume of {mark}", python, error, 5, "percent")
        assert abs(error) <= 5
        assert row["copy_bytes_per_s"] > 0
    assert found["totals"]["copy_bytes"] == pytest.approx(sum(done.facts.values()), rel=0.03)


def test_a_threshold_of_its_own_makes_more_samples(any_python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("copies")], any_python, ["--copy-threshold", "1MB"])
    found = report(done.trace)
    assert found["totals"]["copy_bytes"] == pytest.approx(sum(done.facts.values()), rel=0.01)
    assert found["traces"][0]["events"]["copy"] >= 5 * 400


def test_without_copies_the_columns_are_null(any_python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("copies")], any_python, ["--no-copy"])
    found = report(done.trace)
    assert found["totals"]["copy_bytes"] is None
    assert all(row["copy_bytes"] is None and row["copy_bytes_per_s"] is None for row in found["lines"])
    assert found["totals"]["alloc_bytes"] > 0
