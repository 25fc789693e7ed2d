"""Other profilers: how each records a program, shows its report, and what it says of lines.

A peer is installed into the environment of the program. What a profiler cannot tell stays None.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .environments import tool

#: By line of the program: a share of the CPU time, or bytes.
Lines = Mapping[int, float]


@dataclass(frozen=True)
class Peer:
    """A profiler in one way of using it.

    ``package``: its name on PyPI, "" = comes with Python or is ours; ``measures``: in words; ``before``: the command line in
    front of the script; ``report``: the command that puts a report on the terminal, None = that is its output already;
    ``cpu``, ``memory``: read what it recorded of the lines of a file; memory is in bytes, at the program's peak; ``has_programs``: the ten programs are run under it, too.
    """

    name: str
    package: str
    measures: str
    before: Callable[[Path, Path], list[str]]
    report: Callable[[Path, Path], list[str]] | None = None
    cpu: Callable[[Path, Path, Path], Lines] | None = None
    memory: Callable[[Path, Path, Path], Lines] | None = None
    has_programs: bool = True


def ours(name: str, measures: str, *options: str, memory: bool = True) -> Peer:
    """This project with these options."""

    def before(python: Path, output: Path) -> list[str]:
        return [tool("scalene-record"), "-o", str(output), "--python", str(python), *options]

    def report(python: Path, output: Path) -> list[str]:
        return [tool("scalene-analyze"), str(output)]

    return Peer(name, "", measures, before, report, _our_cpu, _our_memory if memory else None)


def _our_rows(output: Path, script: Path) -> list[dict[str, float]]:
    told = subprocess.run(
        [tool("scalene-analyze"), "report", "--json", "--all-lines", output], capture_output=True, check=True
    )
    return [row for row in json.loads(told.stdout)["lines"] if row["file"] == str(script)]


def _our_cpu(python: Path, output: Path, script: Path) -> Lines:
    return {int(row["line"]): row["cpu_s"] for row in _our_rows(output, script)}


def _our_memory(python: Path, output: Path, script: Path) -> Lines:
    return {int(row["line"]): row["live_at_peak_bytes"] or 0 for row in _our_rows(output, script)}


def _module(*words: str, option: str = "-o", after: tuple[str, ...] = ()) -> Callable[[Path, Path], list[str]]:
    return lambda python, output: [str(python), "-m", *words, option, str(output), *after]


# ---- Scalene ---------------------------------------------------------------------------------------------------------


def _scalene_rows(output: Path, script: Path) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = json.loads(output.read_text())["files"].get(str(script), {"lines": []})["lines"]
    return rows


def _scalene_cpu(python: Path, output: Path, script: Path) -> Lines:
    names = ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
    return {int(row["lineno"]): sum(row[name] for name in names) for row in _scalene_rows(output, script)}


def _scalene_memory(python: Path, output: Path, script: Path) -> Lines:
    return {int(row["lineno"]): row["n_peak_mb"] * 2**20 for row in _scalene_rows(output, script)}


# ---- memray ----------------------------------------------------------------------------------------------------------

_READ_MEMRAY = """
import collections, json, sys, memray
found = collections.Counter()
for each in memray.FileReader(sys.argv[1]).get_high_watermark_allocation_records(merge_threads=True):
    place = next((line for _, file, line in each.stack_trace() if file == sys.argv[2]), None)
    if place is not None:
        found[place] += each.size
print(json.dumps(found))
"""


def _memray_memory(python: Path, output: Path, script: Path) -> Lines:
    told = subprocess.run(
        [python, "-c", _READ_MEMRAY, output, script], capture_output=True, check=True, text=True
    ).stdout
    return {int(line): size for line, size in json.loads(told).items()}


# ---- samplers of stacks ----------------------------------------------------------------------------------------------


def _collapsed(place: str) -> Callable[[Path, Path, Path], Lines]:
    """Samples by the innermost frame in the script; ``place``: the pattern of a frame, with NAME for the file's name."""

    def lines(python: Path, output: Path, script: Path) -> Lines:
        found: dict[int, float] = {}
        frame = re.compile(place.replace("NAME", re.escape(script.name)))
        for row in output.read_text(errors="replace").splitlines():
            stack, _, samples = row.rpartition(" ")
            mine = [each for each in map(frame.search, stack.split(";")) if each]
            if mine and samples.isdecimal():
                found[int(mine[-1][1])] = found.get(int(mine[-1][1]), 0.0) + int(samples)
        return found

    return lines


def _beside(name: str, *words: str) -> Callable[[Path, Path], list[str]]:
    """A command of the environment that starts the interpreter itself."""
    return lambda python, output: [str(python.parent / name), *words, str(output), "--", str(python)]


PEERS: dict[str, Peer] = {
    each.name: each
    for each in (
        ours("scalene-trace", "CPU split, waits, memory, copies by line"),
        replace(
            ours("  exact memory", "as above, every allocation", "--alloc-interval", "1"), cpu=None, has_programs=False
        ),
        ours("  CPU, waits", "CPU split, waits by line", "--no-memory", "--no-copy", memory=False),
        ours("  CPU", "CPU split by line", "--no-memory", "--no-copy", "--no-wait", memory=False),
        Peer(
            "Scalene",
            "scalene",
            "CPU split, memory, copies by line",
            _module("scalene", "run", after=("---",)),
            lambda python, output: [str(python), "-m", "scalene", "view", "--cli", str(output)],
            _scalene_cpu,
            _scalene_memory,
        ),
        Peer(
            "  CPU only",
            "scalene",
            "CPU split by line",
            _module("scalene", "run", "--cpu-only", after=("---",)),
            lambda python, output: [str(python), "-m", "scalene", "view", "--cli", str(output)],
            _scalene_cpu,
        ),
        Peer(
            "memray",
            "memray",
            "every malloc, mmap, arena",
            _module("memray", "run", "-q", "-f"),
            lambda python, output: [str(python), "-m", "memray", "summary", str(output)],
            memory=_memray_memory,
        ),
        Peer(
            "  Python allocators",
            "memray",
            "every allocation",
            _module("memray", "run", "-q", "-f", "--trace-python-allocators"),
            lambda python, output: [str(python), "-m", "memray", "summary", str(output)],
            memory=_memray_memory,
        ),
        Peer(
            "py-spy",
            "py-spy",
            "wall time of running threads, 100 Hz",
            _beside("py-spy", "record", "-f", "raw", "-o"),
            cpu=_collapsed(r"\(NAME:(\d+)\)$"),
        ),
        Peer(
            "pyinstrument",
            "pyinstrument",
            "wall time by function, 1 kHz",
            _module("pyinstrument", "-r", "pyisession"),
            lambda python, output: [str(python), "-m", "pyinstrument", "--load", str(output), "-r", "text"],
        ),
        Peer(
            "Austin",
            "austin-dist",
            "wall time",
            _beside("austin", "-o"),
        ),
        Peer(
            "Tachyon",
            "",
            "wall time of one thread, 1 kHz",
            _module("profiling.sampling", "run", "--collapsed"),
            cpu=_collapsed(r"(?:^|/)NAME:.*:(\d+)$"),
        ),
    )
}
