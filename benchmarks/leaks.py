"""Leaks: is one reported where there is none, and is one found that is hidden behind temporaries?

``leaks.py false``: the ten pyperformance programs, which do not leak, recorded with the default settings for about as many
seconds as are asked for (a process of a few seconds is too short to be judged); library code counts as the program's own,
as the benchmarks are installed packages.

``leaks.py hidden``: programs drawn at random (``--seed``). Temporaries of 1 KB to 40 MB are made and dropped all the time,
while a line keeps 0.5 to 5 MB/s in pieces of 50 B to 50 KB. A leak is found if its line is the one and only line that
``leaks`` names; its rate is right within RATE_PERCENT; growth is right if at least GROWTH_SHARE of what the program kept
is charged to its line, and no other line has more.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from overhead import PROGRAMS, run, script
from support.environments import ROOT, environment, save, tool, version_of

PROGRAM = ROOT / "benchmarks" / "programs" / "hidden_leak.py"
TEMPORARY = (1e3, 40e6)
PIECE = (50, 50e3)
RATE = (0.5e6, 5e6)
RATE_PERCENT = 25
#: Share of what was kept that the leaking line is charged with, at least.
GROWTH_SHARE = 0.5


@dataclass(frozen=True)
class Innocent:
    """One program: length of its recording, allocation samples, and what is reported as a leak."""

    program: str
    seconds: float
    samples: int
    leaks: list[str]


def judge(python: Path, program: str, seconds: float) -> Innocent:
    """One recording."""
    command = script(python, program)
    with TemporaryDirectory() as folder:
        output = Path(folder) / "t.parquet"
        first, count = run("bare", python, command, 0, output)
        times, _ = run("recorded", python, command, max(1, round(seconds * count / first.body_s)), output)
        ask = [tool("scalene-analyze"), "leaks", "--all", "--json", str(output)]
        told = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    found = [f"{each['file']}:{each['line']} ({each['bytes_per_s']:.0f} bytes/s)" for each in told["leaks"]]
    return Innocent(program, times.whole_s, told["traces"][0]["events"]["alloc"] or 0, found)


def innocents_table(rows: list[Innocent]) -> str:
    """The rows as text."""
    head = f"{'program':24} {'seconds':>8} {'samples':>8}  leaks that are reported"
    lines = [f"{row.program:24} {row.seconds:8.1f} {row.samples:8}  {', '.join(row.leaks) or 'none'}" for row in rows]
    return "\n".join([head, "-" * len(head), *lines])


@dataclass(frozen=True)
class Case:
    """Bytes of a temporary, bytes of a leaked piece, bytes leaked per second."""

    temporary: int
    piece: int
    rate: int


@dataclass(frozen=True)
class Hidden:
    """A case and what was found. ``rate_percent``: deviation of the rate, None without the leak; ``error_percent``: the
    standard error printed with it; ``on_line``, ``elsewhere``: growth of the leaking line, and the largest of another
    (bytes)."""

    case: Case
    leaked_bytes: int
    found: bool
    others: list[str]
    rate_percent: float | None
    error_percent: float | None
    on_line: int
    elsewhere: int

    @property
    def is_rate_right(self) -> bool:
        return self.rate_percent is not None and abs(self.rate_percent) <= RATE_PERCENT

    @property
    def is_growth_right(self) -> bool:
        return self.on_line >= GROWTH_SHARE * self.leaked_bytes and self.on_line > self.elsewhere


def cases(count: int, seed: int) -> list[Case]:
    """Cases whose three sizes are drawn evenly by their logarithm."""
    draw = random.Random(seed)

    def one(low: float, high: float) -> int:
        return round(math.exp(draw.uniform(math.log(low), math.log(high))))

    return [Case(one(*TEMPORARY), one(*PIECE), one(*RATE)) for _ in range(count)]


def asked(*arguments: str) -> Any:
    """The JSON that a command of the analysis prints."""
    command = [tool("scalene-analyze"), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(case: Case, python: str, seconds: float) -> Hidden:
    """One recording."""
    line = next(i for i, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "# LINE: leak" in text)
    with TemporaryDirectory() as folder:
        trace = str(Path(folder) / "t.parquet")
        program = [str(PROGRAM), str(seconds), str(case.temporary), str(case.piece), str(case.rate)]
        command = [tool("scalene-record"), "-o", trace, "--python", python, *program]
        done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        leaks = asked("leaks", "--json", trace)["leaks"]
        lines = {row["line"]: row["growth_bytes"] or 0 for row in asked("--json", trace)["lines"]}
    mine = [leak for leak in leaks if (leak["file"], leak["line"]) == (str(PROGRAM), line)]
    truth = done["leaked_bytes"] / done["seconds"]
    return Hidden(
        case=case,
        leaked_bytes=done["leaked_bytes"],
        found=bool(mine),
        others=[f"{leak['file']}:{leak['line']}" for leak in leaks if leak not in mine],
        rate_percent=100 * (mine[0]["bytes_per_s"] / truth - 1) if mine else None,
        error_percent=100 * mine[0]["error_bytes_per_s"] / mine[0]["bytes_per_s"] if mine else None,
        on_line=lines.pop(line, 0),
        elsewhere=max(lines.values(), default=0),
    )


def hidden_table(rows: list[Hidden]) -> str:
    """The rows as text, and how many of them are right."""
    head = f"{'temporary':>10} {'piece':>7} {'leak KB/s':>9} | {'leak':>7} {'rate':>8} {'± ':>6}"
    head += f" | {'kept MB':>8} {'growth':>8} {'elsewhere':>9}"
    texts = [head, "-" * len(head)]
    for row in rows:
        found = ("found" if row.found else "MISSED") + "+" * len(row.others)
        rate = f"{row.rate_percent:+.1f} %" if row.rate_percent is not None else ""
        error = f"{row.error_percent:.0f} %" if row.error_percent is not None else ""
        texts.append(
            f"{row.case.temporary:10} {row.case.piece:7} {row.case.rate / 1e3:9.0f} | {found:>7} {rate:>8} {error:>6}"
            f" | {row.leaked_bytes / 1e6:8.1f} {row.on_line / 1e6:8.1f} {row.elsewhere / 1e6:9.1f}"
        )
    counts = (
        sum(row.found and not row.others for row in rows),
        sum(row.is_rate_right for row in rows),
        sum(row.is_growth_right for row in rows),
    )
    told = f"found, and nothing else: {counts[0]}; rate within {RATE_PERCENT} %: {counts[1]}; growth on its line: {counts[2]}"
    return "\n".join([*texts, f"of {len(rows)}: {told}"])


def innocents(asked_for: argparse.Namespace) -> None:
    """Measures the programs that do not leak."""
    python = environment(asked_for.python)
    rows = []
    for program in asked_for.programs:
        rows.append(judge(python, program, asked_for.seconds or 12.0))
        print(innocents_table(rows[-1:]).splitlines()[-1], flush=True)
    result = {"python": python.parent.parent.name, "rows": [asdict(row) for row in rows]}
    keep(asked_for, "false-leaks", result, innocents_table(rows))


def hidden(asked_for: argparse.Namespace) -> None:
    """Measures the programs with a hidden leak."""
    seconds, python = asked_for.seconds or 20.0, asked_for.python or sys.executable
    chosen = cases(asked_for.first + asked_for.count, asked_for.seed)[asked_for.first :]
    with ThreadPoolExecutor(asked_for.at_once) as pool:
        rows = list(pool.map(lambda case: measure(case, python, seconds), chosen))
    result = {"python": version_of(python), "seed": asked_for.seed, "seconds": seconds}
    keep(asked_for, "hidden-leaks", result | {"rows": [asdict(row) for row in rows]}, hidden_table(rows))


def keep(asked_for: argparse.Namespace, name: str, result: dict[str, Any], table: str) -> None:
    """Writes a dated result, or the JSON that was asked for, or only prints the table."""
    if asked_for.output:
        asked_for.output.write_text(json.dumps(result))
    if asked_for.output or asked_for.short:
        print(table)
    else:
        save(name, result, table)


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("false", "hidden"))
    parser.add_argument("--seconds", type=float, help="of each recording (default: 12 and 20)")
    parser.add_argument("--python", help="interpreter to record (default: the one running)")
    parser.add_argument("--short", action="store_true", help="nothing written")
    parser.add_argument("--output", type=Path, help="write the rows as JSON there, and no dated result")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--count", type=int, default=20, help="hidden leaks to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first of them; --count counts from there")
    parser.add_argument("--at-once", type=int, default=2, help="recordings of hidden leaks at the same time")
    asked_for = parser.parse_args()
    (innocents if asked_for.what == "false" else hidden)(asked_for)
    return 0


if __name__ == "__main__":
    sys.exit(main())
