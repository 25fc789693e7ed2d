"""May the recorder read the memory of a process? Where not, what the user can do."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from ..errors import SetupError
from ..other_memory import read_memory
from ..rights.identity import read_identity
from .facts import mappings_of, namespace_of, process_of, reader_of

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_DORMANT = "start the program with scalene-record --pause-at-start, which needs no permission"


def check_attachable(pid: int) -> None:
    """Raises SetupError, with one sentence that says why and one that says what to do, unless the process can be recorded
    from here."""
    if not Path(f"/proc/{pid}").exists():
        raise SetupError(f"There is no process {pid}. (In a container, pids are those that ps shows in the container.)")
    if (process := process_of(pid)) != pid:
        raise SetupError(f"{pid} is a thread of process {process}. Name the process: --pid {process}.")
    if pid == os.getpid():
        raise SetupError(f"Process {pid} is scalene-record itself.")
    if (number := _read_error(pid)) is not None:
        raise SetupError(_refusal(pid, number))
    for kind, what in (("mnt", "files"), ("pid", "process ids")):
        if namespace_of(pid, kind) != namespace_of("self", kind):
            raise SetupError(
                f"Process {pid} runs in a container, where {what} have other names. Run scalene-record in that container."
            )


def _read_error(pid: int) -> int | None:
    """The error of a read of its memory, None if it can be read. The read is of the kind that the watcher makes."""
    try:
        start = next((each.start for each in mappings_of(pid)), None)
    except OSError as error:
        return error.errno or errno.EPERM
    if start is None:
        return errno.ESRCH
    try:
        read_memory(reader_of(pid), start, 8)
    except OSError as error:
        return error.errno or errno.EIO
    return None


def _refusal(pid: int, number: int) -> str:
    if number in (errno.ESRCH, errno.ENOENT):
        return f"Process {pid} has no memory: it has ended or is a thread of the kernel. Name another process."
    if number == errno.ENOSYS:
        return (
            f"Process {pid} cannot be read: the kernel, or a seccomp filter, has no process_vm_readv. Allow that call."
        )
    if number not in (errno.EPERM, errno.EACCES):
        return f"Process {pid} cannot be read: {os.strerror(number).lower()}. Nothing was recorded."
    owner = read_identity(pid)
    if owner is not None and owner.user != os.geteuid() and os.geteuid() != 0:
        return (
            f"Process {pid} belongs to another user (uid {owner.user}). Run scalene-record as that user, or with sudo."
        )
    return f"The kernel refuses reading process {pid}{_by_yama(pid)}"


def _by_yama(pid: int) -> str:
    """The end of the sentence, and what to do."""
    scope = -1
    with suppress(OSError, ValueError):
        scope = int(_YAMA.read_text())
    if scope == 1:
        change = "set kernel.yama.ptrace_scope to 0 (sysctl)"
        return f", because it was not started by scalene-record (kernel.yama.ptrace_scope is 1). Use sudo, or {change}, or {_DORMANT}."
    if scope == 2:
        return f" without CAP_SYS_PTRACE (kernel.yama.ptrace_scope is 2). Use sudo, or {_DORMANT}."
    if scope == 3:
        return f" until the next boot, even for root (kernel.yama.ptrace_scope is 3). To record it, {_DORMANT}."
    return (
        ": it is protected (it has changed its user or capabilities), or a seccomp filter of this container forbids "
        f"process_vm_readv. Use sudo, give the container CAP_SYS_PTRACE, or {_DORMANT}."
    )
