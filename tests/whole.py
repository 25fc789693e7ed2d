"""All tests, and once more those that compare with clocks or random samples and missed: `make test`.

A figure that one run on a busy machine misses, or by chance, is no defect, and one that is missed twice in three runs is.
So when nothing failed but tests of the modules that measure or sample (conftest.MEASURING, conftest.SAMPLING), those are run
twice more, with nothing beside them, and must hold both times: of three runs the median held. Any other failure ends the
run as it is. Arguments are pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from conftest import MEASURING, SAMPLING, module_of

ROOT = Path(__file__).resolve().parent.parent
#: More misses than these are not the machine's.
MOST_MISSED = 12
TESTS_FAILED = 1  # pytest's exit status


def missed(cache: Path) -> list[str]:
    """The tests that failed in the run with that cache directory."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def pytest(*arguments: str) -> int:
    """Runs pytest; its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT).returncode


def may_be_the_machines(failed: Sequence[str]) -> bool:
    """Is each of them a test that measures or samples, and are they few?"""
    modules = MEASURING | SAMPLING
    return 0 < len(failed) <= MOST_MISSED and all("::" in each and module_of(each) in modules for each in failed)


def main(arguments: Sequence[str]) -> int:
    """The exit status of the last run that there was."""
    with TemporaryDirectory(prefix="cache-") as name:
        cache = Path(name)
        status = pytest(*arguments, "-o", f"cache_dir={cache}")
        failed = missed(cache)
    if status != TESTS_FAILED or not may_be_the_machines(failed):
        return status
    for turn in ("second", "third"):
        print(
            f"\n{len(failed)} tests that measure missed; measured a {turn} time, alone:",
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
