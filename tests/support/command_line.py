"""`scalene-analyze` for the tests: within this process (the fixture ``run``), or as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.support.paths import PATIENCE_S


class Ran:
    """What the command line returned and printed."""

    def __init__(self, code: int, captured: Any) -> None:
        self.code, self.out, self.err = code, captured.out, captured.err

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def as_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    command = [sys.executable, "-c", "from scalene_trace.cli.analyze.start import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, **options)


def fields_of(row: type) -> list[str]:
    return [name for name, field in row.__dataclass_fields__.items()]  # type: ignore[attr-defined]


def interrupted_import(module: str, start: str) -> str:
    """The code of a command that begins in the module ``start``, in which Ctrl-C is pressed as ``module`` is imported."""
    return f"""import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from {start} import main
main()"""
