"""Time that is unclassified is a class of its own wherever the others are: in texts, exports, comparisons and budgets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.check.budget import read_budget
from scalene_trace.analyze.check.check import build_check
from scalene_trace.analyze.diff.compare import Asked, compare, read_sides
from scalene_trace.analyze.diff.gates import parsed
from scalene_trace.analyze.exports.chrome import chrome
from scalene_trace.analyze.exports.pprof import pprof
from scalene_trace.analyze.exports.scalene import scalene
from scalene_trace.analyze.exports.shared.profile import read_profile
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.report.threads import build_threads
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.diff import diff_text
from scalene_trace.cli.render.report.report import report_text
from scalene_trace.cli.render.text import Screen
from scalene_trace.cli.render.threads import threads_text
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
OPEN: dict[str, Any] = {"pc_class": "interpreter", "opcode": None}
WHOLE = Selection()


def trace(path: Path, python: int = 10, native: int = 10, unclassified: int = 20, **columns: Any) -> Path:
    """A line with so many ticks of each class, half a second later each."""
    builder = TraceBuilder()
    builder.settings |= {"features": '["cpu"]', "wall_ns": str(10 * SECOND)}
    process = builder.process(end_ns=10 * SECOND, free_threaded=columns.pop("free_threaded", None))
    thread = builder.thread(process, columns.pop("cpu_ns", (python + native + unclassified) * 10 * MS))
    stack = builder.stack((APP, "main", 1, 2))
    for kind, (count, facts) in enumerate(((python, {}), (native, {"pc_class": "extension"}), (unclassified, OPEN))):
        for number in range(count):
            builder.tick(kind * SECOND + number * 10 * MS, process, thread, stack, **facts, **columns)
    return builder.write(path)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A quarter is Python's, a quarter native, half of it is unclassified."""
    return trace(tmp_path / "t.parquet")


def test_counters_have_the_class_in_each_value_or_in_none(half: Path, tmp_path: Path) -> None:
    """A counter keeps its value until the next one, so that a part that is missing would stay."""
    for path, names in ((half, {"python", "native", "unclassified", "system"}), (None, {"python", "native", "system"})):
        document = json.loads(chrome([path or trace(tmp_path / "u.parquet", unclassified=0)], WHOLE))
        values = [each["args"] for each in document["traceEvents"] if each["name"] == "CPUs in use"]
        assert len(values) > 3 and {frozenset(each) for each in values} == {frozenset(names)}
    assert set(values[-1].values()) == {0}


def test_scalenes_lines_and_stacks_have_all_of_the_time(half: Path) -> None:
    document = json.loads(scalene([half], WHOLE))
    (line,) = [each for each in document["files"][APP]["lines"] if each["lineno"] == 2]
    assert (line["n_cpu_percent_python"], line["n_cpu_percent_c"]) == pytest.approx((25, 75))
    (stack,) = document["stacks"]
    assert (stack[1]["python_time"], stack[1]["c_time"]) == pytest.approx((0.1, 0.3))


def test_pprof_has_a_column_where_there_is_such_time(half: Path, tmp_path: Path) -> None:
    paths = half, trace(tmp_path / "u.parquet", unclassified=0)
    found = [b"cpu_unclassified" in gzip.decompress(pprof(read_profile([path], WHOLE))) for path in paths]
    assert found == [True, False]


def test_a_comparison_shows_it_and_has_a_condition(half: Path, tmp_path: Path) -> None:
    after = trace(tmp_path / "u.parquet", python=30, unclassified=2)
    asked = Asked(gates=(parsed("unclassified>+1s"), parsed("unclassified>-50%")))
    diff = compare(*read_sides([after], [half], asked), asked)
    change = diff.totals["unclassified_s"]
    assert change is not None and (change.before, change.after) == pytest.approx((0.02, 0.2))
    assert [each.failed for each in diff.gates] == [False, True]
    lines = list(diff_text(diff, Screen(width=80)))
    table = lines[lines.index(next(line for line in lines if line.startswith("all of it"))) :][:6]
    assert table[5].split()[:3] == ["unclassified", "20", "ms"] and max(map(len, table)) <= 80
    assert all(line[24] != " " and line[25] == " " for line in table), "the figures are aligned"


