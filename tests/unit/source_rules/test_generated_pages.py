"""Pages that `make generate` makes are up to date."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
