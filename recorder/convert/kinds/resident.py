"""Makes the ``rss`` table from the recorder's file of resident sets. Over two days with 128 processes the file grows to
0.7 GB, so it is read in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ....formats.spool.regular import open_regular, read_some
from ...folder.files import RSS_STRUCT

_PIECE_ROWS = 100_000


def rss_tables(path: Path, until_ns: int | None) -> Iterator[dict[str, Any]]:
    """The ``rss`` table from the file at ``path``, up to the moment ``until_ns`` (None = all), in pieces; at least one."""
    file = open_regular(path)
    if file is None:
        yield _table(b"", until_ns)
        return
    with file:
        data = read_some(file, _PIECE_ROWS * RSS_STRUCT.size)
        yield _table(data, until_ns)
        while data := read_some(file, _PIECE_ROWS * RSS_STRUCT.size):
            yield _table(data, until_ns)


def _table(data: bytes, until_ns: int | None) -> dict[str, Any]:
    rows = np.frombuffer(data[: len(data) // RSS_STRUCT.size * RSS_STRUCT.size], "<i8").reshape(-1, 4)
    rows = rows if until_ns is None else rows[rows[:, 0] <= until_ns]
    sizes = {"rss_bytes": rows[:, 2], "shared_bytes": rows[:, 3]}
    return {"t_ns": rows[:, 0], "process": rows[:, 1].astype(np.int32)} | sizes
