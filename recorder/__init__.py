"""Records programs. A recorded program may steer its own recording: ``from scalene_trace.recorder import mark``.

That import loads :mod:`.api` alone; whoever records imports :mod:`.record`.
"""

from .api import mark, pause, recording, resume

__all__ = ["mark", "pause", "recording", "resume"]
