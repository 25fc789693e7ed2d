"""What will be recorded on a host: one check for each thing that a recording needs.

What is missing is said in the sentences of the losses (:mod:`...formats.spool.losses`) that a trace would have, or in that of
the error that would stop the recording.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection

from ...formats.dataclass import dataclass, replace
from ...formats.spool.chunks import CHUNK_BYTES
from ...formats.spool.losses import RECORDER_LOSSES, Loss, shim_losses
from ...formats.units import counted, file_size_text
from ..processor import problem_of_pages
from ..settings import Settings
from ..spool.spool_file import AHEAD_BYTES, FULL_AHEAD
from .host import Host

WHOLE, LESS_EXACT, IN_PART, NOT = "whole", "less exact", "in part", "not"
_RECORDED = {"info": LESS_EXACT, "loss": IN_PART, "error": NOT}
_ORDER = (WHOLE, LESS_EXACT, IN_PART, NOT)
#: A limit is low if fewer threads than this are recorded whole. Most programs have fewer.
FEW_THREADS = 16
#: What the shim takes of the program's limits (timers.c, descriptors.c, faults.c).
SIGNALS_SHARE, SIGNALS_OF_THREAD = 2, 2
DESCRIPTORS_SHARE, MOST_DESCRIPTORS = 4, 2048
LOCKED_SHARE, LOCKED_PAGES_OF_THREAD, MOST_LOCKING = 64, 2, 32


@dataclass(frozen=True)
class Check:
    """``name``: for programs; ``what`` is checked, and what was ``found``; ``losses`` that a recording will have;
    ``problem``: why nothing will be recorded; ``remark``: what else is to be known; ``change``: what to do about it."""

    name: str
    what: str
    found: str
    losses: tuple[str, ...] = ()
    problem: str = ""
    remark: str = ""
    change: str = ""

    @property
    def recorded(self) -> str:
        """WHOLE, LESS_EXACT, IN_PART or NOT, by the severest loss."""
        if self.problem:
            return NOT
        return max((_RECORDED[_loss(each).severity] for each in self.losses), key=_ORDER.index, default=WHOLE)

    @property
    def consequence(self) -> str:
        """Whole sentences; "" if there is none."""
        return " ".join(filter(None, (self.problem, *map(sentence, self.losses), self.remark)))


def is_missing(check: Check) -> bool:
    """Will something not be recorded? What is less exact is recorded."""
    return check.recorded in (IN_PART, NOT)


def checks_of(host: Host, irrelevant: Collection[str] = ()) -> list[Check]:
    """All checks, in the order in which a recording needs them. ``irrelevant``: losses that a recording will not have,
    because its options leave out what they are about (:func:`irrelevant_losses`)."""
    return [_without(each(host), irrelevant) for each in _CHECKS]


def irrelevant_losses(settings: Settings) -> set[str]:
    """The losses that a recording with these options cannot have."""
    of_memory = {"faults_unseen", "types_unread", "python_malloc", "allocator_replaced"}
    return {
        *(() if settings.memory else of_memory),
        *(() if settings.wait else {"waits_off"}),
        *(() if settings.gpu_interval_ns else {"gpu_off"}),
    }


def _without(check: Check, irrelevant: Collection[str]) -> Check:
    """The check without these losses; what to change goes with the last one."""
    kept = tuple(each for each in check.losses if each not in irrelevant)
    if kept or not check.losses:
        return replace(check, losses=kept)
    return replace(check, losses=(), change="", remark="The options given do not need it.")


def sentence(loss: str) -> str:
    """The text of a loss as a sentence. Names of functions stay as they are."""
    text = _loss(loss).text
    return f"{text}." if "_" in text.partition(" ")[0] else f"{text[0].upper()}{text[1:]}."


def _loss(name: str) -> Loss:
    return {each.name: each for each in (*shim_losses(), *RECORDER_LOSSES)}[name]


def _refused(error: int) -> str:
    return f"refused ({errno.errorcode.get(error, error)})"


def _program(host: Host) -> Check:
    started = host.started
    problem = started.problem or (started.missed.sentence(started.path) if started.missed else "")
    change = "Run it by an interpreter, or a build, that loads libraries from LD_PRELOAD." if started.missed else ""
    remark = re.sub("^the ", "The ", started.remark)
    return Check("program", "program", started.path, (), problem, remark, change)


def _interpreter(host: Host) -> Check:
    name, what, build = "interpreter", "interpreter", host.started.build
    if build is None:
        unknown = (
            "Whether Python stacks are recorded depends on the interpreter, which is known only when the program runs."
        )
        return Check(name, what, "not known from its file", remark="" if host.started.problem else unknown)
    if build.is_known and build.is_free_threaded:
        change = "Use the build with the GIL for a split into Python and native time, and for Python's allocations."
        return Check(name, what, build.text, ("free_threaded",), change=change)
    if build.is_known:
        return Check(name, what, build.text)
    change = "Use a release of CPython 3.10 to 3.15."
    return Check(name, what, build.text, ("unknown_python",), change=change)


def _processor(host: Host) -> Check:
    """CPython's bytecode loop is not decoded on arm64."""
    is_arm64 = host.machine == "aarch64"
    found = f"{'arm64' if is_arm64 else 'x86-64'}, memory pages of {host.page_bytes // 1024} KiB"
    losses = ("loop_unread",) if is_arm64 else ()
    problem, change = problem_of_pages(host.page_bytes)
    if is_arm64 and not change:
        change = "Where the split of short calls matters, record the program on x86-64 too."
    return Check("processor", "processor", found, losses, problem, change=change)


