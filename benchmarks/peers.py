"""This project beside other profilers, in one run: what each costs, how much it writes, how long its report takes, and how
far its lines are off.

The ten programs of the Scalene papers run bare and under each profiler in alternation, as in overhead.py. Time to the
report: from the end of the recording until a report is on the terminal. CPU: eight numpy operators, each on a line of its
own with a stopwatch (tests/targets/numpy_lines.py): the line whose share differs most, in points. Memory: blocks of known
sizes (programs/kept_blocks.py): the line that differs most, in percent of its bytes. Each profiler runs as installed, with its default
settings. Tachyon needs CPython 3.15, where it has bare runs and runs of ours beside it (``--tachyon``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from overhead import LOOP, PROGRAMS, script
from support.environments import ROOT, add_peers, environment, save, version_of
from support.peers import PEERS, Lines, Peer

NUMPY_LINES = ROOT / "tests" / "targets" / "numpy_lines.py"
KEPT_BLOCKS = ROOT / "benchmarks" / "programs" / "kept_blocks.py"
MARK = "# LINE: "
TACHYON = "Tachyon"
OUTPUT = "recorded.json"
#: A run may take so many times its bare time, and so many seconds more.
LIMIT_TIMES, LIMIT_S = 20, 20.0
#: Where the bare time is not known yet, or the program has a length of its own.
FIRST_LIMIT_S = 300.0


@dataclass(frozen=True)
class Row:
    """What was measured of one profiler; lists have one value for each program or round. ``at_least``: programs that were
    ended after so many times their bare time; ``gave_up``: those that failed, and why; ``failed``: why there is nothing."""

    name: str
    measures: str
    python: str
    slowdowns: dict[str, list[float]]
    sizes_bytes: dict[str, int]
    report_s: list[float]
    cpu_errors: list[float]
    memory_errors: list[float]
    at_least: dict[str, float] = field(default_factory=dict)
    gave_up: dict[str, str] = field(default_factory=dict)
    failed: str = ""


class Failed(Exception):  # noqa: N818 (it is no error of ours)
    """A profiler did not record the program; ``str()`` is what it said last."""


class TooSlow(Failed):
    """It was ended."""


def recorded(
    peer: Peer | None, python: Path, command: Sequence[str], output: Path, limit_s: float = FIRST_LIMIT_S
) -> str:
    """Runs a program, under a profiler or bare; what it printed. Raises Failed, and TooSlow after ``limit_s`` seconds."""
    for each in output.parent.glob(f"{output.name}*"):
        shutil.rmtree(each) if each.is_dir() else each.unlink()  # the folder of a recorder that was ended
    before = peer.before(python, output) if peer else [str(python)]
    running = subprocess.Popen(
        [*before, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = running.communicate(timeout=limit_s)
    except BaseException as error:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise TooSlow(f"not done after {limit_s:.0f} s") from None
        raise
    if running.returncode or (peer and not output.exists()):
        said = (errors or out).strip().splitlines() or [f"status {running.returncode}"]
        raise Failed(said[-1].replace(f"{python.parent}/", "")[:150])
    return out


def slowdowns(
    rows: dict[str, Row], python: Path, programs: Sequence[str], rounds: int, seconds: float, folder: Path
) -> None:
    """Adds slowdowns and sizes of all programs."""
    for program in programs:
        command = script(python, program)
        first_s, count = body_s(None, python, command, 0, folder)
        iterations = max(1, round(seconds * count / first_s))
        for number in range(rounds):
            bare_s, _ = body_s(None, python, command, iterations, folder)
            limit_s = LIMIT_TIMES * bare_s + LIMIT_S
            names = [name for name, row in rows.items() if not row.failed and PEERS[name].has_programs]
            for row in [rows[name] for name in names[:: 1 if number % 2 == 0 else -1]]:
                if program in row.at_least or program in row.gave_up:
                    continue
                try:
                    own_s, _ = body_s(PEERS[row.name], python, command, iterations, folder, limit_s)
                except TooSlow:
                    row.at_least[program] = limit_s / bare_s
                    row.slowdowns.pop(program, None)
                    continue
                except Failed as error:
                    row.gave_up[program] = str(error)
                    continue
                row.slowdowns.setdefault(program, []).append(own_s / bare_s)
                row.sizes_bytes[program] = (folder / OUTPUT).stat().st_size
                if number == 0 and (taken_s := report_s(PEERS[row.name], python, folder / OUTPUT)):
                    row.report_s.append(taken_s)
        print(f"{program:24} {iterations} iterations", flush=True)


def body_s(
    peer: Peer | None,
    python: Path,
    command: Sequence[str],
    iterations: int,
    folder: Path,
    limit_s: float = FIRST_LIMIT_S,
) -> tuple[float, int]:
    """Seconds of the program's body, and its iterations. Raises Failed."""
    result = folder / "body.json"
    recorded(peer, python, [str(LOOP), str(result), str(iterations), *command], folder / OUTPUT, limit_s)
    told = json.loads(result.read_text())
    return told["body_s"], told["iterations"]


def report_s(peer: Peer, python: Path, output: Path) -> float | None:
    """Seconds until the report is there; None if the profiler has no such command, or if that fails, which is said."""
    if peer.report is None:
        return None
    begun_s = time.perf_counter()
    done = subprocess.run(peer.report(python, output), capture_output=True, text=True)
    taken_s = time.perf_counter() - begun_s
    if done.returncode:
        print(f"{peer.name.strip()}: no report: {(done.stderr or done.stdout).strip()[-150:]}", flush=True)
        return None
    return taken_s


