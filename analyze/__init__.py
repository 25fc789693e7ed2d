"""Analyzes traces. From Python, start at :func:`open`:

import scalene_trace.analyze

analysis = scalene_trace.analyze.open("trace.parquet")
analysis.lines().df()
"""

from .notebook import Analysis, Answer, Rows, open  # noqa: A004
from .user_sql.run import QueryRefused

__all__ = ["Analysis", "Answer", "QueryRefused", "Rows", "open"]
