"""Wall time that recording adds to the shortest of programs, ``-c pass``: start, Parquet file and all.

Bare and recorded in alternation; the figure is the median of the differences within a round.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from support.environments import environment, save, spread, tool


def seconds(command: list[str]) -> float:
    """Wall time of one run, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    asked = parser.parse_args()
    python = str(environment(asked.python))
    bare, recorded = [], []
    with TemporaryDirectory() as folder:
        trace = str(Path(folder) / "t.parquet")
        for _ in range(asked.rounds):
            bare.append(seconds([python, "-c", "pass"]))
            recorded.append(seconds([tool("scalene-record"), "-o", trace, "--python", python, "-c", "pass"]))
    added = spread([ours - alone for ours, alone in zip(recorded, bare, strict=True)])
    lines = [f"bare      {spread(bare)} s", f"recorded  {spread(recorded)} s", f"added     {added} s"]
    result = {"rounds": asked.rounds, "bare_s": bare, "recorded_s": recorded, "added_s": asdict(added)}
    save("startup", result, "wall time of -c pass, median and range\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
