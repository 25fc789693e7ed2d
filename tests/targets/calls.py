"""Calls C functions and types in every way that it finds, each in a function of its own, with a stopwatch of its own.

The cases are generated: every callable of ``builtins`` and of some modules in C, every slot wrapper of the builtin types,
each with the first argument with which one call takes a while, called as ``f(x)`` and as ``f(*x)``. Prints, for each case,
the percentage of its CPU time that the calls took, by the thread's clock; what they made is freed outside of them. For
classes that are written in Python, whose calls are Python's work, it is what reading the clock took. The case is the name
of the function that the profile shows. Arguments: seconds for each; names of further modules whose callables are called.
"""

import builtins
import collections
import functools
import importlib
import itertools
import json
import operator
import random
import struct
import sys
import time
import types

#: A call takes at least and at most so long.
SHORTEST_NS, LONGEST_NS = 40_000, 10_000_000
#: They wait, ask, print, or run Python code.
NEVER = {
    *("input", "print", "exit", "quit", "help", "breakpoint", "open", "exec", "eval", "compile", "__import__"),
    *("copyright", "credits", "license", "globals", "locals", "vars", "dir", "__build_class__", "_"),
}
#: Parts of names of functions that would not end with the number below as both arguments, or double their argument.
ENDLESS = ("pow", "lshift", "iadd", "iconcat", "imul")
#: Of types: made at run time, as all classes are; cannot be changed, which classes are not.
HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8
MODULES = [functools, itertools, operator, collections, struct, *map(importlib.import_module, sys.argv[2:])]
draw = random.Random(7).random
ARGUMENTS = {
    "floats": [draw() for _ in range(5_000)],
    "ints": list(range(5_000)),
    "digits": "7" * 4_000,
    "number": 7**30_000,
    "bytes": bytes(range(256)) * 2_000,
    "text": "añb" * 100_000,
    "pairs": [(each, each) for each in range(3_000)],
    "words": [f"word {each}" for each in range(5_000)],
    "tuple": tuple(range(20_000)),
    "dict": {each: str(each) for each in range(5_000)},
    "set": set(range(5_000)),
}


#: C functions that call other objects in C, which must not be taken for what the bytecode loop has called.
NESTED = {
    "max_itemgetter": functools.partial(max, key=operator.itemgetter(0)),
    "sorted_itemgetter": functools.partial(sorted, key=operator.itemgetter(0)),
    "min_str": functools.partial(min, key=str),
    "min_repr": functools.partial(min, key=repr),
    "sorted_str": functools.partial(sorted, key=str),
}


class Plain:
    pass


class WithInit:
    def __init__(self, value):
        self.value = value


class WithSlots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class WithNew:
    def __new__(cls, value):
        return object.__new__(cls)


class WithCall:
    def __call__(self, value):
        return value


class Meta(type):
    def __call__(cls, *arguments):
        return type.__call__(cls, *arguments)


class WithMeta(metaclass=Meta):
    pass


IN_PYTHON = {
    "plain": (Plain, ()),
    "init": (WithInit, (3,)),
    "slots": (WithSlots, (3,)),
    "new": (WithNew, (3,)),
    "call": (WithCall(), (3,)),
    "meta": (WithMeta, ()),
}


def one_argument(function, argument, end_ns, clock):
    called_ns, begun = 0, clock()
    while clock() < end_ns:
        start = clock()
        result = function(argument)
        called_ns += clock() - start
        del result
    return called_ns, clock() - begun


def unpacked(function, arguments, end_ns, clock):
    called_ns, begun = 0, clock()
    while clock() < end_ns:
        start = clock()
        result = function(*arguments)
        called_ns += clock() - start
        del result
    return called_ns, clock() - begun


def no_argument_often(function, arguments, end_ns, clock):
    rounds = 0
    while clock() < end_ns:
        rounds += 1
        for _ in range(500):
            function()
    return rounds


def one_argument_often(function, arguments, end_ns, clock):
    (argument,), rounds = arguments, 0
    while clock() < end_ns:
        rounds += 1
        for _ in range(500):
            function(argument)
    return rounds


def unpacked_often(function, arguments, end_ns, clock):
    rounds = 0
    while clock() < end_ns:
        rounds += 1
        for _ in range(500):
            function(*arguments)
    return rounds


def renamed(function, name):
    code = function.__code__.replace(co_name=name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, globals(), name)


def callables():
    """Name to function of one argument."""
    for name in sorted(vars(builtins)):
        value = getattr(builtins, name)
        if callable(value) and name not in NEVER and not (isinstance(value, type) and issubclass(value, BaseException)):
            yield name, value
    for module in MODULES:
        for name, value in sorted(vars(module).items()):
            is_type = isinstance(value, type) and (not value.__flags__ & HEAP_TYPE or value.__flags__ & IMMUTABLE_TYPE)
            written_in_c = isinstance(value, types.BuiltinFunctionType) or is_type
            if written_in_c and not name.startswith("_"):
                yield f"{module.__name__}_{name}", value
    yield "partial_min", functools.partial(min)
    yield "methodcaller_count", operator.methodcaller("count", 7)
    yield "reduce_add", functools.partial(functools.reduce, operator.add)
    yield from NESTED.items()
    for kind in (int, float, str, bytes, list, tuple, dict, set):
        for name, value in sorted(vars(kind).items()):
            if isinstance(value, types.WrapperDescriptorType) and name not in ("__init__", "__getattribute__"):
                yield f"{kind.__name__}{name}", value


def took_ns(function, arguments):
    """CPU time of a call, the best of three; None = it fails, or is too long."""
    best = None
    for _ in range(3):
        start = time.thread_time_ns()
        try:
            result = function(*arguments)
        except Exception:
            return None
        spent = time.thread_time_ns() - start
        del result
        if spent > LONGEST_NS:
            return None
        best = spent if best is None else min(best, spent)
    return best


def cases():
    """Name, function, arguments."""
    for name, function in callables():
        if any(part in name for part in ENDLESS):
            continue
        for argument in ARGUMENTS.values():
            for arguments in ((argument,), (argument, argument)):
                if (took_ns(function, arguments) or 0) >= SHORTEST_NS:
                    yield name, function, arguments
                    break
            else:
                continue
            break


def main():
    seconds_ns = int(float(sys.argv[1]) * 1e9)
    clock = time.thread_time_ns
    begun = clock()
    for _ in range(10_000):
        clock()
    clock_ns = (clock() - begun) / 10_000
    shares = {}
    for name, function, arguments in cases():
        forms = {"unpacked": (unpacked, arguments)}
        if len(arguments) == 1:
            forms["plain"] = (one_argument, arguments[0])
        for form, (run, given) in forms.items():
            called_ns, all_ns = renamed(run, f"c_{name}_{form}")(function, given, clock() + seconds_ns, clock)
            shares[f"c_{name}_{form}"] = 100 * called_ns / all_ns
    for name, (function, arguments) in IN_PYTHON.items():
        for run, form in (
            (one_argument_often if arguments else no_argument_often, "plain"),
            (unpacked_often, "unpacked"),
        ):
            rounds = renamed(run, f"py_{name}_{form}")(function, arguments, clock() + 2 * seconds_ns, clock)
            shares[f"py_{name}_{form}"] = 100 * rounds * clock_ns / (2 * seconds_ns)
    print(json.dumps(shares))


main()
