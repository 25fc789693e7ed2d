"""Memory of another process, by the calls that the watcher and the shim use too."""

from __future__ import annotations

import ctypes
import errno
import os


def read_memory(pid: int, address: int, size: int) -> bytes:
    """So many bytes. Raises OSError; EFAULT where some of them are not there."""
    return _move("process_vm_readv", pid, address, bytes(size))


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Raises OSError, as :func:`read_memory`; then a part may be written."""
    _move("process_vm_writev", pid, address, data)


def _move(name: str, pid: int, address: int, data: bytes) -> bytes:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    memory = ctypes.create_string_buffer(data, len(data))
    own = (ctypes.c_size_t * 2)(ctypes.addressof(memory), len(data))
    other = (ctypes.c_size_t * 2)(address, len(data))
    done = function(ctypes.c_int(pid), own, ctypes.c_ulong(1), other, ctypes.c_ulong(1), ctypes.c_ulong(0))
    if done != len(data):
        number = ctypes.get_errno() if done < 0 else errno.EFAULT
        raise OSError(number, os.strerror(number))
    return memory.raw
