"""``started_beside.py LIBRARY``: Thread.start calls a function of the library, which begins a thread of its own."""

import ctypes
import sys
import threading
import time

begin = ctypes.PyDLL(sys.argv[1]).begin
begin.argtypes = [ctypes.py_object]


class Asked(threading.Thread):
    """Thread.start reads `_initialized`: a property whose function is written in C has no frame of its own."""

    _initialized = property(begin, lambda self, value: None)


thread = Asked(target=time.sleep, args=(0.02,), name="python's")
thread.start()
thread.join()
time.sleep(0.05)
