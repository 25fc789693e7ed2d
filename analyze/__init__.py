"""Questions about traces. From Python, start at :func:`open`:

import scalene_trace.analyze

analysis = scalene_trace.analyze.open("trace.parquet")
analysis.lines().df()
"""

from . import open as _opening  # noqa: F401 (first: a submodule imported later would take the name of the function)
from .notebook import Analysis, Answer, Rows, open  # noqa: A004
from .tables import QueryRefused

__all__ = ["Analysis", "Answer", "QueryRefused", "Rows", "open"]
