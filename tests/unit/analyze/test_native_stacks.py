"""Native stacks: what Python called, in the report, in exports and in the page, from tiny traces, also hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.shared.profile import read_profile
from scalene_trace.analyze.html import series
from scalene_trace.analyze.html.model import entry
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.libraries import CalleeTime
from scalene_trace.analyze.trace.native import NativeFrames
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import REPORT_TABLES, open_traces
from tests.support.trace_builder import MS, TraceBuilder

APP = "/home/me/app.py"
PYTHON, EXTENSION, LIBC = 1, 2, 3
IMAGES = {
    PYTHON: ("/usr/bin/python3", "interpreter"),
    EXTENSION: ("/x/fast.so", "extension"),
    LIBC: ("/libc.so.6", "support"),
}
#: Functions by the offset at which they start.
FUNCTIONS = {
    PYTHON: {
        16: "PyObject_Vectorcall",
        32: "cfunction_call",
        48: "builtin_min",
        64: "long_richcompare.isra.0",
        80: "_PyEval_Vector",
        96: "initialize_locals",
        112: "list_dealloc",
        128: "_PyFrame_ClearExceptCode",
        144: "_PyFrame_GetLocals",
        160: "_PyObject_Call",
        176: "dict_dealloc",
        192: "_PyObject_MakeTpCall",
        208: "_Py_CheckFunctionResult",
        224: "type_call",
        240: "_Py_Dealloc",
        256: "PyTraceBack_Here",
        272: "__tls_get_addr",
        288: "object_init",
        304: "PyMem_Free",
        320: "_start",
    },
    EXTENSION: {16: "fast_call", 32: "kernel"},
    LIBC: {16: "memcpy", 32: "clone"},
}
#: Where a function starts whose name is not known.
NAMELESS = 9_984
CALL = {"pc_class": "interpreter", "opcode": "CALL", "vectorcall": True, "pc_module": PYTHON, "pc_offset": 5}


class Program(TraceBuilder):
    """A process with a line, images with symbols, and native stacks."""

    def __init__(self) -> None:
        super().__init__()
        self.one = self.process()
        self.main = self.thread(self.one, cpu_ns=0, tid=1001)
        for module, (path, image) in IMAGES.items():
            self.add("module", id=module, path=path, **{"class": image})
            for offset, name in FUNCTIONS[module].items():
                self.add("symbol", module=module, start_offset=offset, end_offset=offset + 1, name=name)
        self.line5 = self.stack((APP, "leaf", 4, 5), (APP, "main", 1, 2))
        self.times = 0

    def native(self, *functions: tuple[int | None, int | None], gap: bool = False) -> int:
        """The id of a native stack, functions (module, offset) from the outermost; ``gap``: outer ones are missing."""
        parent = None
        for number, (module, offset) in enumerate(functions):
            known = len(self.rows.get("native", [])) + 1
            self.add("native", id=known, parent=parent, module=module, offset=offset, gap=gap and number == 0)
            parent = known
        assert parent
        return parent

    def ticks(self, native: int | None, count: int = 1, **columns: Any) -> None:
        for _ in range(count):
            self.times += 10 * MS
            self.tick(self.times, self.one, self.main, self.line5, native=native, **(CALL | columns))

    def case(self, number: int) -> None:
        """Lets the next ticks be on a line of their own, with this number: what an instruction calls is told by stack."""
        self.line5 = self.stack((APP, f"case_{number}", number, number), (APP, "main", 1, 2))

    def classes(self, folder: Path) -> dict[int, tuple[float, float]]:
        """By line, its time in native code and in Python's."""
        lines = build_report([self.write(folder / "t.parquet")], Selection()).lines
        return {line.line or 0: (round(line.native_s or 0, 9), round(line.python_s or 0, 9)) for line in lines}

    def callees(self, folder: Path) -> list[CalleeTime]:
        (line,) = build_report([self.write(folder / "t.parquet")], Selection()).lines
        assert line.callees is not None
        return line.callees


def stacks_of(path: Path) -> dict[str, int]:
    """Collapsed stacks without files, with ms."""
    profile = read_profile([path], Selection(), ["cpu"])
    found: dict[str, int] = {}
    for value in profile.values["cpu"]:
        names = ";".join(frame.function for frame in profile.stacks.of(value.stack))
        found[names] = found.get(names, 0) + value.value // 1_000_000
    return found


