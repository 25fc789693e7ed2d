"""Every way into C code: calls of builtins and types in C are native, and calls of Python classes are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, hold, native_percent, record, report, target
from tests.support.stopwatch import cases_of
from tests.support.target_environments import interpreters_and_distribution, recorded_interpreters

pytestmark = [pytest.mark.measures_busy]

#: Of each case: seconds, and ticks that are enough.
SECONDS, ENOUGH_TICKS = 0.15, 100
#: Points between the split and the stopwatch. With 500 ticks, five standard errors are at most 11.
MOST_OFF = 12
#: What is known to differ on Debian's 3.15, whose file does not name its functions: native percentages of callbacks there
#: (docs/design/attribution.md).
UNNAMED, MOST_UNNAMED = "3.15", 75
#: Native percentage of calls of Python classes and functions.
MOST_NATIVE = 15
#: Native percentages of C functions that call Python functions. Linux's profiler finds 26 to 43 in the C function itself;
#: the rest is the making and clearing of frames, and the Python functions.
CALLBACKS, WIDEST = (25, 62), 20


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if number % 2 else [])
        for number, each in enumerate(recorded_interpreters())
    ],
)
def test_calls_are_native_if_what_they_call_is(each: Interpreter, tmp_path: Path) -> None:
    """The cases are generated, and both forms of each are called; several interpreters (`make stress`: all), since each
    calls in its own way."""
    options = ["--cpu-interval", "250us", "--no-memory", "--no-wait"]
    done = record(tmp_path / "t.parquet", [target("calls"), str(SECONDS)], each, options)
    rows = {row["function"]: row for row in report(done.trace)["functions"] if row["file"] == str(target("calls"))}
    assert len(done.facts) > 70, "fewer cases than the builtins have"
    assert {"c_int_plain", "c_min_plain", "c_collections_deque_plain", "c_partial_min_unpacked"} <= done.facts.keys()
    assert all(rows[name]["ticks"] >= ENOUGH_TICKS for name in done.facts)
    of_c = {name: share for name, share in done.facts.items() if name.startswith("c_")}
    of_c = {case.case: case.error for case in cases_of(each.name, of_c, rows)}
    of_python = {
        name: native_percent(rows[name]) - share for name, share in done.facts.items() if name.startswith("py_")
    }
    figure("split error, calls of C code, largest", each, max(of_c.values(), key=abs), MOST_OFF, "points")
    figure("native share, calls of Python classes, largest", each, max(of_python.values()), MOST_NATIVE, "%")
    hold(of_c, MOST_OFF)
    hold(of_python, MOST_NATIVE)


@pytest.fixture(scope="module")
def python_calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Native percentages of the functions of the target, by interpreter."""
    found = {}
    for each in recorded_interpreters():
        trace = tmp_path_factory.mktemp("calls") / "t.parquet"
        options = ["--cpu-interval", "250us", "--no-memory", "--no-wait"]
        done = record(trace, [target("python_calls"), "0.4"], each, options)
        rows = [row for row in report(done.trace)["functions"] if row["file"] == str(target("python_calls"))]
        found[each.name] = {
            row["function"].rpartition(".")[2]: native_percent(row) for row in rows if row["cpu_s"] > 0.05
        }
    return found


def test_calls_of_python_functions_are_pythons(python_calls: dict[str, dict[str, float]]) -> None:
    for name, percents in python_calls.items():
        names = {"calls_unpacked", "calls_with_keywords", "wrapper", "calls_instance", "indexes_instance"}
        assert names <= percents.keys(), name
        hold({each: percents[each] for each in names}, MOST_NATIVE)


def test_callbacks_count_alike_on_all_interpreters(python_calls: dict[str, dict[str, float]]) -> None:
    for case in ("maps_lambda", "sorts_with_lambda", "filters_with_lambda"):
        percents = [each[case] for name, each in python_calls.items() if name != UNNAMED]
        assert all(CALLBACKS[0] < each < CALLBACKS[1] for each in percents), (case, percents)
        assert not percents or max(percents) - min(percents) < WIDEST, (case, percents)
        unnamed = [each[case] for name, each in python_calls.items() if name == UNNAMED]
        assert all(CALLBACKS[0] < each < MOST_UNNAMED for each in unnamed), (case, unnamed)


BOUND = """
import time, types
class Own:
    def __enter__(self): return self
    def __exit__(self, *exc): pass
ints, zeros, own = tuple(range(20000)), (0,) * 100000, Own()
largest, sum_of, any_of, length_of = (
    types.MethodType(*each) for each in ((max, ints), (sum, ints), (any, zeros), (len, ints)))
def until(cpu_s=0.12): return time.thread_time() + cpu_s
def bound_max():
    end = until()
    while time.thread_time() < end: largest(*())
def bound_sum():
    end = until()
    while time.thread_time() < end: sum_of(*())
def bound_any():
    end = until()
    while time.thread_time() < end: any_of(*())
def bound_len():
    end = until(0.3)
    while time.thread_time() < end:
        for _ in range(1000): length_of(*())
def with_own():
    end = until()
    while time.thread_time() < end:
        for _ in range(1000):
            with own: pass
for each in (bound_max, bound_sum, bound_any, bound_len, with_own): each()
"""


@pytest.mark.parametrize("python", interpreters_and_distribution())
def test_bound_methods_are_native_if_their_functions_are(python: str, tmp_path: Path) -> None:
    """A method that is bound by hand may have a function written in C: ``types.MethodType(max, ints)``."""
    options = ["--python", python, "--cpu-interval", "250us", "--no-memory", "--no-wait"]
    record(tmp_path / "t.parquet", ["-c", BOUND], options=options)
    functions = {row["function"]: row for row in report(tmp_path / "t.parquet")["functions"]}
    names = ("bound_max", "bound_sum", "bound_any", "bound_len", "with_own")
    found = {name: native_percent(functions[name]) for name in names}
    assert min(found[name] for name in ("bound_max", "bound_sum", "bound_any")) > 80, found
    assert found["bound_len"] > 20, found  # the loop, and the work of making the call, is about a half of it
    assert found["with_own"] < MOST_NATIVE, found
