"""Our unwinding of native stacks against libgcc's, by the ten thousand.

``python -m tests.long.unwinding`` runs programs of numpy, pandas, OpenSSL, SQLite and others on two interpreters with a
preloaded library (``tests/targets/unwinding.c``). It interrupts their threads at random moments, unwinds each stack twice
and compares the frames. A dated result is written into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tests.support.interpreters import Interpreter, interpreters
from tests.support.native import library
from tests.support.paths import ROOT, TARGETS
from tests.support.recording import Json
from tests.support.target_environments import environment_python

PROGRAMS = (
    *("numpy", "pandas", "hashlib", "ssl", "sqlite", "json", "re", "sort", "zlib", "exceptions", "imports", "threads"),
    "greenlets",
)
VERSIONS = ((3, 11), (3, 13))
SHIM = ROOT / "shim"
SOURCES = (
    *(f"inside/native/{name}.c" for name in ("images", "own")),
    *(f"shared/evidence/{name}.c" for name in ("access", "evidence", "chains", "frame_rules", "unwind")),
    *(
        f"shared/native/{name}.c"
        for name in ("cursor", "frame_program", "frame_step", "frame_tables", "image", "records")
    ),
    *("shared/saferead.c", "shared/sealed/sealed.c"),
)
#: Outcomes that are right: the same frames, or more than libgcc found, which ends at code without tables.
RIGHT = ("equal", "equal_reference_ends_early")
#: Of a greenlet, the frames beyond its own belong to whichever greenlet was copied there: libgcc reads garbage.
NO_TRUTH = ("greenlets",)
LEAST_RIGHT_SHARE = 0.995
LONGEST_RUN_S = 300


def compiled(folder: Path) -> Path:
    """The library that is preloaded."""
    options = ["-O2", "-D_GNU_SOURCE", "-fvisibility=hidden", "-fno-strict-aliasing", "-ftls-model=initial-exec"]
    sources = [str(SHIM / source) for source in SOURCES]
    return library(folder, "unwinding.c", *options, f"-I{SHIM}", f"-I{ROOT}", *sources, "-ldl", "-lgcc_s")


def commands(folder: Path, stacks: int, programs: list[str]) -> Iterator[tuple[str, str, list[str | Path]]]:
    """Interpreter, name and command of each program."""
    compiler = shutil.which("c++")
    if compiler and "c++" in programs:
        made = folder / "throwing"
        subprocess.run([compiler, "-O2", "-o", made, TARGETS / "throwing.cpp", "-ldl"], check=True)
        yield "", "c++", [made, str(stacks)]
    chosen: list[Interpreter] = [each for each in interpreters() if each.version[:2] in VERSIONS]
    for each in chosen:
        for name in PROGRAMS:
            if name in programs:
                yield each.full_name, name, [environment_python(each), TARGETS / "unwound.py", name, str(stacks)]


def compare(preloaded: Path, command: list[str | Path], stacks: int, out: Path) -> Json:
    """The result that the library has written in one run."""
    variables = {"LD_PRELOAD": str(preloaded), "UNWINDING_OUT": str(out), "UNWINDING_STACKS": str(stacks)}
    environment = os.environ | variables | {"PYTHONWARNINGS": "ignore"}
    subprocess.run(command, env=environment, check=True, timeout=LONGEST_RUN_S)
    return json.loads(out.read_text())


def summary(version: str, name: str, found: Json) -> Json:
    """The part of a result that is kept: counts, times, and the kinds of the unequal stacks."""
    kinds = Counter(kind_of(example) for example in found["examples"])
    kept = {
        key: found[key]
        for key in ("stacks", "frames", "gaps", "outcomes", "ends", "timed", "warm_ns", "cold_ns", "scan_ns")
    }
    return {"python": version, "program": name, **kept, "kinds": dict(kinds.most_common(8))}


def kind_of(example: Json) -> str:
    """What happened, and the last frame that both unwindings found."""
    frames = example["ours"]
    last = frames[min(example["at"], len(frames)) - 1] if frames else "?"
    file, _, rest = last.partition("+")
    return f"{example['outcome']} after {file} {rest.split()[1] if len(rest.split()) > 1 else '?'}"


def line_of(row: Json) -> str:
    """One line for the terminal."""
    unequal = {name: count for name, count in row["outcomes"].items() if count and name != "equal"}
    times = f"ten frames: {row['warm_ns'] / 1000:.1f} us cached, {row['cold_ns'] / 1000:.1f} not"
    scan = f"scan: {row['scan_ns'] / 1000:.1f} us"
    return f"{row['python']:8} {row['program']:10} {row['stacks']} stacks, {row['frames']} frames, {times}, {scan}, {unequal}"


def right_share(rows: list[Json]) -> float:
    """Share of the right stacks, without the programs that have no truth."""
    counted = [row for row in rows if row["program"] not in NO_TRUTH]
    right = sum(row["outcomes"][name] for row in counted for name in RIGHT)
    return float(right / max(1, sum(row["stacks"] for row in counted)))


def main() -> int:
    """Exit status 1 if a stack is silently wrong, or if more than 0.5 % are incomplete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stacks", type=int, default=5000, help="stacks of each program")
    parser.add_argument("--programs", nargs="+", default=["c++", *PROGRAMS], metavar="NAME")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        preloaded = compiled(Path(folder))
        for version, name, command in commands(Path(folder), options.stacks, options.programs):
            found = compare(preloaded, command, options.stacks, Path(folder) / "result.json")
            rows.append(summary(version, name, found))
            print(line_of(rows[-1]), *(f"  {kind}: {count}" for kind, count in rows[-1]["kinds"].items()), sep="\n")
    share, wrong = right_share(rows), sum(row["outcomes"]["wrong"] for row in rows)
    print(f"{sum(row['stacks'] for row in rows)} stacks; {share:.3%} are right, {wrong} silently wrong")
    if not options.print_only:
        now = datetime.now(UTC)
        result = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), "right_share": share}
        path = ROOT / "benchmarks" / "results" / f"unwinding-{now:%Y-%m-%d}.json"
        path.write_text(json.dumps(result | {"programs": rows}, indent=1) + "\n")
        print(f"written: {path}")
    return int(wrong > 0 or share < LEAST_RIGHT_SHARE)


if __name__ == "__main__":
    sys.exit(main())