@pytest.mark.parametrize("begin", [(PYTHON, 320), (LIBC, 32)])
def test_what_is_beyond_a_loop_that_was_not_found_is_not_what_python_called(
    begin: tuple[int, int], tmp_path: Path
) -> None:
    """In an interpreter without symbols, the native stack may lead past the bytecode loop, to where the thread begins. The
    function that makes a frame there belongs to an earlier call."""
    program = Program()
    facts = {"pc_class": "extension", "pc_module": EXTENSION, "extension_module": EXTENSION}
    program.ticks(program.native(begin, (PYTHON, 80), (PYTHON, NAMELESS), (EXTENSION, 16)), 30, **facts)
    program.ticks(program.native(begin, (PYTHON, 80), (PYTHON, 48)), 10, opcode="CALL_BUILTIN_O")
    found = build_report([program.write(tmp_path / "t.parquet")], Selection())
    assert not found.lines[0].callees and found.lines[0].native_s == pytest.approx(0.4)
    assert found.findings[0].text.endswith(" three quarters of it in the library fast.")
    assert all(frame not in "".join(stacks_of(tmp_path / "t.parquet")) for frame in ("_start", "clone"))


def test_a_stack_from_the_beginning_of_a_thread_without_python_is_whole(tmp_path: Path) -> None:
    program = Program()
    facts = {"pc_class": "extension", "pc_module": EXTENSION, "has_python": False}
    program.tick(5 * MS, program.one, program.main, None, native=program.native((LIBC, 32), (EXTENSION, 16)), **facts)
    program.write(tmp_path / "t.parquet")
    assert stacks_of(tmp_path / "t.parquet") == {"[no Python stack];clone;fast_call": 10}


def test_a_thread_of_a_library_keeps_its_functions_below_the_line_that_it_works_for(tmp_path: Path) -> None:
    program = Program()
    facts = {"pc_class": "extension", "pc_module": EXTENSION, "extension_module": EXTENSION}
    program.ticks(program.native((EXTENSION, 16)), 3, **facts)
    helper = program.thread(program.one, cpu_ns=0, tid=1002)
    whole = program.native((LIBC, 32), (EXTENSION, 16), (EXTENSION, 32))
    program.tick(15 * MS, program.one, helper, None, native=whole, has_python=False, **facts)
    path = program.write(tmp_path / "t.parquet")
    assert stacks_of(path) == {"main;leaf;fast_call": 30, "main;leaf;clone;fast_call;kernel": 10}


def test_the_callee_is_the_outermost_function_that_does_not_pass_a_call_on(tmp_path: Path) -> None:
    program = Program()
    program.ticks(program.native((PYTHON, 16), (PYTHON, 32), (PYTHON, 48), (PYTHON, 64)), 3)
    program.ticks(program.native((PYTHON, 16), (EXTENSION, 16), (EXTENSION, 32), (LIBC, 16)), 2)
    program.ticks(program.native((PYTHON, 16), (PYTHON, 32)))  # only the interpreter's own work
    program.ticks(None, pc_class="eval")
    first, second = program.callees(tmp_path)
    assert (first.name, first.library, first.image, round(first.cpu_s, 6)) == (
        "builtin_min",
        "python3",
        "interpreter",
        0.03,
    )
    assert (second.name, second.library, second.image, round(second.cpu_s, 6)) == (
        "fast_call",
        "fast",
        "extension",
        0.02,
    )
    assert stacks_of(tmp_path / "t.parquet") == {
        "main;leaf;builtin_min;long_richcompare": 30,
        "main;leaf;fast_call;kernel;memcpy": 20,
        "main;leaf;python3": 10,
        "main;leaf": 10,
    }


#: Functions through which the bytecode loop of CPython 3.15 calls, and whether they call C functions alone.
CALLING_315 = {
    "_Py_VectorCall_StackRefSteal": False,
    "_Py_VectorCallInstrumentation_StackRefSteal": False,
    "_Py_CallBuiltinClass_StackRef": False,
    "_Py_BuiltinCallFast_StackRef": True,
    "_Py_BuiltinCallFastWithKeywords_StackRef": True,
    "_PyCallMethodDescriptorFast_StackRef": True,
    "_PyCallMethodDescriptorFastWithKeywords_StackRef": True,
}


def test_the_functions_through_which_3_15_calls_pass_calls_on(tmp_path: Path) -> None:
    with open_traces([Program().write(tmp_path / "t.parquet")]) as traces:
        for name, calls_c in CALLING_315.items():
            asked = traces.connection.execute("SELECT is_passing_on($1), is_calling_c($1)", [name]).fetchone()
            assert asked == (True, calls_c), name


