"""Threads that wait and nothing else; then what the recorder's watcher took of the CPU meanwhile."""

import json
import os
import sys
import threading
import time
from pathlib import Path


def watcher_ns(parent):
    """CPU time of the recorder's watcher and of all its threads."""
    times = {"watcher_s": 0.0, "recorder_s": 0.0}
    for task in Path(f"/proc/{parent}/task").iterdir():
        used_s = int((task / "schedstat").read_text().split()[0]) / 1e9
        times["recorder_s"] += used_s
        if (task / "comm").read_text() == "watcher\n":
            times["watcher_s"] += used_s
    return times


def wait(event):
    event.wait()  # LINE: wait


def main():
    count, seconds, busy = int(sys.argv[1]), float(sys.argv[2]), "busy" in sys.argv
    event = threading.Event()
    threading.stack_size(256 * 1024)
    threads = [threading.Thread(target=wait, args=(event,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    before, start = watcher_ns(os.getppid()), time.monotonic()
    time.sleep(0 if busy else seconds)
    while busy and time.monotonic() < start + seconds:
        pass
    after, wall_s = watcher_ns(os.getppid()), time.monotonic() - start
    event.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"wall_s": wall_s, "started": before, **{name: after[name] - before[name] for name in after}}))


main()
