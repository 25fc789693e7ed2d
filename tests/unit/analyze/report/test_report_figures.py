"""Tiny traces whose figures are worked out by hand, in the comment beside them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Line, Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.analyze.trace.user_code import launchers, runs_code, user_files
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP, LIBRARY = "/home/me/app.py", "/usr/lib/python3.12/json/decoder.py"
MAIN = (APP, "main", 10, 12)
MODULE = (APP, "<module>", 1, 30)


def report_on(builder: TraceBuilder, tmp_path: Path, **selection: Any) -> Report:
    return build_report([builder.write(tmp_path / "t.parquet")], Selection(**selection))


def line(report: Report, number: int, file: str = APP) -> Line:
    return next(each for each in report.lines if (each.file, each.line) == (file, number))


def one_thread(cpu_ns: int = 0) -> tuple[TraceBuilder, int, int]:
    """A process with a thread; no exact CPU time: weights stay as they are."""
    builder = TraceBuilder()
    process = builder.process()
    return builder, process, builder.thread(process, cpu_ns=cpu_ns)


def test_a_tick_belongs_to_the_innermost_line_of_the_user(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    stack = builder.stack((LIBRARY, "decode", 5, 7), MAIN, MODULE)
    builder.tick(0, process, thread, stack, user_ns=3 * MS, system_ns=2 * MS)
    builder.tick(1, process, thread, builder.stack((LIBRARY, "decode", 5, 7)), user_ns=5 * MS)
    builder.tick(2, process, thread, None, user_ns=7 * MS)
    report = report_on(builder, tmp_path)
    # 3 + 2 ms on line 12 of main; 5 + 7 ms on no line of the user's
    assert [(each.line, each.function, each.first_line) for each in report.lines] == [(12, "main", 10)]
    assert line(report, 12).cpu_s == pytest.approx(0.005)
    assert line(report, 12).system_s == pytest.approx(0.002)
    assert line(report, 12).cpu_percent == pytest.approx(100 * 5 / 17)
    assert report.unattributed.ticks == 2
    assert report.unattributed.cpu_s == pytest.approx(0.012)
    assert report.totals.cpu_s == pytest.approx(0.017)


def test_all_include_and_exclude_move_the_line(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack((LIBRARY, "decode", 5, 7), MAIN, MODULE))
    assert report_on(builder, tmp_path, all_files=True).lines[0].file == LIBRARY
    assert report_on(builder, tmp_path, include=("decoder.py",)).lines[0].file == LIBRARY
    assert report_on(builder, tmp_path, include=("*/json/*",)).lines[0].file == LIBRARY
    assert report_on(builder, tmp_path, all_files=True, exclude=("*/json/*",)).lines[0].file == APP
    assert report_on(builder, tmp_path, exclude=("app.py",)).lines == []


@pytest.mark.parametrize(
    ("file", "is_user"),
    [
        ("app.py", True),
        ("/home/me/lib/tool.py", True),
        ("<stdin>", True),
        ("<ipython-input-1-abc>", True),
        ("/srv/python3.12/app.py", True),
        ("<frozen importlib._bootstrap>", False),
        ("<attrs generated init app.Point>", False),
        ("/usr/lib/python3.11/json/__init__.py", False),
        ("/usr/lib64/python3.9/os.py", False),
        ("/opt/python/lib/python3.13t/os.py", False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", False),
        ("/home/me/.venv/lib/python3.12/site-packages/numpy/core.py", False),
        ("/usr/lib/python312.zip/os.py", False),
    ],
)
def test_whose_file_it_is(file: str, is_user: bool) -> None:
    assert user_files([file], Selection()) == ([file] if is_user else [])


#: What the installers write into bin.
LAUNCHERS = {
    "pip": """#!/venv/bin/python
import re
import sys
from app.cli import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
""",
    "uv": """#!/venv/bin/python
import sys
from app import main
if __name__ == "__main__":
    if sys.argv[0].endswith(".exe"):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit(main())
""",
    "setuptools": """#!/usr/bin/python3
import re
import sys
def importlib_load_entry_point(spec, group, name):
    raise NotImplementedError
globals().setdefault('load_entry_point', importlib_load_entry_point)
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw?|\\.exe)?$', '', sys.argv[0])
    sys.exit(load_entry_point('app==1', 'console_scripts', 'app')())
