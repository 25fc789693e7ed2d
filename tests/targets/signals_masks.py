"""Calls that Python has no names for: signalfd, and those that wait with another mask, on full and empty masks."""

import ctypes
import errno
import os
import signal
import struct

from signals_common import REAL_TIME, blocked, burn, facts, pending, send, tell

libc = ctypes.CDLL(None, use_errno=True)
Set = ctypes.c_uint64 * 16
FULL, EMPTY = Set(*[2**64 - 1] * 16), Set()
heard = []


class Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return [name, result, errno.errorcode.get(ctypes.get_errno(), "0") if result < 0 else "-"]


def wait_with(mask):
    soon = Time(0, 20_000_000)
    epoll, events = libc.epoll_create1(0), ctypes.create_string_buffer(64)
    results = [
        call("ppoll", None, 0, ctypes.byref(soon), mask),
        call("pselect", 0, None, None, None, ctypes.byref(soon), mask),
        call("epoll_pwait", epoll, events, 1, 20, mask),
        call("epoll_pwait", -1, events, 1, 20, mask),
    ]
    os.close(epoll)
    return results


def through_signalfd():
    fd = libc.signalfd(-1, FULL, os.O_NONBLOCK | os.O_CLOEXEC)
    burn(0.1)
    facts["nothing_to_read"] = call("read", fd, ctypes.create_string_buffer(128), 128)
    for number in (signal.SIGUSR1, signal.SIGRTMAX, signal.SIGRTMIN):
        send(number)
    facts["read"] = [struct.unpack_from("I", os.read(fd, 128))[0] for _ in range(3)]
    facts["bad"] = [call("signalfd", -2, FULL, 0), call("signalfd", -1, None, 0), call("sigsuspend", None)]
    os.close(fd)


for number in REAL_TIME:
    signal.signal(number, lambda number, frame: heard.append(number))
burn()
facts["open"] = [wait_with(FULL), wait_with(EMPTY)]
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
facts["closed"] = [wait_with(FULL), wait_with(EMPTY), blocked()]
burn()
through_signalfd()
for number in REAL_TIME:
    send(number)
facts["kept"] = [wait_with(FULL), pending(), heard[:]]
got = ctypes.c_int()
facts["taken"] = sorted(int(signal.sigwait(REAL_TIME)) for _ in REAL_TIME)
ours = Set(1 << (signal.SIGRTMAX - 4))
for name in ("sigsuspend", "ppoll"):
    send(signal.SIGRTMAX - 3)
    facts[name] = call(name, EMPTY) if name == "sigsuspend" else call(name, None, 0, None, EMPTY)
facts["heard"] = [heard, blocked(), pending()]
send(signal.SIGRTMAX - 3)
facts["sigwait"] = [call("sigwait", ours, ctypes.byref(got)), got.value]
tell()