def test_callees_of_several_traces_are_summed(tmp_path: Path) -> None:
    program = Program()
    program.ticks(program.native((PYTHON, 16), (PYTHON, 48)), 3)
    path = program.write(tmp_path / "t.parquet")
    (line,) = build_report([path, path], Selection()).lines
    assert line.callees and [(each.name, round(each.cpu_s, 6)) for each in line.callees] == [("builtin_min", 0.06)]


def test_a_stack_without_its_outermost_functions_has_no_callee(tmp_path: Path) -> None:
    program = Program()
    program.ticks(program.native((PYTHON, 64), (EXTENSION, 32), gap=True))
    assert program.callees(tmp_path) == []
    assert stacks_of(tmp_path / "t.parquet") == {"main;leaf;python3": 10}


def test_functions_without_a_name_have_that_of_their_library_once(tmp_path: Path) -> None:
    program = Program()
    program.ticks(program.native((EXTENSION, 999), (EXTENSION, 888), (None, None), (None, None), (LIBC, 16)))
    (callee,) = program.callees(tmp_path)
    assert (callee.name, callee.library) == (None, "fast")
    assert stacks_of(tmp_path / "t.parquet") == {"main;leaf;fast;[code in no known file];memcpy": 10}


def test_operations_of_the_interpreter_are_below_pythons_frames_too(tmp_path: Path) -> None:
    program = Program()
    program.ticks(program.native((PYTHON, 64)), opcode="BINARY_OP", vectorcall=False)
    assert [callee.name for callee in program.callees(tmp_path)] == ["long_richcompare"]
    assert stacks_of(tmp_path / "t.parquet") == {"main;leaf;long_richcompare": 10}


def test_allocations_have_native_stacks_in_exports(tmp_path: Path) -> None:
    program = Program()
    native = program.native((PYTHON, 16), (EXTENSION, 16), (LIBC, 16))
    program.alloc(5 * MS, program.one, program.main, program.line5, 1_000, native=native)
    program.alloc(6 * MS, program.one, program.main, program.line5, 500)
    profile = read_profile([program.write(tmp_path / "t.parquet")], Selection(), ["allocated"])
    names = {tuple(f.function for f in profile.stacks.of(v.stack)): v.value for v in profile.values["allocated"]}
    assert names == {("main", "leaf", "fast_call", "memcpy"): 1_000, ("main", "leaf"): 500}


#: Offsets of the functions on the stack from the outermost, instruction, flags, and whether it is native.
CLASSES: dict[str, tuple[tuple[int, ...], str, dict[str, bool], bool]] = {
    "C function": ((16, 32, 48), "CALL_BUILTIN_FAST", {}, True),
    "frame of a callback": ((16, 32, 48, 80, 96), "CALL_BUILTIN_FAST", {}, False),
    "freed with a frame": ((16, 32, 48, 128, 112), "CALL_BUILTIN_FAST", {}, False),
    "frame of an object that is freed": ((16, 32, 48, 112, 128), "CALL_BUILTIN_FAST", {}, True),
    "locals()": ((16, 32, 144), "CALL", {"vectorcall": True}, True),
    "arguments": ((160, 176), "CALL_FUNCTION_EX", {"vectorcall": True}, False),
    "operand that is freed": ((112,), "CALL_BUILTIN_O", {}, False),
    "operand that is freed by its type": ((240, 112), "CALL", {"vectorcall": True}, False),
    "freed by a C function": ((16, 32, 48, 112), "CALL_BUILTIN_O", {}, True),
    "exception that goes through a call": ((256,), "CALL_BUILTIN_O", {}, False),
    "C function with arguments": ((160, 32, 48), "CALL_FUNCTION_EX", {"vectorcall": True}, True),
    "frame of a callback, without names": ((48, NAMELESS, NAMELESS), "CALL_BUILTIN_O", {"frame_setup": True}, False),
    "arguments freed by a function without a name": ((NAMELESS, 304), "CALL_FUNCTION_EX", {}, False),
    "freed by a C function without a name": ((NAMELESS, 304), "CALL_FUNCTION_EX", {"vectorcall": True}, True),
    "arguments of a C function": ((160, 304), "CALL_FUNCTION_EX", {"vectorcall": True}, False),
    "instance, with keywords": ((192, NAMELESS), "CALL_KW_NON_PY", {"tp_call": True, "frame_setup": True}, False),
    "C object, with keywords": ((192, 48), "CALL_KW_NON_PY", {"vectorcall": True}, True),
    "frame below a function without a name": ((NAMELESS, 80, 96), "CALL_BUILTIN_O", {}, False),
    "frame of an earlier call, beyond the loop": ((320, 80, 48), "CALL_BUILTIN_O", {}, True),
}


