"""Waits in every way, through ctypes and Python's own, with a busy thread beside: what they return, and how long."""

import ctypes
import json
import select
import threading
import time

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
    numbers = 0
    while not over.is_set():
        numbers += sum(len(str(number)) for number in range(200))


def measure(wait):
    """Its distinct results, and whether each took its time at least."""
    results, took = set(), True
    for _ in range(ROUNDS):
        start = time.monotonic()
        results.add(wait())
        took = took and (wait is WAYS["no wait"] or time.monotonic() - start >= MS / 1000)
    return sorted(results), took


over = threading.Event()
busy = threading.Thread(target=work)
busy.start()
start = time.monotonic()
facts = {way: measure(wait) for way, wait in WAYS.items()}
took_s = time.monotonic() - start
over.set()
busy.join()
print(json.dumps(facts))
print(json.dumps({"took_s": took_s}))
