"""Garbage collections, against the program's own counts."""

from __future__ import annotations

from pathlib import Path

from tests.support.interpreters import Interpreter
from tests.support.recording import record, rows

#: Ends before the interpreter is finalized, which collects more; the loop at the end has ticks, at which counts are read.
PROGRAM = """
import gc, json, os, time
gc.set_threshold(300, 4, 4)
class Node: pass
for _ in range(30000):
    node = Node(); node.me = node
for _ in range(6): gc.collect(1); gc.collect()
gc.disable()
end = time.process_time() + 0.3
while time.process_time() < end: pass
print(json.dumps(gc.get_stats()), flush=True)
os._exit(0)
"""


def test_collections_are_those_that_the_interpreter_has_counted(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", ["-c", PROGRAM], python, ["--cpu-interval", "1ms"])
    truth, found = done.facts, rows(done.trace, "gc")
    assert all(each["collections"] > 5 for each in truth), truth
    assert [sum(row[f"generation{number}"] for row in found) for number in range(3)] == [
        each["collections"] for each in truth
    ]
    for name in ("collected", "uncollectable"):
        assert sum(row[name] for row in found) == sum(each[name] for each in truth)
