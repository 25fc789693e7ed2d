"""Values that targets/old_calls.py passes to what it calls."""

import _thread
import functools
import io
import operator
import os
import re
import sys
import time
import types

#: Arguments of callables that need more than three, or certain ones.
KNOWN = {
    "builtins.UnicodeDecodeError": ["utf8", "bytes", "zero", "one", "name"],
    "builtins.UnicodeEncodeError": ["utf8", "text", "zero", "one", "name"],
    "builtins.UnicodeTranslateError": ["text", "zero", "one", "name"],
    "builtins.traceback": ["none", "frame", "zero", "one"],
    "functools._lru_cache_wrapper": ["len", "seven", "zero", "object"],
    "time.get_clock_info": ["monotonic"],
    "time.strptime": ["date", "date_format"],
}


class Plain:
    """A class in Python."""


async def async_generator():
    yield 1


def made_values():
    """Name to a function that makes a value."""
    text, data = "añb" * 2_000, bytes(range(256)) * 20
    ints, words = list(range(700)), [f"word {each}" for each in range(700)]
    plain = {"none": None, "zero": 0, "one": 1, "seven": 7, "thousand": 1_000, "number": 7**2_000, "float": 0.5}
    plain |= {"complex": 1 + 2j, "slice": slice(1, 9), "range": range(700), "nowhere": "/dev/null", "utf8": "utf-8"}
    texts = {
        "empty_text": "",
        "letter": "a",
        "name": "abc",
        "text": text,
        "digits": "7" * 2_000,
        "ascii": "text " * 2_000,
    }
    texts |= {"float_text": "0.25", "mode": "rb", "strict": "strict", "date": "2026-11-26", "date_format": "%Y-%m-%d"}
    texts |= {"monotonic": "monotonic", "empty_bytes": b"", "bytes": data}
    tuples = {"tuple": tuple(ints), "pair": (1, 2), "empty_tuple": (), "words_tuple": tuple(words), "types": (int, str)}
    tuples |= {"nine": tuple(time.gmtime()), "big_tuple": tuple(range(64)), "errors": [ValueError("x")] * 300}
    objects = {"len": len, "add": operator.add, "repr": repr, "int": int, "object": object, "error_type": ValueError}
    objects |= {"plain": Plain, "function": made_values, "code": made_values.__code__, "slot": Plain.__init__}
    objects |= {"sys": sys, "frame": sys._getframe()}
    shared = plain | texts | tuples | objects
    fresh = {
        "list": lambda: list(ints),
        "words": lambda: list(words),
        "pairs": lambda: list(zip(ints, words)),
        "lists": lambda: [ints, ints],
        "bytearray": lambda: bytearray(data),
        "dict": lambda: dict.fromkeys(ints),
        "named": lambda: dict.fromkeys(words),
        "set": lambda: set(ints),
        "frozenset": lambda: frozenset(ints),
        "memory": lambda: memoryview(data),
        "iterator": lambda: iter(ints),
        "chars": lambda: iter(text),
        "bytes_file": lambda: io.BytesIO(data),
        "text_file": lambda: io.StringIO(text),
        "raw_file": lambda: io.FileIO("/dev/null", "rb"),
        "error": lambda: ValueError("x"),
        "instance": Plain,
        "method": Plain().__init__,
        "generator": lambda: (each for each in ints),
        "module": lambda: types.ModuleType("made"),
        "cell": lambda: types.CellType(1),
        "writer": lambda: io.BufferedWriter(io.FileIO("/dev/null", "wb")),
        "reader": lambda: io.BufferedReader(io.BytesIO(data)),
        "random_file": lambda: io.BufferedRandom(io.BytesIO(data)),
        "wrapper": lambda: io.TextIOWrapper(io.BytesIO(data)),
        "descriptors": lambda: list(vars(str).values()),
        "lock": _thread.allocate_lock,
        "cached": lambda: functools.lru_cache(len),
        "match": lambda: re.match(".*", text),
        "folder": lambda: os.scandir("/usr"),
        "asynchronous": async_generator,
        "next": lambda: async_generator().__anext__(),
    }
    return {name: (lambda value=value: value) for name, value in shared.items()} | fresh


VALUES = made_values()


def make(name, constructed):
    """A value by its name. ``new:TYPE`` is an instance of a type, made as the type's own case says."""
    if name.startswith("tuple:"):
        return tuple(range(int(name[6:])))
    if not name.startswith("new:"):
        return VALUES[name]()
    cls, arguments = constructed[name[4:]]
    return cls(*(make(each, {}) for each in arguments))