""",
}


def chosen(builder: TraceBuilder, tmp_path: Path, **selection: Any) -> list[str]:
    """The files whose lines are charged: what a report asks first. It takes a quarter of a report's time."""
    with open_traces([builder.write(tmp_path / "t.parquet")], Selection(**selection)) as traces:
        return [file for (file,) in traces.connection.execute("SELECT file FROM user_files ORDER BY file").fetchall()]


@pytest.mark.parametrize("installer", LAUNCHERS)
def test_a_launcher_is_not_the_users_code(tmp_path: Path, installer: str) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack((LIBRARY, "decode", 5, 7), ("/venv/bin/app", "<module>", 1, 8)))
    builder.source("/venv/bin/app", LAUNCHERS[installer])
    assert chosen(builder, tmp_path) == []
    assert chosen(builder, tmp_path, include=("app",)) == ["/venv/bin/app"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/home/me/bin/tool", "import sys\nprint(sys.argv)\n"),
        ("/home/me/bin/tool", "import sys\nif sys.argv[0] == '':\n    print(sys.argv[0])\n    sys.exit(2)\n"),
        ("/home/me/bin/tool", LAUNCHERS["pip"] + "x = 1\n" * 40),
        ("/home/me/app.py", LAUNCHERS["pip"]),
        ("/home/me/bin/app.py", LAUNCHERS["pip"]),
    ],
)
def test_a_program_in_bin_is_the_users_code(file: str, text: str) -> None:
    assert launchers({file: text}) == []


@pytest.mark.parametrize(
    ("command", "is_code"),
    [
        (["python", "-c", "pass"], True),
        (["python3", "-uc", "pass"], True),
        (["pypy3", "-Icpass"], True),
        (["/opt/bin/python3.13", "-X", "dev", "-c", "pass"], True),
        (["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"], False),
        (["python", "-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"], False),  # execnet's
        (["python", "-c", "code = input()\nexec(code)"], True),
        (["python", "app.py", "-c"], False),
        (["python3", "-m", "pytest", "-c", "conf"], False),
        (["/venv/bin/python", "/venv/bin/gunicorn", "-c", "conf.py"], False),
        (["valgrind", "-q", "/usr/bin/python3", "-c", "pass"], True),
        (["embedder", "-c", "pass"], True),
    ],
)
def test_generated_code_is_the_users_only_where_it_was_given(tmp_path: Path, command: list[str], is_code: bool) -> None:
    builder, process, thread = one_thread()
    builder.rows["process"][0]["command"] = command
    builder.tick(0, process, thread, builder.stack(("<string>", "__init__", 1, 2), MAIN))
    assert runs_code(command) == is_code
    assert chosen(builder, tmp_path) == [APP, "<string>"][: 1 + is_code]


#: Code without a file, and whether the user has typed it.
NAMELESS = {
    "<template>": False,
    "<sqlalchemy generated warned() wrapper for sqlalchemy.orm.session.Session._flush>": False,
    "<class 'networkx.utils.decorators.argmap'> compilation 48": False,
    "<makefun-gen-0>": False,
    "<stdin>": True,
    "<timed exec>": True,
    "<magic-timeit>": True,
    "<pyshell#3>": True,
    "<bpython-input-2>": True,
    "<command-123>": True,
    "<python-input-3>": True,
    "<doctest app.main[0]>": True,
    "<timeit-src>": True,
    "<not recorded>": True,
    "<dynamic-code>": True,  # cloudpickle's, for the user's functions in other processes
}


def test_code_that_libraries_generate_belongs_to_its_caller(tmp_path: Path) -> None:
    """Each file is called from a line of its own, so that the report has either the file or that line."""
    builder, process, thread = one_thread()
    for number, file in enumerate(NAMELESS):
        builder.tick(number, process, thread, builder.stack((file, "root", 1, 2), (APP, "main", 10, 100 + number)))

    def places(**selection: Any) -> list[tuple[str, int | None]]:
        return sorted((each.file, each.line) for each in report_on(builder, tmp_path, **selection).lines)

    of_files = sorted((file, 2) for file in NAMELESS)
    of_callers = {file: (APP, 100 + number) for number, file in enumerate(NAMELESS)}
    assert places() == sorted((file, 2) if is_typed else of_callers[file] for file, is_typed in NAMELESS.items())
    assert places(include=("<*",)) == of_files
    for file in NAMELESS:
        builder.source(file, "x = 1\ny = 2\n")  # a text that can be shown is worth a line of its own
    assert places() == of_files


