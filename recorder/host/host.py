"""What this host and this process allow, found by trying it. The program is not started: what has to be tried on another
process is tried on a fork of the recorder."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import dataclass
from ..errors import NotExecutable, NotFound, SetupError
from ..folder.output import output_template, setup_error
from ..folder.place import memory_chunks, writes_in_place
from ..other_memory import read_memory
from ..processor import MACHINE, SYSTEM_CALLS
from ..run.program import Program, resolve_program
from ..run.unrecorded import Unrecorded, unrecorded
from ..sampling import nvml
from ..shim_library import preloadable_shim
from ..spool.spool_file import most_chunks
from .interpreter_file import Build, build_of

_THREAD_CPU_CLOCK = 3
_SIGEV_NONE = 1
_TASK_CLOCK = struct.pack("IIQQQQQ", 1, 64, 1, 10**7, 0, 0, 1 << 0 | 1 << 5 | 1 << 6).ljust(64, b"\0")
_SEEN = b"scalene-trace"
#: Options of env(1) whose operand is the next word.
_OPERANDS_OF_ENV = ("-u", "--unset", "-C", "--chdir")
_DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@dataclass(frozen=True)
class Place:
    """Where the recording would lie. ``chunks``: of a spool in memory, 0 = it lies in the folder; ``in_place``: whether that
    is safe there; ``problem``: why nothing can be written, as a recording would say it, else ""; ``limit_chunks``: how many
    chunks ``ulimit -f`` allows."""

    folder: str
    free_bytes: int
    in_place: bool = True
    chunks: int = 0
    problem: str = ""
    limit_chunks: int | None = None


@dataclass(frozen=True)
class Started:
    """What would be started. ``path``: the executable, ``problem``: why it cannot be started, else ""; ``remark``: what a
    recording says about the choice; ``missed``: why it cannot be recorded; ``build``: None if its file does not say it."""

    path: str
    problem: str = ""
    remark: str = ""
    missed: Unrecorded | None = None
    build: Build | None = None


@dataclass(frozen=True)
class Host:
    """Errors are numbers of errno, 0 = none; ``child_error`` None = it could not be tried. Limits: None = there is none.
    ``paranoid``, ``ptrace_scope``: as the kernel shows them, "" = unknown. ``gpus``: None = there is no driver, else the names
    of the devices; ``gpu_error``: why they are unknown. ``is_dev_mode``: PYTHONDEVMODE is set; ``is_posix_only``: perf events
    are not to be used."""

    started: Started
    place: Place
    library_problem: str = ""
    perf_error: int = 0
    paranoid: str = "2"
    has_filter: bool = False
    timer_error: int = 0
    read_error: int = 0
    child_error: int | None = 0
    ptrace_scope: str = "1"
    signals: int | None = None
    descriptors: int | None = None
    locked_bytes: int | None = None
    python_malloc: str = ""
    gpus: Sequence[str] | None = None
    gpu_error: str = ""
    is_dev_mode: bool = False
    is_posix_only: bool = False
    machine: str = "x86_64"
    page_bytes: int = 4096


def this_host(words: list[str], python: str | None, output: Path, is_posix_only: bool = False) -> Host:
    """The host as a recording of ``words`` would find it; without words, of a script. ``is_posix_only``: --cpu-engine posix is
    given. Raises UsageError."""
    child_error = _error_of_reading_a_child()  # first: no thread may run when a process forks
    gpus, gpu_error = _gpus()
    return Host(
        _started(words, python),
        place_of(output),
        _library_problem(output),
        _perf_error(),
        _text("/proc/sys/kernel/perf_event_paranoid"),
        "\nSeccomp:\t2\n" in _text("/proc/self/status"),
        _timer_error(),
        _error_of_reading(os.getpid(), ctypes.addressof(own := ctypes.create_string_buffer(_SEEN)), len(own)),
        child_error,
        _text("/proc/sys/kernel/yama/ptrace_scope"),
        _limit(resource.RLIMIT_SIGPENDING),
        _limit(resource.RLIMIT_NOFILE),
        _limit(resource.RLIMIT_MEMLOCK),
        os.environ.get("PYTHONMALLOC", ""),
        gpus,
        gpu_error,
        bool(os.environ.get("PYTHONDEVMODE")),
        is_posix_only,
        MACHINE,
        resource.getpagesize(),
    )


# ---- the program ----


def _started(words: list[str], python: str | None) -> Started:
    words = words or ["-c", ""]
    try:
        program = resolve_program(words, python)
    except (NotFound, NotExecutable) as error:
        return Started(python or words[0], problem=str(error))
    missed = unrecorded(program.executable, os.environb.get(b"LD_PRELOAD", b""))
    build = None
    with suppress(OSError, SetupError, AttributeError):
        build = build_of(Path(_behind_script(program)))
    return Started(program.executable, "", program.remark, missed, build)


def _behind_script(program: Program) -> str:
    """The interpreter that a script's first line names, else the executable itself."""
    with Path(program.executable).open("rb") as file:
        line = os.fsdecode(file.readline(256))
    words = line[2:].split() if line.startswith("#!") else []
    if words and Path(words[0]).name == "env" and len(words) > 1:
        with suppress(NotFound, NotExecutable):
            return resolve_program([_command_of_env(words[1:]) or words[0]], None).executable
    return words[0] if words else program.executable


