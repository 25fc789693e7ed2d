"""Everything that is hard on a stack walker, in three threads: generators, exceptions, recursion, exec of new code,
garbage collection, asyncio (``churn``); switch-heavy ``greenlets``; ``threads`` that come and go; ``native`` stacks of
churn_native.c, in four threads (further arguments: that library, and the one that comes and goes). Prints how often it did
each kind of work. If a thread fails, so does the program.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time

DONE = {}


def fail(of_thread):
    sys.excepthook(of_thread.exc_type, of_thread.exc_value, of_thread.exc_traceback)
    os._exit(1)


threading.excepthook = fail


def numbers(depth, n):
    if depth == 0:
        yield from range(n)
    else:
        yield from numbers(depth - 1, n)


def generators(_):
    return sum(numbers(6, 300))


def thrower(depth):
    if depth == 0:
        raise ValueError("from below")
    try:
        return thrower(depth - 1)
    except ValueError as error:
        raise KeyError(depth) from error if depth % 3 == 0 else None
    except KeyError:
        raise ValueError(depth) from None


def exceptions(_):
    for _ in range(20):
        try:
            thrower(12)
        except (ValueError, KeyError):
            pass


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def recursion(_):
    return deep(300) + sorted(range(50), key=lambda i: deep(i % 7))[0]


def new_code(turn):
    space = {}
    source = (
        f"def made_{turn}(n):\n    return [i * {turn} for i in range(n)]\n\nclass C{turn}:\n    x = made_{turn}(30)\n"
    )
    exec(compile(source, f"<made {turn}>", "exec"), space)
    return space[f"made_{turn}"](100)


class Node:
    def __init__(self, depth):
        self.me = self
        self.children = [Node(depth - 1) for _ in range(3)] if depth else []

    def __del__(self):
        DONE["deleted"] = DONE.get("deleted", 0) + 1


def garbage(_):
    Node(4)
    gc.collect(1)


async def leaf(n):
    await asyncio.sleep(0)
    return n


async def branch(depth):
    if depth == 0:
        return await leaf(1)
    return sum(await asyncio.gather(*(branch(depth - 1) for _ in range(3))))


def tasks(_):
    return asyncio.run(branch(4))


def turns(kinds, seconds):
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        for kind in kinds:
            kind(turn)
            turn += 1
            DONE[kind.__name__] = DONE.get(kind.__name__, 0) + 1
    DONE["turns"] = DONE.get("turns", 0) + turn


def hopping(seconds):
    import greenlet

    end = time.monotonic() + seconds
    here = greenlet.getcurrent()

    def descend(depth):
        if depth:
            descend(depth - 1)
        else:
            here.switch()

    def body(depth):
        while time.monotonic() < end:
            descend(depth)

    ring = [greenlet.greenlet(lambda depth=depth: body(depth)) for depth in [*range(20)] * 2]
    while time.monotonic() < end:
        for each in ring:
            if not each.dead:
                each.switch()
        DONE["turns"] = DONE.get("turns", 0) + 1


def coming_and_going(seconds):
    """Each thread's last tick may fall into its end."""
    end = time.monotonic() + seconds

    def short():
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            deep(5)

    while time.monotonic() < end:
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()
        DONE["turns"] = DONE.get("turns", 0) + 1


def churn(seconds):
    sets = [(generators, exceptions, recursion), (new_code, garbage, recursion), (tasks, generators, new_code)]
    threads = [threading.Thread(target=turns, args=(kinds, seconds)) for kinds in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def native(seconds):
    import ctypes

    library = ctypes.CDLL(sys.argv[3])

    def turn(kind, *arguments):
        function = getattr(library, kind)
        function.restype = ctypes.c_long
        DONE[kind] = function(ctypes.c_double(seconds), *arguments)

    kinds = [("libraries", sys.argv[4].encode()), ("coroutines",), ("handlers",), ("generated",)]
    threads = [threading.Thread(target=turn, args=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    DONE["turns"] = sum(DONE.values())


KINDS = {"churn": churn, "greenlets": hopping, "threads": coming_and_going, "native": native}
KINDS[sys.argv[2]](float(sys.argv[1]))
print(json.dumps(DONE))
