"""Memory of another process, by the calls that the watcher and the shim use too."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence

from ..formats.libraries import watch_library


def read_memory(pid: int, address: int, size: int) -> bytes:
    """So many bytes. Raises OSError; EFAULT where some of them are not there."""
    return _move("process_vm_readv", pid, [(address, size)], bytes(size))


def write_pieces(pid: int, pieces: Sequence[tuple[int, bytes]]) -> None:
    """Writes to these addresses, one after the other, in one system call. Raises OSError, as :func:`read_memory`; then a
    part may be written."""
    places = [(address, len(data)) for address, data in pieces]
    _move("process_vm_writev", pid, places, b"".join(data for _, data in pieces))


def write_unless_changed(pid: int, expected: Sequence[tuple[int, bytes]], pieces: Sequence[tuple[int, bytes]]) -> bool:
    """As :func:`write_pieces`, if these bytes are at these addresses one or two microseconds before; else nothing is written. Returns
    whether it was. Raises OSError."""
    every = [*expected, *pieces]
    places = (ctypes.c_uint64 * (2 * len(every)))(*(each for at, data in every for each in (at, len(data))))
    data = ctypes.create_string_buffer(b"".join(each for _, each in pieces))
    done = watch_library().scalene_write_unless_changed(
        ctypes.c_int(pid),
        places,
        ctypes.c_int(len(expected)),
        b"".join(each for _, each in expected),
        ctypes.c_int(len(pieces)),
        data,
    )
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return bool(done == 0)


def _move(name: str, pid: int, places: Sequence[tuple[int, int]], data: bytes) -> bytes:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    memory = ctypes.create_string_buffer(data, len(data))
    own = (ctypes.c_size_t * 2)(ctypes.addressof(memory), len(data))
    other = (ctypes.c_size_t * (2 * len(places)))(*(each for place in places for each in place))
    done = function(ctypes.c_int(pid), own, ctypes.c_ulong(1), other, ctypes.c_ulong(len(places)), ctypes.c_ulong(0))
    if done != len(data):
        number = ctypes.get_errno() if done < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))
    return memory.raw
