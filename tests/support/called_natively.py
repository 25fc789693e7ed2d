"""Whose work a native stack is, while the bytecode loop calls a C function or a type that is known: the rules of
docs/design/attribution.md, applied to stacks of Linux perf."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.support.functions_of_files import native_code
from tests.support.perf import FRAMES, LOOP, Frame

#: They pass a call on to what was meant, or check its result: their work is open until that is known. (The check often is the
#: last that they do, by a jump, so that the loop seems to call it.) They ask for the thread's state, which is TLS.
ANY_CALL = re.compile(
    r"^_?PyObject_(Vectorcall|FastCall|Call)\w*$|^call_function$|^vectorcall_|^method_vectorcall|^_Py_CheckFunctionResult$"
    r"|^__tls_get_addr"
)
TP_CALL = "_PyObject_MakeTpCall"
MAIN = "Py_BytesMain"
FEW = 0.05
FREEING = ("_dealloc", "_clear", "_finalize")
#: The loop calls them itself, in instructions that call: of a call that is specialised for C functions they are native.
IN_CALLS = {"PyObject_Str", "PySequence_Tuple"}
#: A type's own C functions have at least one in so many samples of those in functions that make instances.
FEWEST_NATIVE = 8
PYTHON, NATIVE, OWN, TYPE, OPEN, OUTSIDE = "python", "native", "own", "type", "open", "outside"
INSTRUCTION, DEEPER = "instruction", "deeper"

#: A function: its file, and the offset in the file at which it starts.
Function = tuple[str, int]


@dataclass(frozen=True)
class Interpreter:
    """What is known of an interpreter: where code lies in memory (start, end, offset in the file, file), the function
    through which types are called, those that make instances for Python classes, and the one that frees tuples."""

    images: Sequence[tuple[int, int, int, str]]
    type_call: Function
    of_object: frozenset[Function]
    tuple_dealloc: Function

    def function(self, address: int) -> Function:
        """The function at an address in memory."""
        return function_at(self.images, address)


def function_at(images: Sequence[tuple[int, int, int, str]], address: int) -> Function:
    """The function at an address in memory."""
    start, _, offset, file = next(image for image in images if image[0] <= address < image[1])
    return started((file, address - start + offset))


def started(place: tuple[str, int]) -> Function:
    """The function that contains an instruction."""
    file, offset = place
    start = native_code(file).start_of(offset) if file.startswith("/") else None
    return file, offset if start is None else start


def of_frame(frame: Frame) -> Function:
    return started((frame.file, frame.offset))


@dataclass(frozen=True)
class Called:
    """What a case calls: the C functions that the call enters, and the one that leads there (``tp_call``, or a descriptor's
    vectorcall)."""

    entered: frozenset[Function]
    through: Function


def is_direct(caller: Frame) -> bool:
    """Whether a frame calls the next inner one by name."""
    return caller.file.startswith("/") and native_code(caller.file).has_direct_call(caller.offset + 1)


def sets_up_frame(outer_first: Iterable[Frame]) -> bool:
    """Whether the frame of a Python function is made, entered or cleared; but not one that dies with an object."""
    for frame in outer_first:
        if frame.name.startswith(FRAMES):
            return True
        if frame.name.endswith(FREEING):
            return False
    return False


def of_type(outer_first: Sequence[Frame], python: Interpreter) -> str:
    """Of a stack whose outermost function calls a type: its own work is Python's, and so is making an instance for it."""
    if len(outer_first) == 1 or is_direct(outer_first[0]):
        return TYPE
    return OWN if of_frame(outer_first[1]) in python.of_object else NATIVE


def class_of(chain: Sequence[Frame], called: Called, python: Interpreter) -> str:
    """``own``: Python's, of a function that makes instances for Python classes, and for types in C that have none of their
    own; ``type``: of the function that types are called through; ``open``: of those that all such calls pass through;
    ``instruction``: of the instruction that calls."""
    depth = next((i for i, frame in enumerate(chain) if frame.name == LOOP), None)
    if depth is None:
        return OUTSIDE
    outer_first = list(reversed(chain[:depth]))
    if not outer_first or sets_up_frame(outer_first):
        return PYTHON
    is_open = False
    for i, frame in enumerate(outer_first):
        function = of_frame(frame)
        if function == python.type_call:
            return of_type(outer_first[i:], python)
        if function == called.through or function in called.entered:
            return NATIVE
        if i and outer_first[i - 1].name == TP_CALL and not is_direct(outer_first[i - 1]):
            if function == python.tuple_dealloc:
                return OPEN  # of the tuple of arguments, which each such call makes and frees
            return OWN if function in python.of_object else NATIVE  # type_call may be inlined
        if frame.name == TP_CALL:
            is_open = True
        elif not ANY_CALL.match(frame.name):
            by_loop = INSTRUCTION if frame.name in IN_CALLS else PYTHON
            return OPEN if is_open else NATIVE if i else by_loop
    return OPEN


def loops(chain: Sequence[Frame]) -> int:
    """How many bytecode loops are on a stack."""
    return sum(frame.name == LOOP for frame in chain)


def classes_of(chains: Sequence[Sequence[Frame]], called: Called, python: Interpreter) -> Counter[str]:
    """Of the stacks of a case. ``deeper``: in Python code that the callee runs, which has a bytecode loop of its own. A few
    stacks may be of the function that calls the case's, with one loop less (3.10)."""
    whole = Counter(loops(chain) for chain in chains if any(each.name == MAIN for each in chain))
    usual = [count for count, number in whole.items() if number >= FEW * whole.total()]
    least = min(usual, default=len(chains))
    return Counter(DEEPER if loops(chain) > least else class_of(chain, called, python) for chain in chains)


def native_share(classes: Counter[str], is_specialised: bool = False) -> float:
    """Percent of the work that is native. What is open is native if the call runs a C function of what is called, and not
    only what makes instances of Python classes too."""
    native = classes[NATIVE] + classes[INSTRUCTION] * is_specialised
    native += classes[OPEN] * (classes[NATIVE] * FEWEST_NATIVE > classes[OWN])
    split = sum(classes[each] for each in (NATIVE, PYTHON, OWN, TYPE, OPEN, INSTRUCTION))
    return 100 * native / split if split else float("nan")
