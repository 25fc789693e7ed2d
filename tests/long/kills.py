"""Kills at random moments: of the program, its child, the recorder, or all of them; the trace must then have all that was published.

The program publishes its progress in shared memory (``targets/progress.py``), so it is known what must be there.
``python -m tests.long.kills`` kills a hundred times on each interpreter and writes a dated result into
``benchmarks/results/``; exit status 1 when a published block is missing. The test suite does the same, shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import ROOT
from tests.support.recording import environment, record_command, report, run, target, tool

VICTIMS = ("program", "child", "recorder", "all")
#: Of block 0 of the program and of its child, as targets/progress.py has them.
FIRST_BYTES = (100_003, 200_003)
BLOCKS = 1500
#: Starting takes about half of it.
LONGEST_S = 2.0
EXACT = ("--alloc-interval", "1", "--cpu-interval", "1ms", "--no-source")


@dataclass(frozen=True)
class Kill:
    """One recording that was killed. ``published``: blocks of the program and of its child that must be in the trace;
    ``found``: those that are, number to count; ``recovered``: it took ``--recover``; ``begun``: the program ran."""

    victim: str
    after_s: float
    published: tuple[int, int]
    found: tuple[Counter[int], Counter[int]]
    recovered: bool
    begun: bool

    @property
    def blocks(self) -> int:
        """Blocks in the trace."""
        return sum(each.total() for each in self.found)

    @property
    def repeated(self) -> int:
        """Blocks that are in the trace more than once."""
        return sum(count > 1 for each in self.found for count in each.values())

    @property
    def missing(self) -> tuple[list[int], list[int]]:
        """Published blocks that are not in the trace, of the program and of its child."""
        program, child = (
            [number for number in range(1, top + 1) if number not in found]
            for top, found in zip(self.published, self.found, strict=True)
        )
        return program, child


class Progress:
    """The file that the program publishes into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(32))

    def read(self) -> tuple[int, int]:
        """Blocks made by the program and by its child."""
        data = self.path.read_bytes()
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[16:24], "little")

    def pid(self, who: int) -> int:
        """Pid of the program or of its child; 0 = not begun."""
        return int.from_bytes(self.path.read_bytes()[16 * who + 8 : 16 * who + 16], "little")


def children_of(pid: int) -> list[int]:
    """Pids of the children of a process; none when it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill_one(python: Interpreter, victim: str, chance: random.Random, folder: Path) -> Kill:
    """Records the program, kills the victim at a random moment, and reads the trace."""
    folder.mkdir()
    progress, trace = Progress(folder / "progress"), folder / "t.parquet"
    command = record_command(trace, [target("progress"), progress.path], python, EXACT)
    recorder = subprocess.Popen(
        command, env=environment(None), start_new_session=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    start = time.monotonic()
    wait(chance, recorder, progress)
    after_s = time.monotonic() - start
    published = strike(victim, recorder, progress)
    begun = any(progress.read()) or bool(list(folder.glob("t.parquet*")))
    recovered = not trace.exists() and bring_back(folder, chance)
    found = blocks_in(trace) if trace.exists() else (Counter[int](), Counter[int]())
    shutil.rmtree(folder)
    return Kill(victim, after_s, published, found, recovered, begun)


def wait(chance: random.Random, recorder: subprocess.Popen[bytes], progress: Progress) -> None:
    """Until a random moment of the whole, or until a random number of blocks has been published."""
    if chance.random() < 0.4:
        time.sleep(chance.uniform(0, LONGEST_S))
        return
    enough = chance.randint(1, 2 * BLOCKS)
    while sum(progress.read()) < enough and recorder.poll() is None:
        time.sleep(0.001)


def strike(victim: str, recorder: subprocess.Popen[bytes], progress: Progress) -> tuple[int, int]:
    """Kills the victim, waits until all have ended, and returns what must be in the trace."""
    before = progress.read()
    if victim == "all":
        kill_session(recorder.pid)
    elif victim == "recorder":
        recorder.kill()
        time.sleep(0.1)
        kill_session(recorder.pid)
    else:
        kill_quietly(pid_of(victim, recorder, progress))
        dead = progress.read()
        before = (dead[0], before[1]) if victim == "program" else (before[0], dead[1])
    recorder.communicate(timeout=60)
    kill_session(recorder.pid)
    return progress.read() if victim in ("all", "recorder") else before


def pid_of(victim: str, recorder: subprocess.Popen[bytes], progress: Progress) -> int:
    """The victim's pid, waited for while the recorder lives; 0 when it has ended."""
    while recorder.poll() is None:
        program = children_of(recorder.pid)
        found = program if victim == "program" else [pid for each in program for pid in children_of(each)]
        if found:
            return found[0]
        if progress.read()[int(victim == "child")] == BLOCKS:
            return 0
        time.sleep(0.001)
    return 0


