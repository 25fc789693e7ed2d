"""The file formats: the spool (``spool``), the trace (``trace``), CPython's own formats (``cpython``), and their errors."""
