"""Where the batches of a fleet lie: ``FLEET/_fleet/1/date=YYYY-MM-DD/ID.parquet``."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from . import schema

#: The folder with everything that we write into a fleet. Whoever reads the traces skips names with an underscore.
OWN_FOLDER = "_fleet"
_DATE = re.compile(r"date=(\d{4}-\d\d-\d\d)")
_BATCH = re.compile(r"[0-9a-f]{32}\.parquet")
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.parquet\..*\.tmp")


def batches_folder(fleet: Path) -> Path:
    """The folder of the batches of this version of the table."""
    return fleet / OWN_FOLDER / str(schema.FORMAT_MAJOR)


def new_batch(fleet: Path, date: str) -> Path:
    """A name that is not taken for a batch. ``date``: "2026-11-28"."""
    return batches_folder(fleet) / f"date={date}" / f"{os.urandom(16).hex()}.parquet"


def is_batch(name: str) -> bool:
    """Is this the name of a batch, relative to the fleet's folder?"""
    folder, _, file = name.rpartition("/")
    parent, _, day = folder.rpartition("/")
    return parent == str(batches_folder(Path())) and bool(_DATE.fullmatch(day) and _BATCH.fullmatch(file))


def date_of(batch: Path) -> str:
    """The date in the path of a batch."""
    found = _DATE.fullmatch(batch.parent.name)
    return found[1] if found else ""


def batches(fleet: Path) -> list[Path]:
    """The batches, in the order of their names. Other files, and links, are left out.

    An indexer that merges batches publishes the new one before it removes the others. A listing that runs at the same time
    could lack both, so it is repeated until two of them are equal. Raises OSError if a folder cannot be read.
    """
    found = sorted(_listed(fleet, _BATCH))
    while (again := sorted(_listed(fleet, _BATCH))) != found:
        found = again
    return found


def unfinished(fleet: Path) -> list[Path]:
    """What indexers are writing, and what killed ones have left. Raises OSError."""
    return list(_listed(fleet, _UNFINISHED))


def _listed(fleet: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    folder = batches_folder(fleet)
    if folder.is_symlink() or folder.parent.is_symlink():  # we write and remove only within the fleet
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        for day in os.scandir(folder):
            if _DATE.fullmatch(day.name) and day.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError, NotADirectoryError):
                    for file in os.scandir(day.path):
                        if pattern.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                            yield folder / day.name / file.name


def make_folder(fleet: Path, batch: Path) -> None:
    """Makes the folder of a batch. Folders get the mode of the fleet's: the names in them say nothing. Raises OSError."""
    mode = stat.S_IMODE(fleet.stat().st_mode) | 0o700
    folder = fleet
    for name in batch.parent.relative_to(fleet).parts:
        folder = folder / name
        with suppress(FileExistsError):
            folder.mkdir(0o700)
            folder.chmod(mode)
        if folder.is_symlink() or not folder.is_dir():
            raise NotADirectoryError(20, "Not a directory", str(folder))


def keep_name(batch: Path) -> None:
    """Returns when a published batch has its name on the disk too, so that a crash cannot take it back. Raises OSError."""
    folder = os.open(batch.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


__all__ = [
    *("OWN_FOLDER", "batches", "batches_folder", "date_of", "is_batch", "keep_name", "make_folder", "new_batch"),
    "unfinished",
]
