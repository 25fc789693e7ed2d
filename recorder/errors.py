"""What can stop the recorder before the program has started, as one exception tree.

::

    RecordError               .exit_status as env(1) and timeout(1) have them; str() is one or two plain sentences
    ├── UsageError            125: the command line makes no sense
    ├── SetupError            125: the recorder cannot do its part (output, spool, shim)
    ├── ControlError          125: a recording that runs cannot be reached, or refuses the command
    ├── NotExecutable         126: the command is there but cannot be run
    └── NotFound              127: there is no such command
"""

from __future__ import annotations


class RecordError(Exception):
    """The recording did not start; ``str()`` says what, where and what to do."""

    exit_status = 125


class UsageError(RecordError):
    """The command line makes no sense."""


class SetupError(RecordError):
    """Output, spool or shim cannot be had."""


class ControlError(RecordError):
    """A recording that runs cannot be reached, or refuses the command."""


class NotExecutable(RecordError):  # noqa: N818
    """The command is there but cannot be run."""

    exit_status = 126


class NotFound(RecordError):  # noqa: N818
    """There is no such command."""

    exit_status = 127
