"""The command line of checks on each interpreter, and their dated results in ``benchmarks/results/``."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.support.paths import ROOT


def write_result(name: str, facts: Mapping[str, Any], text: str) -> None:
    """Writes ``NAME-DATE.json`` and ``NAME-DATE.txt``."""
    now = datetime.now(UTC)
    result = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), **facts}
    path = ROOT / "benchmarks" / "results" / f"{name}-{now:%Y-%m-%d}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".txt").write_text(text + "\n")
    print(f"written: {path}")


def parser_of_check(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """The options that all have. ``seconds``: the default CPU time for each case."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=seconds, help="CPU time for each case (default: %(default)s)")
    parser.add_argument("--interval", default="200us", help="interval of the ticks (default: %(default)s)")
    parser.add_argument("--python", action="append", help="interpreter, once or more (default: those of the tests)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    return parser
