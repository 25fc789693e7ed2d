"""Threads that wait, with the truth by stopwatch: four kinds of blocking, a lock convoy, a GIL convoy."""

import json
import os
import queue
import socket
import sys
import threading
import time

watches = {}


def watched(name, call):
    """Adds the time that the call takes to the stopwatch ``name``."""
    start = time.monotonic()
    call()
    watches[name] = watches.get(name, 0) + time.monotonic() - start


def from_queue(box):
    box.get()  # LINE: queue


def from_socket(theirs):
    theirs.recv(1)  # LINE: socket


def by_sleep(seconds):
    time.sleep(seconds)  # LINE: sleep


def for_lock(lock):
    lock.acquire()  # LINE: lock


def four(seconds):
    """One thread each in a queue, a socket, sleep and a lock."""
    box, lock = queue.Queue(), threading.Lock()
    ours, theirs = socket.socketpair()
    lock.acquire()
    calls = {
        "queue": lambda: from_queue(box),
        "socket": lambda: from_socket(theirs),
        "sleep": lambda: by_sleep(seconds),
        "lock": lambda: for_lock(lock),
    }
    threads = [threading.Thread(target=watched, args=each) for each in calls.items()]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    box.put(0)
    ours.send(b"x")
    lock.release()
    for thread in threads:
        thread.join()


def take(lock):
    lock.acquire()  # LINE: convoy-lock


def hold(seconds):
    time.sleep(seconds)  # LINE: convoy-hold


def in_convoy(lock, turns, name):
    for _ in range(turns):
        watched(f"convoy-lock {name}", lambda: take(lock))
        watched(f"convoy-hold {name}", lambda: hold(0.03))
        lock.release()
        time.sleep(0)


def convoy(seconds):
    """Four threads that hold one lock in turns, asleep. (A plain lock is not fair: an extra hand gives it in turns.)"""
    lock = threading.Lock()
    turns = int(seconds / 4 / 0.03)
    threads = [threading.Thread(target=in_convoy, args=(lock, turns, name)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def schedule():
    """Nanoseconds on the CPU, and runnable without it, of the calling thread as the kernel counts them (a tick old)."""
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        return [int(word) for word in file.read().split()[:2]]


def compute(seconds, barrier):
    barrier.wait()
    before, start = schedule(), time.monotonic()
    x = 1
    while time.monotonic() < start + seconds:  # LINE: compute-first
        for i in range(2000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: compute-last
    after, wall = schedule(), time.monotonic() - start
    run, delay = ((b - a) / 1e9 for a, b in zip(before, after))
    watches[str(threading.get_native_id())] = {"wall_s": wall, "run_s": run, "delay_s": delay}


def gil(seconds):
    """Four threads of pure Python."""
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=compute, args=(seconds, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def nap(seconds):
    time.sleep(seconds)  # LINE: nap


def child_nap(seconds):
    time.sleep(seconds)  # LINE: child-nap


def image_nap(seconds):
    time.sleep(seconds)  # LINE: image-nap


def family(seconds):
    """A nap here, one in a forked child, one in a worker of multiprocessing, one behind exec."""
    import multiprocessing

    nap(seconds)
    if (child := os.fork()) == 0:
        child_nap(seconds)
        os._exit(0)
    os.waitpid(child, 0)
    worker = multiprocessing.get_context("spawn").Process(target=child_nap, args=(seconds,))
    worker.start()
    worker.join()
    os.execv(sys.executable, [sys.executable, __file__, "image", str(seconds)])


def forever(_seconds):
    print(json.dumps({"pid": os.getpid()}), flush=True)
    time.sleep(60)  # LINE: forever


if __name__ == "__main__":
    modes = {"four": four, "convoy": convoy, "gil": gil, "family": family, "image": image_nap, "forever": forever}
    modes[sys.argv[1]](float(sys.argv[2]))
    print(json.dumps(watches))
