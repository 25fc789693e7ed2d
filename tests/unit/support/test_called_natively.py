"""Stacks of Linux perf are judged by the rules of docs/design/attribution.md."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.called_natively import Called, Interpreter, class_of, classes_of, native_share
from tests.support.perf import Frame, Sample, parsed

FUNCTIONS = ("type_call", "object_new", "cfunction_call", "builtin_max", "list_new", "tupledealloc")
PYTHON = Interpreter(
    images=[],
    type_call=("python", FUNCTIONS.index("type_call")),
    of_object=frozenset({("python", FUNCTIONS.index("object_new"))}),
    tuple_dealloc=("python", FUNCTIONS.index("tupledealloc")),
)
FUNCTION = Called(
    frozenset({("python", FUNCTIONS.index("builtin_max"))}), ("python", FUNCTIONS.index("cfunction_call"))
)
TYPE = Called(frozenset({("python", FUNCTIONS.index("list_new"))}), PYTHON.type_call)


def chain(*names: str) -> list[Frame]:
    """A stack, innermost first, in a file that cannot be read: an offset is a function."""
    known = {name: number for number, name in enumerate(FUNCTIONS)}
    return [Frame(known.get(name, 100 + number), name, "python") for number, name in enumerate(names)]


LOOP, MAKE = "_PyEval_EvalFrameDefault", "_PyObject_MakeTpCall"


@pytest.mark.parametrize(
    ("names", "called", "expected"),
    [
        ((LOOP, "main"), FUNCTION, "python"),
        (("helper_of_loop", LOOP), FUNCTION, "python"),
        (("PyObject_Str", LOOP), FUNCTION, "instruction"),
        (("main",), FUNCTION, "outside"),
        (("malloc", "builtin_max", "cfunction_call", MAKE, LOOP), FUNCTION, "native"),
        (("called_by_a_jump", "cfunction_call", MAKE, LOOP), FUNCTION, "native"),
        (("builtin_max", LOOP), FUNCTION, "native"),
        (("PyObject_Vectorcall", LOOP), FUNCTION, "open"),
        (("__tls_get_addr@plt", "PyObject_Vectorcall", LOOP), FUNCTION, "open"),
        (("_Py_CheckFunctionResult", LOOP), FUNCTION, "open"),
        (("_Py_CheckFunctionResult", "PyObject_Vectorcall", LOOP), TYPE, "open"),
        ((MAKE, "PyObject_Vectorcall", LOOP), FUNCTION, "open"),
        (("malloc", "list_new", MAKE, LOOP), TYPE, "native"),
        (("malloc", "object_new", MAKE, LOOP), TYPE, "own"),
        (("free", "tupledealloc", MAKE, LOOP), TYPE, "open"),
        (("type_call", MAKE, LOOP), TYPE, "type"),
        (("malloc", "object_new", "type_call", MAKE, LOOP), TYPE, "own"),
        (("object_new", "list_new", "type_call", MAKE, LOOP), TYPE, "native"),
        (("malloc", "_PyFrame_New_NoTrack", "builtin_max", "cfunction_call", MAKE, LOOP), FUNCTION, "python"),
        (("frame_dealloc", "generator_dealloc", "builtin_max", "cfunction_call", MAKE, LOOP), FUNCTION, "native"),
    ],
)
def test_a_stack_is_of_the_outermost_call(names: tuple[str, ...], called: Called, expected: str) -> None:
    assert class_of(chain(*names), called, PYTHON) == expected


def test_open_work_is_native_if_a_function_of_the_type_runs() -> None:
    assert native_share(Counter(native=30, own=10, open=20, python=40)) == 50
    assert native_share(Counter(native=10, own=30, open=20, python=40)) == 30
    assert native_share(Counter(native=2, own=40, type=38, open=20)) == 2
    assert native_share(Counter(own=30, open=30, python=40)) == 0


def test_python_code_of_the_callee_does_not_count() -> None:
    own, deeper = chain("builtin_max", LOOP, "Py_BytesMain"), chain(LOOP, "builtin_max", LOOP, "Py_BytesMain")
    assert classes_of([own, deeper, own], FUNCTION, PYTHON) == {"native": 2, "deeper": 1}


def test_the_text_of_perf_is_read() -> None:
    text = "12.000000034: \n\t   1f list_sort.cold (/usr/lib/libpython3.so)\n\t   2 [unknown] ([unknown])\n\n"
    frames = [Frame(0x1F, "list_sort.cold", "/usr/lib/libpython3.so"), Frame(2, "[unknown]", "[unknown]")]
    assert list(parsed(text.splitlines(keepends=True))) == [Sample(12_000_000_034, frames)]
    assert frames[0].name == "list_sort"
