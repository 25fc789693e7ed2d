"""What recording costs per call: ns for a pair of malloc and free, a pair of pymalloc, an addition of integers, and a
copy, bare, recorded, and with every allocation recorded.

A round is one process for each way (bare, recorded with the default settings, exact: with --alloc-interval 1) and each
allocator (libc, jemalloc), in an order that turns from round to round. The table gives medians over the rounds, with
ranges, the median of the differences between recorded and bare within a round, and that of the ratios of exact and
bare.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from support.environments import ROOT, Spread, save, spread, tool, version_of

PROGRAMS = ROOT / "benchmarks" / "programs"
JEMALLOC = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
OPTIONS: dict[str, list[str]] = {"bare": [], "recorded": [], "exact": ["--alloc-interval", "1"]}
Times = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One kind of call: ns bare, recorded and exact, what recording adds, and how many times as long exact takes."""

    allocator: str
    call: str
    bare_ns: Spread
    recorded_ns: Spread
    added_ns: Spread
    exact_ns: Spread
    exact_ratio: Spread


def compiled(folder: Path) -> Path:
    """The library of pairs.c."""
    library = folder / "pairs.so"
    compiler = shutil.which("cc") or "cc"
    options = ["-O2", "-fno-builtin", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", library, PROGRAMS / "pairs.c"], check=True)
    return library


def measure(way: str, allocator: str, python: str, library: Path, extra: list[str]) -> Times:
    """One process: ns by call."""
    program = [str(PROGRAMS / "pairs.py"), str(library)]
    trace = str(library.with_name("t.parquet"))
    record = [tool("scalene-record"), "-o", trace, *OPTIONS[way], *extra, "--python", python]
    env = os.environ | ({"LD_PRELOAD": str(JEMALLOC)} if allocator == "jemalloc" else {})
    command = [*record, *program] if way != "bare" else [python, *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nreturned {done.returncode}\n{done.stderr}")
    found: Times = json.loads(done.stdout)
    return found


def rows_of(allocator: str, rounds: list[dict[str, Times]]) -> list[Row]:
    """The rows of one allocator; pymalloc and copies are the same under all, and told once."""
    calls = [call for call in rounds[0]["bare"] if call.startswith("malloc") or allocator == "libc"]
    return [
        Row(
            allocator,
            call,
            spread([each["bare"][call] for each in rounds]),
            spread([each["recorded"][call] for each in rounds]),
            spread([each["recorded"][call] - each["bare"][call] for each in rounds]),
            spread([each["exact"][call] for each in rounds]),
            spread([each["exact"][call] / each["bare"][call] for each in rounds]),
        )
        for call in calls
    ]


def table(rows: list[Row]) -> str:
    """The rows as text."""
    head = f"{'allocator':10} {'call':16} {'bare ns':>26} {'recorded ns':>26} {'added ns':>26} {'exact ns':>29} {'exact / bare':>26}"
    lines = [head, "-" * len(head)]
    for row in rows:
        name = row.allocator if row.call.startswith("malloc") else ""
        lines.append(
            f"{name:10} {row.call:16} {row.bare_ns!s:>26} {row.recorded_ns!s:>26} {row.added_ns!s:>26}"
            f" {row.exact_ns!s:>29} {row.exact_ratio!s:>26}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--short", action="store_true", help="one round, nothing written")
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure (default: the one running)")
    parser.add_argument("--record", default="", metavar="OPTIONS", help="more options for scalene-record")
    asked = parser.parse_args()
    allocators = ["libc", *(["jemalloc"] if JEMALLOC.exists() else [])]
    found: dict[str, list[dict[str, Times]]] = {allocator: [] for allocator in allocators}
    with TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for number in range(1 if asked.short else asked.rounds):
            for allocator in allocators:
                order = list(OPTIONS) if number % 2 == 0 else list(OPTIONS)[::-1]
                each = {way: measure(way, allocator, asked.python, library, asked.record.split()) for way in order}
                found[allocator].append(each)
    rows = [row for allocator in allocators for row in rows_of(allocator, found[allocator])]
    if asked.short:
        print(table(rows))
        return 0
    result = {"python": version_of(asked.python), "rounds": asked.rounds, "options": asked.record}
    save("allocator", result | {"rows": [asdict(row) for row in rows]}, table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
