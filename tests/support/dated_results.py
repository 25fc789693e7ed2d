"""Writes dated results into ``benchmarks/results/``."""

from __future__ import annotations

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
