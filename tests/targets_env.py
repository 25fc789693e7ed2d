"""An environment with numpy, pandas, greenlet and pytest for each interpreter that the tests record.

``python tests/targets_env.py`` makes those that are missing, under ``build/targets/``. Only binary packages are taken.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import Interpreter, interpreters

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ROOT / "build" / "targets"
PACKAGES = ("numpy", "pandas", "greenlet", "pytest")
NEEDED = "import numpy, pandas, greenlet, pytest"


def environment_python(interpreter: Interpreter) -> Path:
    """Where the environment's interpreter is (or would be)."""
    return TARGETS / interpreter.full_name / "bin" / "python"


def complete(python: Path) -> bool:
    """Whether the environment is there and its packages can be imported."""
    return python.exists() and subprocess.run([python, "-c", NEEDED], capture_output=True).returncode == 0


def create(interpreter: Interpreter) -> None:
    """Makes the environment anew; exits with pip's own words when a package cannot be had."""
    python = environment_python(interpreter)
    shutil.rmtree(python.parent.parent, ignore_errors=True)
    subprocess.run([interpreter.path, "-m", "venv", python.parent.parent], check=True)
    options = ["-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([python, "-m", "pip", "install", *options, *PACKAGES], check=True)


def main() -> int:
    """Makes what is missing and says what there is."""
    for interpreter in interpreters():
        if not complete(environment_python(interpreter)):
            print(f"creating {environment_python(interpreter).parent.parent.relative_to(ROOT)}", flush=True)
            create(interpreter)
    found = ", ".join(each.full_name for each in interpreters())
    print(f"interpreters that the tests record: {found or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
