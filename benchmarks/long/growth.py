"""How what a recording, its conversion and its report take grows: with events, threads, frames of depth and processes.

Each axis has one program, run bare and recorded for sizes that grow by ten. CPU seconds do not depend on what else the machine
does; the exponent is that of the last decade, after the smallest figure was subtracted (unless the size before the last takes as
little): 1 is linear. "flat": less than a tenth of a second, or a tenth of the smallest memory, was added.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from support.curves import drawing
from support.environments import ROOT, save, tool, version_of

_MIB = 2**20
DRAWING = ROOT / "docs" / "growth.svg"
#: All programs print the CPU seconds that they and their children have used.
_END = """
import os
print(sum(os.times()[:4]))
"""
EVENTS = """
import sys
for _ in range(int(sys.argv[1])):
    bytearray(600)
"""
THREADS = """
import sys, threading
threading.stack_size(128 * 1024)
count = int(sys.argv[1])
go, all_here = threading.Event(), threading.Semaphore(0)
def work():
    all_here.release()
    go.wait()
    sum(range(1000))
threads = [threading.Thread(target=work) for _ in range(count)]
for thread in threads: thread.start()
for _ in threads: all_here.acquire()
go.set()
for thread in threads: thread.join()
"""
DEPTH = """
import sys, time
sys.setrecursionlimit(10_000)
def work(end):
    while time.process_time() < end: sum(range(1000))
def down(depth, end):
    if depth <= 1: work(end)
    else: down(depth - 1, end)
for turn in range(20): down(int(sys.argv[1]), time.process_time() + 0.1)
"""
PROCESSES = """
import os, sys
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        sum(range(10_000))
        sys.exit()
    os.wait()
"""


@dataclass(frozen=True)
class Axis:
    """A program whose argument grows, and how it is recorded."""

    program: str
    options: tuple[str, ...]
    most: int


AXES = {
    "events": Axis(EVENTS, ("--alloc-interval", "1"), 10**6),
    "threads": Axis(THREADS, (), 10**4),
    "depth": Axis(DEPTH, ("--cpu-interval", "1ms"), 10**3),
    "processes": Axis(PROCESSES, (), 10**3),
}


@dataclass(frozen=True)
class Point:
    """One size: CPU seconds that recording adds to the program and that the recorder takes, seconds from the program's end to
    the recorder's, and the report's CPU seconds; largest resident sets and the trace in bytes."""

    size: int
    program_cpu_s: float
    recorder_cpu_s: float
    after_s: float
    recorder_bytes: int
    trace_bytes: int
    report_cpu_s: float
    report_bytes: int


FIGURES = (
    "program_cpu_s",
    "recorder_cpu_s",
    "after_s",
    "recorder_bytes",
    "trace_bytes",
    "report_cpu_s",
    "report_bytes",
)
HEADS = ("program s", "recorder s", "after s", "recorder MiB", "trace MiB", "report s", "report MiB")


def children_cpu_s() -> float:
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_bytes(process: subprocess.Popen[str]) -> int:
    """The largest resident set of the process itself, which is awaited."""
    peak = 0
    while process.poll() is None:
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        except OSError:
            break
        peak = max(peak, int(found[1]) * 1024 if found else 0)
        time.sleep(0.02)
    return peak


def measure(axis: Axis, python: str, size: int, folder: Path) -> Point:
    """One size. Raises SystemExit if a run fails."""
    program, trace, told = folder / "program.py", folder / "t.parquet", folder / "printed"
    program.write_text(axis.program + _END + "import time\nprint(time.monotonic())\n")
    trace.unlink(missing_ok=True)
    bare = subprocess.run([python, str(program), str(size)], capture_output=True, text=True, check=True).stdout.split()
    before_s = children_cpu_s()
    command = [tool("scalene-record"), "-o", str(trace), *axis.options, "--python", python, str(program), str(size)]
    with told.open("w") as output:
        recorder = subprocess.Popen(command, stdout=output, text=True)
        recorder_bytes = peak_bytes(recorder)
    if recorder.wait():
        raise SystemExit(f"{command} returned {recorder.returncode}")
    after_s, (cpu_s, ended_s) = time.monotonic(), map(float, told.read_text().split())
    both_s, before_report_s = children_cpu_s() - before_s, children_cpu_s()
    with Path(os.devnull).open("w") as nowhere:
        report = subprocess.Popen([tool("scalene-analyze"), str(trace)], stdout=nowhere, text=True)
        report_bytes = peak_bytes(report)
    report.wait()
    return Point(
        size,
        cpu_s - float(bare[0]),
        both_s - cpu_s,
        after_s - ended_s,
        recorder_bytes,
        trace.stat().st_size,
        children_cpu_s() - before_report_s,
        report_bytes,
    )


def exponent(points: Sequence[Point], figure: str) -> float | None:
    """Of the last decade; None = flat."""
    values = [float(getattr(point, figure)) for point in points]
    fixed, before, last = min(values), values[-2], values[-1]
    least = 0.1 if figure.endswith("_s") else max(0.1 * fixed, _MIB / 10)
    if last - fixed < least:
        return None
    if before - fixed < least / 5:  # the part that grows cannot be told from noise there
        return math.log10(last / before)
    return math.log10((last - fixed) / (before - fixed))


def table(name: str, points: Sequence[Point]) -> str:
    """The points of an axis as text."""
    rows = [f"{name:>10} " + " ".join(f"{head:>12}" for head in HEADS)]
    for point in points:
        values = [getattr(point, each) / (_MIB if each.endswith("bytes") else 1) for each in FIGURES]
        rows.append(f"{point.size:>10,} " + " ".join(f"{value:>12.2f}" for value in values))
    found = (exponent(points, each) for each in FIGURES)
    rows.append(f"{'exponent':>10} " + " ".join(f"{'flat' if each is None else f'{each:.2f}':>12}" for each in found))
    return "\n".join(rows)


def curves(points: Sequence[Point]) -> dict[str, list[tuple[float, float]]]:
    """The times of an axis, to be drawn."""
    names = {"recorder_cpu_s": "CPU time of the recorder", "after_s": "from the program's end to the prompt"}
    names |= {"report_cpu_s": "CPU time of the report"}
    return {title: [(point.size, float(getattr(point, name))) for point in points] for name, title in names.items()}


def main() -> None:
    """Runs the benchmark and writes its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the program (default: this one)")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--events", type=int, default=AXES["events"].most, help="the most allocations")
    asked = parser.parse_args()
    found: dict[str, list[Point]] = {}
    for name in asked.axes:
        axis, size = AXES[name], 1000 if name == "events" else 1
        most = asked.events if name == "events" else axis.most
        found[name] = []
        with TemporaryDirectory() as folder:
            while size <= most:
                found[name].append(measure(axis, asked.python, size, Path(folder)))
                print(found[name][-1], flush=True)
                size *= 10
    facts = {"python": version_of(asked.python), "points": {name: [*map(asdict, each)] for name, each in found.items()}}
    if set(found) == set(AXES):
        DRAWING.write_text(drawing({name: curves(points) for name, points in found.items()}, "s"))
    save("growth", facts, "\n\n".join(table(name, points) for name, points in found.items()))


if __name__ == "__main__":
    main()
