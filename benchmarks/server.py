"""Requests a second of a gunicorn with four workers, bare and recorded.

Both serve the same application on the loopback to the same clients, in turns of about two seconds, so that what else the
machine does meets both; a round's ratio is the median over its pairs of turns, and the figure the median of the rounds,
each with servers of its own. (Not in shorter turns: what sampling may cost is granted by the second, and a server that
rests for half of it would pay it all in the other half.) Failed requests end the benchmark.

``shop`` (``tests/targets``) does what web applications do: a session, rows of a database, a page. ``web`` is the worst case:
nothing but 4,000 operations on integers, each of which makes and frees an object.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from support.environments import ROOT, save, spread, tool, version_of

sys.path.insert(0, str(ROOT))

from tests.support.gunicorn_load import clients, free_port, gunicorn, serving

APPLICATIONS = ("shop", "web")


def requests_per_s(port: int, requests: int) -> float:
    """Throughput of one turn. Ends the benchmark when a request fails."""
    load = clients(port, requests)
    if load.failures:
        raise SystemExit(f"failed requests: {load.failures[:3]}")
    return load.count / load.took_s


def measure_round(commands: list[list[str]], application: str, asked: argparse.Namespace) -> list[tuple[float, float]]:
    """(bare, recorded) requests a second of each pair of turns in one life of both servers."""
    with ExitStack() as servers:
        ports = [free_port() for _ in commands]
        for command, port in zip(commands, ports, strict=True):
            servers.enter_context(serving([*command, *gunicorn(port, application)], port))
            clients(port, asked.requests)
        pairs = []
        for number in range(asked.turns):
            order = ports if number % 2 else ports[::-1]
            found = {port: requests_per_s(port, asked.requests) for port in order}
            pairs.append((found[ports[0]], found[ports[1]]))
    return pairs


def measure(application: str, python: str, asked: argparse.Namespace) -> tuple[dict[str, object], str]:
    """The figures of one application, and the same as text."""
    rounds = []
    with TemporaryDirectory() as folder:
        ours = [tool("scalene-record"), "-o", str(Path(folder) / "t.parquet"), "--python", python]
        for _ in range(asked.rounds):
            pairs = measure_round([[python], ours], application, asked)
            bare, recorded = (median(column) for column in zip(*pairs, strict=True))
            rounds.append((bare, recorded, median(now / alone for alone, now in pairs)))
            print(
                f"{application}: bare {bare:8.1f}/s  recorded {recorded:8.1f}/s  ratio {rounds[-1][2]:.3f}", flush=True
            )
    bare_per_s, recorded_per_s, ratios = map(list, zip(*rounds, strict=True))
    ratio = spread(ratios)
    figures = {"bare_per_s": bare_per_s, "recorded_per_s": recorded_per_s, "ratio": asdict(ratio)}
    return (
        figures,
        f"{application:5} bare {spread(bare_per_s)}  recorded {spread(recorded_per_s)} requests/s  ratio {ratio}",
    )


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", nargs="+", choices=APPLICATIONS, default=list(APPLICATIONS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=10, help="of each server, in a round")
    parser.add_argument("--requests", type=int, default=1000, help="from each of four clients, in a turn")
    parser.add_argument("--python", help="interpreter that has gunicorn (default: the newest of build/servers)")
    asked = parser.parse_args()
    python = asked.python or str(sorted((ROOT / "build" / "servers").glob("*/bin/python"))[-1])
    found = {name: measure(name, python, asked) for name in asked.applications}
    result = {
        "python": version_of(python),
        "rounds": asked.rounds,
        "turns": asked.turns,
        "requests": 4 * asked.requests,
    }
    lines = [text for _, text in found.values()]
    applications = {"applications": {name: figures for name, (figures, _) in found.items()}}
    save("server", result | applications, "gunicorn, 4 workers, 4 clients: median and range\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
