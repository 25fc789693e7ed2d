"""Errors that stop the recorder before the program has started, as one exception tree.

::

    RecordError               .exit_status follows env(1) and timeout(1); str() is one or two sentences
    ├── UsageError            125: the command line is invalid
    ├── SetupError            125: output, spool or shim cannot be set up
    ├── ControlError          125: a running recording cannot be reached, or refuses the command
    ├── NotExecutable         126: the command was found but cannot be executed
    └── NotFound              127: the command was not found
"""

from __future__ import annotations


class RecordError(Exception):
    """The recording did not start; ``str()`` says what failed, where, and what to do."""

    exit_status = 125


class UsageError(RecordError):
    """The command line is invalid."""


class SetupError(RecordError):
    """Output, spool or shim cannot be set up."""


class ControlError(RecordError):
    """A running recording cannot be reached, or refuses the command."""


class CommandRefused(ControlError):  # noqa: N818
    """The recorder has answered, and says why it does not do it."""


class NotExecutable(RecordError):  # noqa: N818
    """The command was found but cannot be executed."""

    exit_status = 126


class NotFound(RecordError):  # noqa: N818
    """The command was not found."""

    exit_status = 127