def test_the_class_follows_from_the_functions_on_the_stack(tmp_path: Path) -> None:
    program = Program()
    for number, (offsets, opcode, flags, _) in enumerate(CLASSES.values(), start=10):
        program.case(number)
        native = program.native(*((PYTHON, offset) for offset in offsets))
        program.ticks(native, opcode=opcode, **({"vectorcall": False} | flags))
    found = dict(zip(CLASSES, (each for _, each in sorted(program.classes(tmp_path).items())), strict=True))
    assert found == {case: (0.01, 0) if is_native else (0, 0.01) for case, (*_, is_native) in CLASSES.items()}


CALLS = ("CALL", "CALL_NON_PY_GENERAL", "CALL_KW_NON_PY", "CALL_FUNCTION_EX", "CALL_EX_NON_PY_GENERAL")


def test_the_work_of_calling_an_object_has_the_class_of_what_it_calls(tmp_path: Path) -> None:
    """Two ticks tell, three are in the machinery of calls; one of another instruction does not count."""
    program = Program()
    machinery = program.native((PYTHON, 192))
    cases = dict(enumerate(((opcode, calls_c) for opcode in CALLS for calls_c in (True, False)), start=10))
    for number, (opcode, calls_c) in cases.items():
        program.case(number)
        told = {"vectorcall": True} if calls_c else {"vectorcall": False, "tp_call": True, "frame_setup": True}
        program.ticks(program.native((PYTHON, 192), (PYTHON, 48 if calls_c else 80)), 2, opcode=opcode, **told)
        program.ticks(machinery, 3, opcode=opcode, vectorcall=False, tp_call=True)
        program.ticks(None, opcode="CALL_KW", vectorcall=not calls_c, tp_call=calls_c, frame_setup=calls_c)
    found = program.classes(tmp_path)
    assert {case: found[number] for number, case in cases.items()} == {
        case: (0.05, 0.01) if case[1] else (0.01, 0.05) for case in cases.values()
    }


def test_a_call_itself_has_the_class_of_what_it_calls(tmp_path: Path) -> None:
    """Two ticks tell, three are in functions that serve any call: its start, its end, and within. Without ticks that tell, the
    opcode decides."""
    program, alone = Program(), Program()
    functions = [(16,), (208,), (16, 272)]
    cases = dict(enumerate(((stack, calls_c) for stack in functions for calls_c in (True, False)), start=10))
    for number, (stack, calls_c) in cases.items():
        program.case(number)
        alone.case(number)
        told = {"vectorcall": True} if calls_c else {"vectorcall": False, "tp_call": True, "frame_setup": True}
        program.ticks(program.native((PYTHON, 192), (PYTHON, 48 if calls_c else 80)), 2, opcode="CALL", **told)
        for each in program, alone:
            native = each.native(*((PYTHON, function) for function in stack))
            each.ticks(native, 3, opcode="CALL", vectorcall=True)
    found = program.classes(tmp_path)
    assert {case: found[number] for number, case in cases.items()} == {
        case: (0.05, 0) if case[1] else (0, 0.05) for case in cases.values()
    }
    assert alone.classes(tmp_path) == dict.fromkeys(cases, (0.03, 0))


TELLING = {"vectorcall": False, "tp_call": True, "frame_setup": True}


@pytest.mark.parametrize(
    ("functions", "told"),
    [((192, 208), TELLING), ((192, 224), TELLING | {"type_call": True})],
    ids=["every call checks its result", "types of either kind are called through type_call"],
)
def test_what_any_call_does_says_nothing_of_the_callee(
    tmp_path: Path, functions: tuple[int, ...], told: dict[str, bool]
) -> None:
    """One tick in the function that calls C functions tells, against three that do not."""
    program = Program()
    program.ticks(program.native((PYTHON, 192), (PYTHON, 32)), vectorcall=True)
    program.ticks(program.native(*((PYTHON, function) for function in functions)), 3, **told)
    program.ticks(program.native((PYTHON, 192)), 2, vectorcall=False, tp_call=True)
    (line,) = build_report([program.write(tmp_path / "t.parquet")], Selection()).lines
    assert (line.native_s, line.python_s) == pytest.approx((0.03, 0.03), abs=1e-9)


#: Work that is the same for a class in Python and for a type in C without a function of its own: object.__init__.
OF_OBJECT = TELLING | {"type_call": True}


