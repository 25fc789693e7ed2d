"""Runs the regions of steps.c: ``steps.py LIBRARY``, under stepper."""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.step_malloc()
library.step_copies()
library.step_objects.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
functions = ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free
library.step_objects(*(ctypes.cast(function, ctypes.c_void_p) for function in functions))
