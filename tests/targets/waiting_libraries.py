"""Waits that are a library's, and waits that are Python's own. The library is loaded right before it waits."""

import ctypes
import json
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

SECONDS = 0.5


def locked(folder):
    file = Path(folder) / "data"
    first = sqlite3.connect(file)
    first.execute("CREATE TABLE numbers (number)")
    first.commit()
    first.execute("BEGIN EXCLUSIVE")
    second = sqlite3.connect(file, timeout=SECONDS)
    try:
        second.execute("INSERT INTO numbers VALUES (1)")  # LINE: sqlite
    except sqlite3.OperationalError as error:
        return str(error)


def main():
    with tempfile.TemporaryDirectory() as folder:
        said = locked(folder)
    waiters = ctypes.CDLL(sys.argv[1])
    waiters.waiter_starts()
    for _ in range(int(SECONDS / 0.004)):
        waiters.waiter_is_called(4)  # LINE: short
    waiters.waiter_is_called(int(SECONDS * 1000))  # LINE: long
    ctypes.CDLL(None).usleep(int(SECONDS * 1e6))  # LINE: libc
    time.sleep(SECONDS)  # LINE: sleep
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=SECONDS)  # LINE: lock
    print(json.dumps({"said": said}))


main()
