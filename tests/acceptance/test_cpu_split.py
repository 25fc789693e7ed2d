"""The split of CPU time into Python and native code, compared with programs that measure it themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import (
    Finished,
    Json,
    Recording,
    bare,
    figure,
    hold,
    line_of,
    lines_of,
    losses,
    native_percent,
    record,
    report,
    target,
    total,
)
from tests.support.target_environments import recorded_interpreters

pytestmark = pytest.mark.measures_busy

KINDS = ("zlib", "hashlib", "sorted", "numpy")
LENGTHS_US = (20, 200, 2000, 20000)
PHASES_MS = (0, 1, 2, 3)
ENOUGH_TICKS = 2400


def function_row(found: Json, name: str, path: object) -> Json:
    """The row of the function ``name`` of the target at ``path``."""
    rows = [row for row in found["functions"] if row["function"] == name and row["file"] == str(path)]
    assert len(rows) == 1, f"{len(rows)} functions called {name}"
    row: Json = rows[0]
    return row


#: Freed memory stays in the process: sorted() would else spend time in the kernel, faulting in its list each time.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


#: Seconds and interval of each cell. Where pieces are shorter than the interval, ticks fall like dice: 10,000 of them
#: have a standard error of 0.5 points. Long pieces are sampled evenly, and suffer more from what a tick itself costs.
SHORT, LONG = ("2.2", "250us"), ("3", "400us")


#: A third of the cells, every length and every interpreter among them; the long tests have the others.
CELLS = [
    pytest.param((python, length), id=f"{python.name}-{length}", marks=[pytest.mark.long] if (row + column) % 3 else [])
    for row, python in enumerate(recorded_interpreters())
    for column, length in enumerate(LENGTHS_US)
]


@pytest.fixture(scope="module", params=CELLS)
def cell(request: pytest.FixtureRequest) -> tuple[Interpreter, int]:
    found: tuple[Interpreter, int] = request.param
    return found


@pytest.fixture(scope="module")
def halves(cell: tuple[Interpreter, int], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, float], Json]:
    """What the program's stopwatch says and what the report says, for all kinds at one piece length."""
    python, length_us = cell
    trace = tmp_path_factory.mktemp("halves") / "t.parquet"
    seconds, interval = SHORT if length_us <= 200 else LONG
    cells = [f"{kind}_{length_us}us" for kind in KINDS]
    done = record(trace, [target("halves"), seconds, *cells], python, ["--cpu-interval", interval], KEEP_MEMORY)
    assert done.status == 0, done.stderr.decode()
    return done.facts, report(trace)


@pytest.mark.parametrize("kind", KINDS)
def test_half_python_half_native_is_within_two_points(
    kind: str, cell: tuple[Interpreter, int], halves: tuple[dict[str, float], Json]
) -> None:
    (python, length_us), (watch, found) = cell, halves
    name = f"{kind}_{length_us}us"
    row = function_row(found, name, target("halves"))
    assert row["ticks"] >= ENOUGH_TICKS
    error = native_percent(row) - watch[name]
    figure(f"split error, {kind}, pieces of {length_us} us", python, error, 2, "points")
    hold({name: error}, 2)


@pytest.mark.parametrize("each", recorded_interpreters(), ids=lambda each: each.name)
def test_c_functions_of_the_older_calling_conventions_are_native(each: Interpreter, tmp_path: Path) -> None:
    """``min`` takes a tuple of arguments, so some interpreters call it the way they call classes: not drawn, but all."""
    done = record(
        tmp_path / "t.parquet", [target("halves"), "2.2", "min_200us"], each, ["--cpu-interval", "250us"], KEEP_MEMORY
    )
    row = function_row(report(done.trace), "min_200us", target("halves"))
    assert row["ticks"] >= ENOUGH_TICKS
    error = native_percent(row) - done.facts["min_200us"]
    figure("split error, min, pieces of 200 us", each, error, 2, "points")
    hold({"min": error}, 2)


def test_a_50_hz_loop_reads_half_at_every_phase(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("loop50"), "4"], python, ["--cpu-interval", "250us"])
    found, errors = report(done.trace), {}
    for phase_ms in PHASES_MS:
        row = function_row(found, f"phase_{phase_ms}ms", target("loop50"))
        assert row["ticks"] >= ENOUGH_TICKS
        errors[f"{phase_ms} ms"] = error = native_percent(row) - done.facts[f"phase_{phase_ms}ms"]
        figure(f"split error, 50 Hz loop, phase {phase_ms} ms", python, error, 3, "points")
    assert "engine_posix" not in losses(found)
    hold(errors, 3)


