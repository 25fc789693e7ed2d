"""How much memory DuckDB may take: beyond that it writes to the temporary folder, and then gives up with an error.

By its own default DuckDB takes four fifths of the machine, whatever the rest of this process and other programs hold.
"""

from __future__ import annotations

import os

from ...formats import cgroups

#: The part of the machine's memory (or of the control group's) that the tables of DuckDB may take. Rows that Python holds,
#: and vectors that DuckDB does not count, come on top.
SHARE = 0.6
#: DuckDB needs about this much for a small trace.
LEAST_BYTES = 128 << 20
#: The most that DuckDB may write to its temporary folder, in multiples of its memory.
SPILL = 4


def limit_bytes(threads: int | None = None) -> int:
    """The most memory of one DuckDB; of one with fewer ``threads`` than cores, its part, since others run beside it."""
    part = min((threads or _cores()) / _cores(), 1.0)
    return max(int(_memory() * SHARE * part), LEAST_BYTES)


def setting(size: int) -> str:
    """So many bytes, as DuckDB reads them."""
    return f"{size >> 20}MiB"


def _cores() -> int:
    return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of memory that this process may use."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in cgroups.files("memory", "memory.max", "memory.limit_in_bytes"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if text.strip().isdigit():
            found = min(found, int(text))
    return found
