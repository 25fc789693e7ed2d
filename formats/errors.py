# ruff: noqa: N818 (the names say what is wrong; "Error" would add nothing)
"""Everything that can be wrong with a recording or a trace, as one exception tree.

::

    TraceError                    any of the below; str() is one or two plain sentences
    ├── TraceFileError            a trace file that cannot be used; .path says which
    │   ├── TraceMissing          there is no such file, or it may not be read
    │   ├── TraceIsDirectory
    │   ├── TraceEmpty            zero bytes
    │   ├── NotParquet            some other kind of file
    │   ├── NotATrace             Parquet, but not written by scalene-record
    │   ├── TraceCut              the end is missing: an unfinished copy or download
    │   ├── TraceDamaged          the checksum does not fit the contents
    │   └── TraceTooNew           a newer major version of the format
    ├── SpoolError                a spool that cannot be read; .path says which
    │   ├── SpoolMissing
    │   ├── NotASpool             no spool header, or sizes that do not fit
    │   └── SpoolVersion          written by another version of the shim
    └── TraceWriteError           a trace that could not be written; .path says which

Libraries raise these; only ``cli`` prints them and chooses the exit code.
"""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """Something that the user can understand and act on; ``str()`` is one or two plain sentences."""


class _PathError(TraceError):
    sentence = "{path} cannot be used."

    def __init__(self, path: Path | str, detail: str = "") -> None:
        self.path = Path(path)
        self.detail = detail
        super().__init__(self.sentence.format(path=path, detail=detail))


class TraceFileError(_PathError):
    """A trace file that cannot be used."""


class TraceMissing(TraceFileError):
    """There is no such file, or it may not be read; ``detail`` is the system's reason."""

    sentence = "{path} cannot be opened: {detail}."


class TraceIsDirectory(TraceFileError):
    """A directory stands where a trace was expected."""

    sentence = "{path} is a directory, not a trace. Name a file that scalene-record wrote."


class TraceEmpty(TraceFileError):
    """The file has no bytes."""

    sentence = "{path} is empty, so there is no trace in it. Copy it again, or record again."


class NotParquet(TraceFileError):
    """The file is of some other kind."""

    sentence = "{path} is not a Parquet file, so it is not a trace. Name a file that scalene-record wrote."


class NotATrace(TraceFileError):
    """A Parquet file that scalene-record did not write."""

    sentence = "{path} is a Parquet file, but not a trace that scalene-record wrote."


class TraceCut(TraceFileError):
    """The end of the file is missing."""

    sentence = "{path} is cut short or damaged: its end is not that of a Parquet file. Copy it again from where it was written."


class TraceDamaged(TraceFileError):
    """The checksum does not fit the contents."""

    sentence = "{path} is damaged: {detail}. Copy it again from where it was written."


class TraceTooNew(TraceFileError):
    """The file has a newer major format version; ``detail`` is that version."""

    sentence = "{path} has trace format {detail}, which is newer than this program reads. Update scalene-trace."


class SpoolError(_PathError):
    """A spool that cannot be read."""


class SpoolMissing(SpoolError):
    """There is no such spool, or it may not be read; ``detail`` is the system's reason."""

    sentence = "The spool {path} cannot be opened: {detail}."


class NotASpool(SpoolError):
    """The file has no spool header, or its sizes do not fit."""

    sentence = "{path} is not a spool of a recording: {detail}."


class SpoolVersion(SpoolError):
    """The spool has another layout version; ``detail`` names it."""

    sentence = "The spool {path} has layout version {detail}. Convert it with the scalene-trace that recorded it."


class TraceWriteError(_PathError):
    """A trace that could not be written; ``detail`` is the system's reason."""

    sentence = "The trace {path} could not be written: {detail}."
