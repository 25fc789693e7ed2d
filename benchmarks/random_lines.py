"""Figures of the lines of random programs: do two of the printed errors hold the truth?

Each program (``--seed``, a number each) has lines that keep, drop, replace, resize and free blocks of random sizes, in a
random order that does not depend on the recording. It is recorded once with every allocation (``--alloc-interval 1``),
which is the truth, and once at an interval that is drawn from INTERVALS. Every line that has a figure in either is
judged: what it allocated, what of it was alive at the peak and at the end, and its growth.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Line
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from support.environments import save, tool, version_of

INTERVALS = ("auto", "auto", "16KiB", "64KiB", "1MiB")
MEASURES = ("alloc", "live_at_peak", "live_at_end", "growth")
ERRORS = 2
PROGRAM_NAME = "program.py"
#: Bytes by which the interpreter's own start differs from run to run, on any line.
NOISE = 512
#: What a line does with n bytes. ``{k}``: number of the line's own container.
DEEDS = (
    "bytes({n})",
    "kept_{k}.append(bytes({n}))",
    "kept_{k}.append(bytearray({n}))",
    "kept_{k}.append([0] * ({n} // 8))",
    "kept_{k}[:] = [bytes({n} // 4) for _ in range(4)]",
    "kept_{k}.extend(range(1000, 1000 + {n} // 40))",
    "text_{k} = text_{k} + bytes({n} // 8)",
    "buffer_{k} += bytes({n} // 2)",
    "table_{k}[len(table_{k})] = 'x' * {n}",
    "kept_{k} = kept_{k}[len(kept_{k}) // 2 :] + [bytes({n})]",
)
#: Numbers that a line makes at most: with every allocation recorded, each takes 64 bytes of the spool.
MOST_NUMBERS = 100_000
FREES = ("kept_{k}.clear()", "del kept_{k}[: len(kept_{k}) // 2]", "table_{k}.clear()", "text_{k} = b''")


@dataclass(frozen=True)
class Figure:
    """A figure of a line: its value, the printed error, and the truth (bytes)."""

    seed: int
    interval: str
    line: int
    measure: str
    value: int
    error: int
    truth: int

    @property
    def is_inside(self) -> bool:
        return abs(self.value - self.truth) <= ERRORS * self.error + NOISE


def program_of(seed: int) -> str:
    """The source of a program."""
    draw = random.Random(seed)
    lines = draw.randint(3, 10)
    volume = math.exp(draw.uniform(math.log(2e6), math.log(100e6)))
    body, names = [], []
    for k in range(lines):
        size = round(math.exp(draw.uniform(math.log(64), math.log(4e6))))
        deed = draw.choice(DEEDS)
        count = max(1, min(300 if "text" in deed else 2000, round(volume / lines / size)))
        size = min(size, MOST_NUMBERS * 40 // count) if "range" in deed else size
        body.append((count, deed.format(k=k, n=size)))
        if draw.random() < 0.4:
            body.append((max(1, min(20, count // draw.randint(2, 50))), draw.choice(FREES).format(k=k)))
        names.append(f"kept_{k}, text_{k}, buffer_{k}, table_{k} = [], b'', bytearray(), {{}}")
    order = [number for number, (count, _) in enumerate(body) for _ in range(count)]
    if draw.random() < 0.7:
        draw.shuffle(order)
    turns = draw.choice((1, 1, 2, 3))
    text = [*names, f"for deed in {turns} * bytes.fromhex('{bytes(order).hex()}'):"]
    for number, (_, deed) in enumerate(body):
        text += [f"    if deed == {number}:", f"        {deed}"]
    return "\n".join(text) + "\n"


def recorded(program: Path, interval: str, python: str, folder: Path) -> Path:
    """The trace of one recording."""
    trace = folder / f"{interval}.parquet"
    options = ["-o", str(trace), "--python", python, "--alloc-interval", interval, "--no-wait", "--no-copy"]
    command = [tool("scalene-record"), *options, str(program)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return trace


def lines_of(trace: Path) -> dict[int, Line]:
    """The rows of the report about the program's own file, by line."""
    lines = build_report([trace], Selection()).lines
    return {line.line: line for line in lines if line.line and Path(line.file or "").name == PROGRAM_NAME}


