"""Attaches with memory to a busy program again and again (``--pid --memory``), and kills the recorder now and then.

The program's threads allocate, raise, load and unload libraries and fork, and each adds up checksums of what it does. Its
results must be those of a bare run, and after the last recording it must have as many threads, descriptors, mappings of files
and timers as before the first one. ``python -m tests.long.attached_memory [--versions 3.14] [--rounds 1000] [--kills 100]``
exits with 1 unless that is so. A round does what scalene-record does, in a forked process, but writes no trace.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalene_trace.formats.dataclass import replace
from scalene_trace.recorder.attached.follow import Follower
from scalene_trace.recorder.attached.memory.recording import AttachedMemory
from scalene_trace.recorder.folder.facts import Facts
from scalene_trace.recorder.folder.files import SPOOL_NAME
from scalene_trace.recorder.folder.output import discard
from scalene_trace.recorder.run.prepare import host_facts, prepare
from scalene_trace.recorder.sampling.watcher import Watcher
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool.drain import Drain
from tests.support.interpreters import Interpreter, interpreters
from tests.support.recording import environment, target

PROGRAM = target("attach_storm")
LONGEST_HOLD_S = 0.05
#: After the last recording, the program notices within this time that a recorder was killed.
SETTLE_S = 3.0


def state(pid: int) -> dict[str, Any]:
    """What a recorder might leave behind in the process."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    files = {line.split(None, 5)[5] for line in lines if "/" in line}
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        "descriptors": sorted(each.name for each in Path(f"/proc/{pid}/fd").iterdir()),
        "files": sorted(each for each in files if "libscalene_attached" not in each and ".so" not in each),
        "spools": sum("spool" in line or "/dev/shm" in line for line in lines),
        "timers": Path(f"/proc/{pid}/timers").read_text(),
        "handlers": [line for line in status if line.startswith(("SigCgt", "TracerPid", "SigBlk"))],
        "threads": min(threads_now(pid) for _ in range(20)),
        "mappings": len(lines),
    }


def threads_now(pid: int) -> int:
    """The program has threads of its own that live for a moment."""
    time.sleep(0.01)
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def round_in_child(pid: int, folder: Path, hold_s: float) -> None:
    """Records for so long, and ends this process: with 0, or 2 = the process could not be asked in time."""
    status = 1
    try:
        settings = Settings(output=folder / "t.parquet", copy=False, gpu_interval_ns=0)
        facts = Facts(
            trace_id=os.urandom(16).hex(),
            output=str(settings.output),
            command=[],
            command_code=None,
            cwd="/",
            sources=False,
            argv=False,
            host=host_facts(replace(settings, command=["x"])),
        )
        prepared = prepare(settings, facts, str(settings.output), print)
        memory = AttachedMemory(pid, prepared.folder)
        follower = Follower(pid, False, False, lambda name: None)
        drain = Drain(prepared.space, prepared.folder.path / SPOOL_NAME)
        follower.attach()
        watcher = Watcher(prepared.folder.path / SPOOL_NAME)
        watcher.start()
        failure = memory.start()
        end_s = time.monotonic() + hold_s
        while time.monotonic() < end_s:
            drain.turn()
            prepared.space.offer_ahead()
            time.sleep(0.005)
        memory.stop()
        prepared.space.header.ended = 1
        watcher.stop()
        chunks = int(prepared.space.header.taken)
        discard(prepared.folder)
        status = 0 if failure is None and chunks > 1 else 2
        if failure:
            print(failure, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def attach_once(pid: int, folder: Path, kill_after_s: float | None) -> int:
    """The status of the round; -9 = it was killed."""
    child = os.fork()
    if not child:
        round_in_child(pid, folder, random.uniform(0, LONGEST_HOLD_S))
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def storm(python: Interpreter, rounds: int, kills: int) -> bool:
    """Prints what was found; returns whether all is well."""
    with TemporaryDirectory() as text:
        command = [str(python.path), "-Wignore", "-Xfaulthandler", str(PROGRAM)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(None), text=True
        )
        assert process.stdout is not None and process.stdin is not None
        expected = process.stdout.readline()
        before, counts = state(process.pid), {0: 0, 1: 0, 2: 0, -9: 0}
        killed = set(random.sample(range(rounds), kills))
        began_s, first = time.monotonic(), None
        for number in range(rounds):
            folder = Path(text) / str(number)
            folder.mkdir()
            status = attach_once(process.pid, folder, random.uniform(0, 0.3) if number in killed else None)
            counts[status] = counts.get(status, 0) + 1
            if process.poll() is not None:
                print(f"{python.full_name}: the program ended with {process.returncode} in round {number}")
                return False
            if number == rounds // 10:
                time.sleep(SETTLE_S if number - 1 in killed or number in killed else 0)
                first = state(process.pid)["mappings"]
        time.sleep(SETTLE_S)
        after = state(process.pid)
        out, _ = process.communicate("quit\n", timeout=60)
    same = {name: before[name] == after[name] for name in before if name != "mappings"}
    results = {line for line in out.splitlines() if not line.startswith("rounds")}
    took_s = time.monotonic() - began_s
    print(
        f"{python.full_name}: {rounds} attaches in {took_s:.0f} s, by status {counts}; same {same}; mappings {before['mappings']}, "
        f"{first} after a tenth, {after['mappings']} at the end; results {len(results)} kind(s); status {process.returncode}; {out.splitlines()[-1]}"
    )
    if not all(same.values()):
        print({name: (before[name], after[name]) for name in same if not same[name]})
    well = all(same.values()) and results == {expected.strip()} and process.returncode == 0 and not counts[1]
    return well and counts[2] * 20 <= rounds


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=100)
    asked = parser.parse_args()
    chosen = list(interpreters())
    if asked.versions:
        chosen = [each for each in chosen if each.name in asked.versions.split(",")]
    results = [storm(each, asked.rounds, asked.kills) for each in chosen]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
