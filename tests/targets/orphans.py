"""Leaves orphans, and waits until they have been reaped; sends signals to the process that reaps them. Ends with status 3."""

import json
import os
import signal
import sys
import time
from pathlib import Path

COUNT, PATIENCE_S = int(sys.argv[1]), float(sys.argv[2])
SIGNALS = [signal.SIGWINCH, signal.SIGALRM, signal.SIGRTMIN + 3] if sys.argv[3:] == ["signals"] else []
caught = []


def leave_orphan(alive):
    """Forks a child that forks another one and ends; the pid of the latter is written to the pipe by itself."""
    child = os.fork()
    if child == 0:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.001)
            os.write(alive, f"{os.getpid()} {os.getppid()}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


for number in SIGNALS:
    signal.signal(number, lambda number, frame: caught.append(number))
readable, writable = os.pipe()
for _ in range(COUNT):
    leave_orphan(writable)
os.close(writable)
with open(readable) as file:  # ends when all orphans have
    orphans = [tuple(map(int, line.split())) for line in file]
for number in SIGNALS:
    os.kill(os.getppid(), number)
deadline = time.monotonic() + PATIENCE_S
while time.monotonic() < deadline and (any(is_there(pid) for pid, _ in orphans) or len(caught) < len(SIGNALS)):
    time.sleep(0.01)
print(
    json.dumps(
        {
            "orphans": len(orphans),
            "adopted_by_parent": all(adopter == os.getppid() for _, adopter in orphans),
            "left": sum(is_there(pid) for pid, _ in orphans),
            "caught": sorted(caught) == sorted(SIGNALS),
            "parent": os.getppid(),
        }
    )
)
sys.exit(3)
