"""Two indexers of one fleet at once, each killed at a random moment: is any trace lost, or counted twice?

In each round, two indexers begin with a fleet without summaries, and are killed (SIGKILL) at moments that are drawn between
the start and when undisturbed ones end; batches are small (two traces) and merged at once, so that kills fall into
publications and merges too. What is there then must be a part of what an undisturbed index has, and after one more run all
of it: every row of figures of every trace, and in every tenth round the answers to all questions. In other rounds nobody is killed,
but two processes merge the same batches at once. ``python -m tests.long.fleet_kills`` writes a dated result into
``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalene_trace.analyze.fleet import index, merge
from scalene_trace.analyze.fleet.opening import open_fleet
from scalene_trace.cli.analyze import command
from scalene_trace.cli.fleet.group import COMMANDS
from scalene_trace.formats.errors import NotIndexed
from scalene_trace.formats.fleet import layout
from scalene_trace.formats.fleet.schema import FIGURE_COLUMNS
from tests.support.dated_results import write_result
from tests.support.example_traces import rich_trace
from tests.support.fleets import NOT_ASKED, write_fleet

TRACES, IN_A_BATCH = 6, 2
#: What a question needs besides the fleet.
ARGUMENTS = {"diff": ["--before", "version=1.4.0", "--after", "version=1.4.2"]}
#: All questions are asked in one of so many rounds.
ASKED_IN = 10

_SERVER = multiprocessing.get_context("forkserver")


def indexing(folder: Path) -> None:
    """One indexer, in a process of its own."""
    index.MOST_TRACES = merge.LEAST_BATCHES = IN_A_BATCH
    index.batches_of = in_groups  # type: ignore[assignment]
    index.index_fleet(folder)


def in_groups(paths: Sequence[Path], parts: int) -> tuple[list[Sequence[Path]], int]:
    """Traces are opened two at a time too: a fleet as small as this one would be read first and published then."""
    return [paths[start : start + IN_A_BATCH] for start in range(0, len(paths), IN_A_BATCH)], 1


def merging(folder: Path) -> None:
    """One merge, in a process of its own."""
    merge.LEAST_BATCHES = IN_A_BATCH
    merge.merge_batches(folder)


def both(work: Callable[[Path], None], folder: Path) -> list[ForkServerProcess]:
    """Starts two processes."""
    found = [_SERVER.Process(target=work, args=(folder,)) for _ in range(2)]
    for each in found:
        each.start()
    return found


def facts(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """By trace id, the figures of the traces that readers see. Raises AssertionError if a trace is there twice."""
    names = ", ".join(column.name for column in FIGURE_COLUMNS)
    try:
        with open_fleet(folder) as fleet:
            ids = [row[0] for row in fleet.connection.execute("SELECT trace_id FROM fleet_traces").fetchall()]
            rows = fleet.connection.execute(
                f"SELECT trace_id, {names} FROM fleet_figures f JOIN fleet_traces t ON f.trace = t.trace"
            ).fetchall()
    except NotIndexed:
        return {}
    assert len(ids) == len(set(ids)), "a trace is there twice"
    found: dict[str, list[tuple[Any, ...]]] = {each: [] for each in ids}
    for id_, *figure in rows:
        found[id_].append(tuple(figure))
    return {id_: sorted(figures, key=repr) for id_, figures in found.items()}


def answers(folder: Path) -> dict[str, Any]:
    """The answers to all questions, floats to nine digits."""
    found = {}
    for name in COMMANDS:
        if name not in NOT_ASKED:
            with redirect_stdout(StringIO()) as out:
                code = command.run(["fleet", name, "--json", *ARGUMENTS.get(name, []), str(folder)])
            assert code == 0, name
            found[name] = rounded(json.loads(out.getvalue()))
    return found


def rounded(value: Any) -> Any:
    """The answer with floats to nine digits: sums depend on the order of the batches in the last ones."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def killed_round(folder: Path, chance: random.Random, most_s: float) -> int:
    """Two indexers, and their ends. Returns how many were still running when they were killed."""
    moments = [chance.uniform(0, most_s) for _ in range(2)]
    start_s, hit = time.monotonic(), 0
    indexers = both(indexing, folder)
    for moment_s, each in sorted(zip(moments, indexers, strict=True), key=lambda pair: pair[0]):
        each.join(max(start_s + moment_s - time.monotonic(), 0))
        if each.pid and each.exitcode is None:
            os.kill(each.pid, signal.SIGKILL)
        each.join()
        assert each.exitcode in (0, -signal.SIGKILL), f"an indexer ended with {each.exitcode}"
        hit += each.exitcode == -signal.SIGKILL
    return hit