@pytest.mark.parametrize(("limit", "passed"), [("51 %", True), ("49 %", False), ("150 ms", False)])
def test_a_budget_can_limit_it(limit: str, passed: bool, half: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text(f'[total]\nunclassified = "{limit}"')
    (row,) = build_check([half], read_budget(budget), WHOLE, {}).rows
    assert row.passed is passed and row.name == "unclassified"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_text_has_it_in_totals_bars_and_legend(width: int, half: Path) -> None:
    lines = list(report_text(build_report([half], WHOLE), Screen(width=width)))
    (totals,) = [line for line in lines if line.startswith("CPU  ")]
    below = lines[lines.index(totals) + 1]
    if width < 110:
        assert "Python 25 %  native 25 %  system 0 %" in totals and below == " " * 20 + "unclassified 50 %"
    else:
        assert "Python 25 %  native 25 %  unclassified 50 %  system 0 %" in totals and "unclassified" not in below
    assert all(len(line) <= width for line in lines if line[:4].strip() in ("CPU", "2"))
    row = next(line for line in lines if line.startswith("     2 "))
    assert row.count("?") > row.count("▓") > 0 or width == 60
    text = " ".join(" ".join(lines).split())
    assert "? unclassified (it is unknown which of these two; the losses say why), ░ kernel" in text
    assert ("25.0 25.0 50.0 0.0" in " ".join(row.split())) is (width == 200)
    assert "half of it unclassified (Python or native)." in text


def test_threads_have_a_column_for_it(half: Path, tmp_path: Path) -> None:
    shown = [list(threads_text(build_threads([path], WHOLE, {"sort": None, "limit": None}), Screen())) for path in
             (half, trace(tmp_path / "u.parquet", unclassified=0))]  # fmt: skip
    assert "native  unclassified  system" in shown[0][-2] and "100 ms        200 ms    0 ms" in shown[0][-1]
    assert "unclassified" not in shown[1][-2]


@pytest.mark.parametrize(("unclassified", "said"), [(1, "unclassified <1 %"), (0, "")])
def test_a_little_of_it_is_not_rounded_away(unclassified: int, said: str, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.parquet", python=999, native=0, unclassified=unclassified)
    (totals,) = [line for line in report_text(build_report([path], WHOLE), Screen()) if line.startswith("CPU  ")]
    assert "Python 100 %" in totals and said in totals and ("unclassified" in totals) is bool(said)


def test_free_threaded_interpreters_have_no_split(tmp_path: Path) -> None:
    """The rules have not been tested with them. Without a GIL, the other builds' figures stay as they are."""
    free = build_report([trace(tmp_path / "t.parquet", free_threaded=True)], WHOLE).totals
    assert (free.python_s, free.native_s, free.unclassified_s) == (0, 0, pytest.approx(0.4))
    other = build_report([trace(tmp_path / "u.parquet", free_threaded=False)], WHOLE).totals
    assert (other.python_s, other.native_s) == pytest.approx((0.1, 0.1))
    text = " ".join(report_text(build_report([tmp_path / "t.parquet"], WHOLE), Screen()))
    assert "Python 0 %  native 0 %  unclassified 100 %" in text
    library = trace(tmp_path / "v.parquet", free_threaded=True, has_python=False)
    assert build_report([library], WHOLE).totals.native_s == pytest.approx(0.4), "a thread that runs no Python"


def test_rounding_leaves_nothing_of_it_to_python(tmp_path: Path) -> None:
    """Without a tick of Python's code, its time is exactly 0, by whatever the ticks are scaled."""
    for exact_ns in range(299_999_900, 300_000_000, 13):
        path = trace(tmp_path / "t.parquet", python=0, native=7, unclassified=16, user_ns=9_999_991, cpu_ns=exact_ns)
        (line,) = build_report([path], WHOLE).lines
        assert line.python_s == 0 and line.cpu_s == line.native_s + line.unclassified_s, exact_ns  # type: ignore[operator]


def test_it_has_no_other_ticks_where_the_module_is_unknown(tmp_path: Path) -> None:
    """Neither those in the bytecode loop, nor those whose opcode and call have to be looked at."""
    builder = TraceBuilder()
    thread = builder.thread(process := builder.process(end_ns=SECOND), 600 * MS)
    stack = builder.stack((APP, "main", 1, 2))
    facts = [{"opcode": None}, {"pc_class": "interpreter", "opcode": "CALL"}, {"pc_class": "unread"}, OPEN, {}, {}]
    for number in range(60):
        builder.tick(number * 10 * MS, process, thread, stack, **facts[number % 6])
    totals = build_report([builder.write(tmp_path / "t.parquet")], WHOLE).totals
    assert (totals.unclassified_s, totals.python_s) == pytest.approx((0.2, 0.4))
