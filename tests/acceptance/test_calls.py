"""Every way into C code: calls of builtins and types in C are native, and calls of Python classes are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, hold, native_percent, record, report, target
from tests.support.target_environments import recorded_interpreters

pytestmark = [pytest.mark.measures_busy]

#: Of each case: seconds, and ticks that are enough.
SECONDS, ENOUGH_TICKS = 0.15, 100
#: Points between the split and the stopwatch. With 500 ticks, five standard errors are at most 11.
MOST_OFF = 12
#: Native percentage of calls of Python classes, by version; at least 49 where what is called is not known. On 3.10 and 3.13,
#: the work of _PyObject_MakeTpCall itself counts as native.
MOST_NATIVE = {(3, 10): 35, (3, 11): 30, (3, 12): 30, (3, 13): 50}


@pytest.mark.parametrize("each", recorded_interpreters(), ids=lambda each: each.name)
def test_calls_are_native_if_what_they_call_is(each: Interpreter, tmp_path: Path) -> None:
    """The cases are generated, and both forms of each are called; all interpreters, since each calls in its own way."""
    options = ["--cpu-interval", "250us", "--no-memory", "--no-wait"]
    done = record(tmp_path / "t.parquet", [target("calls"), str(SECONDS)], each, options)
    rows = {row["function"]: row for row in report(done.trace)["functions"] if row["file"] == str(target("calls"))}
    assert len(done.facts) > 70, "fewer cases than the builtins have"
    assert {"c_int_plain", "c_min_plain", "c_collections_deque_plain", "c_partial_min_unpacked"} <= done.facts.keys()
    assert all(rows[name]["ticks"] >= ENOUGH_TICKS for name in done.facts)
    off = {name: native_percent(rows[name]) - share for name, share in done.facts.items()}
    of_c = {name: error for name, error in off.items() if name.startswith("c_")}
    of_python = {name: error for name, error in off.items() if name.startswith("py_")}
    most_native = MOST_NATIVE[each.version[:2]]
    figure("split error, calls of C code, largest", each, max(of_c.values(), key=abs), MOST_OFF, "points")
    figure("native share, calls of Python classes, largest", each, max(of_python.values()), most_native, "%")
    hold(of_c, MOST_OFF)
    hold(of_python, most_native)
