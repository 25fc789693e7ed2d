"""Runs the tests that hold figures against clocks and random samples: `make measure`. Arguments are pytest's.

One run can miss a figure because the machine is busy, or by chance; two misses in three runs are a defect. So tests that
fail are run twice more with nothing beside them, and must pass both times: the median of three runs then holds. If many
tests fail, the cause is not the machine, and the run fails at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

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


def pytest(*arguments: str) -> int:
    """Runs pytest; its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", "-m", SELECTED, *arguments], cwd=ROOT).returncode


def may_be_the_machine(failed: Sequence[str]) -> bool:
    """Whether the failures are few, and each is a test (a file that cannot be imported is listed without one)."""
    return 0 < len(failed) <= MOST_MISSED and all("::" in each for each in failed)


def main(arguments: Sequence[str]) -> int:
    """The exit status of the last run."""
    with TemporaryDirectory(prefix="cache-") as name:
        cache = Path(name)
        status = pytest(*arguments, "-o", f"cache_dir={cache}")
        failed = failed_in(cache)
    if status != TESTS_FAILED or not may_be_the_machine(failed):
        return status
    for turn in ("second", "third"):
        print(
            f"\n{len(failed)} tests missed a figure; running them a {turn} time, alone:",
            *failed,
            sep="\n  ",
            flush=True,
        )
        status = pytest("-q", "-p", "no:cacheprovider", *failed)
        if status:
            break
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
