"""Where ``scalene-record`` begins: what it needs is imported here, so that Ctrl-C is quiet meanwhile."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """As :func:`scalene_trace.cli.record.command.main`."""
    try:
        from .command import main as record
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    record()
