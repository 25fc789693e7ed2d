"""What recording costs a program while it is turned on, against the same process while it is paused.

The ten programs of overhead.py run for ever, started by scalene-record or attached to from outside (``--attached``). Each few
seconds, between two iterations, the recording is paused or resumed; the ratio is that of CPU time for one iteration in a part
that is recorded to the mean of the two paused parts beside it. Runs of one program differ by some percent from each other
(addresses, hash seeds, what else the machine does), the parts of one process by much less, so smaller differences are
seen than by overhead.py. What a paused recording costs is not in the ratio: see ``overhead.py --paused``. An attached one
costs nothing then, as nothing is in the process. ``--libraries`` measures steps of programs/library_work.py instead; what counts
for torch, whose threads wait for each other by spinning, is wall time.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from overhead import LOOP, PROGRAMS, ROOT, script
from support.attached import is_recording, until
from support.environments import environment, save, tool, version_of

_PATIENCE_S = 60.0
#: Steps of programs/library_work.py that are timed together, by library.
_STEPS = {"torch": 50, "sklearn": 1, "transformers": 10}


@dataclass(frozen=True)
class Row:
    """``ratios``: one for each part that was recorded; ``wall``: the same of wall time."""

    python: str
    program: str
    way: str
    ratios: list[float]
    wall: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    def __str__(self) -> str:
        return f"{self.program:24} {self.way:9} {described(self.ratios)}  wall {described(self.wall)}"


def described(ratios: Sequence[float]) -> str:
    """Median, quartiles, and the standard error of the mean."""
    if len(ratios) < 2:
        return f"{ratios[0]:.4f}"
    low, middle, high = statistics.quantiles(ratios)
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    return f"{middle:.4f}  quartiles {low:.3f} to {high:.3f}  error {error:.4f}"


def control(output: Path, word: str) -> None:
    subprocess.run([tool("scalene-record"), "--control", str(output), word], capture_output=True)


@contextmanager
def running(python: Path, program: str, output: Path, told: Path, options: Sequence[str] | None) -> Iterator[None]:
    """The program, recorded; ``options``: None = attached to from outside."""
    os.mkfifo(told)
    line = [str(python), str(LOOP), str(told), "-1", *work(python, program)]
    record = [tool("scalene-record"), "-o", str(output)]
    quiet = subprocess.DEVNULL
    env = os.environ | {"PYTHONHASHSEED": "0"}
    if options is None:
        started = [subprocess.Popen(line, stdin=quiet, stdout=quiet, stderr=quiet, env=env)]
        started.append(
            subprocess.Popen([*record, "--pid", str(started[0].pid)], stdin=quiet, stdout=quiet, stderr=quiet)
        )
    else:
        command = [*record, *options, "--python", *line]
        started = [subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=env)]
    try:
        yield
    finally:
        started[0].send_signal(signal.SIGTERM)  # the recorder hands it on
        for each in started:
            each.wait(_PATIENCE_S)


def work(python: Path, program: str) -> list[str]:
    """The script of one of the ten programs or of a library's steps, and its arguments."""
    if program in _STEPS:
        return [str(ROOT / "benchmarks" / "programs" / "library_work.py"), program, str(_STEPS[program])]
    return script(python, program)


def measure(
    python: Path, program: str, pairs: int, seconds: float, settle_s: float, options: Sequence[str] | None
) -> Row:
    """One program: paused and recorded in turn, paused first and last."""
    with TemporaryDirectory() as folder:
        output, told = Path(folder) / "t.parquet", Path(folder) / "told"
        with running(python, program, output, told, options), told.open() as lines:
            until(lambda: is_recording(output))
            parts = [part(lines, output, seconds, settle_s, bool(number % 2)) for number in range(2 * pairs + 1)]
    found = [
        [parts[at][what] * 2 / (parts[at - 1][what] + parts[at + 1][what]) for at in range(1, len(parts) - 1, 2)]
        for what in (1, 0)
    ]
    way = "attached" if options is None else "recorded"
    return Row(version_of(str(python)), program, way, *found)


def part(lines: Iterator[str], output: Path, seconds: float, settle_s: float, is_on: bool) -> tuple[float, float]:
    """Seconds and CPU seconds of an iteration, on the average of so many seconds. Those that begin less than ``settle_s`` after
    the recording was turned on or off do not count."""
    control(output, "resume" if is_on else "pause")
    turned_s, whole, cpu, count = time.perf_counter() + settle_s, 0.0, 0.0, 0
    while whole < seconds:
        began_s, wall_s, cpu_s = map(float, next(lines).split())
        if began_s > turned_s:
            whole, cpu, count = whole + wall_s, cpu + cpu_s, count + 1
    return whole / count, cpu / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a part")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds after each change that do not count")
    parser.add_argument(
        "--libraries", nargs="+", choices=_STEPS, default=[], metavar="NAME", help=f"{', '.join(_STEPS)}; with --python"
    )
    parser.add_argument("--attached", action="store_true", help="attached to from outside (--pid)")
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    parser.add_argument("options", nargs="*", help="of scalene-record, after --")
    asked = parser.parse_args()
    if asked.libraries and not asked.python:
        parser.error("--libraries needs --python, an interpreter that has them")
    python = Path(asked.python) if asked.libraries else environment(asked.python)
    options = None if asked.attached else asked.options
    rows = []
    for program in asked.libraries or asked.programs:
        rows.append(measure(python, program, asked.pairs, asked.seconds, asked.settle, options))
        print(rows[-1], flush=True)
    middle = statistics.median(row.median for row in rows)
    lines = [
        *map(str, rows),
        f"median of {len(rows)} programs {middle:.4f}, worst {max(row.median for row in rows):.4f}",
    ]
    name = "-".join(["turned-on", *asked.libraries, *["attached"] * asked.attached])
    lengths = {"seconds": asked.seconds, "settle_s": asked.settle}
    save(name, lengths | {"rows": [asdict(row) for row in rows]}, "\n".join(lines))


main()
