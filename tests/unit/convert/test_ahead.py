"""Traces that are begun while the program runs: they have the rows of those that are made at its end."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
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
from scalene_trace.recorder.convert.native.elf import ElfFile
from scalene_trace.recorder.folder.facts import Facts
from scalene_trace.recorder.folder.files import SPOOL_NAME, TRACE_NAME
from scalene_trace.recorder.rights.identity import OWN_RIGHTS, WITHHELD
from scalene_trace.recorder.sampling import idle
from tests.support.conversion import BYTECODE, LINES, facts
from tests.support.spool_builder import SpoolBuilder

END = Outcome(RootEnd(1001, 0, False, 0, 0), 10**10, False, {}, still_runs=lambda pid, begun_ns: False)


@contextmanager
def pinned(path: Path) -> Iterator[View]:
    with path.open("rb") as file:
        count = max(0, os.fstat(file.fileno()).st_size // (64 << 10) + 1)
        yield view_of(path, file.fileno(), count)


class Recording:
    """A recording that grows: ``steps`` add to it, one before each look."""

    def __init__(
        self, folder: Path, steps: list[Callable[[SpoolBuilder], Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_FIRST_S", 0)
        monkeypatch.setattr(module, "_LONGEST_S", 0)
        self.builder, self._steps, self.rights = SpoolBuilder().start(), list(steps), OWN_RIGHTS
        self.folder = folder / "recording"
        self.spool = self.builder.write(self.folder / SPOOL_NAME)
        self.facts: Facts = facts(folder)
        self.ahead = Ahead(self.spool, self.facts, lambda: pinned(self.spool), lambda: self.rights, self._step)
        self.begun = BegunTrace(self.folder / TRACE_NAME, self.facts.trace_id, self.ahead)

    def _step(self) -> bool:
        """Called before each look, and once more after the last one."""
        if not self._steps:
            symbols = self.ahead._symbols
            if symbols is None or symbols.is_finished():  # a look more takes the answers of the other process
                self.ahead.end()
            return True
        self._steps.pop(0)(self.builder)
        self.builder.write(self.spool)
        return True

    def until_looked_at(self) -> None:
        end_s = time.monotonic() + 60
        while not self.ahead._over.is_set():
            assert time.monotonic() < end_s
            time.sleep(0.001)

    def trace(self, name: str, begun: BegunTrace | None) -> pq.FileMetaData:
        finished = write_trace_of(self.folder, self.facts, self.folder / name, END, begun=begun)
        assert not list(self.folder.glob("..trace*"))
        return finished.output


def rows_of(path: Path) -> Counter[str]:
    """The rows with a number for each kind's own columns, whatever the row group."""
    return Counter(repr({k: v for k, v in row.items() if v is not None}) for row in pq.read_table(path).to_pylist())


def with_function(folder: Path, number: int, draw: random.Random) -> Callable[[SpoolBuilder], Any]:
    """A step that adds samples of a function in a file of its own, which is large enough for a row group now and then."""
    file = folder / f"module_{number}.py"
    file.write_text("".join(f"value_{draw.random()} = {draw.random()}\n" for _ in range(draw.choice((1, 10, 40_000)))))

    def step(builder: SpoolBuilder) -> None:
        name = draw.choice((str(file), file.name, f"<generated {number}>", "/gone/x.py", os.__file__))
        builder.code(number, file=name, name=f"f{number}", first_line=11, line_table=LINES, bytecode=BYTECODE)
        builder.add("node", hash=100 + number, parent=0, code=number, instruction=draw.randrange(12))
        for _ in range(draw.randrange(1, 4)):
            tick = {
                "thread": 1,
                "stack": 100 + number,
                "cpu_ns": 10**7 * number,
                "t_ns": builder.header["start_mono_ns"],
            }
            builder.add("tick", **tick)
        if draw.random() < 0.3:
            builder.new_chunk()

    return step


@pytest.mark.parametrize("seed", range(8))
def test_a_begun_trace_has_the_same_rows(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    steps = [with_function(tmp_path, number, draw) for number in range(1, draw.choice((2, 12, 40)))]
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.until_looked_at()
    assert recording.ahead.known.sources.files or len(steps) < 5
    begun = recording.trace("begun.parquet", recording.begun)
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))


def test_texts_are_written_as_they_are_found(tmp_path, monkeypatch):
    text = "".join(f"value = {random.random()}\n" for _ in range(60_000))
    for number in range(6):
        (tmp_path / f"m{number}.py").write_text(text)

    def step(number: int) -> Callable[[SpoolBuilder], Any]:
        return lambda builder: builder.code(number, file=f"m{number}.py").add("node", hash=number, code=number)

    monkeypatch.setattr(module, "_TOGETHER_BYTES", len(text))
    recording = Recording(tmp_path, [step(number) for number in range(1, 6)], monkeypatch)
    recording.until_looked_at()
    groups = pq.read_metadata(recording.trace("t.parquet", recording.begun)).num_row_groups
    assert groups == 6  # one for each text, and one for the rest


