"""Computes in C below 30 Python frames and 10 native ones. Arguments: the library of deep_call.c, the steps of its loop, and
the period of empty ticks in ns (0 = none).

Prints the CPU time that it took, in seconds, and the number of empty ticks.
"""

import ctypes
import sys
import time

#: Of the library; the others belong to the call through ctypes and libffi.
NATIVE_FRAMES = 4

library = ctypes.CDLL(sys.argv[1])
library.empty_ticks.argtypes = (ctypes.c_uint64,)
period_ns = int(sys.argv[3])
down = library.down
down.argtypes = ctypes.c_int, ctypes.c_uint64
down.restype = ctypes.c_uint64


def python(frames: int) -> None:
    if frames > 1:
        python(frames - 1)
    else:
        down(NATIVE_FRAMES, int(sys.argv[2]))


if period_ns and library.empty_ticks(period_ns):
    raise SystemExit("no ticks")
begin = time.thread_time()
python(29)  # and the module itself
print(time.thread_time() - begin, library.empty_ticks(period_ns) if period_ns else 0)
