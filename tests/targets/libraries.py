"""Libraries and calls that share something with a recorder. ``libraries.py WAY``: WAY names a function below.

What is printed is the same at every run.
"""

import asyncio
import faulthandler
import os
import re
import signal
import subprocess
import sys
import tempfile
import time


def busy(turns=200_000):
    return sum(len(str(number)) for number in range(turns))


def gevent_program():
    """Patched threads and sockets, greenlets that hand each other values."""
    from gevent import monkey

    monkey.patch_all()
    import queue
    import socket
    import threading

    import gevent
    from gevent.server import StreamServer

    def echo(connection, address):
        data = connection.recv(100)
        busy(2_000)
        connection.sendall(data[::-1])

    server = StreamServer(("127.0.0.1", 0), echo)
    server.start()

    def ask(number):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.sendall(b"%d" % number)
            return connection.recv(100)

    found = [job.get() for job in [gevent.spawn(ask, number) for number in range(100, 200)]]
    values = queue.Queue()
    threads = [threading.Thread(target=lambda: values.put(busy(20_000))) for _ in range(10)]
    for thread in threads:
        thread.start()
    print(found[:3], len(set(found)), sum(values.get() for _ in threads))


def uvloop_program():
    """An echo server and its clients, a subprocess and timers on one loop."""
    import uvloop

    async def serve(reader, writer):
        writer.write((await reader.read(100))[::-1])
        busy(2_000)
        writer.close()

    async def ask(port, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"%d" % number)
        answer = await reader.read(100)
        writer.close()
        return answer

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        answers = await asyncio.gather(*[ask(port, number) for number in range(100, 300)])
        child = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=subprocess.PIPE)
        print(len(set(answers)), (await child.communicate())[0], child.returncode)

    loop = uvloop.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


def busy_in_c():
    """Some milliseconds in which no frame comes or goes: CPython 3.13.0 itself crashes, once in some tens of runs, where
    faulthandler's timer thread reads frames that change meanwhile."""
    sum(range(1_000_000))


def faulthandler_program():
    """Its timer thread, its handler on a signal, and its handler of a crash, in a child."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.enable(file)
        faulthandler.dump_traceback_later(0.2, repeat=True, file=file)
        faulthandler.register(signal.SIGUSR1, file)
        os.kill(os.getpid(), signal.SIGUSR1)
        end = time.monotonic() + 60  # its thread may wait long for a processor
        while os.pread(file.fileno(), 1_000_000, 0).count(b"Timeout (") < 3 and time.monotonic() < end:
            busy_in_c()
        faulthandler.cancel_dump_traceback_later()
        file.seek(0)
        said = file.read()
        print(said.count("Timeout (") >= 3, said.count("faulthandler_program") >= 3, "busy" in said)
    code = "import faulthandler, os; faulthandler.enable(); os.kill(os.getpid(), 11)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(done.returncode, re.sub("0x[0-9a-f]+", "0x", done.stderr))


def timers_program():
    """The three interval timers and the real-time one, all at once."""
    counts = {}

    def count(number, frame):
        counts[number] = counts.get(number, 0) + 1

    for timer, number in (
        (signal.ITIMER_REAL, signal.SIGALRM),
        (signal.ITIMER_VIRTUAL, signal.SIGVTALRM),
        (signal.ITIMER_PROF, signal.SIGPROF),
    ):
        signal.signal(number, count)
        signal.setitimer(timer, 0.02, 0.02)
    began, start = time.monotonic(), time.process_time()
    while min(counts.get(each, 0) for each in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)) < 15:
        busy(1_000)
        if time.process_time() - start > 20:  # a timer of them does not go off
            break
    most = (time.monotonic() - began) / 0.02 + 10
    left = [signal.setitimer(timer, 0)[1] for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]
    print(left, sorted(int(number) for number, times in counts.items() if times >= 15), max(counts.values()) < most)


def profile_program():
    """A profile function and a trace function of the program's own: they see what they see without us."""
    import cProfile

    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append((event, frame.f_code.co_name)))
    busy(500)
    sys.setprofile(None)
    print(len(seen), seen[:3], seen[-3:])
    traced = []
    sys.settrace(lambda frame, event, argument: traced.append(frame.f_lineno))
    busy(500)
    sys.settrace(None)
    profiler = cProfile.Profile()
    print(len(traced), profiler.runcall(busy, 1_000), sum(each.callcount for each in profiler.getstats()))


def extensions_program():
    """Extensions made with pybind11 (contourpy) and with Cython (gevent's loop, and a queue of its own)."""
    import contourpy
    import gevent.queue
    import numpy

    grid = numpy.add.outer(numpy.arange(400.0) ** 2, numpy.arange(400.0) ** 2)
    for _ in range(40):
        lines = contourpy.contour_generator(z=grid).lines(40_000.0)
    try:
        contourpy.contour_generator(z=grid).filled(5.0, 1.0)
    except ValueError as error:
        print(error)
    queue = gevent.queue.Queue(maxsize=3)
    maker = gevent.spawn(lambda: [queue.put(number) for number in range(20_000)])
    taker = gevent.spawn(lambda: sum(queue.get() for _ in range(20_000)))
    gevent.joinall([maker, taker])
    print(len(lines), len(lines[0]), taker.value)


def environments_program():
    """Children with an environment of their own, and what this process has in LD_PRELOAD beside the recorder."""
    others = [word for word in os.environ.get("LD_PRELOAD", "").split(":") if "scalene" not in word]
    print(others, flush=True)
    code = "import os; print(sorted(set(os.environ) - {'LC_CTYPE', 'LD_PRELOAD', 'SCALENE_TRACE_SPOOL'}))"
    for env in ({}, {"A": "1"}, {"LD_PRELOAD": "", "B": "2"}, {"LD_PRELOAD": " ".join(others), "C": "3"}):
        subprocess.run([sys.executable, "-I", "-c", code, "child"], env=env, check=True)


globals()[f"{sys.argv[1]}_program"]()
