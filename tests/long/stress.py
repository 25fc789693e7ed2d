"""Ticks by the million: records a program that is hard on a stack walker, at a far higher rate than in use.

``python -m tests.long.stress --ticks 2000000`` runs every interpreter until it has had that many ticks (a tenth of them
under greenlets, a tenth in threads that live for a millisecond, two tenths in native code that is hard to unwind) and
writes a dated result into ``benchmarks/results/``. The test suite runs the same, shorter.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.support.interpreters import Interpreter, interpreters
from tests.support.native import build, library
from tests.support.paths import ROOT
from tests.support.recording import Json, losses, record, report, target
from tests.support.target_environments import environment_python

INTERVAL = "50us"
#: What the target is asked for: share of the ticks.
PROGRAMS = {"churn": 0.6, "greenlets": 0.1, "threads": 0.1, "native": 0.2}
#: What each must have done in a run, by what the target prints.
WORK = {
    "churn": (*("generators", "exceptions", "recursion", "new_code", "garbage", "tasks"), "deleted"),
    "greenlets": ("turns",),
    "threads": ("turns",),
    "native": ("libraries", "coroutines", "handlers", "generated"),
}
#: Ticks come slower than asked for where the handler takes its share: about this many a second.
EXPECTED_RATE_HZ = 9_000
LONGEST_RUN_S = 60.0
#: After so many runs a program must have done each kind of work: on a busy machine the shortest run gets to few of them.
MOST_RUNS_UNDONE = 10


@dataclass(frozen=True)
class Outcome:
    """Sums over the runs of one program on one interpreter. ``torn_share`` is torn / ticks."""

    python: str
    program: str
    runs: int
    ticks: int
    torn: int
    torn_share: float
    turns: int
    losses: dict[str, int]


def one_run(python: Interpreter, program: str, seconds: float, folder: Path) -> tuple[int, Json, dict[str, int]]:
    """Ticks, the work that the program did, and losses of one recording. AssertionError when something of it failed."""
    trace = folder / "t.parquet"
    libraries = _native_libraries(folder) if program == "native" else []
    options = ["--cpu-interval", INTERVAL, "--no-source"]
    done = record(
        trace, [target("churn"), str(seconds), program, *libraries], python, options, timeout_s=10 * seconds + 300
    )
    assert done.status == 0, f"{python.full_name} {program}: status {done.status}\n{done.stderr.decode()}"
    failed = [kind for kind in WORK[program] if done.facts.get(kind, 0) < 0]
    assert not failed, f"{python.full_name} {program}: {', '.join(failed)} failed\n{done.stdout.decode()}"
    found: Json = report(trace)
    return found["traces"][0]["events"]["cpu"], done.facts, losses(found)


def undone_work(program: str, facts: Json) -> list[str]:
    """The kinds of work of ``program`` that failed or did not happen once."""
    return [kind for kind in WORK[program] if facts.get(kind, 0) <= 0]


def _native_libraries(folder: Path) -> list[str]:
    """What the program ``native`` calls, and the library that it loads and unloads."""
    if not (folder / "churn_native.so").exists():
        library(folder, "churn_native.c")
        build(folder, "churn_native.c", "-shared", "-fPIC", "-DLIBRARY", name="comes_and_goes.so")
    return [str(folder / "churn_native.so"), str(folder / "comes_and_goes.so")]


def stress(python: Interpreter, program: str, ticks: int) -> Outcome:
    """Records ``program`` again and again until ``ticks`` ticks have come and it has done each kind of work. AssertionError if
    it leaves one out."""
    seen = runs = 0
    work: dict[str, int] = {}
    lost: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        while seen < ticks or (runs < MOST_RUNS_UNDONE and undone_work(program, work)):
            seconds = min(LONGEST_RUN_S, max(0.5, (ticks - seen) / EXPECTED_RATE_HZ))
            more, done, losses_now = one_run(python, program, seconds, Path(folder))
            seen, runs = seen + more, runs + 1
            work = {kind: work.get(kind, 0) + done.get(kind, 0) for kind in work | done}
            lost = {name: lost.get(name, 0) + losses_now.get(name, 0) for name in lost | losses_now}
            print(f"  {python.full_name} {program}: {seen} ticks, losses {lost}", flush=True)
    undone = undone_work(program, work)
    assert not undone, f"{python.full_name} {program}: {', '.join(undone)} did not happen in {runs} runs\n{work}"
    torn = lost.get("torn_stack", 0)
    return Outcome(python.full_name, program, runs, seen, torn, torn / seen, work["turns"], lost)


def main() -> int:
    """The long form. Exit status 1 when stacks were torn more often than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=2_000_000, help="ticks on each interpreter")
    parser.add_argument("--print-only", action="store_true", help="write no result, accept any share of torn stacks")
    options = parser.parse_args()
    ticks: int = options.ticks
    outcomes = []
    for each in interpreters():
        python = Interpreter(environment_python(each), each.version)
        outcomes += [stress(python, program, int(share * ticks)) for program, share in PROGRAMS.items()]
    if options.print_only:
        return 0
    now = datetime.now(UTC)
    result = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), "interval": INTERVAL}
    path = ROOT / "benchmarks" / "results" / f"stress-{now:%Y-%m-%d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result | {"outcomes": [asdict(each) for each in outcomes]}, indent=1) + "\n")
    print(f"written: {path}")
    return int(any(each.torn_share >= (0.01 if each.program == "greenlets" else 0.001) for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
