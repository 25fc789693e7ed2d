"""Allocations with their native stacks: a leak in C code names the functions from Python's call to the allocation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support import native
from tests.support.interpreters import Interpreter
from tests.support.recording import Json, analyze, line_of, losses, record, report, rows, target

#: For a message: samples, and those that were freed, of each line in each tenth of the judged time.
_TENTHS = """
SELECT line, floor(10 * (t_ns - start_ns) / (judged_ns - start_ns)) AS tenth, count(*), count(end_t_ns)
FROM allocations LEFT JOIN stack_owners USING (trace, stack) LEFT JOIN process_moments USING (trace, process)
GROUP BY ALL ORDER BY ALL
"""


def recorded(folder: Path, python: Interpreter, options: Sequence[str]) -> Path:
    trace, library = folder / "t.parquet", native.library(folder, "native_leak.c")
    # One interval for all samples: with those of ``auto``, one leak in some 200 seems to thin out by chance.
    options = [*options, "--alloc-interval", "128KB"]
    done = record(trace, [target("native_leak"), library, "6"], python, options)
    assert done.status == 0, done.stderr.decode()
    return trace


def native_stacks(found: Json) -> dict[int, list[str]]:
    """The native functions of each leaking line."""
    return {leak["line"]: [each["name"] for each in leak["native_stack"]] for leak in found["leaks"]}


def test_a_leak_in_c_code_names_its_functions(python: Interpreter, tmp_path: Path) -> None:
    trace = recorded(tmp_path, python, ["--native-alloc"])
    found = report(trace, command="leaks")
    stacks = native_stacks(found)
    marked = [line_of("native_leak", mark) for mark in ("library", "numpy", "rust")]
    told = f"{[*stacks]} of {marked}: {found['traces']}\n{analyze('sql', trace, _TENTHS).stdout.decode()}"
    assert stacks.keys() >= set(marked), told
    in_library, in_numpy, in_rust = (stacks[line] for line in marked)
    assert in_library[-2:] == ["leak_some", "grow_table"]
    (leak,) = (each for each in found["leaks"] if each["line"] == line_of("native_leak", "library"))
    assert [each["library"] for each in leak["native_stack"]][-2:] == ["native_leak", "native_leak"]
    assert any("array" in name.lower() or "empty" in name for name in in_numpy)
    assert any("push_front" in name and "List" in name for name in in_rust)
    assert "grow_table" in analyze("leaks", trace).stdout.decode()
    assert not losses(report(trace)).keys() & {"unresolved_native", "damaged_records"}
    stacked = analyze("export", trace, "--format", "collapsed", "--metric", "allocated").stdout.decode()
    assert ";leak_some (native_leak);grow_table (native_leak) " in stacked
    assert ";leak_some (native_leak) " in stacked  # the blocks that it frees


def test_allocations_have_no_native_stack_unless_asked_for(python: Interpreter, tmp_path: Path) -> None:
    trace = recorded(tmp_path, python, [])
    assert not any(native_stacks(report(trace, command="leaks")).values())
    assert all(row["native"] is None for row in rows(trace, "alloc"))
