"""Limits the size of exports that write a stack as often as it was sampled, or a name as often as it is in a stack."""

from __future__ import annotations

from ....formats.errors import ExportTooLarge

#: The programs that read these formats hold a whole file in memory; browsers fail at half of it.
MOST_BYTES = 1_000_000_000


class Size:
    """The size of a file that will be written in the format ``name``, at least."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bytes = 0

    def add(self, count: int) -> None:
        """Adds bytes. Raises ExportTooLarge."""
        self._bytes += count
        if self._bytes > MOST_BYTES:
            raise ExportTooLarge(self._name, MOST_BYTES)
