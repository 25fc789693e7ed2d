"""Records programs. A program may record itself and control its own recording: ``from scalene_trace.recorder import mark``.

This package imports only :mod:`.api`, because a recorded program pays for it, and :mod:`.inside` and :mod:`.labelled` when
they are asked for.
Code that records imports :mod:`.run.record`.
"""

from .api import mark, memory, pause, recording, resume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .inside import record, start, stop
    from .labelled import label

__all__ = ["label", "mark", "memory", "pause", "record", "recording", "resume", "start", "stop"]


def __getattr__(name: str) -> object:
    if name == "label":
        from . import labelled

        return labelled.label
    if name not in ("record", "start", "stop"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import inside

    return getattr(inside, name)
