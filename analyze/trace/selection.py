"""The selection: a time window, processes and threads, and the files that count as the user's code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Selection:
    """The samples that a report uses.

    ``from_s`` and ``to_s`` (seconds from the start of the recording, ``to_s`` exclusive) and ``processes`` and ``threads``
    (ids of the trace) restrict the samples; None or empty means no restriction. ``include`` and ``exclude`` (globs) and
    ``all_files`` determine which files count as the user's code. ``mark``: the user mark that the window and the processes
    are those of (:func:`..report.marked.placed`).
    """

    from_s: float | None = None
    to_s: float | None = None
    processes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    all_files: bool = False
    mark: str | None = None

    @property
    def from_ns(self) -> int | None:
        """Start of the window in ns; None = no restriction."""
        return None if self.from_s is None else round(self.from_s * 1e9)

    @property
    def to_ns(self) -> int | None:
        """End of the window (exclusive) in ns; None = no restriction."""
        return None if self.to_s is None else round(self.to_s * 1e9)
