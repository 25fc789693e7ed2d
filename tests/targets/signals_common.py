"""What the signals_* targets share: work on a marked line, and a description of all signals that never varies."""

import json
import os
import signal
import time

NUMBERS = sorted(map(int, signal.valid_signals()))
REAL_TIME = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
CATCHABLE = [number for number in NUMBERS if number not in (signal.SIGKILL, signal.SIGSTOP)]
facts = {}


def burn(seconds=0.3):
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for i in range(2_000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: burn


def blocked():
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))


def pending():
    return sorted(map(int, signal.sigpending()))


def handlers():
    return {number: getattr(signal.getsignal(number), "__name__", repr(signal.getsignal(number))) for number in NUMBERS}


def send(number):
    os.kill(os.getpid(), number)


def tell():
    print(json.dumps(facts, sort_keys=True))
