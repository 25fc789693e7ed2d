"""How many instructions recording adds to a call: counted one by one, bare and recorded.

A tracer (``programs/stepper.c``) steps through 200 calls of each interposed function and counts those instructions that
lie in the shim, and all. The table gives medians, so a call in which a sample fell does not matter. The figures for the
shim are kept in ``instructions.json``: ``--check`` fails when one has risen by more than SLACK, ``--accept`` writes them
anew. They belong to one compiler (that of the kept figures is named there) and to x86-64.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from support.environments import ROOT, save, tool, version_of

PROGRAMS = ROOT / "benchmarks" / "programs"
KEPT = ROOT / "benchmarks" / "instructions.json"
SHIM = "libscalene_shim.so"
#: In the order of steps.c, CALLS regions each.
CALLS = 200
ENTRIES = ("malloc", "free", "calloc", "realloc", "memcpy", "memmove")
ENTRIES += ("pymalloc malloc", "pymalloc free", "pymalloc malloc 1000", "pymalloc free 1000")
SLACK = 2
#: Few samples: a followed block costs its neighbours in the pool ten instructions more.
RARE = ("--cpu-interval", "1s", "--alloc-interval", "1GB")


@dataclass(frozen=True)
class Count:
    """Instructions of one call: those in the shim, and all there are, bare and recorded."""

    entry: str
    shim: int
    bare: int
    recorded: int


def compile_program(folder: Path, source: str, *options: str) -> Path:
    """The program or library made of a file of ``programs``."""
    made = folder / Path(source).stem
    compiler = shutil.which("cc") or "cc"
    command = [compiler, "-O1", "-fno-builtin", *options, "-o", str(made), str(PROGRAMS / source)]
    subprocess.run(command, check=True)
    return made


def step(prefix: list[str], stepper: Path, library: Path, python: str) -> list[tuple[int, int]]:
    """Instructions in the shim and in all, of each region."""
    out = library.with_name("regions.txt")
    command = [*prefix, str(stepper), str(out), SHIM, python, str(PROGRAMS / "steps.py"), str(library)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nreturned {done.returncode}\n{done.stderr}")
    pairs = [tuple(map(int, line.split())) for line in out.read_text().splitlines()]
    if len(pairs) != CALLS * len(ENTRIES):
        raise SystemExit(f"{len(pairs)} calls were stepped through, not {CALLS * len(ENTRIES)}")
    return [(here, everything) for here, everything in pairs]


def count(python: str) -> list[Count]:
    """All entries."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        stepper = compile_program(folder, "stepper.c")
        library = compile_program(folder, "steps.c", "-shared", "-fPIC")
        bare = step([], stepper, library, python)
        record = [tool("scalene-record"), "-o", str(folder / "t.parquet"), *RARE, "--"]
        recorded = step(record, stepper, library, python)
    found = []
    for number, entry in enumerate(ENTRIES):
        mine = slice(number * CALLS, (number + 1) * CALLS)
        shim, everything = (round(statistics.median(column)) for column in zip(*recorded[mine], strict=True))
        found.append(Count(entry, shim, round(statistics.median(each for _, each in bare[mine])), everything))
    return found


def table(counts: list[Count]) -> str:
    """The counts as text."""
    head = f"{'call':20} {'in the shim':>12} {'bare':>6} {'recorded':>9} {'added':>6}"
    rows = [f"{c.entry:20} {c.shim:12} {c.bare:6} {c.recorded:9} {c.recorded - c.bare:6}" for c in counts]
    return "\n".join(["instructions of one call, median", head, "-" * len(head), *rows])


def risen(counts: list[Count]) -> list[str]:
    """What rose above the kept figures, in words."""
    kept = json.loads(KEPT.read_text())["shim"]
    return [
        f"{c.entry}: {c.shim} instructions in the shim, {kept[c.entry]} are kept"
        for c in counts
        if c.shim > kept[c.entry] + SLACK
    ]


def accept(counts: list[Count]) -> None:
    """Keeps the figures."""
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    kept = {"compiler": compiler, "shim": {c.entry: c.shim for c in counts}}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    """Counts, and writes or compares the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter (default: the one running)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare with the kept figures, write nothing")
    what.add_argument("--accept", action="store_true", help="keep these figures from now on")
    asked = parser.parse_args()
    counts = count(asked.python)
    if asked.check:
        print(table(counts))
        print(*risen(counts), sep="\n", file=sys.stderr)
        return 1 if risen(counts) else 0
    if asked.accept:
        accept(counts)
    save(
        "instructions", {"python": version_of(asked.python), "counts": [asdict(each) for each in counts]}, table(counts)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
