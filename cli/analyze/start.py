"""Where ``scalene-analyze`` begins: what it needs is imported here, so that Ctrl-C is quiet meanwhile."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Runs the command line and exits without finalizing the interpreter, which would take 0.1 s."""
    gc.disable()  # the process is short-lived: collections would only scan what lives to the end
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream was closed before this program started
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        from .command import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
