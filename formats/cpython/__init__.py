"""CPython's own formats, which differ between its versions: opcodes and line tables."""
