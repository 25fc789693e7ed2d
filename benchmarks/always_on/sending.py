"""What it costs a program that its traces are closed every 2 s and sent to a bucket, beside the same without that.

A round runs each program bare, recorded to a file, and recorded with ``--rotate 2s`` into an S3 server that runs here (moto, on
another processor), in an order that turns. Told are the CPU time and the duration of the program's body, divided by those
of the bare run of the round. The recorder makes and sends traces in its own process, so what may cost the program is that a
chunk is closed at each rotation, and that caches and processors are shared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from overhead import LOOP, PROGRAMS, script
from support.environments import Spread, environment, save, spread, tool, version_of
from tests.support.s3_server import s3_server, url_at

_WAYS = ("bare", "file", "bucket")
_PORT, _BUCKET = 9524, "sending"


@dataclass(frozen=True)
class Row:
    """A program: ratios to its bare runs, and how many traces were sent in all rounds."""

    program: str
    bare_s: float
    file_cpu: Spread
    bucket_cpu: Spread
    file_wall: Spread
    bucket_wall: Spread
    sent: int


def run(way: str, python: Path, command: list[str], folder: Path) -> dict[str, Any]:
    """One run: what the loop says, and the number of traces that were sent."""
    result = folder / "told.json"
    options = ["-o", str(folder / "t.parquet")]
    if way == "bucket":
        options = [
            "-o",
            url_at(_PORT, _BUCKET),
            "--rotate",
            "2s",
            "--spool",
            str(folder / "spool"),
            "--label",
            "service=sending",
        ]
    recorder = [tool("scalene-record"), *options, "--python", str(python)]
    line = [*(recorder if way != "bare" else [str(python)]), str(LOOP), str(result), *command]
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}\nreturned {done.returncode}\n{done.stderr}")
    return json.loads(result.read_text())


def sent() -> int:
    """How many traces the bucket has."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(url_at(_PORT, _BUCKET))
    found = files.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
    return sum(each.path.endswith(".parquet") for each in found)


def measure(program: str, python: Path, rounds: int, seconds: float) -> Row:
    """All rounds of one program."""
    with TemporaryDirectory() as name:
        folder, before = Path(name), sent()
        first = run("bare", python, ["0", *script(python, program)], folder)
        command = [str(max(1, round(seconds * first["iterations"] / first["body_s"]))), *script(python, program)]
        told: dict[str, list[dict[str, Any]]] = {way: [] for way in _WAYS}
        for number in range(rounds):
            for way in _WAYS if number % 2 == 0 else _WAYS[::-1]:
                told[way].append(run(way, python, command, folder))
        ratios = {
            (way, what): spread([ours[what] / bare[what] for ours, bare in zip(told[way], told["bare"], strict=True)])
            for way in _WAYS[1:]
            for what in ("cpu_s", "body_s")
        }
        bare_s = sum(each["body_s"] for each in told["bare"]) / rounds
        return Row(
            program, bare_s, *(ratios[way, what] for what in ("cpu_s", "body_s") for way in _WAYS[1:]), sent() - before
        )


def line_of(row: Row) -> str:
    """A row as text."""
    spreads = " ".join(f"{each!s:>24}" for each in (row.file_cpu, row.bucket_cpu, row.file_wall, row.bucket_wall))
    return f"{row.program:24} {row.bare_s:6.2f} {spreads} {row.sent:6}"


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter to measure (default: the one running)")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=["pprint", "async_tree_io"], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of a run (default: %(default)s)")
    asked = parser.parse_args()
    python = environment(asked.python)
    columns = ("CPU time, to a file", "to a bucket", "duration, to a file", "to a bucket")
    head = f"{'program':24} {'bare s':>6} " + " ".join(f"{each:>24}" for each in columns) + f" {'traces':>6}"
    rows = []
    print(head)
    with s3_server(_PORT, _BUCKET):
        for program in asked.programs:
            rows.append(measure(program, python, asked.rounds, asked.seconds))
            print(line_of(rows[-1]), flush=True)
    facts = {"python": version_of(str(python)), "rounds": asked.rounds, "rows": [asdict(row) for row in rows]}
    save("sending", facts, "\n".join([head, "-" * len(head), *map(line_of, rows)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
