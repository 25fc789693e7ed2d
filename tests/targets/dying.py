"""Works for a while, says how much CPU it used, and dies in the way that its argument names."""

import ctypes
import json
import os
import signal
import sys
import time


def work(seconds):
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for i in range(20_000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: work


def main():
    how, seconds = sys.argv[1], float(sys.argv[2])
    kept = bytes(30_000_000)  # LINE: kept
    work(seconds)
    print(json.dumps({"cpu_s": time.process_time(), "kept": len(kept)}), flush=True)
    if how == "_exit":
        os._exit(3)
    if how == "exit":
        sys.exit(7)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exception":
        raise ValueError("an exception of the program")
    if how == "wait":
        time.sleep(60)
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)


main()
