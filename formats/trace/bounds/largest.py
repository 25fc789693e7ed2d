"""The largest file, and the largest footer, that are read at all. What the footer says is checked in :mod:`.limits`, whose
import the recorder saves where it only looks for the id of a trace."""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

#: A file. 377 million events, the most that MOST_GROUPS allow, take about 8 GB.
MOST_FILE_BYTES = 16 * GIB
#: Row groups. One of a long recording has at least 92,160 rows of a kind: more than 377 million events.
MOST_GROUPS = 4_096
#: The footer: 9 KB for each row group.
FOOTER_BYTES, GROUP_FOOTER_BYTES = MIB, 16 * KIB


class TooLarge(ValueError):  # noqa: N818 (says what is wrong)
    """The file would unfold to more than a limit; ``str()`` is the part of a sentence that says to what."""


def check_footer_size(size: int, file_bytes: int) -> None:
    """Raises TooLarge for a file, or a footer of ``size`` bytes, that is too large to be read."""
    limit("its size is", file_bytes, MOST_FILE_BYTES, "bytes")
    limit("its metadata has", size, FOOTER_BYTES + MOST_GROUPS * GROUP_FOOTER_BYTES, "bytes")


def limit(what: str, size: int, most: int, unit: str) -> None:
    """Raises TooLarge if ``size`` is more than ``most``."""
    if size > most:
        raise TooLarge(f"{what} {size:,} {unit}, and the limit is {most:,}")
