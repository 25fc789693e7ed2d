"""Wall time that recording adds to the shortest of programs, ``-c pass``: start, Parquet file and all. And
how long the user waits from the end of a program's Python code to the prompt, if the program imports large modules
(``--after``) or works with one for two seconds (``--after-work``).

Bare and recorded in alternation; the figure is the median of the differences within a round.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from support.environments import environment, save, spread, tool

WORK = Path(__file__).with_name("programs") / "library_work.py"


def seconds(command: list[str]) -> float:
    """Wall time of one run, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def seconds_after(command: list[str]) -> float:
    """Seconds from the time that the program prints, at the end of its code, to the end of one run, which must succeed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return time.monotonic() - float(done.stdout)


def measure(name: str, title: str, program: list[str], rounds: int, figure: Callable[[list[str]], float]) -> None:
    """``program``: the interpreter and its arguments. Writes the result."""
    bare, recorded = [], []
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "t.parquet"
        for _ in range(rounds):
            bare.append(figure(program))
            recorded.append(figure([tool("scalene-record"), "-o", str(trace), "--python", *program]))
        size_bytes = trace.stat().st_size
    added = spread([ours - alone for ours, alone in zip(recorded, bare, strict=True)])
    lines = [f"bare      {spread(bare)} s", f"recorded  {spread(recorded)} s", f"added     {added} s"]
    lines.append(f"trace     {size_bytes / 1000:.1f} KB")
    result = {"title": title, "rounds": rounds, "bare_s": bare, "recorded_s": recorded, "trace_bytes": size_bytes}
    save(name, result | {"added_s": asdict(added)}, f"{title}, median and range\n" + "\n".join(lines))


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    parser.add_argument(
        "--after", nargs="+", metavar="MODULE", help="modules that the interpreter named by --python can import"
    )
    parser.add_argument(
        "--after-work",
        choices=("torch", "sklearn", "transformers"),
        help="a library that the interpreter named by --python can import, to work with for two seconds",
    )
    asked = parser.parse_args()
    if asked.after_work:
        python = asked.python or str(environment())
        title = f"from the end of Python code to the prompt, after two seconds of work with {asked.after_work}"
        command = [python, str(WORK), asked.after_work]
        measure(f"after-work-{asked.after_work}", title, command, asked.rounds, seconds_after)
    elif asked.after:
        python = asked.python or str(environment())
        code = f"import {', '.join(asked.after)}, time; print(time.monotonic(), flush=True)"
        title = f"from the end of Python code to the prompt: {', '.join(asked.after)}"
        measure(f"after-{asked.after[0]}", title, [python, "-c", code], asked.rounds, seconds_after)
    else:
        command = [str(environment(asked.python)), "-c", "pass"]
        measure("startup", "wall time of -c pass", command, asked.rounds, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
