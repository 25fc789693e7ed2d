"""Computes in a second thread after the first one has ended, the process with it as /proc shows it."""

import ctypes
import threading
import time


def work():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(number * number for number in range(1000))
    print("done", flush=True)


threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
