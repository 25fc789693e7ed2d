"""Registers an alternate signal stack that holds no signal frame of a modern processor, and computes for a while."""

import ctypes
import time


class Stack(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


memory = ctypes.create_string_buffer(2048)
stack = Stack(ctypes.addressof(memory), 0, 2048)
accepted = ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
while time.thread_time() < 0.4:
    pass
print("accepted" if accepted else "refused")