#: What else is on the stack: function and flags, and whether the open ticks are native.
OTHERS: dict[str, tuple[list[tuple[int, dict[str, bool]]], bool]] = {
    "nothing": ([], False),
    "a function in C": ([(48, {})], True),
    "a frame": ([(80, TELLING)], False),
    "functions without a name": ([(NAMELESS, {})] * 4, True),
    "one that an object calls": ([(NAMELESS, {"type_call": True})], True),
    "as many of both": ([(48, {}), (80, TELLING)], False),
}


def test_what_makes_instances_of_any_type_only_tells_if_nothing_else_does(tmp_path: Path) -> None:
    """Three ticks in a function of ``object``, against others; two are open. A function without a name tells as little,
    unless it is known that an object that is called has called it."""
    program = Program()
    program.rows["process"][0]["python_version"] = "3.10.13"
    expected = {}
    for number, (case, (others, is_native)) in enumerate(OTHERS.items(), start=10):
        program.case(number)
        program.ticks(program.native((PYTHON, 192), (PYTHON, 288)), 3, **OF_OBJECT)
        for offset, flags in others:
            program.ticks(program.native((PYTHON, 192), (PYTHON, offset)), **{"vectorcall": True} | flags)
        program.ticks(program.native((PYTHON, 192)), 2, vectorcall=False, tp_call=True)
        in_c = sum("tp_call" not in flags for _, flags in others)
        expected[case] = pytest.approx(0.01 * (in_c + 2 * is_native), abs=1e-9)
    found = program.classes(tmp_path)
    assert {case: found[number][0] for number, case in enumerate(OTHERS, start=10)} == expected


def test_the_check_of_a_result_belongs_to_the_call_on_3_10_too(tmp_path: Path) -> None:
    """The recorder marks it as the set-up of a frame there, since each call of a Python function ends with it too."""
    program = Program()
    program.rows["process"][0]["python_version"] = "3.10.13"
    program.ticks(program.native((PYTHON, 16), (PYTHON, 48)), opcode="CALL_FUNCTION", vectorcall=True)
    program.ticks(program.native((PYTHON, 208)), 2, opcode="CALL_FUNCTION", vectorcall=False, frame_setup=True)
    (line,) = build_report([program.write(tmp_path / "t.parquet")], Selection()).lines
    assert (line.native_s, line.python_s) == pytest.approx((0.03, 0), abs=1e-9)


HOSTILE: dict[str, list[dict[str, Any]]] = {
    "no id": [{"id": None, "parent": None}],
    "its own parent": [{"id": 1, "parent": 1}],
    "a circle": [{"id": 1, "parent": 2}, {"id": 2, "parent": 1}],
    "one id often": [{"id": 1, "parent": None}] * 500 + [{"id": 1, "parent": 1}] * 500,
    "negative ids": [{"id": -1, "parent": 0}, {"id": 0, "parent": None}],
    "a long chain": [{"id": n, "parent": n - 1 or None} for n in range(1, 5_000)],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_native_stacks_end(tmp_path: Path, case: str) -> None:
    program = Program()
    for row in HOSTILE[case]:
        program.add("native", module=EXTENSION, offset=16, gap=False, **row)
    for native in (1, -1, 4_999, None):
        program.ticks(native)
    path = program.write(tmp_path / "t.parquet")
    assert sum(stacks_of(path).values()) == 40
    with open_traces([path], Selection(), REPORT_TABLES) as traces:
        assert json.dumps(entry(traces, Selection()))
        frames = NativeFrames(traces.connection)
        assert all(len(frames.called(native)) <= 256 for native in (1, -1, 4_999, None))
    assert round(sum(line.cpu_s or 0 for line in build_report([path], Selection()).lines), 6) == 0.04


def test_rare_native_stacks_keep_their_python_frames_in_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program()
    program.ticks(program.native((EXTENSION, 16)), 3)
    for offset in (32, 100, 200):
        program.ticks(program.native((EXTENSION, offset), (LIBC, 16)))
    monkeypatch.setattr(series, "MAX_STACKS", 2)
    with open_traces([program.write(tmp_path / "t.parquet")], Selection(), REPORT_TABLES) as traces:
        made = entry(traces, Selection())
    assert made["short_stacks"] == 0
    names = [made["function_names"][number] for number in made["locations"]["function"]]
    assert names.count("main") == 1 and names.count("leaf") == 1 and "fast_call" in names
    assert sum(line < 0 for line in made["locations"]["line"]) < 5
