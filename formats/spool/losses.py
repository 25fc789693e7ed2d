"""Every way in which something can go unrecorded, by name, severity and one sentence.

The shim's losses are the lines of ``losses.h``, in its order (which is that of the spool's counters). Those that only
the recorder can notice follow in :data:`RECORDER_LOSSES`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HEADER_PATH = Path(__file__).with_name("losses.h")
SEVERITIES = ("info", "loss", "error")

_LINE = re.compile(r'^LOSS\((\w+),\s*(\w+),\s*"((?:[^"\\]|\\.)*)"\)', re.MULTILINE)


@dataclass(frozen=True)
class Loss:
    """One kind of loss. severity: info (nothing is missing, but know it), loss (samples are missing), error (a whole
    kind is missing). text: one sentence without its full stop."""

    name: str
    severity: str
    text: str


RECORDER_LOSSES: tuple[Loss, ...] = (
    Loss("spool_space", "loss", "no disk space could be had for events: the disk, the quota or ulimit -f is exhausted"),
    Loss("damaged_records", "loss", "records were unfinished or damaged when their process ended, and were left out"),
    Loss(
        "unresolved_stack",
        "loss",
        "stacks referred to frames that were not recorded; their outermost frames are missing",
    ),
    Loss(
        "unknown_lines",
        "error",
        "code objects of a Python version whose line tables are not known: their lines are missing",
    ),
    Loss("source_unread", "info", "source files could not be embedded: larger than 2 MiB, not text, or not readable"),
    Loss(
        "symbols_unread",
        "info",
        "libraries whose functions are not named: the file is gone, not readable or no ELF file",
    ),
    Loss(
        "symbols_changed", "info", "libraries whose functions are not named: the file has changed since it was loaded"
    ),
    Loss("recovered", "info", "the recorder did not finish this recording; the trace was recovered from its spool"),
    Loss("paused", "info", "the recording was paused; what the program did meanwhile belongs to no line"),
    Loss("marks_left_out", "loss", "marks were left out: too many, or no disk space"),
    Loss(
        "snapshots_failed", "info", "snapshots could not be written while the program ran; the trace itself is complete"
    ),
    Loss("watcher_off", "error", "the watcher could not be started: waits are not recorded"),
    Loss(
        "spool_removed",
        "loss",
        "the folder of the recording was removed while the program ran: what was started afterwards is missing",
    ),
    Loss(
        "rss_processes",
        "info",
        "the resident set of some processes was not read: too many at once, or in a namespace of their own for pids",
    ),
    Loss(
        "gpu_off",
        "error",
        "the driver of the GPUs could not be asked: GPU time and GPU memory are not recorded",
    ),
    Loss("gpu_lost", "loss", "GPUs vanished or failed while they were watched: what they did afterwards is missing"),
    Loss(
        "gpu_ticks", "loss", "GPU ticks are missing: calls of the driver failed or did not return, or the disk is full"
    ),
    Loss(
        "gpu_untold",
        "loss",
        "the driver does not tell how busy some GPUs are (MIG, virtual GPUs): GPU time is missing there",
    ),
    Loss(
        "gpu_whole_device",
        "info",
        "the driver does not tell what each process does on some GPUs: the figures are those of the whole device",
    ),
)


@cache
def shim_losses() -> tuple[Loss, ...]:
    """The shim's losses in the order of their counters."""
    return tuple(Loss(*match) for match in _LINE.findall(HEADER_PATH.read_text("utf-8")))


def recorder_loss(name: str) -> Loss:
    """The recorder's loss called ``name``; KeyError if there is none."""
    return {loss.name: loss for loss in RECORDER_LOSSES}[name]
