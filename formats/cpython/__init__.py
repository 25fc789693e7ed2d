"""What differs between versions of CPython in bytes that were copied from it: opcodes and line tables."""
