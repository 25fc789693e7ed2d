"""Tasks of asyncio that are suspended for known times on known lines, with the truth by stopwatch."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

watches = {}


class Watched:
    """Adds the time inside it to the stopwatch ``name``."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.monotonic()

    def __exit__(self, *_):
        watches[self.name] = watches.get(self.name, 0) + time.monotonic() - self.start


async def by_sleep(seconds):
    with Watched("sleep"):
        await asyncio.sleep(seconds)  # LINE: sleep


async def from_queue(queue):
    with Watched("queue"):
        await queue.get()  # LINE: queue


async def for_lock(lock):
    with Watched("lock"):
        async with lock:  # LINE: lock
            pass


async def innermost(seconds):
    with Watched("nested"):
        await asyncio.sleep(seconds)  # LINE: nested


async def middle(seconds):
    await innermost(seconds)


async def outermost(seconds):
    await middle(seconds)


class Awaitable:
    """What libraries do: an object whose __await__ hands on to a coroutine."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __await__(self):
        return self.wait().__await__()

    async def wait(self):
        with Watched("awaitable"):
            await asyncio.sleep(self.seconds)  # LINE: awaitable


async def through_object(seconds):
    await Awaitable(seconds)


class Yielding:
    """... and one whose __await__ is a generator."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __await__(self):
        with Watched("generator"):
            return (yield from asyncio.sleep(self.seconds).__await__())  # LINE: generator


async def through_generator(seconds):
    await Yielding(seconds)


async def numbers(seconds):
    for number in range(2):
        with Watched("async-generator"):
            await asyncio.sleep(seconds / 2)  # LINE: async-generator
        yield number


async def through_async_generator(seconds):
    async for _ in numbers(seconds):
        pass


async def gathered(seconds):
    with Watched("gathered"):
        await asyncio.sleep(seconds)  # LINE: gathered


async def gather(seconds):
    with Watched("gather"):
        await asyncio.gather(gathered(seconds), gathered(seconds / 2))  # LINE: gather


async def kinds(seconds):
    """One task for each kind of await, all at once."""
    queue, lock = asyncio.Queue(), asyncio.Lock()
    await lock.acquire()
    ways = {
        "sleeper": by_sleep(seconds),
        "reader-1": from_queue(queue),
        "reader-2": from_queue(queue),
        "für das Schloß": for_lock(lock),
        "nested": outermost(seconds),
        "object": through_object(seconds),
        "generator": through_generator(seconds),
        "async generator": through_async_generator(seconds),
    }
    tasks = [asyncio.create_task(way, name=name) for name, way in ways.items()]
    tasks.append(asyncio.create_task(gather(seconds)))
    await asyncio.sleep(seconds)
    for _ in range(2):
        queue.put_nowait(0)
    lock.release()
    await asyncio.gather(*tasks)


async def step(seconds):
    with Watched("step"):
        await asyncio.sleep(seconds)  # LINE: step


async def turn(seconds):
    with Watched("turn"):
        await asyncio.sleep(seconds)  # LINE: turn


async def in_turns(until, number):
    """Each at a pace of its own, so that they do not keep step."""
    while time.monotonic() < until:
        await step(0.02 + number * 0.0007)
        await turn(0.04 + number * 0.0013)


async def compute(until):
    while time.monotonic() < until:
        stop = time.monotonic() + 0.005
        while time.monotonic() < stop:
            pass
        with Watched("breath"):
            await asyncio.sleep(0.001)  # LINE: breath


async def busy(seconds):
    """Tasks that come and go to short waits beside one that computes, so that the loop hardly ever rests."""
    until = time.monotonic() + seconds
    walkers = [asyncio.create_task(in_turns(until, number), name=f"walker-{number}") for number in range(20)]
    await asyncio.gather(compute(until), *walkers)


async def hog(seconds):
    """The loop never waits: a task computes and only ever lets others go first."""
    until = time.monotonic() + seconds
    sleepers = [asyncio.create_task(by_sleep(seconds), name=f"sleeper-{number}") for number in range(3)]
    while time.monotonic() < until:
        stop = time.monotonic() + 0.002
        while time.monotonic() < stop:
            pass
        await asyncio.sleep(0)
    await asyncio.gather(*sleepers)


async def short(seconds):
    """Tasks that live for 10 ms each, one after the other."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.gather(*(asyncio.create_task(step(0.01)) for _ in range(10)))


def watcher_times():
    """CPU time of the recorder's watcher, and of all its threads."""
    times = {"watcher_s": 0.0, "recorder_s": 0.0}
    for task in Path(f"/proc/{os.getppid()}/task").iterdir():
        used_s = int((task / "schedstat").read_text().split()[0]) / 1e9
        times["recorder_s"] += used_s
        if (task / "comm").read_text() == "watcher\n":
            times["watcher_s"] += used_s
    return times


async def among_many(seconds):
    await asyncio.sleep(seconds)  # LINE: many


async def work_a_little(until):
    while time.monotonic() < until:
        await asyncio.sleep(0.01)


async def many(seconds):
    """Ten thousand tasks, or as many as were asked for, and one that keeps the loop awake; and what the watcher took."""
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    started, start = watcher_times(), time.monotonic()
    crowd = [asyncio.create_task(among_many(seconds), name=f"one of many {number}") for number in range(count)]
    await work_a_little(start + seconds)
    await asyncio.gather(*crowd)
    after, wall_s = watcher_times(), time.monotonic() - start
    watches.update({"wall_s": wall_s, "started": started, **{name: after[name] - started[name] for name in after}})


async def forever(_seconds):
    print(json.dumps({"pid": os.getpid()}), flush=True)
    await asyncio.sleep(60)  # LINE: forever


def run(coroutine):
    if "uvloop" in sys.argv:
        import uvloop

        return uvloop.new_event_loop().run_until_complete(coroutine)
    return asyncio.run(coroutine)


if __name__ == "__main__":
    modes = {"kinds": kinds, "busy": busy, "hog": hog, "short": short, "many": many, "forever": forever}
    run(modes[sys.argv[1]](float(sys.argv[2])))
    print(json.dumps(watches))