def held_at_end(trace: Path) -> dict[int, int]:
    """What each line of the program held at the end, for those whose blocks no other line frees."""
    with open_traces([trace], Selection()) as traces:
        return dict(traces.connection.execute(GROWTH).fetchall())


#: What every line held at the end, by usable sizes: the truth of its growth. Lines that free blocks of others, or whose
#: blocks others free, are left out: growth and shrinking of less than the threshold cancel out before there is a sample.
GROWTH = """
WITH lives AS (
    SELECT usable_bytes, end_t_ns, o.line, o.file, f.line AS free_line
    FROM allocations a JOIN stack_owners o USING (trace, stack)
    LEFT JOIN stack_owners f ON f.trace = a.trace AND f.stack = a.free_stack
), mixed AS (
    SELECT unnest([line, free_line]) AS line FROM lives WHERE end_t_ns IS NOT NULL AND line IS DISTINCT FROM free_line
)
SELECT line, coalesce(sum(usable_bytes) FILTER (end_t_ns IS NULL), 0)::BIGINT AS growth FROM lives
WHERE ends_with(file, 'program.py') AND line NOT IN (SELECT line FROM mixed WHERE line IS NOT NULL) GROUP BY line
"""


def measure(seed: int, python: str) -> list[Figure]:
    """The figures of one program."""
    interval = random.Random(-seed).choice(INTERVALS)
    with TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / PROGRAM_NAME
        program.write_text(program_of(seed))
        exact = recorded(program, "1", python, folder)
        truth, found = lines_of(exact), lines_of(recorded(program, interval, python, folder))
        grown = held_at_end(exact)
    return [
        Figure(seed, interval, line, *figure)
        for line in sorted(truth.keys() | found.keys())
        for figure in figures(truth.get(line), found.get(line), grown.get(line))
    ]


def figures(truth: Line | None, found: Line | None, grown: int | None) -> Iterator[tuple[str, int, int, int]]:
    """Measure, value, error and truth of a line; ``grown``: the truth of its growth, None = it has none. A line that is
    not in the report has no figure to be wrong."""
    if found is None:
        return
    for measure in MEASURES:
        value, error = getattr(found, f"{measure}_bytes"), getattr(found, f"{measure}_error_bytes")
        real = grown if measure == "growth" else getattr(truth, f"{measure}_bytes", 0)
        if real is not None and (value or real):
            yield measure, value, error, real


def table(found: list[Figure]) -> str:
    """By interval and measure: figures, and percent of them that two printed errors hold; the worst ones."""
    head = f"{'interval':>8} {'measure':>14} {'figures':>8} {'inside %':>9} {'median error %':>15}"
    texts = [head, "-" * len(head)]
    names = [*dict.fromkeys(sorted(figure.interval for figure in found)), "all"]
    for interval, name in ((i, m) for i in names for m in MEASURES):
        mine = [f for f in found if interval in (f.interval, "all") and f.measure == name]
        shares = sorted(100 * f.error / f.value for f in mine if f.value > 0)
        if mine:
            inside = 100 * sum(f.is_inside for f in mine) / len(mine)
            middle = f"{shares[len(shares) // 2]:.0f}" if shares else ""
            texts.append(f"{interval:>8} {name:>14} {len(mine):8} {inside:9.1f} {middle:>15}")
    return "\n".join(texts)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="number of the first program")
    parser.add_argument("--python", default=sys.executable, help="interpreter to record (default: the one running)")
    parser.add_argument("--output", type=Path, help="write the figures as JSON there, and no dated result")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    with ThreadPoolExecutor(2) as pool:
        found = [each for part in pool.map(lambda seed: measure(seed, chosen.python), seeds) for each in part]
    if chosen.output:
        chosen.output.write_text(json.dumps([asdict(each) | {"is_inside": each.is_inside} for each in found]))
        print(table(found))
        return 0
    outside = [asdict(each) for each in found if not each.is_inside]
    programs = Counter(each.interval for each in found)
    result = {"python": version_of(chosen.python), "programs": chosen.count, "figures": dict(programs)}
    save("random-lines", result | {"outside": outside}, table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
