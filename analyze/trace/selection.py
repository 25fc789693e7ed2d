"""The selection: a time window, processes and threads, labels, and the files that count as the user's code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import queries
from .sql_text import printable

_NAME = "has_labels"
#: A number for each stack of each trace, which a hash table finds faster than two.
_KEY = "(trace::BIGINT << 32) + stack"
_LOOKUP = (
    f"CREATE OR REPLACE TEMP MACRO {_NAME}(of_trace, of_stack) AS "
    "coalesce((of_trace::BIGINT << 32) + of_stack IN (SELECT key FROM label_stacks), false);"
)


@dataclass(frozen=True)
class Selection:
    """The samples that a report uses.

    ``from_s`` and ``to_s`` (seconds from the start of the recording, ``to_s`` exclusive) and ``processes`` and ``threads``
    (ids of the trace) restrict the samples; None or empty means no restriction. ``include`` and ``exclude`` (globs) and
    ``all_files`` determine which files count as the user's code. ``mark``: the user mark that the window and the processes
    are those of (:func:`..report.marked.placed`). ``labels`` (NAME=VALUE): only samples whose code had all of these.
    """

    from_s: float | None = None
    to_s: float | None = None
    processes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    all_files: bool = False
    mark: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def from_ns(self) -> int | None:
        """Start of the window in ns; None = no restriction."""
        return None if self.from_s is None else round(self.from_s * 1e9)

    @property
    def to_ns(self) -> int | None:
        """End of the window (exclusive) in ns; None = no restriction."""
        return None if self.to_s is None else round(self.to_s * 1e9)


def macros(selection: Selection) -> Mapping[str, str]:
    """The statement that defines each macro by its name, as :func:`.queries.macros`."""
    return {**queries.macros(), **({_NAME: _LOOKUP} if selection.labels else {})}


def labels_filled(selection: Selection) -> str:
    """The statement that fills the table ``label_stacks``; "" if no label is asked for."""
    if not selection.labels:
        return ""
    asked = ", ".join(map(printable, selection.labels))
    return f"INSERT INTO label_stacks SELECT {_KEY} FROM stacks WHERE list_has_all(labels, [{asked}])"
