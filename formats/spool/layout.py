"""The spool's layout, read from ``spool.h``: numbers by name and one numpy dtype per struct.

cffi has parsed the declarations (generate_layout.py), so offsets and padding are those of the C compiler's ABI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

HEADER_PATH = Path(__file__).with_name("spool.h")

_DEFINE = re.compile(r"#\s*define\s+(\w+)\s+(0[xX][0-9a-fA-F]+|\d+)")
_NUMPY_NAMES = {f"{sign}int{bits}_t": f"{sign[:1] or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@cache
def constants() -> dict[str, int]:
    """Every ``#define NAME number`` of the header."""
    found = (_DEFINE.match(line) for line in declarations())
    return {match[1]: int(match[2], 0) for match in found if match}


@cache
def record_kinds() -> dict[int, str]:
    """Record kind number → struct name, for example 5 → ``record_tick``."""
    prefix = "RECORD_"
    return {n: f"record_{name[len(prefix) :].lower()}" for name, n in constants().items() if name.startswith(prefix)}


def names_of(prefix: str, without: tuple[str, ...] = ()) -> dict[int, str]:
    """Number → lower-case name of the constants that begin with ``prefix``, without it: ``CAUSE_`` → {1: "root", …}.

    ``without``: constants (full names) that share the prefix and are something else.
    """
    chosen = {name: number for name, number in constants().items() if name.startswith(prefix) and name not in without}
    return dict(sorted((number, name[len(prefix) :].lower()) for name, number in chosen.items()))


def declarations() -> Iterator[str]:
    """Lines of the header that hold for cffi: conditionals resolved, comments and includes left out."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER_PATH.read_text("utf-8"), flags=re.DOTALL)
    defined, active = {"SCALENE_TRACE_CFFI"}, [True]
    for line in map(str.strip, text.splitlines()):
        words = line.split()
        if line.startswith(("#ifndef", "#ifdef")):
            active.append((words[1] in defined) == line.startswith("#ifdef"))
        elif line.startswith("#endif"):
            active.pop()
        elif all(active) and line.startswith("#define") and len(words) == 2:
            defined.add(words[1])
        elif all(active) and line and not line.startswith("#include"):
            yield line


def ffi() -> Any:
    """What cffi knows of the header: sizes, offsets, views of memory as its structs."""
    from .layout_ffi import ffi

    return ffi


@cache
def struct_dtype(name: str) -> np.dtype[np.void]:
    """The numpy dtype of ``struct name``, with C's offsets and size; KeyError if the header has no such struct."""
    import numpy as np  # after the program was started: 90 ms

    if name not in ffi().list_types()[1]:
        raise KeyError(name)
    struct = ffi().typeof(f"struct {name}")
    names = [name for name, _ in struct.fields]
    formats = [_format(field.type) for _, field in struct.fields]
    offsets = [field.offset for _, field in struct.fields]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi().sizeof(struct)})


def _format(ctype: Any) -> Any:
    if ctype.kind == "array" and ctype.item.cname == "char":
        return f"S{ctype.length}"
    if ctype.kind == "array":
        return (_NUMPY_NAMES[ctype.item.cname], (ctype.length,))
    return _NUMPY_NAMES[ctype.cname]
