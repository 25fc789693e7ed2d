"""Memory and files of another process: all that was asked for, or an error."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scalene_trace.recorder.attached.facts import Mapping, open_mapped
from scalene_trace.recorder.attached.memory.recording import AttachedMemory
from scalene_trace.recorder.attached.memory.recording import _is_gone as is_gone
from scalene_trace.recorder.attached.memory.recording import _refusal_of_access as refusal_of_access
from scalene_trace.recorder.errors import SetupError
from scalene_trace.recorder.folder.held import HeldFolder
from scalene_trace.recorder.other_memory import read_memory, write_pieces, write_unless_changed

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype, LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
)
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE = mmap.PAGESIZE


def test_bytes_are_read_and_written() -> None:
    memory = ctypes.create_string_buffer(b"before", 8)
    at = ctypes.addressof(memory)
    assert read_memory(os.getpid(), at, 8) == b"before\0\0"
    write_pieces(os.getpid(), [(at + 2, b"\0"), (at + 3, b"\1a")])
    assert memory.raw == read_memory(os.getpid(), at, 8) == b"be\0\1ae\0\0"


@pytest.mark.parametrize(
    "call", [lambda at: read_memory(os.getpid(), at, 16), lambda at: write_pieces(os.getpid(), [(at, bytes(16))])]
)
def test_a_part_is_an_error(call: Callable[[int], object]) -> None:
    pages = LIBC.mmap(None, 2 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert LIBC.munmap(pages + PAGE, PAGE) == 0
    call(pages)
    for at in (pages + PAGE - 8, pages + PAGE):
        with pytest.raises(OSError) as raised:
            call(at)
        assert raised.value.errno == errno.EFAULT
    LIBC.munmap(pages, PAGE)


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen("true") as ended:
        pass
    with pytest.raises(ProcessLookupError):
        read_memory(ended.pid, PAGE, 8)
    ctypes.set_errno(0)
    with pytest.raises(ProcessLookupError):
        write_unless_changed(ended.pid, [], [(PAGE, b"new")])
    with pytest.raises(ProcessLookupError, match="it has ended"):  # rather than: it is another user's
        refusal_of_access(ended.pid)
    with pytest.raises(SetupError) as said:
        AttachedMemory(ended.pid, HeldFolder(tmp_path))
    assert "has ended" in str(said.value)
    assert "Errno" not in str(said.value)


@pytest.mark.parametrize("number", [errno.ESRCH, errno.EFAULT])
def test_exec_takes_away_what_is_read(number: int) -> None:
    assert is_gone(os.getpid(), OSError(number, "as after exec"))
    assert not is_gone(os.getpid(), OSError(errno.ENOSPC, "a full disk"))


def test_a_file_that_has_taken_the_name_of_one_that_is_mapped_must_be_harmless(tmp_path: Path) -> None:
    """It may have the same number, on another file system. To read /proc/kmsg, which is regular, would not end."""
    (tmp_path / "a").write_text("same")
    for path, is_read in ((tmp_path / "a", True), (Path("/proc/version"), False), (Path("/dev/null"), False)):
        mapping = Mapping(PAGE, 2 * PAGE, 0, 0, path.stat().st_ino, bytes(path))
        if is_read:
            os.close(open_mapped(os.getpid(), mapping))
            continue
        with pytest.raises(FileNotFoundError):
            open_mapped(os.getpid(), mapping)
