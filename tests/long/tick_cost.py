"""What a CPU tick costs the program, below 30 Python frames and 10 native ones.

A loop in C (``targets/deep_call.c``) is recorded with a tick every 200 µs of CPU time and with one every 5 ms, in turn.
The CPU time that the program itself measures grows by what the ticks take: delivery of the signal, the handler, and the
caches that it leaves behind. In the same turn, the loop has such ticks of its own, whose handler only sets the event again:
what the kernel takes. ``python -m tests.long.tick_cost`` prints the median and the quartiles of the difference per
tick, and writes a dated result into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.dated_results import write_result
from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import TARGETS
from tests.support.recording import record_cpu, tool

OFTEN_US, SELDOM_US = 200, 5000
#: Ticks, and how deep their stacks are.
TICKS = """
    with recursive up as (
        select trace, native, native as function from cpu_ticks where native is not null group by all
        union all
        select up.trace, up.native, parent from up join native_frames f on (f.trace, f.native) = (up.trace, up.function)
        where parent is not null
    )
    select count(*) as ticks, median(len(locations)) as python, median(functions) as native
    from cpu_ticks
    join stacks using (trace, stack)
    join (select trace, native, count(*) as functions from up group by all) using (trace, native)
"""


@dataclass(frozen=True)
class Cost:
    """Of one tick, in µs: of the shim, and of an empty one; frames that the shim's have."""

    recorded_us: float
    empty_us: float
    python_frames: float
    native_frames: float


class Runs:
    """Of one interpreter."""

    def __init__(self, library: Path, python: Interpreter, steps: int) -> None:
        self._python, self._program = str(python.path), [str(TARGETS / "deep_call.py"), str(library), str(steps)]

    def recorded(self, interval: str) -> tuple[float, dict[str, float]]:
        """CPU time in seconds, and the numbers of the query."""
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "t.parquet"
            seconds, _ = record_cpu(trace, self._python, [*self._program, "0"], interval).split()
            query = [*tool("scalene-analyze"), "sql", "--json", trace, TICKS]
            out = subprocess.run(query, capture_output=True, check=True).stdout
        return float(seconds), json.loads(out)["rows"][0]

    def empty(self, period_ns: int) -> tuple[float, int]:
        """CPU time in seconds, and number of ticks."""
        command = [self._python, *self._program, str(period_ns)]
        seconds, ticks = subprocess.run(command, capture_output=True, check=True).stdout.split()
        return float(seconds), int(ticks)

    def cost(self) -> Cost:
        """From four runs."""
        seconds, often = self.recorded(f"{OFTEN_US}us")
        empty_seconds, ticks = self.empty(1000 * OFTEN_US)
        fewer_seconds, seldom = self.recorded(f"{SELDOM_US}us")
        fewer_empty_seconds, fewer_ticks = self.empty(1000 * SELDOM_US)
        return Cost(
            1e6 * (seconds - fewer_seconds) / (often["ticks"] - seldom["ticks"]),
            1e6 * (empty_seconds - fewer_empty_seconds) / (ticks - fewer_ticks),
            often["python"],
            often["native"],
        )


def spread(costs: Sequence[float]) -> str:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(costs, n=4)
    return f"{median:.1f} us ({low:.1f} to {high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="runs of each kind (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1_000_000_000, help="of the loop in C (default: %(default)s)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    options = parser.parse_args()
    facts, lines = [], ["cost of a tick: median and quartiles"]
    with TemporaryDirectory() as folder:
        library = Path(folder) / "deep_call.so"
        compiler = ["cc", "-O1", "-shared", "-fPIC", "-o", library, TARGETS / "deep_call.c"]
        subprocess.run(compiler, check=True)
        for python in interpreters():
            runs = Runs(library, python, options.steps)
            costs = [runs.cost() for _ in range(options.rounds)]
            lines.append(
                f"{python.name:6} {costs[0].python_frames:.0f} Python and {costs[0].native_frames:.0f} native frames: "
                f"{spread([each.recorded_us for each in costs])}, of which an empty one takes "
                f"{spread([each.empty_us for each in costs])}"
            )
            print(lines[-1], flush=True)
            facts.append({"python": python.name, "costs": [asdict(each) for each in costs]})
    if not options.print_only:
        write_result("tick-cost", {"costs": facts}, "\n".join(lines))


if __name__ == "__main__":
    main()
