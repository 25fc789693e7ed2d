"""What a long recording takes: one hour's events in minutes, and the memory and disk of those who record them.

A program that allocates is recorded with every allocation and every free, which makes events faster than any other way;
the recorder is watched from outside, while it drains and while it converts. The program's own share is its largest resident
set, recorded with default settings, less that of a bare run (exact recordings keep a larger table).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from support.environments import ROOT, save, tool, version_of

PROGRAM = ROOT / "benchmarks" / "long" / "programs" / "busy_hour.py"
OPTIONS = ["--alloc-interval", "1"]
_MIB = 2**20


@dataclass(frozen=True)
class Figures:
    """``events``: samples of all kinds in the trace, and frees; sizes in bytes; ``disk_bytes``: the most that the recording's folder
    took; ``converting_s``: from the program's end to the recorder's."""

    events: int
    program_s: float
    converting_s: float
    program_share_bytes: int
    recorder_bytes: int
    disk_bytes: int
    trace_bytes: int
    lost: list[str]


class Watch:
    """The largest resident set of a recorder, the most that its folder took, and when its program ended."""

    def __init__(self, recorder: subprocess.Popen[str], folder: Path) -> None:
        self.recorder_bytes = self.disk_bytes = 0
        self.program_ended_s = 0.0
        self._recorder, self._folder = recorder, folder
        while recorder.poll() is None:
            self._look()
            time.sleep(0.05)

    def _look(self) -> None:
        process = Path(f"/proc/{self._recorder.pid}")
        try:
            peak = re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())
            children = (process / "task" / str(self._recorder.pid) / "children").read_text()
        except OSError:
            return
        self.recorder_bytes = max(self.recorder_bytes, int(peak[1]) * 1024 if peak else 0)
        if children.strip():
            self.program_ended_s = time.monotonic()
        self.disk_bytes = max(self.disk_bytes, _disk_bytes(self._folder))


def _disk_bytes(folder: Path) -> int:
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total


def measure(python: str, cpu_s: float, folder: Path) -> Figures:
    """The recording, and two runs for the program's own memory."""
    trace = folder / "t.parquet"
    program = [str(PROGRAM), str(cpu_s)]
    begun_s = time.monotonic()
    recorder = _start([tool("scalene-record"), "-o", str(trace), *OPTIONS, "--python", python, *program])
    watch = Watch(recorder, folder / "t.parquet.spool")
    ended_s = time.monotonic()
    bare_bytes = _resident_bytes([python, *program])
    recorded_bytes = _resident_bytes(
        [tool("scalene-record"), "-o", str(folder / "d.parquet"), "--python", python, *program]
    )
    return Figures(
        _rows(trace, "kind IN ('cpu', 'alloc', 'memory', 'copy')") + _rows(trace, "alloc.lifetime_ns IS NOT NULL"),
        watch.program_ended_s - begun_s,
        ended_s - watch.program_ended_s,
        recorded_bytes - bare_bytes,
        watch.recorder_bytes,
        watch.disk_bytes,
        trace.stat().st_size,
        [name for (name,) in duckdb.sql(f"SELECT loss.name FROM '{trace}' WHERE kind = 'loss'").fetchall()],
    )


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _resident_bytes(command: list[str]) -> int:
    out, _ = _start(command).communicate()
    return int(json.loads(out)["rss_bytes"])


def _rows(trace: Path, where: str) -> int:
    ((count,),) = duckdb.sql(f"SELECT count(*) FROM '{trace}' WHERE {where}").fetchall()
    return int(count)


def table(figures: Figures) -> str:
    """The figures as text."""
    rows = [
        ("events in the trace", f"{figures.events:,}"),
        ("the program ran", f"{figures.program_s:.1f} s"),
        ("conversion after its end", f"{figures.converting_s:.1f} s"),
        ("the program's share of memory", f"{figures.program_share_bytes / _MIB:.1f} MiB"),
        ("largest resident set of the recorder", f"{figures.recorder_bytes / _MIB:.0f} MiB"),
        ("most disk in the recording's folder", f"{figures.disk_bytes / _MIB:.0f} MiB"),
        ("trace", f"{figures.trace_bytes / _MIB:.0f} MiB, {figures.trace_bytes / figures.events:.1f} bytes an event"),
        ("losses", ", ".join(figures.lost) or "none"),
    ]
    return "\n".join(f"{name:40} {value}" for name, value in rows)


def main() -> None:
    """Runs the benchmark and writes its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter of the program (default: this one)")
    parser.add_argument("--seconds", type=float, default=75, help="CPU time of the program (default: 75)")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        figures = measure(options.python, options.seconds, Path(folder))
    facts = {"python": version_of(options.python), "options": OPTIONS, "seconds": options.seconds}
    save("long-recording", facts | {"figures": asdict(figures)}, table(figures))


if __name__ == "__main__":
    main()
