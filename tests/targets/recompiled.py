"""Code objects that differ in their line tables alone, one after another, mostly at the address of the one before, as their line
tables are. In made.py, each works in its own one of ten lines, from the second on. "allocates" as argument: it keeps 10 MB."""

import sys
import time
import types

WORK = "kept.append(bytearray(10_000_019))" if sys.argv[1:] == ["allocates"] else "while time.thread_time() < end: pass"
KEPT = []


def compiled(line):
    space = {}
    exec(compile("def work(kept, end):\n" + "\n" * (line - 2) + f"    {WORK}\n", "made.py", "exec"), space)
    return space["work"].__code__


first = compiled(2)
tables = [list(compiled(line).co_linetable) for line in range(2, 12)]
for table in tables:
    code = first.replace(co_linetable=bytes(table))
    types.FunctionType(code, {"time": time})(KEPT, time.thread_time() + 0.2)
    del code
