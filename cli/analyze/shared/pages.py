"""HTML pages as files: which files may be replaced by a page."""

from __future__ import annotations

from pathlib import Path

from ....formats.units import file_size_text
from ...render.text import clean
from .options import UsageError


def written(target: Path, page: str) -> str:
    """The message after the page was written."""
    return f"Written: {clean(str(target))} ({file_size_text(len(page))})\n"


def check_target(target: Path, force: bool = False, can_force: bool = True) -> None:
    """Raises UsageError if no page may be written there. ``force``: any existing file may be replaced; ``can_force``:
    the command has an option for that."""
    try:
        if not target.parent.is_dir():
            raise UsageError(
                f"Cannot write {target}: there is no folder {target.parent}. Create it, or name another file."
            )
        if target.exists() and not target.is_file():
            kind = "is a folder" if target.is_dir() else "is not a regular file"
            raise UsageError(f"Cannot write {target}: it {kind}. Name another file, or - for stdout.")
        if target.exists() and not force and not _is_report(target):
            raise UsageError(
                f"Cannot write {target}: it exists and is not a report of this command. "
                f"Name another file{', or use --force' * can_force}."
            )
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error}.") from error


def _is_report(target: Path) -> bool:
    from ....analyze.html.page import MARK

    with target.open("rb") as file:
        return MARK.encode() in file.read(200)
