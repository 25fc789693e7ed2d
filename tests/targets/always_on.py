"""Threads, a lasting child and many short ones allocate, compute and sleep; prints what they did, exactly, and exits with 7. The
argument says for how many seconds; it ends half a second after its parent has died, too."""

import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time

SIZE = 50_021
OF_CHILD, BETWEEN_S, EXEC_EACH, REST_S = 20, 0.25, 8, 0.5


def burn(cpu_s):
    begun = time.thread_time()
    while time.thread_time() - begun < cpu_s:
        pass


def work(is_over, counts):
    kept, done = [None] * 100, 0
    while not is_over():
        kept[done % 100] = bytearray(SIZE)
        done += 1
        burn(0.001)
        time.sleep(0.02)
    counts.append(done)


def child():
    warm = [bytearray(2 * SIZE) for _ in range(3)]  # a child's first allocations may be unrecorded
    blocks = [bytearray(SIZE) for _ in range(OF_CHILD)]
    burn(0.003)
    os._exit(len(warm) + len(blocks) != 3 + OF_CHILD)


def lasting(reader, writer):
    """Works until its parent closes the other end of ``reader``."""
    counts, over = [], threading.Event()
    thread = threading.Thread(target=work, args=(over.is_set, counts))
    thread.start()
    os.read(reader, 1)
    over.set()
    thread.join()
    os.write(writer, str(counts[0]).encode())
    os._exit(0)


def fork(function, *arguments):
    pid = os.fork()
    if pid == 0:
        function(*arguments)
    return pid


if __name__ == "__main__":
    until, parent, counts, short = time.monotonic() + float(sys.argv[1]), os.getppid(), [], 0
    (reader, closes), (told, writer) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(closes)
        lasting(reader, writer)
    over = threading.Event()
    threads = [threading.Thread(target=work, args=(over.is_set, counts)) for _ in range(3)]
    for each in threads:
        each.start()
    while time.monotonic() < until and os.getppid() == parent:
        os.waitpid(fork(child), 0)
        short += 1
        if short % EXEC_EACH == 0:
            subprocess.run([sys.executable, "-S", "-c", "x = 1"], check=True)
        time.sleep(BETWEEN_S)
    if os.getppid() != parent:
        time.sleep(REST_S)
    over.set()
    for each in threads:
        each.join()
    os.close(closes)
    counts.append(int(os.read(told, 100)))
    os.waitpid(pid, 0)
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    facts = {
        "done": sum(counts) + short * OF_CHILD,
        "cpu_s": sum(each.ru_utime + each.ru_stime for each in used),
        "children": short,
        "digest": hashlib.sha256(b"x" * SIZE).hexdigest(),
    }
    print(json.dumps(facts), flush=True)
    sys.exit(7)
