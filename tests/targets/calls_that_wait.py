"""Calls that wait for a time: what they return, errno, and how long they take."""

import ctypes
import json
import select
import threading
import time

SECONDS = 0.5
FUTEX, FUTEX_WAIT = 202, 0
libc = ctypes.CDLL(None, use_errno=True)


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def futex():
    word = ctypes.c_int(7)
    return libc.syscall(FUTEX, ctypes.byref(word), FUTEX_WAIT, 7, ctypes.byref(Timespec(0, int(SECONDS * 1e9))))


CALLS = {
    "poll": lambda: libc.poll(None, 0, int(SECONDS * 1000)),
    "usleep": lambda: libc.usleep(int(SECONDS * 1e6)),
    "nanosleep": lambda: libc.nanosleep(ctypes.byref(Timespec(0, int(SECONDS * 1e9))), None),
    "futex": futex,
    "select": lambda: select.select([], [], [], SECONDS),
    "sleep": lambda: time.sleep(SECONDS),
    "event": lambda: threading.Event().wait(SECONDS),
}


def timed(call):
    ctypes.set_errno(0)
    start = time.monotonic()
    result = call()
    return {"result": repr(result), "errno": ctypes.get_errno(), "seconds": time.monotonic() - start}


print(json.dumps({name: timed(call) for name, call in CALLS.items()}))
