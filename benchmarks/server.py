"""Requests a second of a gunicorn with four workers, bare and recorded.

Both serve the same application on the loopback to the same clients, in alternation; the figure is the median of the
ratios within a round. ``shop`` (``tests/targets``) does what web applications do: a session, rows of a database, a page.
``web`` is the worst case: nothing but 4,000 operations on integers, each of which makes and frees an object. Failed
requests are counted; there must be none.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from environments import ROOT, save, spread, tool, version_of

sys.path.insert(0, str(ROOT / "tests"))

from gunicorn_load import clients, free_port, gunicorn, serving

APPLICATIONS = ("shop", "web")


def requests_per_s(prefix: list[str], python: str, application: str, requests: int) -> float:
    """Throughput of one server's life. Ends the benchmark when a request fails."""
    port = free_port()
    with serving([*prefix, *([] if prefix else [python]), *gunicorn(port, application)], port):
        clients(port, requests // 10)
        load = clients(port, requests)
    if load.failures:
        raise SystemExit(f"failed requests: {load.failures[:3]}")
    return load.count / load.took_s


def measure(application: str, python: str, rounds: int, requests: int) -> tuple[dict[str, object], str]:
    """The figures of one application, and the same as text."""
    bare, recorded = [], []
    with TemporaryDirectory() as folder:
        ours = [tool("scalene-record"), "-o", str(Path(folder) / "t.parquet"), "--python", python]
        for number in range(rounds):
            for prefix in ([], ours) if number % 2 else (ours, []):
                (recorded if prefix else bare).append(requests_per_s(list(prefix), python, application, requests))
            print(f"{application}: bare {bare[-1]:8.1f}/s  recorded {recorded[-1]:8.1f}/s", flush=True)
    ratio = spread([ours_now / alone for ours_now, alone in zip(recorded, bare, strict=True)])
    figures = {"bare_per_s": bare, "recorded_per_s": recorded, "ratio": asdict(ratio)}
    return figures, f"{application:5} bare {spread(bare)}  recorded {spread(recorded)} requests/s  ratio {ratio}"


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", nargs="+", choices=APPLICATIONS, default=list(APPLICATIONS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1500, help="from each of four clients")
    parser.add_argument("--python", help="interpreter that has gunicorn (default: the newest of build/servers)")
    asked = parser.parse_args()
    python = asked.python or str(sorted((ROOT / "build" / "servers").glob("*/bin/python"))[-1])
    found = {name: measure(name, python, asked.rounds, asked.requests) for name in asked.applications}
    result = {"python": version_of(python), "rounds": asked.rounds, "requests": 4 * asked.requests, "failed": 0}
    lines = [text for _, text in found.values()]
    applications = {"applications": {name: figures for name, (figures, _) in found.items()}}
    save("server", result | applications, "gunicorn, 4 workers, 4 clients: median and range\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
