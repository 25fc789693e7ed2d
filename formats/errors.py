# ruff: noqa: N818 (the names say what is wrong; "Error" would add nothing)
"""Errors of recordings and traces, as one exception tree.

::

    TraceError                    all of them; str() is one or two sentences for the user
    ├── TraceFileError            a trace file cannot be used; .path names it
    │   ├── TraceMissing          the file does not exist, or may not be read
    │   ├── TraceIsDirectory      the path is a directory
    │   ├── TraceEmpty            the file has zero bytes
    │   ├── NotParquet            the file has another format
    │   ├── NotATrace             the file is Parquet, but not written by scalene-record
    │   ├── TraceCut              the end of the file is missing: an unfinished copy or download
    │   ├── TraceDamaged          the checksum does not match the contents
    │   ├── TraceChanged          another program changed the file while it was read
    │   ├── TraceTooLarge         the file would unfold to more than any recording
    │   └── TraceTooNew           the file has a newer major version of the format
    ├── SpoolError                a spool cannot be read; .path names it
    │   ├── SpoolMissing          the spool does not exist, or may not be read
    │   ├── NotASpool             the file has no spool header, or impossible sizes
    │   └── SpoolVersion          the spool was written by another version of the shim
    ├── FleetError                a fleet cannot be used; .path names its folder, or the batch
    │   ├── FleetMissing          the folder does not exist, or may not be read
    │   ├── NotIndexed            there are no summaries of its traces yet
    │   ├── BatchDamaged          a batch of summaries is damaged, or not one of ours
    │   ├── BatchUnreadable       the system does not let us read a batch
    │   └── BatchUnwritten        summaries could not be written
    ├── EndpointInvalid           profiles cannot be sent: the endpoint, or a variable about it, is not valid
    ├── ProfilesUnsent            the endpoint cannot be reached, or refuses all profiles
    ├── LibraryMissing            a library of this package is not installed
    ├── TraceWriteError           a trace could not be written; .path names it
    └── NothingRecorded           the program did not run, so an earlier trace was kept

Libraries raise these; only ``cli`` prints them and chooses the exit code.
"""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """An error that the user can understand and act on; ``str()`` is one or two sentences."""


class _PathError(TraceError):
    #: The message; ``detail`` is explained in each class that uses it.
    sentence = "{path} cannot be used."

    def __init__(self, path: Path | str, detail: str = "") -> None:
        self.path = Path(path)
        self.detail = detail
        super().__init__(self.sentence.format(path=path, detail=detail))


class TraceFileError(_PathError):
    """A trace file that cannot be used."""


class TraceMissing(TraceFileError):
    """The file does not exist, or may not be read; ``detail`` is the system's reason."""

    sentence = "{path} cannot be opened: {detail}."


class TraceIsDirectory(TraceFileError):
    """The path is a directory."""

    sentence = "{path} is a directory, not a trace. Name a file that scalene-record wrote."


class TraceEmpty(TraceFileError):
    """The file has no bytes."""

    sentence = "{path} is empty, so it contains no trace. Copy it again, or record again."


class NotParquet(TraceFileError):
    """The file has another format."""

    sentence = "{path} is not a Parquet file, so it is not a trace. Name a file that scalene-record wrote."


class NotATrace(TraceFileError):
    """A Parquet file that scalene-record did not write."""

    sentence = "{path} is a Parquet file, but scalene-record did not write it. Name a file that scalene-record wrote."


class TraceCut(TraceFileError):
    """The end of the file is missing."""

    sentence = "{path} is incomplete or damaged: it does not end as a Parquet file does. Copy it again from its source."


class TraceDamaged(TraceFileError):
    """The checksum does not match the contents; ``detail`` says what was found."""

    sentence = "{path} is damaged: {detail}. Copy it again from its source."


class TraceChanged(TraceFileError):
    """Another program wrote to the file, or replaced it, while it was read."""

    sentence = "{path} changed while it was read. Run the command again when no other program writes to it."


class TraceTooLarge(TraceFileError):
    """The file would unfold to more than any recording; ``detail`` is to what, and the limit."""

    sentence = (
        "Cannot read {path}: {detail}. If you recorded it, record a shorter time (--duration), or less of it; if it comes"
        " from somebody else, do not trust it."
    )


class TraceTooNew(TraceFileError):
    """The file has a newer major format version; ``detail`` is that version."""

    sentence = "{path} has trace format {detail}, which is newer than this program reads. Update scalene-trace."


