"""Records the programs of docs/case-studies.md and writes the output of the two commands into it.

``python docs/generate.py --cases`` runs it. Figures differ from run to run, so no test checks whether the page is fresh.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "case-studies.md"
#: A slot in the page: its marker, and the output below it.
SLOT = re.compile(r"(<!-- output: (\w+) (report|diff) -->\n)(?:```text\n.*?```\n)?", re.DOTALL)
STYLES = re.compile(r"\x1b\[[0-9;]*m")
PLAIN = {"COLUMNS": "118", "NO_COLOR": "1", "TERM": "dumb"}
TOOLS = Path(sys.executable).parent


def python_with_pandas() -> Path:
    """The newest interpreter of the tests' environments (tests/support/target_environments.py) whose file names its
    functions: Debian's, which are unpacked below ``build/pythons``, are stripped."""
    unpacked = ROOT / "build" / "pythons"
    found = sorted(
        (
            each
            for each in (ROOT / "build" / "targets").glob("3.*/bin/python")
            if not each.resolve().is_relative_to(unpacked)
        ),
        key=lambda each: _version(each.parts[-3]),
    )
    if not found:
        raise SystemExit(
            "There is no environment with pandas: run `make test`, or .venv/bin/python -m tests.support.target_environments."
        )
    return found[-1]


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def said(*command: str | Path, folder: Path) -> str:
    """The output of a command that runs in ``folder``, without colours."""
    done = subprocess.run([*command], capture_output=True, text=True, check=True, cwd=folder, env=os.environ | PLAIN)
    return STYLES.sub("", done.stdout)


def outputs(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Report on the old version and comparison with the new one, by program and kind."""
    found = {}
    for name in names:
        with TemporaryDirectory() as folder:
            for side in ("before", "after"):
                program = ["--python", python_with_pandas(), f"{ROOT}/examples/{side}/{name}.py"]
                said(TOOLS / "scalene-record", "-o", f"{side}.parquet", *program, folder=Path(folder))
            analyze = TOOLS / "scalene-analyze"
            found[name, "report"] = said(analyze, "before.parquet", folder=Path(folder))
            found[name, "diff"] = said(analyze, "diff", "before.parquet", "after.parquet", folder=Path(folder))
    return found


def _fenced(text: str) -> str:
    lines = (line.rstrip() for line in text.replace(f"{ROOT}/", "").strip().splitlines())
    return "```text\n" + "\n".join(lines) + "\n```\n"


def write_cases() -> None:
    """Puts the outputs into the page."""
    page = PAGE.read_text()
    found = outputs(dict.fromkeys(slot[2] for slot in SLOT.finditer(page)))
    PAGE.write_text(SLOT.sub(lambda slot: slot[1] + _fenced(found[slot[2], slot[3]]), page))
    print(f"written: docs/{PAGE.name}")
