"""What an interpreter's ``_PyRuntime`` says: from CPython 3.13 on it begins with a table about the build."""

from __future__ import annotations

import ctypes

from ..formats.libraries import watch_library

#: As much of it as is asked for (pylayout.h).
RUNTIME_BYTES = 1024
#: The release level of PY_VERSION_HEX for a final release.
FINAL = 0xF0
_COOKIE, _FREE_THREADED_AT = b"xdebugpy", 16


def has_table(runtime: bytes) -> bool:
    """Does it begin with the table?"""
    return runtime.startswith(_COOKIE)


def is_free_threaded(runtime: bytes) -> bool:
    """Does the table say that the build has no GIL?"""
    flag = runtime[_FREE_THREADED_AT : _FREE_THREADED_AT + 8]
    return has_table(runtime) and int.from_bytes(flag, "little") != 0


def frames_readable(version: int, runtime: bytes) -> int:
    """How the frames of this version (PY_VERSION_HEX) are read, by the table that the shim uses itself: -1 = not at all, 1 = only
    by process_vm_readv, 0 = in any way."""
    data = ctypes.create_string_buffer(runtime.ljust(RUNTIME_BYTES, b"\0"), RUNTIME_BYTES)
    found: int = watch_library().scalene_layout(ctypes.c_uint32(version), data)
    return found


def offsets_of_interpreters(version: int, runtime: bytes) -> tuple[int, int, int] | None:
    """Where ``_PyRuntime`` has the first interpreter, and an interpreter the next one and its first thread: offsets in bytes, from
    the same table. None = the layout is unknown."""
    data = ctypes.create_string_buffer(runtime.ljust(RUNTIME_BYTES, b"\0"), RUNTIME_BYTES)
    found = (ctypes.c_int * 3)()
    if watch_library().scalene_layout_of_interpreters(ctypes.c_uint32(version), data, found):
        return None
    return found[0], found[1], found[2]
