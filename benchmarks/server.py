"""Requests a second of a gunicorn with four workers, bare and recorded.

Both serve the same application (``tests/targets/web.py``) on the loopback to the same clients, in alternation; the figure
is the median of the ratios within a round. Failed requests are counted; there must be none.
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


def requests_per_s(prefix: list[str], python: str, requests: int) -> float:
    """Throughput of one server's life. Ends the benchmark when a request fails."""
    port = free_port()
    with serving([*prefix, *([] if prefix else [python]), *gunicorn(port)], port):
        clients(port, requests // 10)
        load = clients(port, requests)
    if load.failures:
        raise SystemExit(f"failed requests: {load.failures[:3]}")
    return load.count / load.took_s


def main() -> int:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1500, help="from each of four clients")
    parser.add_argument("--python", help="interpreter that has gunicorn (default: the newest of build/servers)")
    asked = parser.parse_args()
    python = asked.python or str(sorted((ROOT / "build" / "servers").glob("*/bin/python"))[-1])
    bare, recorded = [], []
    with TemporaryDirectory() as folder:
        ours = [tool("scalene-record"), "-o", str(Path(folder) / "t.parquet"), "--python", python]
        for number in range(asked.rounds):
            for prefix in ([], ours) if number % 2 else (ours, []):
                (recorded if prefix else bare).append(requests_per_s(list(prefix), python, asked.requests))
            print(f"bare {bare[-1]:8.1f}/s  recorded {recorded[-1]:8.1f}/s", flush=True)
    ratio = spread([ours_now / alone for ours_now, alone in zip(recorded, bare, strict=True)])
    lines = [f"bare      {spread(bare)} requests/s", f"recorded  {spread(recorded)} requests/s", f"ratio     {ratio}"]
    result = {"python": version_of(python), "rounds": asked.rounds, "requests": 4 * asked.requests, "failed": 0}
    figures = {"bare_per_s": bare, "recorded_per_s": recorded, "ratio": asdict(ratio)}
    save("server", result | figures, "gunicorn, 4 workers, 4 clients: median and range\n" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
