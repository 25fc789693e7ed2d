"""Runs the regions of steps.c: ``steps.py LIBRARY``, under stepper."""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.step_malloc()
library.step_copies()
library.step_objects.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
functions = ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free
for size in (48, 1000):  # pymalloc's own, and one that it takes from malloc
    library.step_objects(*(ctypes.cast(function, ctypes.c_void_p) for function in functions), size)
