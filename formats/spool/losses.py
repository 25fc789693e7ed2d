"""Losses: every way in which a recording can be incomplete, each with a name, a severity and one sentence.

The shim's losses are the lines of ``losses.h``, in the order of the spool's counters. Losses that only the recorder can
notice are in :data:`RECORDER_LOSSES`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ..dataclass import dataclass

HEADER_PATH = Path(__file__).with_name("losses.h")

_LINE = re.compile(r'^LOSS\((\w+),\s*(\w+),\s*"((?:[^"\\]|\\.)*)"\)', re.MULTILINE)


@dataclass(frozen=True)
class Loss:
    """One kind of loss. ``severity``: info (nothing is missing, but figures may be affected), loss (samples are missing),
    error (a whole kind of record is missing); ``text``: one sentence without its full stop."""

    name: str
    severity: str
    text: str


RECORDER_LOSSES: tuple[Loss, ...] = (
    Loss(
        "spool_space", "loss", "no disk space was available for events: the disk, the quota or ulimit -f is exhausted"
    ),
    Loss("damaged_records", "loss", "records were unfinished or damaged when their process ended, and were left out"),
    Loss(
        "unresolved_stack",
        "loss",
        "stacks referred to frames that were not recorded; their outermost frames are missing",
    ),
    Loss(
        "unresolved_native",
        "loss",
        "native stacks referred to functions that were not recorded; the samples are kept without a native stack",
    ),
    Loss(
        "unknown_lines",
        "error",
        "the line table format of a Python version is unknown: the lines of its code objects are missing",
    ),
    Loss(
        "unknown_opcodes",
        "error",
        "the instructions of a Python version are unknown: the time of its builtins cannot be told from Python's and is "
        "unclassified",
    ),
    Loss("source_unread", "info", "source files could not be stored: larger than 2 MiB, not text, or not readable"),
    Loss(
        "source_changed",
        "info",
        "source files were changed while the program ran: the trace has the texts from before",
    ),
    Loss(
        "symbols_unread",
        "info",
        "functions of a library have no names: its file was deleted, is not readable or is not an ELF file",
    ),
    Loss("symbols_changed", "info", "functions of a library have no names: its file has changed since it was loaded"),
    Loss(
        "files_withheld",
        "info",
        "source files and libraries were not read: not all recorded processes may read them, or the recovered recording may be a stranger's (--with-sources reads them nevertheless)",
    ),
    Loss("recovered", "info", "the recorder did not finish this recording; the trace was recovered from its spool"),
    Loss(
        "rotated",
        "info",
        "the trace begins where another one of the same recording ends (--rotate): what the program held by then is in the "
        "footprint, and on no line",
    ),
    Loss("paused", "info", "the recording was paused; the program's work in that time is charged to no line"),
    Loss(
        "budget_exceeded",
        "info",
        "recording has cost more than --cpu-budget allows; info says how much, and how much of the time was recorded",
    ),
    Loss(
        "arenas_only",
        "info",
        "with a --cpu-budget below 5 %, Python's allocators are left alone: objects of up to 512 bytes count by arenas, of "
        "the lines that needed a new one, and larger ones as native memory; copies are not recorded",
    ),
    Loss(
        "attached_memory",
        "info",
        "memory was recorded from the attach on: blocks from before are in the footprint, with which it begins, and on no line; "
        "what other allocators than malloc and Python's held then is unknown",
    ),
    Loss(
        "exact_cost",
        "info",
        "milliseconds of the program's CPU time went into the recorder's library, most of them into recording every allocation "
        "(--alloc-interval 1); they are in the CPU time of the lines that allocate and free",
    ),
    Loss(
        "never_resumed",
        "loss",
        "the recording was started with --pause-at-start and never resumed, so nothing was sampled; resume it with "
        "scalene-record --control TRACE resume, or call resume() in the program",
    ),
    Loss(
        "marks_left_out",
        "loss",
        "user marks, texts of code that the program has told, or ends of pauses (it stays paused then) were left out: too "
        "many, or the disk was full",
    ),
    Loss(
        "snapshots_failed", "info", "snapshots could not be written while the program ran; the trace itself is complete"
    ),
    Loss(
        "rotations_failed",
        "info",
        "traces could not be closed in time (--rotate), because the disk was full for example: later ones cover more time",
    ),
    Loss(
        "traces_given_up",
        "loss",
        "closed traces were given up before they could be sent (--spool-limit): what they covered is in no trace",
    ),
    Loss("watcher_off", "error", "the watcher could not be started: waits are not recorded"),
    Loss(
        "spool_removed",
        "loss",
        "the folder of the recording was removed while the program ran: processes that started later are missing",
    ),
    Loss(
        "processes_running",
        "loss",
        "processes ran on when the program had ended; what they did from then on is not in the trace",
    ),
    Loss(
        "rss_processes",
        "info",
        "the resident set of some processes was not read: too many at once, or in another pid namespace",
    ),
    Loss(
        "gpu_off",
        "error",
        "the GPU driver could not be queried: GPU time and GPU memory are not recorded",
    ),
    Loss("gpu_lost", "loss", "GPUs vanished or failed during the recording: their later work is missing"),
    Loss(
        "gpu_ticks",
        "loss",
        "GPU samples are missing: queries to the driver failed or did not return, or the disk was full",
    ),
    Loss(
        "gpu_untold",
        "loss",
        "the driver does not report the utilisation of some GPUs (MIG, virtual GPUs): their GPU time is missing",
    ),
    Loss(
        "gpu_whole_device",
        "info",
        "the driver does not report the processes on some GPUs: the figures are those of the whole device",
    ),
)


@cache
def shim_losses() -> tuple[Loss, ...]:
    """The shim's losses in the order of their counters."""
    return tuple(Loss(*match) for match in _LINE.findall(HEADER_PATH.read_text("utf-8")))


def recorder_loss(name: str) -> Loss:
    """The recorder's loss with this name. Raises KeyError if there is none."""
    return {loss.name: loss for loss in RECORDER_LOSSES}[name]
