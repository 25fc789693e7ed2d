"""Recordings whose trace is begun while they grow."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scalene_trace.formats.spool.chunks import View, view_of
from scalene_trace.recorder.convert import ahead as module
from scalene_trace.recorder.convert.ahead import Ahead
from scalene_trace.recorder.convert.begun import BegunTrace
from scalene_trace.recorder.convert.convert import Outcome
from scalene_trace.recorder.convert.finish import write_trace_of
from scalene_trace.recorder.convert.kinds.ends import RootEnd
from scalene_trace.recorder.folder.facts import Facts
from scalene_trace.recorder.folder.files import SPOOL_NAME, TRACE_NAME
from scalene_trace.recorder.rights.identity import OWN_RIGHTS, Rights

from .conversion import BYTECODE, LINES, facts
from .spool_builder import SpoolBuilder

END = Outcome(RootEnd(1001, 0, False, 0, 0), 10**10, False, {}, still_runs=lambda pid, begun_ns: False)


@contextmanager
def pinned(path: Path) -> Iterator[View]:
    with path.open("rb") as file:
        count = max(0, os.fstat(file.fileno()).st_size // (64 << 10) + 1)
        yield view_of(path, file.fileno(), count)


class Recording:
    """A recording that grows: ``steps`` add to it, one before each pass. Two passes more follow the last one, since files are
    read by the pass after the one that finds them. ``failures``: what passes have raised; ``drained``: how many chunks are in
    part files, by the number before and that of the first ones that are closed."""

    def __init__(
        self,
        folder: Path,
        steps: list[Callable[[SpoolBuilder], Any]],
        monkeypatch: pytest.MonkeyPatch,
        rights: Callable[[], Rights] = lambda: OWN_RIGHTS,
    ) -> None:
        monkeypatch.setattr(module, "_FIRST_S", 0)
        monkeypatch.setattr(module, "_LONGEST_S", 0)
        monkeypatch.setattr(module, "_TIMES_AS_LONG", 0)
        self.builder, self._steps, self._passes_left = SpoolBuilder().start(), list(steps), 2
        self.drained: Callable[[int, int], int] = lambda before, closed: 0
        self._drained = 0
        self.folder = folder / "recording"
        self.spool = self.builder.write(self.folder / SPOOL_NAME)
        self.facts: Facts = facts(folder)
        self.failures: list[Exception] = []
        self.ahead = Ahead(self.spool, self.facts, lambda: pinned(self.spool), rights, self._step)
        self._make_pass, self.ahead._pass = self.ahead._pass, self._watched_pass

    def _watched_pass(self) -> None:
        try:
            self._make_pass()
        except Exception as error:
            self.failures.append(error)

    def _step(self) -> bool:
        """Called before each pass."""
        if self._steps:
            self._steps.pop(0)(self.builder)
            self._drained = self.drained(self._drained, self.builder.closed())
            self.builder.write(self.spool, self._drained)
        elif self._passes_left:
            self._passes_left -= 1
        else:
            self.ahead.end()
        return True

    def until_ended(self, failures: int = 0) -> None:
        """Begins the passes, which may use what the test has bound by now, and waits until they have ended; ``failures``: how
        many of them fail."""
        self.begun = BegunTrace(self.folder / TRACE_NAME, self.facts.trace_id, self.ahead)
        end_s = time.monotonic() + 60
        while not self.begun._waits:
            assert time.monotonic() < end_s
            time.sleep(0.001)
        assert len(self.failures) == failures and not self._steps
        assert self.ahead._read or self.ahead.known.records.parts

    def trace(self, name: str, begun: BegunTrace | None) -> Path:
        finished = write_trace_of(self.folder, self.facts, self.folder / name, END, begun=begun)
        assert not list(self.folder.glob("..trace*"))
        return finished.output


def values_of(path: Path, kind: str, column: str) -> list[Any]:
    return [row[kind][column] for row in pq.read_table(path).to_pylist() if row["kind"] == kind]


def rows_of(path: Path) -> Counter[str]:
    """The rows with a number for each kind's own columns, whatever the row group."""
    return Counter(repr({k: v for k, v in row.items() if v is not None}) for row in pq.read_table(path).to_pylist())


def with_function(folder: Path, number: int, draw: random.Random) -> Callable[[SpoolBuilder], Any]:
    """A step that adds samples of a function in a file of its own, which is large enough for a row group now and then."""
    file = folder / f"module_{number}.py"
    file.write_text(
        "".join(f"value_{draw.random()} = {draw.random()}\n" for _ in range(draw.choice((0, 1, 10, 40_000))))
    )

    def step(builder: SpoolBuilder) -> None:
        name = draw.choice((str(file), file.name, f"<generated {number}>", "/gone/x.py", os.__file__))
        name = str(file) if number == 1 else name
        process, stack = draw.choice((1, 1, 2)), 100 + number
        lines = {"first_line": draw.choice((11, 11, -3)), "line_table": draw.choice((LINES, LINES, b""))}
        builder.code(number, file=name, name=f"f{number}", bytecode=BYTECODE, **lines)
        builder.add("node", hash=stack, parent=draw.choice((0, 0, 99)), code=number, instruction=draw.randrange(-1, 12))
        for n in range(draw.randrange(1, 4)):
            tick = {"thread": process, "stack": stack, "cpu_ns": 10**7 * number}
            builder.add("tick", process, t_ns=builder.header["start_mono_ns"] + 10 * number + n, **tick)
        builder.alloc(number, 10 * number, process, stack=stack)
        for freed in draw.sample(range(1, number + 1), min(number, 2)):
            builder.free(freed, 10 * number + 5, draw.choice((1, 2)), stack=stack)
            builder.note(freed, type=7)
        for each in (1, 2):
            if draw.random() < 0.3 or number == 3:
                builder.new_chunk(each)

    return step