def test_generated_code_is_shown_if_there_is_nothing_else(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack(("<embedded>", "<module>", 1, 2)))
    assert report_on(builder, tmp_path).lines[0].file == "<embedded>"


#: What a tick shows, and the class that the rule gives it.
CLASSES = [
    ({"pc_class": "eval", "opcode": "CALL"}, "python"),
    ({"pc_class": "interpreter", "opcode": "BINARY_OP"}, "python"),
    ({"pc_class": "support", "opcode": "BUILD_MAP", "vectorcall": True}, "python"),
    ({"pc_class": "extension", "opcode": "BINARY_OP"}, "extension"),
    ({"pc_class": "unknown", "opcode": "CALL"}, "extension"),
    ({"pc_class": "support", "opcode": "CALL", "extension_module": 3}, "extension"),
    ({"pc_class": "interpreter", "opcode": "CALL_PY_EXACT_ARGS", "vectorcall": True}, "python"),
    ({"pc_class": "interpreter", "opcode": "PRECALL_PYFUNC", "vectorcall": True}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL_BOUND_METHOD_EXACT_ARGS"}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL_ALLOC_AND_ENTER_INIT", "tp_call": True}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL_INTRINSIC_1", "vectorcall": True}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL_BUILTIN_FAST"}, "builtin"),
    ({"pc_class": "support", "opcode": "PRECALL_NO_KW_LEN"}, "builtin"),
    ({"pc_class": "support", "opcode": "CALL_METHOD_DESCRIPTOR_O"}, "builtin"),
    ({"pc_class": "support", "opcode": "CALL_KW_NON_PY"}, "builtin"),
    ({"pc_class": "support", "opcode": "CALL_EX_NON_PY_GENERAL"}, "builtin"),
    *(
        ({"pc_class": "interpreter", "opcode": opcode, "tp_call": True, "frame_setup": True}, "python")
        for opcode in ("CALL_NON_PY_GENERAL", "CALL_KW_NON_PY", "CALL_EX_NON_PY_GENERAL")
    ),
    ({"pc_class": "interpreter", "opcode": "CALL_BUILTIN_CLASS", "tp_call": True, "frame_setup": True}, "builtin"),
    ({"pc_class": "interpreter", "opcode": "CALL_EX_PY", "vectorcall": True}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL", "vectorcall": True}, "builtin"),
    ({"pc_class": "shim", "opcode": "CALL_FUNCTION_EX", "vectorcall": True}, "builtin"),
    ({"pc_class": "support", "opcode": "INSTRUMENTED_CALL", "vectorcall": True}, "builtin"),
    ({"pc_class": "interpreter", "opcode": "CALL", "tp_call": True, "vectorcall": True}, "python"),
    ({"pc_class": "support", "opcode": "CALL", "tp_call": True}, "builtin"),
    ({"pc_class": "interpreter", "opcode": "CALL"}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL", "eval_found": False}, "builtin"),
    ({"pc_class": "interpreter", "opcode": "BINARY_OP", "eval_found": False}, "python"),
    ({"pc_class": "interpreter", "opcode": "CALL_FUNCTION_EX"}, "builtin"),
    ({"pc_class": "interpreter", "opcode": "CALL_FUNCTION_EX", "frame_setup": True}, "python"),
    ({"pc_class": "eval", "opcode": None}, "python"),
    ({"pc_class": "extension", "opcode": None}, "extension"),
    ({"pc_class": "support", "opcode": None, "extension_module": 3}, "extension"),
    *(({"pc_class": each, "opcode": None}, "unclassified") for each in ("interpreter", "support", "shim")),
    ({"pc_class": "interpreter", "opcode": None, "vectorcall": True}, "unclassified"),
    ({"pc_class": "interpreter", "opcode": None, "tp_call": True, "frame_setup": True}, "unclassified"),
    ({"pc_class": "interpreter", "opcode": None, "torn": True}, "unclassified"),
    ({"pc_class": "support", "opcode": None, "has_python": False}, "extension"),
]


def classes_of(shown: list[dict[str, Any]], tmp_path: Path, python_version: str = "3.12.4") -> list[str]:
    """The classes of ticks that show this, each on a stack of its own: what other ticks of a stack show may decide."""
    builder = TraceBuilder()
    process = builder.process(python_version=python_version)
    thread = builder.thread(process, cpu_ns=0)
    for number, columns in enumerate(shown):
        builder.tick(number, process, thread, builder.stack((APP, f"f{number}", number, number), MAIN), **columns)
    with open_traces([builder.write(tmp_path / "t.parquet")]) as traces:
        found = traces.connection.execute("SELECT class FROM cpu_ticks ORDER BY t_ns").fetchall()
    return [each for (each,) in found]


def test_the_class_of_a_tick(tmp_path: Path) -> None:
    found = classes_of([shown for shown, _ in CLASSES], tmp_path)
    wrong = [
        (shown, expected, each) for (shown, expected), each in zip(CLASSES, found, strict=True) if each != expected
    ]
    assert not wrong


def test_the_class_of_a_tick_on_python_3_10(tmp_path: Path) -> None:
    cases = [
        ("CALL_FUNCTION", True, "python"),
        ("CALL_METHOD", False, "builtin"),
        ("CALL_FUNCTION_EX", False, "builtin"),
        ("LOAD_FAST", False, "python"),
    ]
    shown = [{"pc_class": "interpreter", "opcode": opcode, "frame_setup": setup} for opcode, setup, _ in cases]
    assert classes_of(shown, tmp_path, "3.10.14") == [expected for *_, expected in cases]


def test_the_rule_of_the_papers_stands_beside_ours(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    for opcode in ("CALL", "CALL_PY_EXACT_ARGS", "BINARY_OP", None):
        builder.tick(0, process, thread, None, pc_class="extension", opcode=opcode)
    with open_traces([builder.write(tmp_path / "t.parquet")]) as traces:
        found = traces.connection.execute("SELECT opcode, class_by_opcode, class FROM cpu_ticks").fetchall()
    assert set(found) == {
        ("CALL", "native", "extension"),
        ("CALL_PY_EXACT_ARGS", "native", "extension"),
        ("BINARY_OP", "python", "extension"),
        (None, None, "extension"),
    }


def test_a_thread_with_enough_ticks_adds_up_to_its_exact_time(tmp_path: Path) -> None:
    builder, process, thread = one_thread(cpu_ns=231 * MS)
    for index in range(21):
        builder.tick(index, process, thread, builder.stack(MAIN))
    # 21 ticks of 10 ms stand for 231 ms: each for 11
    assert line(report_on(builder, tmp_path), 12).cpu_s == pytest.approx(0.231)


def test_threads_with_few_ticks_share_what_all_of_them_used(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    threads = [builder.thread(process, cpu_ns=3 * MS) for _ in range(20)]
    for thread in threads[:5]:
        builder.tick(0, process, thread, builder.stack(MAIN))
    # 20 threads of 3 ms; the 5 ticks of 10 ms stand for all 60 ms
    assert report_on(builder, tmp_path).totals.cpu_s == pytest.approx(0.060)


def test_processes_with_few_ticks_share_over_the_trace(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for index in range(10):
        process = builder.process()
        thread = builder.thread(process, cpu_ns=6 * MS)
        if index < 5:
            builder.tick(0, process, thread, builder.stack(MAIN))
    # 10 processes of 6 ms, 5 ticks of 10 ms: 60 ms
    assert report_on(builder, tmp_path).totals.cpu_s == pytest.approx(0.060)


def test_a_process_of_four_ticks_is_among_them(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for ticks in (4, 1):
        process = builder.process()
        thread = builder.thread(process, cpu_ns=ticks * 15 * MS)
        for index in range(ticks):
            builder.tick(index, process, thread, builder.stack(MAIN))
    # 60 + 15 ms exactly, 5 ticks of 10 ms
    assert report_on(builder, tmp_path).totals.cpu_s == pytest.approx(0.075)


@pytest.mark.parametrize(
    ("ticks", "cpu_ns", "columns", "why"),
    [
        (4, 22 * MS, {}, "four ticks are too few to tell a factor"),
        (30, 900 * MS, {}, "the exact time covers much that was not sampled, for example a pause"),
        (30, 0, {}, "no exact time is known"),
        (10, 120 * MS, {"engine": "none"}, "the thread was not sampled by its own timer"),
    ],
)
def test_weights_stay_as_they_are_when(ticks: int, cpu_ns: int, columns: Any, why: str, tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=cpu_ns, **columns)
    for index in range(ticks):
        builder.tick(index, process, thread, None)
    assert report_on(builder, tmp_path).totals.cpu_s == pytest.approx(ticks * 0.010), why


@pytest.mark.parametrize(("ticks", "cpu_ns"), [(30, 900 * MS), (30, 10 * MS), (8, 5 * MS)])
def test_weights_of_polls_are_scaled_by_any_factor(ticks: int, cpu_ns: int, tmp_path: Path) -> None:
    """They also stand for time in which the thread was ready, but had no CPU."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=cpu_ns, engine="polled")
    for index in range(ticks):
        builder.tick(index, process, thread, None)
    assert report_on(builder, tmp_path).totals.cpu_s == pytest.approx(cpu_ns / 1e9)


def test_gc_is_a_part_of_the_time(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack(MAIN), system_ns=1 * MS, gc=True)
    builder.tick(1, process, thread, builder.stack(MAIN))
    report = report_on(builder, tmp_path)
    assert report.totals.gc_s == pytest.approx(0.011)
    assert report.totals.cpu_s == pytest.approx(0.021)


def test_cumulative_time_counts_a_recursive_stack_once(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    fib = (APP, "fib", 5, 6)
    builder.tick(0, process, thread, builder.stack(fib, fib, fib, MAIN))
    builder.tick(1, process, thread, builder.stack(MAIN))
    functions = {each.function: each for each in report_on(builder, tmp_path).functions}
    assert [functions["fib"].cpu_s, functions["fib"].cumulative_cpu_s] == pytest.approx([0.01, 0.01])
    assert [functions["main"].cpu_s, functions["main"].cumulative_cpu_s] == pytest.approx([0.01, 0.02])


def test_cumulative_memory_and_waits_count_a_recursive_stack_once(tmp_path: Path) -> None:
    """fib, twice on the stack, allocates 5 MB of 8 MB and waits 2 s of 3 s; the rest is main's own."""
    builder, process, thread = one_thread()
    builder.settings["features"] = '["cpu", "wait", "memory", "alloc"]'
    fib = (APP, "fib", 5, 6)
    deep, shallow = builder.stack(fib, fib, MAIN), builder.stack(MAIN)
    for stack, size, wait_s in ((deep, 5_000_000, 2), (shallow, 3_000_000, 1)):
        builder.tick(wait_s, process, thread, stack)
        builder.alloc(0, process, thread, stack, size)
        builder.wait(wait_s * SECOND, process, thread, stack, wait_s * SECOND)
    builder.memory(SECOND, process, thread, shallow, 8_000_000, 8_000_000)
    functions = {each.function: each for each in report_on(builder, tmp_path).functions}
    for name, self_bytes, all_bytes, self_s, all_s in (("fib", 5, 5, 2, 2), ("main", 3, 8, 1, 3)):
        each = functions[name]
        assert (each.alloc_bytes, each.cumulative_alloc_bytes) == (self_bytes * 1_000_000, all_bytes * 1_000_000)
        assert each.cumulative_live_at_peak_bytes == each.cumulative_live_at_end_bytes == all_bytes * 1_000_000
        assert (each.wait_s, each.cumulative_wait_s) == (self_s, all_s)
        assert each.cumulative_alloc_error_bytes == 0, "every allocation was recorded"
    main, fib_row = functions["main"], functions["fib"]
    assert main.cumulative_cpu_error_s and fib_row.cumulative_cpu_error_s
    assert fib_row.cumulative_cpu_error_s == fib_row.cpu_error_s < main.cumulative_cpu_error_s


def test_functions_of_several_traces_add_up_with_callees(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        builder, process, thread = one_thread()
        builder.settings["features"] = '["cpu", "wait", "memory", "alloc"]'
        stack = builder.stack((APP, "fib", 5, 6), MAIN)
        builder.alloc(0, process, thread, stack, 5_000_000)
        builder.wait(SECOND, process, thread, stack, SECOND)
        builder.tick(1, process, thread, stack)
        paths.append(builder.write(tmp_path / f"{name}.parquet"))
    main = {each.function: each for each in build_report(paths, Selection()).functions}["main"]
    assert (main.cumulative_alloc_bytes, main.cumulative_wait_s, main.wait_s) == (10_000_000, 2.0, 0.0)


def test_a_line_of_several_functions_is_one_row(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack((APP, "main.<locals>.<lambda>", 12, 12), MAIN))
    for index in range(2):
        builder.tick(index, process, thread, builder.stack(MAIN))
    report = report_on(builder, tmp_path)
    assert [(each.line, each.function, each.ticks) for each in report.lines] == [(12, "main", 3)]
    assert {each.function: each.ticks for each in report.functions} == {"main": 2, "main.<locals>.<lambda>": 1}


def test_stacks_of_one_line_with_equal_times_are_added_up(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    for caller in (30, 31):
        builder.tick(caller, process, thread, builder.stack(MAIN, (APP, "<module>", 1, caller)), user_ns=4 * MS)
    report = report_on(builder, tmp_path)
    assert line(report, 12).cpu_s == pytest.approx(0.008)
    assert report.totals.cpu_s == pytest.approx(0.008)


def test_an_instruction_without_a_line_counts_for_the_first_line(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.tick(0, process, thread, builder.stack((APP, "main", 10, 0)))
    assert report_on(builder, tmp_path).lines[0].line == 10


def test_a_share_has_the_error_of_its_ticks(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    for number in range(100):
        stack = builder.stack(MAIN if number < 20 else MODULE)
        builder.tick(number * MS, process, thread, stack, user_ns=10 * MS)
    report = report_on(builder, tmp_path)
    # 20 of 100 ticks of 10 ms: 0.2 s +- sqrt(20) * 0.01 s; 20 % +- 100 sqrt(0.2 * 0.8 / 100) % = 4 %; and the time of
    # 1.5 ticks, as no tick may have fallen on something
    assert line(report, 12).cpu_error_s == pytest.approx(math.sqrt(20 + 1.5**2) * 0.01)
    assert line(report, 12).cpu_percent_error == pytest.approx(math.hypot(4, 1.5))
    assert line(report, 12).cpu_percent_error == pytest.approx(line(report, 30).cpu_percent_error)


def test_a_line_without_a_tick_may_have_had_the_time_of_three(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    for number in range(100):
        builder.tick(number * MS, process, thread, builder.stack(MODULE), user_ns=10 * MS)
    builder.wait(0, process, thread, builder.stack(MAIN), 1 * MS)
    found = line(report_on(builder, tmp_path), 12)
    assert (found.cpu_s, found.cpu_error_s) == (0, pytest.approx(0.015))
    assert found.cpu_percent_error == pytest.approx(1.5)


@pytest.mark.parametrize("piece_ns", [0.2 * MS, 2 * MS, 20 * MS])
@pytest.mark.parametrize("ticks", [30, 300])
def test_two_errors_hold_the_true_share_of_19_lines_in_20(piece_ns: float, ticks: int, tmp_path: Path) -> None:
    """Forty lines with shares from 0.01 % on, run in random pieces, sampled as the recorder does it: a first period
    in (0, q], then periods in [q / 2, 3q / 2]."""
    random, inside = np.random.default_rng(int(piece_ns) + ticks), []
    for _ in range(3):
        weights = np.exp(random.uniform(math.log(1e-4), 0, 40))
        ends, owners, truth = pieces(random, weights / weights.sum(), piece_ns, ticks * 10 * MS)
        times = np.cumsum([random.uniform(0, 10 * MS), *random.uniform(5 * MS, 15 * MS, 2 * ticks)])
        builder, process, thread = one_thread()
        stacks = [builder.stack((APP, "main", 1, 10 + number)) for number in range(40)]
        for stack in stacks:
            builder.wait(0, process, thread, stack, 1)  # so that lines without a tick are in the report
        for t_ns, owner in zip(times, owners[np.searchsorted(ends, times[times < ends[-1]])], strict=False):
            builder.tick(int(t_ns), process, thread, stacks[owner], user_ns=10 * MS)
        for row in report_on(builder, tmp_path).lines:
            assert row.cpu_percent is not None and row.cpu_percent_error is not None and row.line is not None
            inside.append(abs(row.cpu_percent - 100 * truth[row.line - 10]) <= 2 * row.cpu_percent_error)
    assert len(inside) == 120 and sum(inside) >= 0.95 * len(inside)


def pieces(random: np.random.Generator, shares: Any, piece_ns: float, whole_ns: float) -> tuple[Any, Any, Any]:
    """Ends of the pieces in which lines run, which line runs in each, and each line's share of the time."""
    count = int(whole_ns / piece_ns) + 1
    owners, lengths = random.choice(len(shares), count, p=shares), random.exponential(piece_ns, count)
    return np.cumsum(lengths), owners, np.bincount(owners, lengths, len(shares)) / lengths.sum()


def test_growth_and_the_share_of_python(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    stack = builder.stack(MAIN)
    builder.memory(1 * SECOND, process, thread, stack, 11_000_003, 11_000_003, python_allocated_bytes=11_000_003)
    builder.memory(2 * SECOND, process, thread, stack, -10_999_999, 4, allocated_bytes=33_000_009)
    builder.alloc(1 * SECOND, process, thread, stack, 1_000_000, python=True, interval_bytes=1000)
    builder.alloc(1 * SECOND, process, thread, stack, 3_000_000, interval_bytes=1000)
    builder.alloc(1 * SECOND, process, thread, builder.stack(MODULE), 5_000_000, interval_bytes=1000)
    report = report_on(builder, tmp_path)
    # 11,000,003 - 10,999,999 = 4; 1 of the 4 MB that the line allocated were Python's, whatever other lines allocated
    assert line(report, 12).growth_bytes == 4
    assert line(report, 12).python_alloc_fraction == 0.25
    assert line(report, 12).trend == [(1.0, 11_000_003), (1.999999999, 11_000_003), (2.0, 4)]
    assert report.totals.peak_bytes == 11_000_003


def test_a_child_does_not_count_what_it_inherited(tmp_path: Path) -> None:
    builder = TraceBuilder()
    parent = builder.process(end_ns=9 * SECOND, end_footprint_bytes=100_000_007)
    thread = builder.thread(parent, cpu_ns=0)
    child = builder.process(
        2 * SECOND,
        parent=parent,
        cause="fork",
        start_footprint_bytes=100_000_007,
        end_ns=5 * SECOND,
        end_footprint_bytes=130_000_001,
    )
    builder.memory(1 * SECOND, parent, thread, None, 100_000_007, 100_000_007, python_footprint_bytes=40_000_003)
    builder.memory(3 * SECOND, child, thread, None, 50_000_011, 150_000_018, python_footprint_bytes=60_000_003)
    builder.memory(4 * SECOND, child, thread, None, -90_000_000, 60_000_018, python_footprint_bytes=10_000_003)
    report = report_on(builder, tmp_path)
    # at 3 s: 100,000,007 of the parent and 50,000,011 that the child added. At 4 s the child has freed what it shares
    # with the parent, who still has it. At 5 s the child ends. The Python part at 3 s: 40,000,003 + 20,000,000.
    assert report.totals.peak_bytes == 150_000_018
    assert report.totals.python_peak_bytes == 60_000_003
    assert report.timeline is not None
    at = {round(t_s, 6): value for t_s, value in report.timeline}
    assert (at[3.0], at[4.0], at[5.0], at[9.0]) == (150_000_018, 100_000_007, 100_000_007, 100_000_007)


def test_the_tree_is_the_sum_of_the_processes_alive(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first = builder.process(end_ns=3 * SECOND, end_footprint_bytes=20_000_003)
    second = builder.process(1 * SECOND, cause="spawn", end_ns=8 * SECOND, end_footprint_bytes=30_000_001)
    builder.memory(2 * SECOND, first, 1, None, 20_000_003, 20_000_003)
    builder.memory(4 * SECOND, second, 2, None, 50_000_017, 50_000_017)
    # the first has ended when the second grows: the peak is 50,000,017 and not 70,000,020
    assert report_on(builder, tmp_path).totals.peak_bytes == 50_000_017


def test_rss_of_the_tree_and_the_high_water_mark(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first, second = builder.process(peak_rss_bytes=70_000_001), builder.process(1 * SECOND)
    builder.add("rss", t_ns=1 * SECOND, process=first, rss_bytes=60_000_003)
    builder.add("rss", t_ns=2 * SECOND, process=second, rss_bytes=20_000_003)
    assert report_on(builder, tmp_path).totals.peak_rss_bytes == 80_000_006
    # within the first 1.5 s nothing is known but the first reading; a high-water mark has no time
    assert report_on(builder, tmp_path, to_s=1.5).totals.peak_rss_bytes == 60_000_003
    assert report_on(builder, tmp_path, processes=(second,)).totals.peak_rss_bytes == 20_000_003


def test_a_window_takes_the_samples_within_it(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    stack = builder.stack(MAIN)
    for second in range(5):
        builder.tick(second * SECOND, process, thread, stack)
        builder.memory(second * SECOND, process, thread, stack, 11_000_003, (second + 1) * 11_000_003)
    report = report_on(builder, tmp_path, from_s=1, to_s=3)
    # ticks and samples at 1 s and at 2 s; 3 s is outside
    assert (line(report, 12).ticks, line(report, 12).growth_bytes) == (2, 22_000_006)
    assert report.totals.peak_bytes == 33_000_009
    assert report.timeline is not None and report.timeline[0] == (1.0, 11_000_003)


def test_processes_and_threads_are_picked(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first, second = builder.process(), builder.process()
    threads = [builder.thread(each, cpu_ns=0) for each in (first, first, second)]
    for thread, process in zip(threads, (first, first, second), strict=True):
        builder.tick(0, process, thread, builder.stack(MAIN))
    assert report_on(builder, tmp_path, processes=(first,)).totals.cpu_s == pytest.approx(0.02)
    assert report_on(builder, tmp_path, threads=(threads[0], threads[2])).totals.cpu_s == pytest.approx(0.02)
    assert report_on(builder, tmp_path, processes=(second,), threads=(threads[0],)).totals.cpu_s == 0


def test_several_traces_are_added_up(tmp_path: Path) -> None:
    paths = []
    for index in (1, 2):
        builder, process, thread = one_thread()
        for tick in range(index):
            builder.tick(tick, process, thread, builder.stack(MAIN))
        builder.memory(SECOND, process, thread, builder.stack(MODULE), index * 11_000_003, index * 11_000_003)
        paths.append(builder.write(tmp_path / f"{index}.parquet"))
    report = build_report(paths, Selection())
    # 1 + 2 ticks; growth 11,000,003 + 22,000,006; the peak is the higher of the two
    assert (line(report, 12).ticks, line(report, 30).growth_bytes) == (3, 33_000_009)
    assert report.totals.cpu_s == pytest.approx(0.03)
    assert report.totals.peak_bytes == 22_000_006
    assert report.timeline is not None and report.timeline[-1] == (1.0, 22_000_006)
    assert len(report.traces) == 2


def test_what_was_off_is_none_and_not_zero(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.settings["features"] = '["cpu"]'
    builder.tick(0, process, thread, builder.stack(MAIN))
    report = report_on(builder, tmp_path)
    assert (report.totals.peak_bytes, report.timeline, report.leaks) == (None, None, None)
    assert (line(report, 12).growth_bytes, line(report, 12).trend, line(report, 12).wait_s) == (None, None, None)
    assert report.traces[0].events == {
        "cpu": 1, "wait": None, "task": None, "memory": None, "alloc": None, "copy": None, "gpu": None, "rss": None,
        "device_copy": None, "device_sync": None, "device_alloc": None,
    }  # fmt: skip


def test_memory_alone_has_no_cpu_figures(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.settings["features"] = '["memory"]'
    builder.memory(0, process, thread, builder.stack(MAIN), 11_000_003, 11_000_003)
    report = report_on(builder, tmp_path)
    assert (report.totals.cpu_s, line(report, 12).cpu_s, line(report, 12).ticks) == (None, None, None)
    assert line(report, 12).growth_bytes == 11_000_003


def test_source_text_comes_from_the_trace(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    builder.source(APP, "first\r\nsec\x0cond\rthird\n")
    for number in (2, 3, 9):
        builder.tick(0, process, thread, builder.stack((APP, "<module>", 1, number)))
    report = report_on(builder, tmp_path)
    # Python ends lines at \n, \r and \r\n, not at form feeds
    assert [line(report, number).source for number in (2, 3, 9)] == ["sec\x0cond", "third", None]
    assert report.functions[0].source == "first"


def test_sorting_and_limiting(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    for number, user_ns in ((1, 5 * MS), (2, 7 * MS), (3, 6 * MS)):
        builder.tick(0, process, thread, builder.stack((APP, "<module>", 1, number)), user_ns=user_ns)
    path = builder.write(tmp_path / "t.parquet")
    assert [each.line for each in build_report([path], Selection()).lines] == [2, 3, 1]
    assert [each.line for each in build_report([path], Selection(), sort="line").lines] == [1, 2, 3]
    assert [each.line for each in build_report([path], Selection(), limit=2).lines] == [2, 3]


def test_what_belongs_to_no_known_thread_is_of_none_that_is_asked_for(tmp_path: Path) -> None:
    builder, process, thread = one_thread()
    stack = builder.stack(MAIN, MODULE)
    for each in (thread, None):
        builder.copy(0, process, each, stack, 20_000_003)
    assert report_on(builder, tmp_path).totals.copy_bytes == 40_000_006
    assert report_on(builder, tmp_path, threads=(thread,)).totals.copy_bytes == 20_000_003
