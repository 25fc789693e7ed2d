"""Runs the tests that hold figures against clocks and random samples: `make measure`. Arguments are pytest's.

One run can miss a figure because the machine is busy, or by chance; two misses in three runs are a defect. So tests that
fail are run twice more with nothing beside them, and must pass both times: the median of three runs then holds. If many
tests fail, the cause is not the machine, and the run fails at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.closing_line import COUNTS, read_counts, write_counts
from tests.support.paths import ROOT

#: What `make measure` runs; `make test` runs everything else.
SELECTED = "figures and not long"
#: If more tests than these fail, the machine is not the cause.
MOST_MISSED = 12
TESTS_FAILED = 1  # pytest's exit status


def failed_in(cache: Path) -> list[str]:
    """The tests that failed in the run with that cache directory."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def pytest(counts: Path, *arguments: str) -> int:
    """Runs pytest, which appends its counts to a file; its exit status."""
    command = [sys.executable, "-m", "pytest", "-m", SELECTED, *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {COUNTS: str(counts)}).returncode


def may_be_the_machine(failed: Sequence[str]) -> bool:
    """Whether the failures are few, and each is a test (a file that cannot be imported is listed without one)."""
    return 0 < len(failed) <= MOST_MISSED and all("::" in each for each in failed)


def main(arguments: Sequence[str]) -> int:
    """The exit status of the last run. Tests that held in both further runs count as passed."""
    with TemporaryDirectory(prefix="cache-") as name:
        cache, counts = Path(name) / "cache", Path(name) / "counts"
        status = pytest(counts, *arguments, "-o", f"cache_dir={cache}")
        failed = failed_in(cache)
        found = read_counts(counts) if counts.exists() else Counter()
    if status == TESTS_FAILED and may_be_the_machine(failed):
        status = run_again(failed)
    if status == 0:
        found += Counter(passed=found["failed"] + found["error"])
        found["failed"] = found["error"] = 0
    write_counts(found)
    return status


def run_again(failed: Sequence[str]) -> int:
    """Runs the tests twice, one by one; the exit status of the first run that failed, else 0."""
    status = 0
    for turn in ("second", "third"):
        print(
            f"\n{len(failed)} tests missed a figure; running them a {turn} time, alone:",
            *failed,
            sep="\n  ",
            flush=True,
        )
        status = pytest(Path(os.devnull), "-q", "-p", "no:cacheprovider", *failed)
        if status:
            break
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