class SpoolError(_PathError):
    """A spool that cannot be read."""


class SpoolMissing(SpoolError):
    """The spool does not exist, or may not be read; ``detail`` is the system's reason."""

    sentence = "The spool {path} cannot be opened: {detail}."


class NotASpool(SpoolError):
    """The file has no spool header, or impossible sizes; ``detail`` says which."""

    sentence = "{path} is not a spool of a recording: {detail}."


class SpoolVersion(SpoolError):
    """The spool has another layout version; ``detail`` names it."""

    sentence = (
        "The spool {path} has layout version {detail}. Convert it with the version of scalene-trace that recorded it."
    )


class FleetError(_PathError):
    """A fleet that cannot be used."""


class FleetMissing(FleetError):
    """The folder does not exist, or may not be read; ``detail`` is the system's reason."""

    sentence = "The fleet {path} cannot be read: {detail}. Name a folder with traces."


class FleetUnreachable(FleetError):
    """The fleet is at a URL that cannot be used, or does not answer; ``detail`` says why."""

    sentence = "The fleet {path} cannot be reached: {detail}."


class NotIndexed(FleetError):
    """There are no summaries of its traces yet."""

    sentence = "{path} has no summaries of its traces yet. Make them: scalene-analyze fleet index {path}"


class SparkMissing(FleetError):
    """Spark is not installed, or there is none at the address."""

    sentence = "Spark cannot be used: {detail}. Install scalene-trace[spark] and Java 17 or later, and check --engine."

    def __init__(self, detail: str) -> None:
        super().__init__(Path(), detail)


class SparkRefused(FleetError):
    """Spark cannot do what is asked for; ``detail`` says why, and what to do."""

    sentence = "Spark cannot answer: {detail}."

    def __init__(self, detail: str) -> None:
        super().__init__(Path(), detail)


class BatchDamaged(FleetError):
    """A batch of summaries is damaged, or not one of ours; ``detail`` says what was found."""

    sentence = (
        "The summaries in {path} cannot be used: {detail}. Remove this file; `scalene-analyze fleet index` makes the"
        " summaries of the traces that are still there again."
    )


class BatchUnreadable(FleetError):
    """The system does not let us read a batch of summaries, which may be whole; ``detail`` is its reason."""

    sentence = (
        "The summaries in {path} cannot be read now: {detail}. Leave the file there: nothing says that it is damaged. Run"
        " the command as a user who may read it, or again when the disk can be read."
    )


class BatchUnwritten(FleetError):
    """Summaries could not be written; ``detail`` is the system's reason."""

    sentence = "The summaries {path} could not be written: {detail}."


class EndpointInvalid(TraceError):
    """The endpoint for profiles, or a variable of the environment about it, is not valid."""


class ProfilesUnsent(TraceError):
    """The endpoint cannot be reached, or refuses all profiles; ``detail`` says why."""

    def __init__(self, url: str, detail: str) -> None:
        self.detail = detail
        super().__init__(
            f"Profiles cannot be sent to {url}: {detail}. Those that were not sent are sent the next time."
        )


class NothingRecorded(TraceError):
    """The program did not run, so the trace of an earlier recording was not replaced."""


class LibraryMissing(TraceError):
    """A library of this package is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The recording library {name} is not installed. Install scalene-trace again.")


class TraceWriteError(_PathError):
    """A trace that could not be written; ``detail`` is the system's reason."""

    sentence = "The trace {path} could not be written: {detail}."


class OutOfMemory(TraceError):
    """An answer needs more memory than there is. ``limit_bytes``: the most that it may take; None if the system refused."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        most = f"more than {limit_bytes / 1e6:,.0f} MB of memory" if limit_bytes else "more memory than is available"
        super().__init__(
            f"Cannot answer: this takes {most}. Select a part of the recording (--from, --to, --process), name fewer"
            " traces, or run the command where there is more memory."
        )


class ExportTooLarge(TraceError):
    """A file in the format of another program would have more than ``most_bytes``."""

    def __init__(self, format_: str, most_bytes: int) -> None:
        super().__init__(
            f"Cannot export in the format {format_}: the file would have more than {most_bytes / 1e9:.1f} GB. Select a part"
            " of the recording (--from, --to, --process), or use pprof, which holds each stack once."
        )