def test_functions_and_their_readable_names_are_known_before_the_end(tmp_path, monkeypatch):
    source = tmp_path / "a.cpp"
    source.write_text("namespace shop { int total(int count, double each) { return count * each; } }\n")
    library = tmp_path / "a.so"
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    listed = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    address = next(int(row.split()[0], 16) for row in listed.splitlines() if "total" in row)
    with ElfFile(os.open(library, os.O_RDONLY), 2**62) as file:
        segment = next(each for each in file.segments() if each["type"] == 1 and each["flags"] & 1)
    code = int(segment["vaddr"]), int(segment["vaddr"] + segment["memsz"])

    def step(builder: SpoolBuilder) -> None:
        builder.module(*code, str(library), image=7, bias=0, t_ns=1 << 61)
        builder.native(5, image=7, address=address).add("node", hash=1, code=1).code(1)
        builder.add("tick", thread=1, stack=1, native=5, cpu_ns=1, t_ns=builder.header["start_mono_ns"])

    recording = Recording(tmp_path, [step, lambda builder: None], monkeypatch)
    recording.until_looked_at()
    mangled = "_ZN4shop5totalEid"
    assert recording.ahead.known.readable == {mangled: "shop::total"}
    asked: list[Any] = []
    monkeypatch.setattr("scalene_trace.recorder.convert.native.symbols.demangled", asked.append)
    made = pq.read_table(recording.trace("t.parquet", recording.begun)).to_pylist()
    assert [row["symbol"]["demangled"] for row in made if row["kind"] == "symbol"] == ["shop::total"] and not asked


def test_a_file_that_changes_later_keeps_the_text_that_ran(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("first\n")

    def tick(builder: SpoolBuilder) -> None:
        builder.code(1, file=str(path), line_table=LINES).add("node", hash=1, code=1)
        builder.add("tick", thread=1, stack=1, cpu_ns=1, t_ns=builder.header["start_mono_ns"])

    recording = Recording(tmp_path, [tick], monkeypatch)
    recording.until_looked_at()
    path.write_text("second\n")
    made = pq.read_table(recording.trace("t.parquet", recording.begun)).to_pylist()
    assert [row["source"]["text"] for row in made if row["kind"] == "source"] == ["first\n"]


def test_a_file_that_may_not_be_read_is_asked_for_again_at_the_end(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("first\n")

    def tick(builder: SpoolBuilder) -> None:
        builder.code(1, file="a.py", line_table=LINES).add("node", hash=1, code=1)
        builder.add("tick", thread=1, stack=1, cpu_ns=1, t_ns=builder.header["start_mono_ns"])

    recording = Recording(tmp_path, [], monkeypatch)
    recording.rights = WITHHELD
    recording._steps.append(tick)
    recording.until_looked_at()
    assert not recording.ahead.known.sources.files
    assert recording.trace("begun.parquet", recording.begun)
    losses = [row["loss"] for row in pq.read_table(recording.folder / "begun.parquet").to_pylist() if row["loss"]]
    assert not [each for each in losses if each["name"] == "files_withheld"]  # the end may read it


def test_a_writer_that_fails_early_costs_nothing(tmp_path, monkeypatch):
    steps = [with_function(tmp_path, number, random.Random(3)) for number in range(1, 12)]
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.until_looked_at()
    assert recording.begun.takes_rest()
    gone = Recording(tmp_path / "gone", [], monkeypatch)
    whole = recording.trace("whole.parquet", recording.begun)
    assert rows_of(whole)
    shutil.rmtree(gone.folder)
    failed = BegunTrace(gone.folder / TRACE_NAME, gone.facts.trace_id, gone.ahead)
    assert not failed.takes_rest() and not failed.known.sources.files


def test_giving_up_leaves_nothing(tmp_path, monkeypatch):
    recording = Recording(tmp_path, [with_function(tmp_path, 1, random.Random(1))], monkeypatch)
    recording.begun.give_up()
    assert [each.name for each in recording.folder.iterdir()] == [SPOOL_NAME]


def test_idle_processors_are_those_that_we_may_use(monkeypatch):
    rows = ["cpu 9 9 9 9000 9000", "cpu0 0 0 0 {idle} 50 0", "cpu1 0 0 0 {idle} 0", "cpu2 0 0 0 {other} 0", "intr 5"]
    state = {"idle": 0, "other": 0, "now": 100.0}
    monkeypatch.setattr(idle.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(idle.time, "monotonic", lambda: state["now"])
    monkeypatch.setattr(idle.Path, "read_text", lambda path: "\n".join(rows).format(**state))
    measured = idle.IdleProcessors()
    state.update(idle=50 * idle._TICKS_PER_S // 100, other=10**6, now=101.0)
    assert measured.since_last() == pytest.approx(1.0)
    assert measured.since_last() == 0  # no time has passed
    state.update(now=102.0)
    assert measured.since_last() == 0