def merged_round(folder: Path) -> int:
    """Two merges of the same batches at once. Returns how many batches there are then; in the next days they become one."""
    for each in (done := both(merging, folder)):
        each.join()
    assert [each.exitcode for each in done] == [0, 0]
    return len(layout.batches(folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rounds; an AssertionError says what was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="so many indexers are killed (default: %(default)s)")
    parser.add_argument("--merges", type=int, default=20, help="rounds of two merges at once (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=20_261_129)
    parser.add_argument("--print-only", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    _SERVER.set_forkserver_preload(["scalene_trace.analyze.fleet.index", "duckdb"])
    chance, begun_s = random.Random(options.seed), time.monotonic()
    hits = rounds = asked = left = merged = doubled = 0
    with TemporaryDirectory(prefix="scalene-kills-") as name:
        folder = Path(name, "fleet")
        write_fleet(folder, rich_trace(Path(name, "rich.parquet")), TRACES)
        own = folder / layout.OWN_FOLDER
        took: list[float] = []
        for _ in range(3):
            shutil.rmtree(own, ignore_errors=True)
            start_s = time.monotonic()
            for each in both(indexing, folder):
                each.join()
            took.append(time.monotonic() - start_s)
        shutil.rmtree(own)
        indexing(folder)
        whole, expected = facts(folder), answers(folder)
        assert len(whole) == TRACES
        while hits < options.kills:
            shutil.rmtree(own)
            hits += killed_round(folder, chance, sorted(took)[1])
            rounds += 1
            there = facts(folder)
            assert all(whole[id_] == figures for id_, figures in there.items()), "a trace has other figures"
            left += 0 < len(there) < TRACES
            indexing(folder)
            assert facts(folder) == whole, "figures were lost, or are there twice"
            if rounds % ASKED_IN == 0:
                asked += 1
                assert answers(folder) == expected, "an answer differs"
        for _ in range(options.merges):
            shutil.rmtree(own)
            merge.LEAST_BATCHES = TRACES  # not yet
            index.index_fleet(folder)
            doubled += merged_round(folder) > 1
            assert facts(folder) == whole, "figures were lost by merges, or are there twice"
            merge.merge_batches(folder, datetime.now(UTC) + timedelta(days=1))
            assert len(layout.batches(folder)) == 1 and facts(folder) == whole
            merged += 1
    text = "\n".join([
        f"{hits} indexers of {2 * rounds} killed in {rounds} rounds of two at once (seed {options.seed}), {time.monotonic() - begun_s:.0f} s",
        f"rounds that left some of the {TRACES} traces: {left}; all figures equal after one more run: {rounds} of {rounds}",
        f"rounds in which all questions were asked, and had the answers of an undisturbed index: {asked} of {asked}",
        f"two merges at once: {merged}; that left more than one batch: {doubled}; all figures equal: {merged} of {merged}",
    ])  # fmt: skip
    print(text)
    if not options.print_only:
        found = {"kills": hits, "rounds": rounds, "partial": left, "asked": asked, "merges": merged, "doubled": doubled}
        write_result("fleet-kills", {**found, "traces": TRACES, "seed": options.seed}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
