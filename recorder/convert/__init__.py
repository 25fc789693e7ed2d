"""Converts the spool and the recorder's own files into a trace.

:mod:`.finish` writes the trace of a recording's folder, :mod:`.convert` makes its tables: one module in :mod:`.kinds` for
each group of kinds, with the stacks of :mod:`.survey` and the functions of :mod:`.native`.
"""
