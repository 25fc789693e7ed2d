"""Waits in every way, through ctypes and Python's own, with a busy thread beside: what they return, and how long."""

import ctypes
import json
import select
import threading
import time
import zlib

libc = ctypes.CDLL(None, use_errno=True)
MS = 3
ROUNDS = 12
SYS_FUTEX, FUTEX_WAIT_PRIVATE = 202, 128
word = ctypes.c_int(7)


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


class Timeval(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("us", ctypes.c_long)]


def called(result):
    return (result, ctypes.get_errno() if result < 0 else 0)


def futex(milliseconds):
    until = Timespec(0, milliseconds * 1_000_000)
    return libc.syscall(SYS_FUTEX, ctypes.byref(word), FUTEX_WAIT_PRIVATE, 7, ctypes.byref(until), None, 0)


WAYS = {
    "poll": lambda: called(libc.poll(None, 0, MS)),
    "usleep": lambda: called(libc.usleep(MS * 1000)),
    "select": lambda: called(libc.select(0, None, None, None, ctypes.byref(Timeval(0, MS * 1000)))),
    "nanosleep": lambda: called(libc.nanosleep(ctypes.byref(Timespec(0, MS * 1_000_000)), None)),
    "futex": lambda: called(futex(MS)),
    "epoll": lambda: (len(select.epoll().poll(MS / 1000)), 0),
    "time.sleep": lambda: (time.sleep(MS / 1000) is None, 0),
    "Event.wait": lambda: (threading.Event().wait(MS / 1000), 0),
    "no wait": lambda: called(libc.poll(None, 0, 0)),
}


def work():
    """Mostly without the interpreter's lock, for which the waits would have to wait."""
    data = bytes(range(256)) * 4000
    while not over.is_set():
        zlib.crc32(data + bytes(1_000_000))


def measure(wait):
    """Its distinct results, whether each took its time at least, and the shortest time."""
    results, times_s = set(), []
    for _ in range(ROUNDS):
        start = time.monotonic()
        results.add(wait())
        times_s.append(time.monotonic() - start)
    took = wait is WAYS["no wait"] or min(times_s) >= MS / 1000
    return sorted(results), took, min(times_s)


over = threading.Event()
busy = threading.Thread(target=work)
busy.start()
measured = {way: measure(wait) for way, wait in WAYS.items()}
over.set()
busy.join()
print({way: (results, took) for way, (results, took, _) in measured.items()})
print(json.dumps({"least_s": sum(least_s for _, _, least_s in measured.values())}))
