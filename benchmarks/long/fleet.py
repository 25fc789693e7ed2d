"""What a fleet of traces takes: to index it, and to answer from its summaries.

A recording of examples/catalogue.py is copied as many recordings, which differ in id, host, version and day; with ``--quiet``, one of
a program that uses 1 % of a CPU for ten minutes, ten times as fast. They are indexed by
``scalene-analyze fleet index``, a process of its own, and so is each question. Summaries of 10,000 traces, larger than those of
the copies, are made directly: 200 lines, 120 functions and 150 stacks each, of 600, 600 and 3,000 different ones.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalene_trace.formats.fleet.writer import Batch
from support.environments import ROOT, save, tool

_MIB = 2**20
_QUESTIONS = ("report", "functions", "memory", "leaks", "flame", "traces")
_COPIES = """if True:
    import sys
    from pathlib import Path
    from tests.support.fleets import write_fleet
    write_fleet(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), hosts=40)"""
_METRICS = ("cpu_s", "python_s", "native_s", "system_s", "wait_s", "sleep_s", "alloc_bytes", "live_at_peak_bytes")
_COLUMNS = (
    "scope",
    "file",
    "line",
    "function",
    "first_line",
    "text",
    "stack",
    "metric",
    "value",
    "variance",
    "samples",
)
_ROWS = 500_000
_DAY_S = 86_400
_FIRST_S = 1_793_491_200  # 2026-11-01


@dataclass(frozen=True)
class Taken:
    """What a command took: CPU time and wall time in seconds, and its largest resident set in bytes."""

    cpu_s: float
    wall_s: float
    peak_bytes: int


def taken(*arguments: object) -> Taken:
    """Runs ``scalene-analyze fleet``."""
    begun_s = time.monotonic()
    command = [tool("scalene-analyze"), "fleet", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return Taken(usage.ru_utime + usage.ru_stime, time.monotonic() - begun_s, usage.ru_maxrss * 1024)


def index(folder: Path, trace: Path, traces: int) -> tuple[Taken, Taken]:
    """Indexing of so many copies, and indexing when nothing is new."""
    command = [tool("python"), "-c", _COPIES, folder, trace, str(traces)]
    subprocess.run(command, check=True, cwd=ROOT)
    return taken("index", folder), taken("index", folder)


def simulate(folder: Path, traces: int) -> None:
    """Writes the summaries of so many traces."""
    chance = random.Random(20_261_128)
    lines = [
        (f"/srv/app/module_{n % 40}.py", 10 + 7 * n, f"Class{n % 30}.method_{n % 60}", 7 * n, f"value_{n} = work({n})")
        for n in range(600)
    ]
    frames = [f"function_{n % 200} (/srv/app/module_{n % 40}.py:{n})" for n in range(2_000)]
    stacks = [";".join(chance.choices(frames, k=20)) for _ in range(3_000)]
    batch = Batch()
    for number in range(traces):
        rows: list[Sequence[Any]] = [("total", *[None] * 6, name, 100.0, None, None) for name in _METRICS]
        chosen = chance.sample(lines, 200)
        for scope, places in (("line", chosen), ("function", chosen[:120])):
            for file, line, function, first, text in places:
                place = (scope, file, line if scope == "line" else None, function, first, text, None)
                for name in _METRICS[: chance.randrange(3, len(_METRICS) + 1)]:
                    rows.append((*place, name, chance.random(), 0.01 if name == "cpu_s" else None, None))
        rows += [
            ("stack", *[None] * 5, stack, "cpu_s", chance.random(), None, None) for stack in chance.sample(stacks, 150)
        ]
        batch.add(_trace(number, traces), dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True)), 0o600)
        if batch.rows > _ROWS:
            batch.publish(folder, "2026-11-28")
            batch = Batch()
    batch.publish(folder, "2026-11-28")


def _trace(number: int, traces: int) -> dict[str, Any]:
    start_s = _FIRST_S + number * 28 * _DAY_S // traces
    return {
        "trace_id": f"{number:032x}",
        "path": f"{number}.parquet",
        "size_bytes": 500_000,
        "mtime_ns": number,
        "host": f"worker-{number % 100:03}",
        "labels": {"service": "shop", "version": f"1.4.{number * 3 // traces}"},
        "start_ns": start_s * 10**9,
        "wall_ns": 3_600 * 10**9,
    }


def table(sizes: dict[int, tuple[Taken, Taken]], questions: dict[str, Taken], simulated: int) -> str:
    """The figures as text."""
    lines = [f"{'traces':>8} {'CPU s/trace':>12} {'MiB':>6} {'nothing new':>12}"]
    for traces, (first, again) in sizes.items():
        lines.append(
            f"{traces:>8,} {first.cpu_s / traces:>12.4f} {first.peak_bytes / _MIB:>6.0f} {again.wall_s:>10.2f} s"
        )
    counts = list(sizes)
    if len(counts) > 1:
        ratio = sizes[counts[-1]][0].cpu_s / sizes[counts[0]][0].cpu_s
        lines.append(f"exponent of the CPU time: {math.log(ratio) / math.log(counts[-1] / counts[0]):.2f}")
    if questions:
        lines += ["", f"questions over the summaries of {simulated:,} traces"]
    lines += [
        f"{name:>12} {each.wall_s:>6.2f} s {each.cpu_s:>6.2f} CPU s {each.peak_bytes / _MIB:>6.0f} MiB"
        for name, each in questions.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark and writes its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--traces", type=int, nargs="+", default=[100, 1000], help="sizes of fleets (default: 100 1000)"
    )
    parser.add_argument("--simulated", type=int, default=10_000, help="summaries for the questions (default: 10,000)")
    parser.add_argument("--folder", help="where the traces are written (default: a temporary folder)")
    parser.add_argument(
        "--quiet", action="store_true", help="only the indexing, of traces of a program that mostly waits"
    )
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        trace = folder / "_recorded.parquet"
        program = [
            "--python",
            tool("python"),
            "benchmarks/long/programs/one_percent.py" if options.quiet else "examples/catalogue.py",
        ]
        program = ["--cpu-interval", "1ms", *program] if options.quiet else program
        subprocess.run([tool("scalene-record"), "-o", trace, *program], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        size_bytes = trace.stat().st_size
        sizes = {traces: index(folder / str(traces), trace, traces) for traces in options.traces}
        if options.quiet:
            found = {
                "trace_bytes": size_bytes,
                "index": {str(n): [asdict(each) for each in both] for n, both in sizes.items()},
            }
            save("fleet-index", found, f"a trace of {size_bytes:,} bytes\n{table(sizes, {}, 0)}")
            return
        (folder / "simulated").mkdir()
        # In a process of its own: what a process takes is counted with what its parent held when it began.
        writer = multiprocessing.Process(target=simulate, args=(folder / "simulated", options.simulated))
        writer.start()
        writer.join()
        taken("report", folder / "simulated")  # so that the files are in memory
        questions = {each: taken(each, folder / "simulated") for each in _QUESTIONS}
    text = table(sizes, questions, options.simulated)
    found = {"trace_bytes": size_bytes, "simulated": options.simulated}
    found["index"] = {count: [asdict(each) for each in both] for count, both in sizes.items()}
    save(
        "fleet",
        json.loads(json.dumps(found)) | {"questions": {name: asdict(each) for name, each in questions.items()}},
        text,
    )


if __name__ == "__main__":
    main()
