"""Programs that cannot be recorded themselves. What a static one starts is recorded."""

from __future__ import annotations

import os

from ...formats.dataclass import dataclass
from ...formats.errors import LibraryMissing
from ...formats.libraries import watch_library
from ...formats.spool.losses import shim_losses

_REASONS = {
    "unrecorded_static": "it is a static binary, which loads no shared library",
    "unrecorded_setuid": "it gains privileges, so its loader ignores LD_PRELOAD",
    "unrecorded_image": "a preloaded library would stop or disturb it (a sanitizer, another libc, or 32-bit), so it and its children run without the recorder",
}


@dataclass(frozen=True)
class Unrecorded:
    """Why a program cannot be recorded. ``loss``: number of the loss (losses.h)."""

    loss: int

    @property
    def name(self) -> str:
        return shim_losses()[self.loss].name

    @property
    def reason(self) -> str:
        return _REASONS[self.name]

    def sentence(self, executable: str) -> str:
        """What the user is told about the program."""
        return f"{executable} cannot be recorded: {self.reason}."

    @property
    def takes_library(self) -> bool:
        """False if the program must not be started with the shim in LD_PRELOAD."""
        return self.name != "unrecorded_image"


def unrecorded(executable: str, preload: bytes) -> Unrecorded | None:
    """Why a program that is started with ``preload`` as LD_PRELOAD cannot be recorded. None if it can be, or if that is not
    known."""
    try:
        loss = watch_library().scalene_unrecorded(os.fsencode(executable), preload)
    except (OSError, LibraryMissing, AttributeError):
        return None
    return Unrecorded(loss) if loss >= 0 else None
