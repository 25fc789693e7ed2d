"""What looking at GPUs costs: CPU time of the recorder beside a program that rests, at several intervals and without.

The driver is a scripted one (tests/support/standins/scripted_nvml.c) that is loaded by the real pynvml: what a real driver's calls take is
not in these figures, and what the script takes to answer is. The devices are busy all the time and hold memory that changes, so
that every look has something to tell. The program (tests/targets/idle_threads.py) says what the threads of the recorder took.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from support.environments import environment, save
from watching import TARGETS, measure

STANDIN = TARGETS.parent / "support" / "standins" / "scripted_nvml.c"
INTERVALS = ("0", "10ms", "50ms", "1s")
ROUNDS = 3


def driver(folder: Path, devices: int) -> None:
    """Builds the scripted driver with devices in ``folder`` and points the environment there."""
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", STANDIN], check=True)
    lines = [f"device Scripted-{place} 166667 16000000000 sal\n" for place in range(devices)]
    now_us = time.time_ns() // 1000
    for place in range(devices):
        lines.append(f"{now_us} {place} 1 busy 50\n")
        lines += [f"{now_us + step * 1_000_000} {place} 1 memory {10**9 + step}\n" for step in range(60)]
    (folder / "script").write_text("".join(lines))
    os.environ |= {"LD_LIBRARY_PATH": str(folder), "SCRIPTED_NVML": str(folder / "script")}


def share(python: str, trace: str, interval: str, seconds: float) -> float:
    """CPU time of the recorder in percent of a core."""
    program = [str(TARGETS / "idle_threads.py"), "1", str(seconds)]
    found = measure(python, trace, program, ["--no-wait", "--gpu-interval", interval])
    return 100 * float(found["recorder_s"]) / float(found["wall_s"])


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--python", help="interpreter to record (default: the one running)")
    asked = parser.parse_args()
    python = str(environment(asked.python))
    results = []
    lines = [f"{'devices':>8} {'interval':>9} {'recorder %':>11} {'GPU ticks %':>12}"]
    for devices in (1, 8):
        with TemporaryDirectory() as folder:
            driver(Path(folder), devices)
            trace = str(Path(folder) / "t.parquet")
            rounds = [{each: share(python, trace, each, asked.seconds) for each in INTERVALS} for _ in range(ROUNDS)]
        for interval in INTERVALS:
            found = median(each[interval] for each in rounds)
            added = median(each[interval] - each["0"] for each in rounds)
            results.append(
                {"devices": devices, "interval": interval, "recorder_percent": found, "added_percent": added}
            )
            lines.append(f"{devices:>8} {interval:>9} {found:>11.2f} {added:>12.2f}")
            print(lines[-1], flush=True)
    title = "CPU time of the recorder in percent of one core beside a program that rests; scripted driver, no GPU\n"
    save("gpu-cost", {"seconds": asked.seconds, "rounds": ROUNDS, "cases": results}, title + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
