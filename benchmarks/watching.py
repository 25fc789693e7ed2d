"""What the watcher costs: CPU time of the recorder beside threads that are idle, and beside suspended tasks of asyncio,
with and without it.

The program (tests/targets/idle_threads.py, tasks.py) starts its threads or tasks, lets them wait, and says what the threads
of its parent, the recorder, took of the CPU: the watcher alone, and all of them. Recorded with and without ``--no-wait`` in
turn. Beside the tasks, the loop wakes up a hundred times a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.environments import environment, save, tool

TARGETS = Path(__file__).resolve().parent.parent / "tests" / "targets"
#: Threads, and whether the main thread computes meanwhile.
CASES = ((1, ""), (100, ""), (1000, ""), (100, "busy"), (1000, "busy"))
#: Tasks.
TASKS = (1, 100, 1000, 10_000)


def programs(seconds: float) -> Iterator[tuple[int, str, list[str]]]:
    """How many threads or tasks, of what kind, and the program that has them."""
    for threads, busy in CASES:
        words = [str(threads), str(seconds), *([busy] if busy else [])]
        yield threads, busy, [str(TARGETS / "idle_threads.py"), *words]
    for tasks in TASKS:
        yield tasks, "tasks", [str(TARGETS / "tasks.py"), "many", str(seconds), str(tasks)]


def measure(python: str, trace: str, program: list[str], options: list[str]) -> dict[str, Any]:
    """What the program said of its recorder."""
    command = [tool("scalene-record"), "-o", trace, "--python", python, *options, *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(count: int, what: str, watched: dict[str, Any], without: dict[str, Any]) -> str:
    """A line of the table: shares of one core in percent; what came before the wait apart, in ms."""
    share = 100 * watched["watcher_s"] / watched["wall_s"]
    recorder = [100 * each["recorder_s"] / each["wall_s"] for each in (watched, without)]
    started_ms = 1000 * watched["started"]["watcher_s"]
    name = f"{count} {what}".strip()
    return f"{name:>11} {share:>10.2f} {recorder[0]:>10.2f} {recorder[1]:>10.2f} {started_ms:>10.1f}"


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    asked = parser.parse_args()
    python = str(environment(asked.python))
    lines = [f"{'threads':>11} {'watcher %':>10} {'recorder %':>10} {'--no-wait':>10} {'start ms':>10}"]
    results = []
    with TemporaryDirectory() as folder:
        trace = str(Path(folder) / "t.parquet")
        for count, what, program in programs(asked.seconds):
            watched, without = (measure(python, trace, program, options) for options in ([], ["--no-wait"]))
            results.append({"count": count, "what": what or "threads", "watched": watched, "without": without})
            lines.append(row(count, what, watched, without))
            print(lines[-1], flush=True)
    title = f"CPU time of the recorder in percent of one core, beside threads that wait for {asked.seconds:g} s\n"
    save("watching", {"seconds": asked.seconds, "cases": results}, title + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