def marks(path: Path) -> dict[str, int]:
    """The lines of a program by their marks."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {text.split(MARK)[1]: number for number, text in lines if MARK in text}


def truth_of(out: str) -> dict[str, float]:
    """The JSON object that the program printed."""
    found: dict[str, float] = next(json.loads(line) for line in out.splitlines()[::-1] if line.startswith("{"))
    return found


def cpu_error(found: Lines, truth: dict[str, float]) -> float:
    """The largest error of a line's share, in points."""
    place = marks(NUMPY_LINES)
    spent = {mark: found.get(place[mark], 0.0) for mark in truth}
    whole, true = sum(spent.values()) or 1.0, sum(truth.values())
    return max(100 * abs(spent[mark] / whole - truth[mark] / true) for mark in truth)


def memory_error(found: Lines, truth: dict[str, float]) -> float:
    """The largest error of a line's bytes, in percent of them."""
    place = marks(KEPT_BLOCKS)
    return max(100 * abs(found.get(place[mark], 0.0) / size - 1) for mark, size in truth.items())


def errors(row: Row, python: Path, rounds: int, seconds: float, folder: Path) -> None:
    """Adds the errors of CPU time and of memory, where the profiler tells it by line."""
    peer, output = PEERS[row.name], folder / OUTPUT
    asked: list[
        tuple[Path, list[str], Callable[[Path, Path, Path], Lines] | None, Callable[..., float], list[float]]
    ] = [
        (NUMPY_LINES, [str(seconds)], peer.cpu, cpu_error, row.cpu_errors),
        (KEPT_BLOCKS, [], peer.memory, memory_error, row.memory_errors),
    ]
    for program, arguments, lines, error, found in asked:
        for _ in range(rounds if lines else 0):
            assert lines is not None
            out = recorded(peer, python, [str(program), *arguments], output)
            found.append(error(lines(python, output, program), truth_of(out)))


def measured(python: Path, names: Sequence[str], asked: argparse.Namespace) -> list[Row]:
    """The rows of these profilers under one interpreter."""
    version = version_of(str(python))
    rows = {name: Row(name, PEERS[name].measures, version, {}, {}, [], [], []) for name in names}
    with TemporaryDirectory() as folder:
        for name, row in rows.items():
            try:
                errors(row, python, asked.rounds, asked.line_seconds, Path(folder))
                recorded(PEERS[name], python, [str(KEPT_BLOCKS)], Path(folder) / OUTPUT)
            except Failed as error:
                rows[name] = Row(name, row.measures, version, {}, {}, [], [], [], failed=str(error))
            print(line_of(rows[name]), flush=True)
        slowdowns(rows, python, asked.programs, asked.rounds, asked.seconds, Path(folder))
    return list(rows.values())


def line_of(row: Row) -> str:
    """A row of the table."""
    head = f"{row.name:20} {row.measures:42}"
    if row.failed:
        return f"{head} did not record here: {row.failed}"
    medians = [median(values) for values in row.slowdowns.values()] + list(row.at_least.values())
    cells = [
        f"{median(medians):.3f}" if medians else "",
        f"{'>' if row.at_least else ''}{max(medians):.2f}" if medians else "",
        f"{median(row.sizes_bytes.values()) / 1e3:,.0f}" if row.sizes_bytes else "",
        f"{median(row.report_s):.2f}" if row.report_s else "",
        f"{median(row.cpu_errors):.1f}" if row.cpu_errors else "",
        f"{median(row.memory_errors):.1f}" if row.memory_errors else "",
    ]
    gave_up = "; ".join(f"{program} failed: {why}" for program, why in row.gave_up.items())
    return head + "".join(f"{cell:>10}" for cell in cells) + f"  {gave_up}".rstrip()


def table(rows: Sequence[Row]) -> str:
    """All rows, by interpreter."""
    titles = ["slowdown", "worst", "KB", "report s", "CPU pts", "memory %"]
    lines = []
    for python in dict.fromkeys(row.python for row in rows):
        lines += [f"CPython {python}", f"{'':63}" + "".join(f"{title:>10}" for title in titles)]
        lines += [line_of(row) for row in rows if row.python == python]
    lines.append(
        "slowdown, KB, report: medians over the programs; worst: the highest median of a program (>: a run was ended, and counts "
        "with the time that the whole of it had); errors: medians"
    )
    return "\n".join(lines)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a bare run")
    parser.add_argument("--line-seconds", type=float, default=5.0, help="CPU time of the program with the numpy lines")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    parser.add_argument("--tachyon", metavar="PYTHON", help="also Tachyon, with this CPython 3.15 or later")
    asked = parser.parse_args()
    python = environment(asked.python)
    installed = add_peers(python, [peer.package for peer in PEERS.values() if peer.package])
    rows = measured(
        python,
        [name for name, peer in PEERS.items() if not peer.package or peer.package in installed if name != TACHYON],
        asked,
    )
    if asked.tachyon:
        rows += measured(environment(asked.tachyon), ["scalene-trace", "  CPU", TACHYON], asked)
    save(
        "peers", {"rounds": asked.rounds, "seconds": asked.seconds, "rows": [asdict(row) for row in rows]}, table(rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
