"""Does what it is told on standard input, and answers each word when it is done. It knows nothing of a recorder."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time

KEPT = []


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for number in range(3000):
            number * number  # LINE: burn


def digest(seconds):
    data = b"x" * 100_000
    end = time.process_time() + seconds
    while time.process_time() < end:
        hashlib.sha256(data).digest()  # LINE: digest


def nap(seconds):
    time.sleep(seconds)  # LINE: nap


def thread():
    begun = threading.Thread(target=nap, args=(30,), daemon=True)  # lives on
    begun.start()


def busy_thread():
    threading.Thread(target=lambda: (burn_here(1), nap(30)), daemon=True).start()
    time.sleep(1.5)


def short_thread():
    begun = threading.Thread(target=lambda: (in_kernel(0.2), burn(0.3)))
    begun.start()
    begun.join()


def in_kernel(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        os.urandom(1 << 20)


def short_threads():
    """Threads of 4 ms."""
    before, end = time.process_time(), time.monotonic() + 1
    while time.monotonic() < end:
        begun = threading.Thread(target=burn_here, args=(0.004,))
        begun.start()
        begun.join()
    return {"cpu_s": time.process_time() - before}


def burn_here(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


def first():
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass


def second():
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass


def third():
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass


def bursts():
    for _ in range(60):
        first()
        second()
        third()
        time.sleep(0.03)


def fork(seconds):
    child = os.fork()
    if not child:
        burn(seconds)
        os._exit(3)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    time.sleep(0.6)  # its end is seen before it is waited for
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


CHILD = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end:\n    sum(range(1000))\n"


def spawn():
    return subprocess.run([sys.executable, "-c", CHILD], check=False).returncode


async def suspended():
    await asyncio.sleep(0.6)  # LINE: suspended


def tasks():
    async def main():
        await asyncio.gather(*(asyncio.create_task(suspended(), name=f"worker-{number}") for number in range(3)))

    asyncio.run(main())


def state():
    """What an observer might leave behind."""
    with open("/proc/self/maps") as maps:
        libraries = sorted({line.split()[-1] for line in maps if "/" in line})
    return {
        "threads": sorted(os.listdir("/proc/self/task")),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "libraries": libraries,
        "tracer": next(line.split()[1] for line in open("/proc/self/status") if line.startswith("TracerPid")),
    }


WORDS = {
    "burn": lambda: burn(0.6),
    "both": lambda: (burn(0.4), digest(0.4), nap(0.4)),
    "nap": lambda: nap(0.5),
    "thread": thread,
    "short_thread": short_thread,
    "busy_thread": busy_thread,
    "short_threads": short_threads,
    "bursts": bursts,
    "fork": lambda: fork(0.6),
    "long_fork": lambda: fork(2),
    "spawn": spawn,
    "tasks": tasks,
    "state": state,
    "keep": lambda: KEPT.append(bytearray(1 << 20)),
    "pid": os.getpid,
}

for line in sys.stdin:
    word = line.strip()
    if word == "quit":
        break
    said = WORDS[word]()
    print(json.dumps({"done": word, "said": said if isinstance(said, (int, dict)) else None}), flush=True)
print("as ever")
sys.exit(7)
