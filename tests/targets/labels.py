"""Requests and jobs with labels, of known CPU time and waiting time. Prints the truth as JSON: what each label has used and
waited, and what had none."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from scalene_trace.recorder import label

used: dict[str, float] = {}
waited: dict[str, float] = {}


def burn(name: str, cpu_s: float) -> None:
    start_s = time.thread_time()
    while time.thread_time() - start_s < cpu_s:
        sum(range(300))
    used[name] = used.get(name, 0.0) + time.thread_time() - start_s


def hashes(name: str, cpu_s: float) -> None:
    """The same in native code that does not hold the GIL."""
    start_s, data = time.thread_time(), bytes(2_000_000)
    while time.thread_time() - start_s < cpu_s:
        hashlib.sha256(data)
    used[name] = used.get(name, 0.0) + time.thread_time() - start_s


def pause(name: str, wait_s: float) -> None:
    start_s = time.monotonic()
    time.sleep(wait_s)
    waited[name] = waited.get(name, 0.0) + time.monotonic() - start_s


async def request(endpoint: str, user: int, cpu_s: float) -> None:
    with label(endpoint=endpoint):
        with label(user=user):
            burn(endpoint, cpu_s / 2)
            await asyncio.sleep(0.4)
            burn(endpoint, cpu_s / 2)
        await asyncio.to_thread(pause, endpoint, 0.2)


async def serve() -> None:
    await asyncio.gather(request("/cart", 1, 0.4), request("/buy", 2, 0.2))


def with_pools() -> None:
    with label(endpoint="/pool"), ThreadPoolExecutor(1) as pool:
        pool.submit(contextvars.copy_context().run, hashes, "/pool", 0.2).result()
        pool.submit(burn, "", 0.2).result()


@label(endpoint="/child")
def child() -> None:
    burn("/child", 0.2)
    kept = [bytes(2000) for _ in range(10_000)]
    pause("/child", 0.2)
    assert kept


def main() -> None:
    # Up to 16 variables of a context are in one node of a trie, more of them in a node of another kind.
    others = [contextvars.ContextVar(f"other {i}") for i in range(int(sys.argv[1]))]
    for number, variable in enumerate(others):
        variable.set(number)
    asyncio.run(serve())
    with_pools()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        used.clear()
        waited.clear()
        child()
        os.write(writing, json.dumps([used, waited]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    for mine, theirs in zip((used, waited), json.loads(os.read(reading, 1000))):
        mine.update(theirs)
    print(json.dumps([used, waited]))


main()
