"""Runs a benchmark of pyperformance a fixed number of times, without pyperf's processes and calibration.

``pyperf_loop.py RESULT ITERATIONS run_benchmark.py [ARGS...]``: a stand-in for the module ``pyperf`` collects the
functions that the benchmark would have timed; then they run in turn, ITERATIONS times, and the seconds and the
CPU seconds that they took go to the file RESULT as JSON. With 0 iterations they run until 2 seconds have passed, and RESULT says how often that was; with -1 they run for ever, and
RESULT gets a line for each: when it began (perf_counter), its seconds and CPU seconds.
"""

import argparse
import asyncio
import json
import pathlib
import runpy
import sys
import time
import types

BODIES = []


class Runner:
    """What the ten programs use of pyperf.Runner."""

    def __init__(self, add_cmdline_args=None, **_):
        self.argparser = argparse.ArgumentParser()
        self.metadata = {}
        self.add_cmdline_args = add_cmdline_args

    def parse_args(self):
        return self.argparser.parse_args()

    def bench_func(self, name, function, *arguments):
        BODIES.append(lambda: timed(function, *arguments))

    def bench_time_func(self, name, function, *arguments):
        BODIES.append(lambda: function(1, *arguments))

    def bench_async_func(self, name, function):
        BODIES.append(lambda: timed(lambda: asyncio.run(function())))


def timed(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def stand_in():
    module = types.ModuleType("pyperf")
    module.Runner = Runner
    module.perf_counter = time.perf_counter
    return module


def tell_for_ever(result):
    with result.open("w") as file:
        while True:
            start, start_cpu = time.perf_counter(), time.process_time()
            for body in BODIES:
                body()
            print(start, time.perf_counter() - start, time.process_time() - start_cpu, file=file, flush=True)


def main():
    result, iterations = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    sys.argv = sys.argv[3:]
    sys.modules["pyperf"] = stand_in()
    sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
    if iterations < 0:
        tell_for_ever(result)
    done, body_s, start, start_cpu = 0, 0.0, time.perf_counter(), time.process_time()
    while done < iterations or (iterations == 0 and time.perf_counter() - start < 2):
        body_s += sum(body() for body in BODIES)
        done += 1
    result.write_text(json.dumps({"iterations": done, "body_s": body_s, "cpu_s": time.process_time() - start_cpu}))


main()