def _command_of_env(words: list[str]) -> str:
    """The command among the arguments of env(1); "" if there is none."""
    left = iter(words)
    for word in left:
        if word in _OPERANDS_OF_ENV:
            next(left, None)
        elif word.startswith("-S") and word != "-S":
            return word[2:]
        elif not word.startswith("-") and "=" not in word:
            return word
    return ""


# ---- where it is written ----


def place_of(output: Path) -> Place:
    """Where a recording that writes ``output`` would lie. Writes nothing."""
    try:
        folder = Path(output_template(output)).parent
    except SetupError as error:
        return Place(str(output), 0, problem=str(error))
    try:
        space = os.statvfs(folder)
    except OSError as error:
        return Place(str(folder), 0, problem=str(setup_error(folder, error)))
    problem = "" if os.access(folder, os.W_OK | os.X_OK) else str(setup_error(folder, _DENIED))
    if not problem and most_chunks() == 0:
        problem = str(setup_error(folder, OSError(errno.EFBIG, os.strerror(errno.EFBIG))))
    in_place = writes_in_place(folder)
    return Place(
        str(folder),
        space.f_bavail * space.f_frsize,
        in_place,
        0 if in_place else memory_chunks(),
        problem,
        most_chunks(),
    )


def _library_problem(output: Path) -> str:
    try:
        with preloadable_shim(output.absolute().parent):
            return ""
    except (SetupError, OSError) as error:
        return str(error)


# ---- what the kernel allows ----


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _perf_error() -> int:
    """Opens the event that samples a thread's user time, as the shim does."""
    arguments = [ctypes.c_long(each) for each in (0, -1, -1, 0)]
    descriptor = _libc().syscall(ctypes.c_long(SYSTEM_CALLS.perf_event_open), _TASK_CLOCK, *arguments)
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def _timer_error() -> int:
    event = struct.pack("QiiQ", 0, 0, _SIGEV_NONE, 0).ljust(64, b"\0")
    made = ctypes.c_int()
    if (
        _libc().syscall(
            ctypes.c_long(SYSTEM_CALLS.timer_create), ctypes.c_long(_THREAD_CPU_CLOCK), event, ctypes.byref(made)
        )
        < 0
    ):
        return ctypes.get_errno()
    _libc().syscall(ctypes.c_long(SYSTEM_CALLS.timer_delete), ctypes.c_long(made.value))
    return 0


def _error_of_reading(pid: int, address: int, size: int) -> int:
    """Reads memory of a process, as the shim reads its own and the watcher that of the program."""
    try:
        read_memory(pid, address, size)
    except OSError as error:
        return error.errno or -1
    return 0


def _error_of_reading_a_child() -> int | None:
    """The same of a child, with what /proc shows of its threads; None if it could not be tried."""
    seen = ctypes.create_string_buffer(_SEEN)
    try:
        reading, writing = os.pipe()
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent has closed its end, or has died
        os._exit(0)
    os.close(reading)
    try:
        Path(f"/proc/{pid}/task/{pid}/syscall").read_bytes()
        return _error_of_reading(pid, ctypes.addressof(seen), len(seen))
    except OSError as error:
        return error.errno or -1
    finally:
        os.close(writing)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _limit(number: int) -> int | None:
    soft = resource.getrlimit(number)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _text(path: str) -> str:
    try:
        text = Path(path).read_text()
    except OSError:
        return ""
    return text if "\n" in text.rstrip("\n") else text.strip()


def _gpus() -> tuple[list[str] | None, str]:
    if not nvml.is_there():
        return None, ""
    try:
        devices = nvml.open_devices(0)
        names = [each.info.name for each in devices]
        nvml.close()
    except Exception as error:  # a driver may fail in any way
        return [], str(error)
    return names, ""