def _library(host: Host) -> Check:
    found = "cannot be preloaded" if host.library_problem else "can be preloaded"
    return Check("library", "recording library", found, problem=host.library_problem)


def _perf(host: Host) -> Check:
    if host.is_posix_only:
        return Check("perf_events", "perf events", "not used: --cpu-engine posix", ("engine_posix", "faults_unseen"))
    level = f"perf_event_paranoid is {host.paranoid}" if host.paranoid else ""
    if not host.perf_error:
        return Check("perf_events", "perf events", ", ".join(filter(None, ("opened", level))))
    found = (_refused(host.perf_error), level, "a seccomp filter is set" if host.has_filter else "")
    is_by_level = host.paranoid.lstrip("-").isdigit() and int(host.paranoid) > 2
    by_level = "Set it to 2: sysctl kernel.perf_event_paranoid=2."
    change = (
        by_level
        if is_by_level
        else "Allow perf_event_open in the seccomp profile of the container, or give it CAP_PERFMON."
    )
    return Check(
        "perf_events", "perf events", ", ".join(filter(None, found)), ("engine_posix", "faults_unseen"), change=change
    )


def _timers(host: Host) -> Check:
    if not host.timer_error:
        return Check("timers", "POSIX timers", "created")
    change = "Allow timer_create for the program." if host.timer_error != errno.EAGAIN else "Raise ulimit -i."
    return Check("timers", "POSIX timers", _refused(host.timer_error), ("thread_unarmed",), change=change)


def _room(limit: int | None, threads: int) -> str:
    return "no limit" if limit is None else f"{limit:,}, which is enough for {counted(threads, 'thread', 'threads')}"


def _signals(host: Host) -> Check:
    threads = (host.signals or 0) // SIGNALS_SHARE // SIGNALS_OF_THREAD
    is_low = host.signals is not None and threads < FEW_THREADS
    losses, change = (("signal_budget",), "Raise ulimit -i.") if is_low else ((), "")
    return Check("signals", "pending signals", _room(host.signals, threads), losses, change=change)


def _descriptors(host: Host) -> Check:
    limit = host.descriptors or 0
    threads = MOST_DESCRIPTORS if limit > 4 * MOST_DESCRIPTORS else limit // DESCRIPTORS_SHARE
    is_low = host.descriptors is not None and threads < FEW_THREADS and not host.is_posix_only
    losses, change = (("thread_posix",), "Raise ulimit -n.") if is_low else ((), "")
    return Check("descriptors", "descriptors", _room(host.descriptors, threads), losses, change=change)


