"""Counts of several test runs as one closing line: the end of continuous integration.

Each run appends its counts to the file that ``SCALENE_TEST_COUNTS`` names. ``python -m tests.support.closing_line FILE``
prints their sum as pytest prints it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

COUNTS = "SCALENE_TEST_COUNTS"
#: In pytest's order: pytest's name for an outcome, and its word in the closing line.
OUTCOMES = {"failed": "failed", "passed": "passed", "skipped": "skipped", "error": "errors"}


def write_counts(counts: Mapping[str, float]) -> None:
    """Appends counts by outcome to the file that ``SCALENE_TEST_COUNTS`` names. A run without tests is not counted."""
    path = os.environ.get(COUNTS)
    if path and any(counts.get(each) for each in OUTCOMES):
        with Path(path).open("a") as file:
            file.write(json.dumps(dict(counts)) + "\n")


def read_counts(path: Path) -> Counter[str]:
    """The sum of the counts in a file."""
    total: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        total.update(json.loads(line))
    return total


def closing_line(counts: Mapping[str, float]) -> str:
    """The counts as pytest prints them at the end of a run."""
    words = [f"{counts[name]} {word}" for name, word in OUTCOMES.items() if counts.get(name)]
    return f" {', '.join(words) or 'no tests ran'} in {counts.get('seconds', 0):.2f}s ".center(80, "=")


if __name__ == "__main__":
    found = read_counts(Path(sys.argv[1]))
    print(closing_line(found))
    sys.exit(1 if found["failed"] or found["error"] or not found["passed"] else 0)
