"""The files in a recording's folder, ``OUT.spool/``: their names, the layout of their rows, and appending to them.

The folder holds everything that the trace needs while the program runs, so that ``--recover`` can write the trace of a
recorder that was killed.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

SPOOL_NAME = "spool"
FACTS_NAME = "recording.json"
RSS_NAME = "rss"
MARKS_NAME = "marks"
#: Users that processes have become (rights/announced.py), and what identifies the folder (origin.py).
RIGHTS_NAME = "rights"
ORIGIN_NAME = "origin"
#: GPU samples, and the devices that they refer to (JSON); both are absent where there is no GPU.
GPU_NAME = "gpu"
GPU_DEVICES_NAME = "gpu.json"
#: The socket that takes commands. The program's side (recorder/api.py) repeats the name.
CONTROL_NAME = "control"
#: The trace until it is moved to its place; hidden, because a recording may be recovered among the user's own files.
TRACE_NAME = ".trace.parquet"

#: Of a recording that rotates (recorder/rotate/): what belongs to which trace, what cuts have copied, what later traces need of
#: earlier ones, and the folder in which a trace is made.
ROTATION_NAME = "rotation.json"
CUT_NAME, CARRY_NAME, SEGMENT_NAME = "cut", "carry", "segment"
#: A byte for each time that another recorder has begun to make the traces of this one, which has died (recorder/upload/).
TRIED_NAME = "tried"

#: One RSS sample: nanoseconds from the start of the recording, process id, resident bytes, shared bytes among them.
RSS_STRUCT = struct.Struct("<qqqq")
#: One GPU sample: start and length in nanoseconds from the start of the recording, busy nanoseconds (-1 = a row about
#: memory), bytes (-1 = a row about utilisation), process id (0 = unknown), device, whole (it covers the whole device, not
#: one process), charged (it counts for the program).
GPU_STRUCT = struct.Struct("<qqqqih??")


def append_whole(descriptor: int, data: bytes) -> bool:
    """Appends ``data`` to a file: all of it or, where the disk is full, nothing. A part of a row would shift every row
    after it. Returns whether the data was written."""
    try:
        written = os.write(descriptor, data)
    except OSError:
        return False
    if written < len(data):
        with suppress(OSError):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
    return written == len(data)


def new_file(path: Path) -> BinaryIO:
    """A new file at ``path`` (mode 0600), in place of what was there. Links are not followed, because a folder that is recovered
    may come from anywhere. Raises OSError."""
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "wb")
