"""The spool's layout, read from ``spool.h`` and ``records.h``: constants by name, and one numpy dtype for each struct.

cffi has parsed the declarations (generate_layout.py), so offsets and padding follow the ABI of the C compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HEADER_PATHS = tuple(Path(__file__).with_name(name) for name in ("spool.h", "records.h"))

_NUMPY_NAMES = {f"{sign}int{bits}_t": f"{sign[:1] or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def constants() -> dict[str, int]:
    """The value of every ``#define NAME number`` of the headers."""
    from .layout_ffi import CONSTANTS  # here, because generate_layout imports this module to write that one

    return CONSTANTS


@cache
def record_kinds() -> dict[int, str]:
    """Number of a record kind → name of its struct, for example 5 → ``record_tick``."""
    prefix = "RECORD_"
    return {n: f"record_{name[len(prefix) :].lower()}" for name, n in constants().items() if name.startswith(prefix)}


def names_of(prefix: str, without: tuple[str, ...] = ()) -> dict[int, str]:
    """Value → lower-case name of the constants that begin with ``prefix``, without the prefix: ``CAUSE_`` → {1: "root", …}.

    ``without``: full names of constants that share the prefix but have another meaning.
    """
    chosen = {name: number for name, number in constants().items() if name.startswith(prefix) and name not in without}
    return dict(sorted((number, name[len(prefix) :].lower()) for name, number in chosen.items()))


def declarations() -> Iterator[str]:
    """The lines of the headers that cffi gets: conditionals are resolved, comments and includes left out."""
    text = "\n".join(path.read_text("utf-8") for path in HEADER_PATHS)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
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
    """The cffi object of the header: sizes, offsets, and views of memory as its structs."""
    from .layout_ffi import ffi  # here, because generate_layout imports this module to write that one

    return ffi


@cache
def struct_dtype(name: str) -> np.dtype[np.void]:
    """The numpy dtype of ``struct name``, with C's offsets and size. Raises KeyError if the header has no such struct."""
    import numpy as np  # takes 90 ms: here, because the recorder imports this module before it starts the program

    if name not in ffi().list_types()[1]:
        raise KeyError(name)
    struct = ffi().typeof(f"struct {name}")
    names = [name for name, _ in struct.fields]
    formats = [_format(field.type) for _, field in struct.fields]
    offsets = [field.offset for _, field in struct.fields]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi().sizeof(struct)})


def rows_of(records: npt.NDArray[np.void], rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.void]:
    """``records[rows]``. numpy copies records field by field, which takes 30 times as long as here."""
    return records.view(f"V{records.dtype.itemsize}").take(rows).view(records.dtype)


def concatenated(parts: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """``numpy.concatenate`` for records of one kind, as fast as :func:`rows_of`."""
    import numpy as np  # as in struct_dtype

    dtype = parts[0].dtype
    return np.concatenate([each.view(f"V{dtype.itemsize}") for each in parts]).view(dtype)


def _format(ctype: Any) -> Any:
    if ctype.kind == "array" and ctype.item.cname == "char":
        return f"S{ctype.length}"
    if ctype.kind == "array":
        return (_NUMPY_NAMES[ctype.item.cname], (ctype.length,))
    return _NUMPY_NAMES[ctype.cname]
