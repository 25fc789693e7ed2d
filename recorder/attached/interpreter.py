"""Finds the interpreter of a running process: the executable or library that exports ``_PyRuntime``, and where it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from ...formats.dataclass import dataclass, replace
from ..convert.native.dynamic import PT_LOAD, Symbol, data_at, dynamic_symbols, sections_of
from ..convert.native.elf import ElfFile
from ..runtime_table import FINAL, RUNTIME_BYTES, frames_readable, is_free_threaded
from .facts import Mapping, mappings_of, open_mapped, reader_of

_RUNTIME, _CODE, _LOOP, _VERSION = "_PyRuntime", "PyCode_Type", "_PyEval_EvalFrameDefault", "Py_Version"
_RUN_TEXT = "PyRun_SimpleString"
_WANTED = frozenset(name.encode() for name in (_RUNTIME, _CODE, _LOOP, _VERSION, _RUN_TEXT))
_NAME = re.compile(rb"(?:lib)?python3\.(\d{1,2})t?d?(?:\.so.*)?")
#: Of an interpreter before 3.11, which exports no version: the text that `sys.version` begins with. It may be the end of a path.
_VERSION_TEXT = re.compile(rb"(?<![\d.])(3)\.(10)\.(\d{1,2})\+?\0")
_TIME_LIMIT_S = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LARGEST, _MOST_SEGMENTS = 1 << 24, 16
_HIGHEST = 1 << 47
_WRITABLE, _READ_ONLY = 2, 4


@dataclass(frozen=True)
class Interpreter:
    """``version``: PY_VERSION_HEX; ``runtime``, ``runtime_bytes``, ``code_type``, ``loop``: addresses in the process, and a
    size, of _PyRuntime, PyCode_Type and an address in its code; ``is_known``: its frames can be read;
    ``is_free_threaded``: built without the GIL; ``run_text``: address of PyRun_SimpleString,
    0 = it is not exported."""

    version: int
    runtime: int
    runtime_bytes: int
    code_type: int
    loop: int
    is_known: bool
    is_free_threaded: bool
    run_text: int = 0


_UNKNOWN = Interpreter(0, 0, 0, 0, 0, is_known=False, is_free_threaded=False)


@dataclass(frozen=True)
class _File:
    """What the file of an interpreter says: as in Interpreter, with ELF virtual addresses. ``first``: that of its first
    segment."""

    found: Interpreter
    first: int


def find_interpreter(pid: int) -> Interpreter | None:
    """The interpreter of a process; None if it has none. Of one whose file is gone, nothing is known. Raises OSError."""
    is_gone = False
    for mapping in _candidates(pid):
        try:
            file = _known_file(pid, mapping)
        except FileNotFoundError:
            is_gone = is_gone or _is_named(mapping)
            continue
        except ValueError:
            continue
        if file is not None and (found := _moved(file.found, mapping.start - file.first)):
            return found
    return _UNKNOWN if is_gone else None


def _moved(found: Interpreter, bias: int) -> Interpreter | None:
    """With the addresses in the process. None if they are impossible: the file says what it likes."""
    names = ("runtime", "code_type", "loop", *(["run_text"] if found.run_text else []))
    places = {name: getattr(found, name) + bias for name in names}
    if not all(0 < place < _HIGHEST for place in places.values()) or not 0 <= found.runtime_bytes < _HIGHEST:
        return None
    return replace(found, **places)


def _is_named(mapping: Mapping) -> bool:
    return b"libpython" in mapping.path.rpartition(b"/")[2]


def _candidates(pid: int) -> Iterator[Mapping]:
    """The first mapping of each file that may be an interpreter, libraries of that name first: an executable that is linked
    with one exports nothing."""
    first: dict[tuple[int, int], Mapping] = {}
    for each in mappings_of(pid):
        if each.offset == 0:
            first.setdefault((each.device, each.inode), each)
    executable = os.stat(f"/proc/{reader_of(pid)}/exe").st_ino  # noqa: PTH116
    named = [each for each in first.values() if _is_named(each)]
    yield from named
    yield from (each for each in first.values() if each.inode == executable)


_files: dict[tuple[int, int], _File | None] = {}


def _known_file(pid: int, mapping: Mapping) -> _File | None:
    """Workers of a pool have the same interpreter, which is read once."""
    key = mapping.device, mapping.inode
    if key not in _files:
        _files[key] = _read(open_mapped(pid, mapping), mapping.path)
    return _files[key]


def _read(descriptor: int, path: bytes) -> _File | None:
    """Raises OSError, ValueError."""
    with ElfFile(descriptor, time.monotonic() + _TIME_LIMIT_S) as file:
        symbols = dynamic_symbols(file, sections_of(file), _WANTED)
        if not {_RUNTIME, _CODE, _LOOP} <= symbols.keys():
            return None
        runtime = data_at(file, symbols[_RUNTIME].address, RUNTIME_BYTES)
        version = _version(file, symbols, path)
        segments = file.segments()
        loaded = segments[segments["type"] == PT_LOAD]
    found = Interpreter(
        version,
        symbols[_RUNTIME].address,
        symbols[_RUNTIME].size,
        symbols[_CODE].address,
        symbols[_LOOP].address,
        frames_readable(version, runtime) >= 0,
        is_free_threaded(runtime),
        symbols[_RUN_TEXT].address if _RUN_TEXT in symbols else 0,
    )
    return _File(found, int(loaded["vaddr"].min()) // _PAGE * _PAGE if len(loaded) else 0)


def _constants(file: ElfFile) -> bytes:
    """What is loaded to be read only; where that is one segment with the code, both."""
    segments = file.segments()
    loaded = segments[segments["type"] == PT_LOAD]
    chosen = loaded[loaded["flags"] == _READ_ONLY]
    chosen = chosen if len(chosen) > 1 else loaded[loaded["flags"] & _WRITABLE == 0]
    return b"\0".join(
        file.read(int(each["offset"]), min(int(each["filesz"]), _LARGEST)) for each in chosen[:_MOST_SEGMENTS]
    )


def _version(file: ElfFile, symbols: dict[str, Symbol], path: bytes) -> int:
    if _VERSION in symbols:
        return int.from_bytes(data_at(file, symbols[_VERSION].address, 4), "little")
    texts = set(_VERSION_TEXT.findall(_constants(file)))
    if len(texts) == 1:
        major, minor, patch = map(int, texts.pop())
        return major << 24 | minor << 16 | patch << 8 | FINAL
    match = _NAME.fullmatch(path.rpartition(b"/")[2])
    return 3 << 24 | (int(match[1]) & 0xFF) << 16 | FINAL if match else 0
