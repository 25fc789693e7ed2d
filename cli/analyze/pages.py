"""Pages for a browser as files: which file may be replaced by one, and how."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..render.text import clean
from .options import UsageError


def written(target: Path, page: str) -> str:
    """What is said when the page is there."""
    return f"Written: {clean(str(target))} ({len(page) / 1e6:.1f} MB)\n"


def check_target(target: Path, force: bool = False, can_force: bool = True) -> None:
    """Raises UsageError where no page may be written; ``force``: any file that is there may be replaced."""
    try:
        if not target.parent.is_dir():
            raise UsageError(f"There is no folder {target.parent}.")
        if target.exists() and not target.is_file():
            raise UsageError(f"{target} is {'a folder' if target.is_dir() else 'no regular file; - means stdout'}.")
        if target.exists() and not force and not _is_report(target):
            raise UsageError(
                f"{target} exists and is no report of this command. Give another name{', or --force' * can_force}."
            )
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error}.") from error


def _is_report(target: Path) -> bool:
    from ...analyze.html.page import MARK

    with target.open("rb") as file:
        return MARK.encode() in file.read(200)


def replace(target: Path, page: str) -> None:
    """Writes the page beside the target and puts it in its place, readable by its owner alone."""
    try:
        handle, name = tempfile.mkstemp(prefix=".scalene-report-", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(page)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
