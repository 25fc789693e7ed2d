"""Greenlets that are suspended for known times on known lines, with the truth by stopwatch. The event loop is a small one that
stands in for gevent's: a class named as there, in a module named as there."""

import functools
import heapq
import json
import os
import sys
import time
import types

import greenlet

watches = {}


class Watched:
    """Adds the time inside it to the stopwatch ``name``."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.monotonic()

    def __exit__(self, *_):
        watches[self.name] = watches.get(self.name, 0) + time.monotonic() - self.start


class Hub(greenlet.greenlet):
    """Switches to each greenlet when its time has come."""

    def __init__(self):
        super().__init__()
        self.due = []

    def run(self):
        while True:
            at, _, sleeper = heapq.heappop(self.due)
            time.sleep(max(at - time.monotonic(), 0))
            sleeper.switch()


sys.modules["gevent.hub"] = types.ModuleType("gevent.hub")
sys.modules["gevent.hub"].Hub = Hub
hub = Hub()


def after(seconds):
    """The hub, which will switch back to this greenlet after that time."""
    sleeper = greenlet.getcurrent()
    heapq.heappush(hub.due, (time.monotonic() + seconds, id(sleeper), sleeper))
    return hub


class Worker(greenlet.greenlet):
    """A greenlet with attributes, as those of gevent."""


def long(seconds):
    with Watched("long"):
        after(seconds).switch()  # LINE: long


def short(seconds):
    with Watched("short"):
        after(seconds / 2).switch()  # LINE: short
    with Watched("shorter"):
        after(seconds / 4).switch()  # LINE: shorter


def consumer():
    while True:
        greenlet.getcurrent().parent.switch()  # LINE: consumer


def main(count, seconds):
    consuming = greenlet.greenlet(consumer)
    consuming.switch()
    workers = []
    for number in range(count):
        workers.append(Worker(functools.partial(short if number % 2 else long, seconds), hub))
        if number == 0:
            workers[0].name = "the first 7"
        heapq.heappush(hub.due, (time.monotonic(), number, workers[-1]))
    child = os.fork()
    if not child:
        time.sleep(seconds)  # its hub never runs
        os._exit(0)
    with Watched("main"):
        after(1.25 * seconds).switch()  # LINE: main
    os.waitpid(child, 0)
    print(json.dumps(watches))


main(int(sys.argv[1]), float(sys.argv[2]))