def _locked(host: Host) -> Check:
    name, what, limit = "locked_memory", "locked memory", host.locked_bytes
    if limit is None:
        return Check(name, what, "no limit")
    threads = min(limit // LOCKED_SHARE // (LOCKED_PAGES_OF_THREAD * host.page_bytes), MOST_LOCKING)
    found = f"{file_size_text(limit)}, which is enough for {counted(threads, 'thread', 'threads')}"
    losses, change = ((), "") if threads or host.is_posix_only else (("faults_unseen",), "Raise ulimit -l.")
    return Check(name, what, found, losses, change=change)


def _reading(host: Host) -> Check:
    if not host.read_error:
        return Check("reading", "reading its own memory", "works")
    build = host.started.build
    of_stacks = "stacks_off" if build and build.needs_reads else "read_refused"
    change = "Allow process_vm_readv in the seccomp profile of the container."
    return Check(
        "reading", "reading its own memory", _refused(host.read_error), (of_stacks, "types_unread"), change=change
    )


def _observing(host: Host) -> Check:
    scope = f"yama.ptrace_scope is {host.ptrace_scope}" if host.ptrace_scope else ""
    if host.child_error is None:
        remark = "No process could be started to try it."
        return Check("observing", "observing the program", ", ".join(filter(None, ("unknown", scope))), remark=remark)
    if not host.child_error:
        return Check("observing", "observing the program", ", ".join(filter(None, ("works", scope))))
    is_by_scope = host.ptrace_scope in ("2", "3")
    by_scope = "Set it to 1: sysctl kernel.yama.ptrace_scope=1 (3 stays until the next start of the machine)."
    change = by_scope if is_by_scope else "Allow process_vm_readv in the seccomp profile of the container."
    found = ", ".join(filter(None, (_refused(host.child_error), scope)))
    return Check("observing", "observing the program", found, ("waits_off",), change=change)


def _place(host: Host) -> Check:
    name, what, place = "place", "place of the recording", host.place
    if place.problem:
        return Check(name, what, place.folder, problem=place.problem)
    found = f"{place.folder}, {file_size_text(place.free_bytes)} free"
    is_full = place.free_bytes < AHEAD_BYTES and not place.chunks
    losses = ("spool_space",) if is_full else ()
    change = f"Make {file_size_text(AHEAD_BYTES)} free, or name an output elsewhere with -o." if is_full else ""
    is_low = place.limit_chunks is not None and place.limit_chunks < FULL_AHEAD
    remark = "Of many events at once, some may be lost: the limit on file sizes (ulimit -f) is low." if is_low else ""
    if place.in_place:
        return Check(name, what, found, losses, "", remark, change or "Raise ulimit -f." * is_low)
    if place.chunks:
        found += f"; events in /dev/shm, at most {file_size_text(place.chunks * CHUNK_BYTES)}"
        return Check(name, what, found, losses, change=change)
    remark = (
        "Events lie on a file system that copies on write or is not known, because /dev/shm has no room: if the disk "
        "gets full, the program may be killed by SIGBUS."
    )
    return Check(name, what, found, losses, "", remark, change or "Give /dev/shm 16 MiB (docker run --shm-size).")


def _allocators(host: Host) -> Check:
    name, what = "allocators", "Python's allocators"
    if not host.python_malloc and host.is_dev_mode:
        return Check(name, what, "PYTHONDEVMODE is set", ("allocator_replaced",), change="Unset PYTHONDEVMODE.")
    if not host.python_malloc:
        return Check(name, what, "PYTHONMALLOC is not set")
    found = f"PYTHONMALLOC={host.python_malloc}"
    loss = "python_malloc" if host.python_malloc.startswith("malloc") else "allocator_replaced"
    return Check(name, what, found, (loss,), change="Unset PYTHONMALLOC.")


def _gpu(host: Host) -> Check:
    if host.gpu_error:
        return Check("gpu", "GPUs", host.gpu_error, ("gpu_off",), change="See whether nvidia-smi works here.")
    if host.gpus is None:
        return Check("gpu", "GPUs", "no driver of NVIDIA")
    return Check("gpu", "GPUs", ", ".join(host.gpus) or "none")


_CHECKS: tuple[Callable[[Host], Check], ...] = (
    *(_program, _interpreter, _processor, _library, _place, _perf, _timers, _signals, _descriptors, _locked),
    *(_reading, _observing, _allocators, _gpu),
)
