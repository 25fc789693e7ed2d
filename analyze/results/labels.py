"""Results about labels of requests and jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LabelRow:
    """The costs of code with the same labels (scalene_trace.recorder.label).

    ``labels``: NAME=VALUE of each, by name; empty = it had none. Figures that were not recorded are None.
    """

    labels: list[str]
    cpu_s: float | None
    cpu_percent: float | None
    wait_s: float | None
    suspended_s: float | None
    alloc_bytes: int | None
    live_at_end_bytes: int | None
    copy_bytes: int | None
    gpu_s: float | None

    @property
    def label(self) -> str:
        """The labels as one text."""
        return ", ".join(self.labels)
