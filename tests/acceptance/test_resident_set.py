"""The heap explains the resident set: a program of numpy and pandas with some hundred megabytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, record, report, target

pytestmark = [pytest.mark.samples, pytest.mark.two_interpreters]


def test_the_heap_explains_the_resident_set(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("pandas_program")], python)
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace, command="memory")["reconciliation"]
    assert [each["moment"] for each in found] == ["peak", "end"]
    for each in found:
        parts = {part["name"]: part["bytes"] for part in each["parts"]}
        assert sum(parts.values()) == each["rss_bytes"]
        share = 100 * parts["other"] / each["rss_bytes"]
        figure(f"resident set that is not explained, at the {each['moment']}", python, share, 10, "percent")
        assert abs(share) <= 10
        assert parts["native_malloc"] > 0.5 * each["rss_bytes"], "columns are native memory"
    peak, end = found
    assert end["rss_bytes"] == pytest.approx(done.facts["rss_bytes"], rel=0.05)
    assert peak["rss_bytes"] > 1.1 * end["rss_bytes"]
