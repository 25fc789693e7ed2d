"""Records programs. A recorded program may control its own recording: ``from scalene_trace.recorder import mark``.

This package imports only :mod:`.api`, because a recorded program pays for it. Code that records imports
:mod:`.run.record`.
"""

from .api import mark, memory, pause, recording, resume

__all__ = ["mark", "memory", "pause", "recording", "resume"]