def kill_quietly(pid: int) -> None:
    """Kills a process that may have ended."""
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kills every process of a session that is one process group, and waits until they are gone."""
    for _ in range(2000):
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.001)
        if not group_lives(leader):
            return


def group_lives(leader: int) -> bool:
    """Whether a process of the group is there that is not dead yet."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == leader and fields[0] not in "ZX":
                return True
    return False


def bring_back(folder: Path, chance: random.Random) -> bool:
    """Recovers the spool, if there is one; half of the time a first attempt is killed, too."""
    spools = list(folder.glob("t.parquet.spool"))
    if not spools:
        return False
    command = [*tool("scalene-record"), "-o", str(folder / "t.parquet"), "--recover", str(spools[0])]
    if chance.random() < 0.5:
        first = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.6))
        first.kill()
        first.wait()
    if not (folder / "t.parquet").exists():
        done = run(command)
        assert done.status == 0, done.stderr.decode()
    return True


def blocks_in(trace: Path) -> tuple[Counter[int], Counter[int]]:
    """The blocks of the program and of its child that are in the trace, by number. The trace must be readable."""
    assert report(trace, command="info")["traces"]
    sizes = Counter(pq.read_table(trace, columns=["alloc.size_bytes"]).flatten()[0].to_pylist())
    program, child = (
        Counter({number: sizes[first + number] for number in range(1, BLOCKS + 1) if sizes[first + number]})
        for first in FIRST_BYTES
    )
    return program, child


# ---- many of them ----


@dataclass(frozen=True)
class Outcome:
    """Sums over the kills of one victim. ``recovered``: traces that took ``--recover``; ``unbegun``: killed before
    anything was recorded."""

    python: str
    victim: str
    kills: int
    recovered: int
    unbegun: int
    published: int
    found: int
    missing: int
    repeated: int


def kill_often(python: Interpreter, victim: str, seed: str, times: int, folder: Path) -> Outcome:
    """Kills the victim in ``times`` recordings."""
    chance = random.Random(seed)
    kills = [kill_one(python, victim, chance, folder / str(number)) for number in range(times)]
    return Outcome(
        python=python.full_name,
        victim=victim,
        kills=times,
        recovered=sum(each.recovered for each in kills),
        unbegun=sum(not each.begun for each in kills),
        published=sum(sum(each.published) for each in kills),
        found=sum(each.blocks for each in kills),
        missing=sum(len(numbers) for each in kills for numbers in each.missing),
        repeated=sum(each.repeated for each in kills),
    )


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=25, help="kills of each victim on each interpreter")
    parser.add_argument("--versions", default="3.10,3.11,3.12,3.13", help="minor versions")
    parser.add_argument("--seed", default="20261121")
    asked = parser.parse_args()
    outcomes = []
    for python in (each for each in interpreters() if each.name in asked.versions.split(",")):
        for victim in VICTIMS:
            with tempfile.TemporaryDirectory() as folder:
                seed = f"{asked.seed} {victim} {python.name}"
                outcomes.append(kill_often(python, victim, seed, asked.times, Path(folder)))
            print(outcomes[-1], flush=True)
    now = datetime.now(UTC)
    path = ROOT / "benchmarks" / "results" / f"kills-{now:%Y-%m-%d}.json"
    result = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), "seed": asked.seed}
    path.write_text(json.dumps(result | {"outcomes": [asdict(each) for each in outcomes]}, indent=1) + "\n")
    return int(any(each.missing or each.repeated for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
