"""A hundred thousand small copies, from three lines in turns, through the runtime in argv[1]. Prints their bytes, and
the CPU time that they took."""

import ctypes
import json
import sys
import time

TURNS = 33_334
cuda = ctypes.CDLL(sys.argv[1])
copy = cuda.cudaMemcpy
to, source = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)

before = time.process_time()
for _ in range(TURNS):
    copy(to, source, ctypes.c_size_t(3), 1)  # LINE: one
    copy(to, source, ctypes.c_size_t(5), 2)  # LINE: two
    copy(to, source, ctypes.c_size_t(7), 3)  # LINE: three
took_s = time.process_time() - before
print(json.dumps({"one": 3 * TURNS, "two": 5 * TURNS, "three": 7 * TURNS, "took_s": took_s}))
