"""Traces of a rotated recording have the rows of the one trace that the same records would have made."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from scalene_trace.formats.dataclass import replace
from scalene_trace.formats.spool.chunks import View, read_chunks
from scalene_trace.formats.spool.reader import ReadBefore, Spool, read_header, read_records
from scalene_trace.recorder.convert.convert import Outcome
from scalene_trace.recorder.convert.finish import write_trace_of
from scalene_trace.recorder.folder.facts import read_facts
from scalene_trace.recorder.rotate.pieces import view_of_segment
from scalene_trace.recorder.rotate.segments import Segment
from tests.support.recording import environment, rows, run

#: Runs the recorder so that it removes nothing: the folder of the recording is copied to the first argument at the end, with
#: all that rotation.json has said.
KEEPING = """
import json, shutil, sys
from scalene_trace.formats.dataclass import asdict
from pathlib import Path
from scalene_trace.recorder.rotate import pieces, publish
from scalene_trace.recorder.run import rotation
kept, opened, write, remove = Path(sys.argv.pop(1)), [], rotation.write_state, rotation.remove_recording
def keep(folder, **more):
    shutil.copytree(folder, kept, ignore=lambda _, names: [name for name in names if name == "control"])
    (kept / "opened.json").write_text(json.dumps(opened))
    remove(folder, **more)
def note(folder, state):
    opened.append(asdict(state.open))
    write(folder, state)
publish.remove_published = pieces.release_pieces = lambda *_: None
rotation.remove_recording, rotation.write_state = keep, note
from scalene_trace.cli.record.command import main
main()
"""
#: Threads, tasks, collections, short children, children that last, and one that waits for them.
PROGRAM = """
import asyncio, gc, multiprocessing, os, sys, threading, time
end = time.monotonic() + float(sys.argv[1])
def spin(cpu_s):
    begun = time.thread_time()
    while time.thread_time() - begun < cpu_s: pass
class Node:
    def __init__(self): self.me, self.data = self, bytearray(3000)
def churn():
    while time.monotonic() < end:
        [Node() for _ in range(300)]
        bytearray(bytes(2_000_003))
        gc.collect()
        spin(0.005)
        time.sleep(0.03)
def work(number):
    nodes = [Node() for _ in range(200)]
    gc.collect()
    spin(0.02)
    return number
async def main():
    async def tick(pause_s):
        while time.monotonic() < end: await asyncio.sleep(pause_s)
    await asyncio.gather(*(asyncio.create_task(tick(0.3 + number / 10), name=f"tick-{number}") for number in range(3)))
def children():
    while time.monotonic() < end:
        pid = os.fork()
        if pid == 0:
            spin(0.01)
            os._exit(3)
        os.waitpid(pid, 0)
        time.sleep(0.1)
threads = [threading.Thread(target=each) for each in (churn, children)]
with multiprocessing.get_context("fork").Pool(2) as pool:
    for each in threads: each.start()
    results = [pool.apply_async(work, (number,)) for number in range(10)]
    asyncio.run(main())
    pool.map(work, range(20))
for each in threads: each.join()
"""
#: Columns of kinds whose rows are the same, whatever trace they are in.
SAME = {
    "cpu": ("user_ns", "system_ns", "pc_class", "opcode", "torn"),
    "alloc": ("size_bytes", "usable_bytes", "interval_bytes", "allocator", "maximum"),
    "copy": ("bytes",),
    "memory": ("net_bytes", "footprint_bytes", "allocated_bytes"),
    "gc": ("generation0", "generation1", "generation2", "collected"),
    "heap": ("footprint_bytes", "pool_bytes"),
}


def counted(trace: Path, kind: str, start_ns: int) -> Counter[tuple[object, ...]]:
    names = ("process", "thread", *SAME[kind])
    return Counter((row["t_ns"] + start_ns, *(row[name] for name in names)) for row in rows(trace, kind))


def total(traces: list[Path], kind: str, column: str) -> int:
    return sum(row[column] for trace in traces for row in rows(trace, kind))


@pytest.mark.long
def test_the_rows_are_those_of_one_trace(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    out.mkdir()
    command = [sys.executable, "-c", KEEPING, kept, "-o", out, "--rotate", "1s", "--python", sys.executable]
    done = run([*command, "-c", PROGRAM, "8"], env=environment(None))
    assert done.status == 0, done.stderr.decode()
    found = [*{each["number"]: each for each in json.loads((kept / "opened.json").read_text())}.values()]
    segments = [Segment(**each | {"skipped": {int(k): v for k, v in each["skipped"].items()}}) for each in found]
    traces = sorted(out.rglob("*.parquet"))
    assert len(traces) == len(segments) > 3

    used = int(read_header(kept / "spool")["chunks_used"])
    parts = [(kept, before, after, used) for before, after in pairwise([*segments, None])]
    before = ReadBefore()
    before.parts = [(1, read_records(chunk for part in parts for chunk in read_chunks(view_of_segment(*part))))]
    spool = Spool(kept / "spool", view=View(kept / "spool", [], []), before=before)
    one = tmp_path / "one.parquet"
    write_trace_of(
        kept, replace(read_facts(kept), output=str(one)), one, Outcome(None, None, False, {}, "recovery"), spool=spool
    )

    for kind in SAME:
        whole, rotated = counted(one, kind, 0), Counter[tuple[object, ...]]()
        for trace, segment in zip(traces, segments, strict=True):
            rotated += counted(trace, kind, segment.start_ns)
        begins = {segment.start_ns for segment in segments}
        missing, more = whole - rotated, rotated - whole
        # A state of memory that was told later than its trace ended is left out; one at 0 continues the curve. The last tick
        # without a stack is what the end of the program took, which only the recorder has seen.
        assert not missing or kind == "heap", (kind, missing)
        assert all(row[0] in begins or (kind == "cpu" and row[5] == "unknown") for row in more), (kind, more)
    assert total(traces, "wait", "duration_ns") == total([one], "wait", "duration_ns")
    assert total(traces, "task", "duration_ns") == total([one], "task", "duration_ns")
    last = [row["cpu_ns"] for row in rows(one, "thread")]
    assert total(traces, "thread", "cpu_ns") - sum(last) == pytest.approx(0, abs=50e6)  # the end of the program
