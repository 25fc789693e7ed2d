"""What the recorder takes in a recording of 48 hours with very many processes, simulated in minutes.

This process writes the spool as recorded processes do, with times spread over 48 hours, while another one does the work
of the recorder: it drains the spool, samples resident sets, and converts the recording at the end. Most processes are
forked from the program, allocate, and end at once; some run from beginning to end, and write ticks and collections. Their
resident sets, a row per second, are written before the conversion. No program runs, so the watcher, the GPU sampler and
the control socket are not part of the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scalene_trace.formats.spool.chunks import CHUNK_BYTES, CHUNK_SLOTS, CHUNKS_OFFSET, SLOT_BYTES
from scalene_trace.formats.spool.layout import constants, ffi, record_kinds, struct_dtype
from support.environments import save

C = constants()
KINDS = {name: number for number, name in record_kinds().items()}
NODES = 2_000
#: Of a process that ends at once: allocations, of which each second one is not freed.
ALLOCATIONS = 20
MODULES = 40
_MIB = 2**20


# ---- the recorded processes ----


class Writer:
    """Writes chunks into the spool at ``path`` as recorded processes do."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR)
        self._map = np.memmap(path, np.uint8, "r+", shape=(CHUNKS_OFFSET,))
        self.header: Any = ffi().cast("struct spool_header *", ffi().from_buffer(self._map, require_writable=True))
        self._ring = self._map[C["SPOOL_HEADER_BYTES"] :].view("<u4")
        self.start_ns = int(self.header.start_mono_ns)
        self.waited_s = 0.0

    def write(self, process: int, slots: bytes) -> None:
        """A finished chunk of the process."""
        begun_s = time.monotonic()
        while self.header.taken >= self.header.offered:
            time.sleep(0.0005)
        self.waited_s += time.monotonic() - begun_s
        offer = int(self.header.taken)
        chunk = int(self._ring[offer % C["SPOOL_RING"]])
        head = {"process": process, "pid": 0, "offer": offer, "cursor": 1 + len(slots) // SLOT_BYTES, "closed": 1}
        data = bytes(ffi().buffer(ffi().new("struct chunk_header *", head))) + slots
        self.header.taken = offer + 1
        os.pwrite(self._file, data, CHUNKS_OFFSET + chunk * CHUNK_BYTES)


def records(kind: str, count: int = 1, **fields: Any) -> bytes:
    """Records of one slot."""
    found = np.zeros(count, struct_dtype(f"record_{kind}"))
    found["head"] = KINDS[f"record_{kind}"] | 1 << 16
    for name, values in fields.items():
        found[name] = values
    return found.tobytes()


def with_payload(kind: str, payload: bytes, **fields: Any) -> bytes:
    """A record and the bytes that follow it."""
    slots = 1 + -(-len(payload) // SLOT_BYTES)
    found = np.frombuffer(records(kind, **fields), struct_dtype(f"record_{kind}")).copy()
    found["head"] = KINDS[f"record_{kind}"] | slots << 16
    return found.tobytes() + payload.ljust((slots - 1) * SLOT_BYTES, b"\0")


def start(process: int, t_ns: int, parent: int) -> bytes:
    """The start of a process that is forked from ``parent``, 0 = the program."""
    exe, argv = b"/usr/bin/python3.11", b"python\0worker.py\0"
    texts = {"exe_bytes": len(exe), "argv_bytes": len(argv), "python_version": 0x030B07F0, "stacks": 1}
    cause = {
        "parent": parent,
        "cause": C["CAUSE_FORK"] if parent else C["CAUSE_ROOT"],
        "pid": process % 4_000_000 + 300,
    }
    return with_payload("process_start", exe + argv, t_ns=t_ns, thread=process, **texts, **cause)


def program(t_ns: int) -> bytes:
    """The first records of the program: its images, and the stacks of all samples."""
    found = start(1, t_ns, 0) + records("thread_start", thread=1, t_ns=t_ns, tid=300)
    for number in range(MODULES):
        path, begin = f"/usr/lib/lib{number}.so".encode(), (number + 1) << 24
        where = {"start": begin, "end": begin + (1 << 20), "bias": begin, "pc_class": C["PC_EXTENSION"]}
        found += with_payload("module", path, t_ns=t_ns, path_bytes=len(path), **where)
    return found


def nodes(first: int, count: int) -> bytes:
    """Nodes of a code object that is not in the spool, each called by another one."""
    hashes = np.arange(first, first + count)
    return records("node", count, hash=hashes, parent=hashes // 2, code=77, instruction=hashes)


def short_process(process: int, t_ns: int) -> bytes:
    """All records of a process that ends at once."""
    common = {"thread": process, "t_ns": t_ns}
    numbers = np.arange(1, ALLOCATIONS + 1)
    sizes = {"size_bytes": 300_000, "usable_bytes": 300_000, "interval_bytes": 262_144, "source": C["ALLOC_MALLOC"]}
    return b"".join(
        (
            start(process, t_ns, 1),
            records("thread_start", tid=process, **common),
            records("alloc", ALLOCATIONS, id=numbers, stack=1 + numbers * 7 % NODES, **sizes, **common),
            records("free", ALLOCATIONS // 2, id=numbers[::2], **common),
            records("gc", thread=process, t_ns=t_ns, collections=[[process, 1, 1]]),
            records(
                "tick", stack=1 + process % NODES, pc=(1 + process % MODULES << 24) + 64, user_ns=10_000_000, **common
            ),
            records("thread_end", cpu_ns=10_000_000, name=b"python", **common),
            records("process_end", how=C["END_EXIT"], user_ns=10_000_000, **common),
        )
    )


def chunk_of_long_process(process: int, first_ns: int, end_ns: int) -> bytes:
    """A full chunk of ticks and collections."""
    count = (CHUNK_SLOTS - 1) // 2
    t_ns = np.linspace(first_ns, end_ns, count, endpoint=False).astype(np.int64)
    numbers = np.arange(count)
    pc = (1 + numbers % MODULES << 24) + 64 * process
    ticks = records("tick", count, thread=process, t_ns=t_ns, stack=1 + numbers % NODES, pc=pc, user_ns=10_000_000)
    counts = np.column_stack([t_ns // 10**9, t_ns // 10**10, t_ns // 10**11])
    return ticks + records("gc", count, thread=process, t_ns=t_ns, collections=counts)


def write_recording(folder: Path, shape: Shape, recorder: subprocess.Popen[str]) -> float:
    """Writes the recording; the seconds that were spent waiting for chunks."""
    writer = Writer(folder / "spool")
    hours_ns = int(shape.hours * 3600 * 10**9)
    writer.write(1, program(writer.start_ns))
    for first in range(1, NODES + 1, 1_000):
        writer.write(1, nodes(first, 1_000))
    long = range(2, 2 + shape.long_processes)
    for process in long:
        writer.write(process, start(process, writer.start_ns, 1))
    rounds = shape.chunks_of_each
    for turn in range(rounds):
        begin_ns, end_ns = (writer.start_ns + hours_ns * each // rounds for each in (turn, turn + 1))
        for process in long:
            writer.write(process, chunk_of_long_process(process, begin_ns, end_ns))
        for number in range(shape.processes * turn // rounds, shape.processes * (turn + 1) // rounds):
            process = 2 + shape.long_processes + number
            t_ns = writer.start_ns + hours_ns * (number + 1) // (shape.processes + 1)
            writer.write(process, short_process(process, t_ns))
            if number % 10_000 == 0:
                _ask(recorder, "size")
    return writer.waited_s


def write_resident_sets(path: Path, shape: Shape) -> None:
    """A row per second of each process that runs to the end."""
    long = np.arange(2, 2 + shape.long_processes)
    with path.open("ab") as file:
        for second in range(int(shape.hours * 3600)):
            rows = np.zeros((len(long), 4), "<i8")
            rows[:, 0], rows[:, 1] = second * 10**9, long
            rows[:, 2], rows[:, 3] = 50_000_000 + (second * 4_096) % 10_000_000, 10_000_000
            file.write(rows.tobytes())


# ---- the recorder ----


def be_the_recorder(folder: Path) -> None:
    """Does the work of the recorder in ``folder``, and obeys commands on stdin: size, convert. Answers are JSON lines."""
    from scalene_trace.recorder.folder.files import RSS_NAME
    from scalene_trace.recorder.run.load import load_converter, prepare_converter
    from scalene_trace.recorder.sampling.rss import RssSampler
    from scalene_trace.recorder.settings import Settings
    from scalene_trace.recorder.spool.drain import Drain
    from scalene_trace.recorder.spool.spool_file import SpoolFile

    prepare_converter()
    load_converter()
    space = SpoolFile(folder / "spool", Settings())
    space.offer_ahead()
    rss, drain = RssSampler(space, folder / RSS_NAME), Drain(space, folder / "spool")
    print(json.dumps({"ready": True}), flush=True)
    os.set_blocking(0, False)
    while True:
        rss.notice(space.notice_taken())
        drain.turn()
        space.offer_ahead()
        rss.sample_if_due()
        try:
            command = os.read(0, 100).decode()
        except BlockingIOError:
            time.sleep(0.0002)
            continue
        if command.startswith("size"):
            print(json.dumps({"rss_bytes": _status("VmRSS"), "processes": int(space.header.taken)}), flush=True)
        else:
            break
    drain.close()
    rss.close()
    _convert(folder)


def _convert(folder: Path) -> None:
    from scalene_trace.recorder.convert.convert import Outcome
    from scalene_trace.recorder.convert.finish import write_trace_of
    from scalene_trace.recorder.folder.facts import read_facts

    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now on
    before, begun_s = _status("VmRSS"), time.monotonic()
    facts, outcome = read_facts(folder), Outcome(None, None, True, {}, "recovery")
    finished = write_trace_of(folder, facts, folder.parent / "t.parquet", outcome)
    figures = {"before_bytes": before, "peak_bytes": _status("VmHWM"), "seconds": time.monotonic() - begun_s}
    print(json.dumps(figures | {"trace_bytes": finished.size_bytes, "events": finished.events}), flush=True)


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


# ---- the benchmark ----


@dataclass(frozen=True)
class Shape:
    """What is simulated. ``processes``: those that end at once; ``chunks_of_each``: chunks that each process writes that
    runs to the end."""

    processes: int
    long_processes: int
    hours: float
    chunks_of_each: int


def _ask(recorder: subprocess.Popen[str], command: str) -> dict[str, Any]:
    assert recorder.stdin is not None and recorder.stdout is not None
    recorder.stdin.write(f"{command}\n")
    recorder.stdin.flush()
    answer: dict[str, Any] = json.loads(recorder.stdout.readline())
    if "rss_bytes" in answer:
        SIZES.append(answer)
        print(f"{answer['processes']:>10,} chunks taken: {answer['rss_bytes'] / _MIB:.1f} MiB", flush=True)
    return answer


SIZES: list[dict[str, Any]] = []


def measure(shape: Shape, folder: Path) -> dict[str, Any]:
    """The figures of one recording."""
    spool = folder / "t.parquet.spool"
    spool.mkdir()
    command = [sys.executable, __file__, "--be-the-recorder", str(spool)]
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert recorder.stdout is not None
    recorder.stdout.readline()
    begun_s = time.monotonic()
    waited_s = write_recording(spool, shape, recorder)
    _ask(recorder, "size")
    recorded_s = time.monotonic() - begun_s
    write_resident_sets(spool / "rss", shape)
    sizes = {path.name: path.stat().st_size for path in spool.iterdir()}
    parts_bytes = sum(size for name, size in sizes.items() if ".part" in name)
    converted = _ask(recorder, "convert")
    recorder.wait()
    return {
        "recording_s": recorded_s,
        "waited_s": waited_s,
        "live": SIZES,
        "rss_file_bytes": sizes["rss"],
        "parts_bytes": parts_bytes,
        "conversion": converted,
    }


def table(shape: Shape, figures: dict[str, Any]) -> str:
    """The figures as text."""
    live = [each["rss_bytes"] / _MIB for each in figures["live"]]
    converted = figures["conversion"]
    rows = [
        ("processes that end at once", f"{shape.processes:,}"),
        ("processes that run to the end", f"{shape.long_processes}, over {shape.hours:g} hours"),
        ("recorder after the first processes", f"{live[0]:.1f} MiB"),
        ("most while recording", f"{max(live):.1f} MiB"),
        ("at the end of the recording", f"{live[-1]:.1f} MiB"),
        ("file of resident sets", f"{figures['rss_file_bytes'] / _MIB:.0f} MiB"),
        ("part files", f"{figures['parts_bytes'] / _MIB:.0f} MiB"),
        ("most while converting", f"{converted['peak_bytes'] / _MIB:.0f} MiB"),
        ("conversion", f"{converted['seconds']:.0f} s"),
        ("trace", f"{converted['trace_bytes'] / _MIB:.0f} MiB, {converted['events']:,} events"),
    ]
    return "\n".join(f"{name:40} {value}" for name, value in rows)


def main() -> None:
    """Runs the benchmark and writes its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=100_000, help="processes that end at once (default: 100,000)")
    parser.add_argument("--long", type=int, default=128, help="processes that run to the end (default: 128)")
    parser.add_argument("--hours", type=float, default=48, help="simulated hours (default: 48)")
    parser.add_argument("--chunks", type=int, default=20, help="chunks of each that runs to the end (default: 20)")
    parser.add_argument("--print-only", action="store_true", help="write no result file")
    parser.add_argument("--be-the-recorder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_the_recorder:
        be_the_recorder(options.be_the_recorder)
        return
    shape = Shape(options.processes, options.long, options.hours, options.chunks)
    with TemporaryDirectory() as folder:
        figures = measure(shape, Path(folder))
    if options.print_only:
        print(table(shape, figures))
    else:
        save("two-days", {"shape": asdict(shape), "figures": figures}, table(shape, figures))


if __name__ == "__main__":
    main()