def test_without_perf_events_the_losses_say_so(python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = tmp_path_factory.mktemp("posix") / "t.parquet"
    assert record(trace, [target("loop50"), "0.2"], python, ["--cpu-engine", "posix"]).status == 0
    row = next(row for row in report(trace)["traces"][0]["losses"] if row["name"] == "engine_posix")
    assert row["severity"] == "info" and row["count"] >= 1 and "tick" in row["text"]


def pure(python: Interpreter, trace: Path, part: str) -> Json:
    """The report on a part of the pure Python program, memory hooks on."""
    done = record(trace, [target("pure_python"), "1", part], python, ["--cpu-interval", "300us"])
    assert done.status == 0, done.stderr.decode()
    return report(trace)


#: Program: the functions that it is made of. Each has its time on its marked line and the loop (or def) above it;
#: building dicts also where the loop's last dict is freed.
PURE = {
    "arithmetic": ("arithmetic",),
    "floats": ("floats",),
    "long_strings": ("long_strings",),
    "dict_building": ("dict_building",),
    "keyword_calls": ("keyword_calls", "called"),
    "fib": ("call_fib", "fib"),
    "generators": ("generators", "numbers"),
}


@pytest.mark.parametrize("program", PURE)
def test_pure_python_is_python_on_the_right_lines(program: str, python: Interpreter, tmp_path: Path) -> None:
    path = target("pure_python")
    found = pure(python, tmp_path / "t.parquet", PURE[program][0])
    rows = [function_row(found, name, path) for name in PURE[program]]
    assert total(rows, "ticks") >= ENOUGH_TICKS
    share = 100 * total(rows, "python_s") / total(rows, "python_s", "native_s")
    figure(f"Python share, {program}", python, share, 97, "percent")
    assert share >= 97
    marked = [line_of("pure_python", name) for name in PURE[program] if name != "call_fib"]
    lines = lines_of(found, path)
    body = [lines[line] for mark in marked for line in (mark, mark - 1, mark - 2) if line in lines]
    assert total(body, "cpu_s") >= 0.97 * total(rows, "cpu_s")
    assert total([lines[mark] for mark in marked], "cpu_s") >= 0.4 * total(rows, "cpu_s")


def test_class_instances_print_their_share(python: Interpreter, tmp_path: Path) -> None:
    """Calling a class is a call of type.__call__, C code: its share is documented, its line must be right."""
    path = target("pure_python")
    found = pure(python, tmp_path / "t.parquet", "class_instances")
    rows = [function_row(found, name, path) for name in ("class_instances",)]
    rows += [row for row in found["functions"] if row["function"].endswith("__init__") and row["file"] == str(path)]
    figure("Python share, class_instances", python, 100 * total(rows, "python_s") / total(rows, "cpu_s"), 0, "percent")
    line = lines_of(found, path)[line_of("pure_python", "class_instances")]
    assert line["cpu_s"] >= 0.2 * total(rows, "cpu_s")
    assert total(rows, "cpu_s") == pytest.approx(1, rel=0.1)


def test_numpy_operators_get_their_own_share_and_are_native(
    python: Interpreter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = tmp_path_factory.mktemp("numpy") / "t.parquet"
    done = record(trace, [target("numpy_lines"), "9"], python, ["--cpu-interval", "600us"])
    found, watch = lines_of(report(trace), target("numpy_lines")), done.facts
    marked = {mark: found[line_of("numpy_lines", mark)] for mark in watch}
    assert total(list(marked.values()), "ticks") >= ENOUGH_TICKS
    whole_s, watch_s = total(list(marked.values()), "cpu_s"), sum(watch.values())
    for mark, row in marked.items():
        error = 100 * (row["cpu_s"] / whole_s - watch[mark] / watch_s)
        figure(f"line share error, numpy {mark}", python, error, 3, "points")
        assert abs(error) <= 3, mark
        if row["ticks"] >= 300:
            assert row["python_s"] <= 0.03 * row["cpu_s"], mark


def test_the_stopwatches_do_not_depend_on_being_recorded(any_python: Interpreter) -> None:
    """The same program, bare: its loop is half and half by its own clock, so the test above has something to meet."""
    done: Finished | Recording = bare([target("loop50"), "0.5"], any_python)
    assert all(45 <= share <= 55 for share in done.facts.values())
