"""Traces that are begun while the program runs: they have the rows of those that are made at its end."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from scalene_trace.formats.spool import chunks, codes, early
from scalene_trace.formats.spool.codes import CodeObject
from scalene_trace.formats.spool.reader import read_records
from scalene_trace.recorder.convert import ahead as module
from scalene_trace.recorder.convert import known, sources
from scalene_trace.recorder.convert.begun import BegunTrace
from scalene_trace.recorder.convert.native import names, symbols, tables
from scalene_trace.recorder.convert.native.elf import ElfFile
from scalene_trace.recorder.convert.native.tables import FunctionTables
from scalene_trace.recorder.convert.survey import stacks
from scalene_trace.recorder.convert.survey.stacks import Lines
from scalene_trace.recorder.folder.files import SPOOL_NAME, TRACE_NAME
from scalene_trace.recorder.rights.identity import OWN_RIGHTS, WITHHELD, Rights
from scalene_trace.recorder.rights.opening import open_regular_file
from scalene_trace.recorder.sampling import idle
from tests.support.begun_recording import Recording, rows_of, values_of, with_function
from tests.support.conversion import LINES
from tests.support.spool_builder import PYTHON_311, SpoolBuilder


def losses_of(path: Path) -> dict[str, int]:
    return dict(zip(values_of(path, "loss", "name"), values_of(path, "loss", "count"), strict=True))


def sampled(number: int, file: str) -> Callable[[SpoolBuilder], Any]:
    """A step that adds a tick in a function of ``file``."""

    def step(builder: SpoolBuilder) -> None:
        builder.code(number, file=file, line_table=LINES).add("node", hash=number, code=number)
        builder.add("tick", thread=1, stack=number, cpu_ns=number, t_ns=builder.header["start_mono_ns"])

    return step


@pytest.mark.parametrize("seed", range(12))
def test_a_begun_trace_has_the_same_rows(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    steps = [with_function(tmp_path, number, draw) for number in range(1, draw.choice((6, 12, 40)))]
    monkeypatch.setattr(early, "_MOST_BYTES", draw.choice((8 << 20, 20_000, 5_000)))
    monkeypatch.setattr(known, "_MOST_SURVEY_BYTES", draw.choice((8 << 20, 8 << 20, 20_000)))
    monkeypatch.setattr(module, "_MOST_CHUNKS", draw.choice((64, 2)))
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.builder.start(2).type(7, b"app.Order")
    recording.drained = lambda before, closed: draw.randint(before, closed)
    recording.until_ended()
    assert recording.ahead.known.sources.modified_ns and recording.ahead.known.records.parts
    begun = recording.trace("begun.parquet", recording.begun)
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))


def test_finished_chunks_are_read_once(tmp_path, monkeypatch):
    """Those in the spool, and those in part files: the end reads the others."""
    chunks_read: list[int] = []

    def counting(read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            chunks_read.append(1)
            return read(*arguments)

        return counted

    def step(builder: SpoolBuilder) -> None:
        number = builder.closed()
        builder.code(1).add("node", hash=1, code=1).new_chunk()
        builder.add("tick", thread=1, stack=1, cpu_ns=number, t_ns=builder.header["start_mono_ns"])

    recording = Recording(tmp_path, [step] * 9, monkeypatch)
    recording.drained = lambda before, closed: closed // 2
    recording.until_ended()
    assert sum(slots for slots, _ in recording.ahead.known.records.parts) > 9
    for name in ("live_chunk", "_inflated"):
        monkeypatch.setattr(chunks, name, counting(getattr(chunks, name)))
    kinds = pq.read_table(recording.trace("t.parquet", recording.begun))["kind"].to_pylist()
    assert kinds.count("cpu") == 9
    assert len(chunks_read) == 1, "the open one"


def test_texts_are_written_as_they_are_found(tmp_path, monkeypatch):
    text = "".join(f"value = {random.random()}\n" for _ in range(60_000))
    for number in range(6):
        (tmp_path / f"m{number}.py").write_text(text)
    monkeypatch.setattr(module, "_TOGETHER_BYTES", len(text))
    recording = Recording(tmp_path, [sampled(number, f"m{number}.py") for number in range(1, 6)], monkeypatch)
    recording.until_ended()
    groups = pq.read_metadata(recording.trace("t.parquet", recording.begun)).num_row_groups
    assert groups == 6  # one for each text, and one for the rest


def library(folder: Path) -> tuple[Path, tuple[int, int], int]:
    """A library with a function whose name is mangled, the addresses of its code, and that of the function."""
    source, made = folder / "a.cpp", folder / "a.so"
    source.write_text("namespace shop { int total(int count, double each) { return count * each; } }\n")
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source], check=True)
    listed = subprocess.run(["nm", made], check=True, capture_output=True, text=True).stdout
    address = next(int(row.split()[0], 16) for row in listed.splitlines() if "total" in row)
    with ElfFile(os.open(made, os.O_RDONLY), 2**62) as file:
        segment = next(each for each in file.segments() if each["type"] == 1 and each["flags"] & 1)
    return made, (int(segment["vaddr"]), int(segment["vaddr"] + segment["memsz"])), address


def in_library(path: Path, code: tuple[int, int], address: int) -> Callable[[SpoolBuilder], Any]:
    def step(builder: SpoolBuilder) -> None:
        builder.module(*code, str(path), image=7, bias=0, t_ns=1 << 61).native(5, image=7, address=address)
        builder.code(1).add("node", hash=1, code=1)
        builder.add("tick", thread=1, stack=1, native=5, cpu_ns=1, t_ns=builder.header["start_mono_ns"])

    return step


def test_functions_and_their_readable_names_are_known_before_the_end(tmp_path, monkeypatch):
    recording = Recording(tmp_path, [in_library(*library(tmp_path))], monkeypatch)
    recording.until_ended()
    recording.ahead.known.names.settle()
    read: list[Any] = []
    for place, name in ((tables, "_pieces"), (names, "read_names")):
        monkeypatch.setattr(place, name, lambda *given: read.append(given) or ())
    made = recording.trace("t.parquet", recording.begun)
    assert values_of(made, "symbol", "demangled") == ["shop::total"] and not read


def test_code_and_its_lines_are_known_before_the_end(tmp_path, monkeypatch):
    recording = Recording(tmp_path, [sampled(1, "a.py"), sampled(2, "<string>"), sampled(3, "b.py")], monkeypatch)
    recording.until_ended()
    joined, decoded = codes._best, stacks.line_tables
    read: list[Any] = []
    monkeypatch.setattr(codes, "_best", lambda parts: read.append(parts) or joined(parts))
    monkeypatch.setattr(stacks, "line_tables", lambda wanted: read.extend(wanted) or decoded(wanted))
    made = recording.trace("t.parquet", recording.begun)
    assert set(values_of(made, "location", "file")) == {"a.py", "<string>", "b.py"}
    assert (
        len(read) == 1
    )  # the code of -c is joined at the end, since that asks who has written it; its lines are known


@pytest.mark.parametrize("is_begun", [False, True])
def test_programs_of_c_options_have_their_own_names(tmp_path, monkeypatch, is_begun):
    def step(builder: SpoolBuilder) -> None:
        for process, text in ((2, "a = 1"), (3, "b = 2")):
            builder.start(process, ("python", "-c", text))
            builder.code(process, process=process, file="<string>", name="<module>", line_table=LINES)
            builder.add("node", process, hash=process, code=process)
            times = {"cpu_ns": 1, "t_ns": builder.header["start_mono_ns"]}
            builder.add("tick", process, thread=process, stack=process, **times)

    recording = Recording(tmp_path, [step], monkeypatch)
    recording.until_ended()
    if not is_begun:
        recording.begun.give_up()
    made = recording.trace("t.parquet", recording.begun if is_begun else None)
    assert sorted(values_of(made, "location", "file")) == ["<string> -c 'a = 1'", "<string> -c 'b = 2'"]


def test_two_passes_are_made_at_once_when_the_end_is_near(tmp_path, monkeypatch):
    recording = Recording(tmp_path, [sampled(1, "a.py"), sampled(2, "b.py")], monkeypatch)
    monkeypatch.setattr(module, "_FIRST_S", 3600)
    monkeypatch.setattr(module, "_LONGEST_S", 3600)
    passes = []
    recording.ahead._pass = lambda: passes.append(time.monotonic())
    begun = BegunTrace(recording.folder / TRACE_NAME, recording.facts.trace_id, recording.ahead)
    begun.end_is_near()
    end_s = time.monotonic() + 60
    while len(passes) < 2 and time.monotonic() < end_s:
        time.sleep(0.001)
    time.sleep(0.2)
    assert len(passes) == 2 and passes[1] - passes[0] >= module._BETWEEN_LAST_S
    begun.give_up()


def test_no_file_is_opened_early_after_the_end(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("first\n")
    opened: list[Path] = []
    monkeypatch.setattr(module, "ProgramFiles", lambda rights: contextlib.nullcontext(Opener(opened)))
    recording = Recording(tmp_path, [sampled(1, "a.py")], monkeypatch, lambda: recording.ahead.end() or OWN_RIGHTS)
    recording.until_ended()
    assert not opened and not recording.ahead.known.sources.modified_ns
    assert values_of(recording.trace("t.parquet", recording.begun), "source", "text") == ["first\n"]


def test_a_pass_that_fails_loses_no_records(tmp_path, monkeypatch):
    def failing(*given: Any, **more: Any) -> Any:
        if failures:
            raise failures.pop()
        return read_records(*given, **more)

    failures = [MemoryError() for _ in range(3)]
    steps = [with_function(tmp_path, number, random.Random(number)) for number in range(1, 9)]
    monkeypatch.setattr(known, "read_records", failing)
    recording = Recording(tmp_path, steps, monkeypatch)
    recording.until_ended(failures=3)
    assert recording.ahead.known.records.parts
    begun = recording.trace("begun.parquet", recording.begun)
    assert rows_of(begun) == rows_of(recording.trace("whole.parquet", None))


class Opener:
    def __init__(self, opened: list[Path]) -> None:
        self._opened = opened

    def open(self, path: Path) -> int:
        self._opened.append(path)
        return open_regular_file(path)


def test_names_are_asked_for_again_if_they_were_not_reached(tmp_path, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(names, "read_names", lambda wanted, reader: {"_Z3onev": "one"})
        recording = Recording(tmp_path, [in_library(*library(tmp_path))], monkeypatch)
        recording.until_ended()
    assert values_of(recording.trace("t.parquet", recording.begun), "symbol", "demangled") == ["shop::total"]


def test_a_file_that_changes_later_keeps_the_text_that_ran(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("first\n")
    recording = Recording(tmp_path, [sampled(1, str(path)), sampled(2, "gone.py")], monkeypatch)
    recording.until_ended()
    path.write_text("second\n")
    made = recording.trace("t.parquet", recording.begun)
    assert values_of(made, "source", "text") == ["first\n"] and losses_of(made)["source_changed"] == 1


def test_a_name_that_is_not_utf_8_has_one_text(tmp_path, monkeypatch):
    name = "caf\udce9.py"
    (tmp_path / name).write_text("first\n")
    recording = Recording(tmp_path, [sampled(1, name)], monkeypatch)
    recording.until_ended()
    assert len(values_of(recording.trace("t.parquet", recording.begun), "source", "file")) == 1


def test_an_empty_file_has_a_row(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("")
    recording = Recording(tmp_path, [sampled(1, "a.py")], monkeypatch)
    recording.until_ended()
    assert list(recording.ahead.known.sources.modified_ns) == ["a.py"]
    assert values_of(recording.trace("t.parquet", recording.begun), "source", "file") == ["a.py"]


def test_a_text_that_has_no_room_takes_none(tmp_path, monkeypatch):
    for name, size in {"a.py": 90, "b.py": 50, "c.py": 10}.items():
        (tmp_path / name).write_text("#" * size)
    monkeypatch.setattr(sources, "MOST_BYTES", 100)
    recording = Recording(tmp_path, [sampled(n, f"{name}.py") for n, name in enumerate("abc", 1)], monkeypatch)
    recording.until_ended()
    made = recording.trace("t.parquet", recording.begun)
    assert sorted(values_of(made, "source", "file")) == ["a.py", "c.py"] and losses_of(made)["source_unread"] == 1


def test_code_on_no_stack_has_no_text(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("first\n")
    recording = Recording(tmp_path, [lambda builder: builder.code(1, file="a.py")], monkeypatch)
    recording.until_ended()
    assert values_of(recording.trace("t.parquet", recording.begun), "source", "file") == []


@pytest.mark.parametrize("given_up", [0, 1])
def test_what_was_read_with_rights_that_a_process_has_given_up_is_dropped(tmp_path, monkeypatch, given_up):
    """``given_up``: before the first file is opened, or while files are read."""
    (tmp_path / "a.py").write_text("first\n")
    asked = itertools.count()

    def rights() -> Rights:
        return OWN_RIGHTS if next(asked) < given_up else WITHHELD

    recording = Recording(tmp_path, [sampled(1, "a.py"), in_library(*library(tmp_path))], monkeypatch, rights)
    recording.until_ended()
    found = recording.ahead.known
    assert next(asked) > 1 and not found.sources.modified_ns and not recording.ahead._texts.get("file")
    assert not found.functions._symbols and found.names.answers(["_ZN4shop5totalEid"]) == [None]


def test_processes_that_write_nothing_do_not_keep_others_from_being_read(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("first\n")

    def idle_ones(builder: SpoolBuilder) -> None:
        for process in range(2, 3 * module._MOST_CHUNKS):
            builder.start(process)

    def last(builder: SpoolBuilder) -> None:
        builder.code(1, process=1000, file="a.py").add("node", 1000, hash=1, code=1)

    recording = Recording(tmp_path, [idle_ones, *[lambda builder: None] * 5, last], monkeypatch)
    recording.until_ended()
    assert list(recording.ahead.known.sources.modified_ns) == ["a.py"]


def test_a_writer_that_fails_early_costs_nothing(tmp_path, monkeypatch):
    """Its file is removed, or its folder is not there."""

    def recording() -> Recording:
        made = Recording(tmp_path, [with_function(tmp_path, n, random.Random(n)) for n in range(1, 12)], monkeypatch)
        made.until_ended()
        return made

    first = recording()
    first.begun.give_up()
    whole = rows_of(first.trace("whole.parquet", None))
    second = recording()
    for each in second.folder.glob("..trace*"):
        each.unlink()
    assert rows_of(second.trace("second.parquet", second.begun)) == whole
    third = recording()
    third.begun.give_up()
    failed = BegunTrace(tmp_path / "nowhere" / TRACE_NAME, third.facts.trace_id, third.ahead)
    assert not failed.takes_rest()
    assert rows_of(third.trace("failed.parquet", failed)) == whole


def test_giving_up_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "m.py").write_text("#" * 2_000_000)
    monkeypatch.setattr(module, "_TOGETHER_BYTES", 1)
    recording = Recording(tmp_path, [sampled(1, "m.py")], monkeypatch)
    recording.until_ended()
    assert len(list(recording.folder.iterdir())) == 2
    recording.begun.give_up()
    assert [each.name for each in recording.folder.iterdir()] == [SPOOL_NAME]
    recording.begun.give_up()


def test_line_tables_that_are_known_are_those_of_their_code(monkeypatch):
    codes = [CodeObject(PYTHON_311, 100 * n, "a.py", f"f{n}", LINES, b"") for n in range(1, 9)]
    lines, expected = Lines(), [int(table.lines_of(np.array([6]))[0]) for table in Lines().tables(codes)]
    lines.add(codes[2:5])
    assert expected == [100 * n + 3 for n in range(1, 9)]
    assert [int(table.lines_of(np.array([6]))[0]) for table in lines.tables(codes)] == expected
    monkeypatch.setattr(stacks, "_MOST_LINE_BYTES", 1_000)
    small = Lines()
    small.add(codes)
    assert 0 < len(small._known) < len(codes)
    assert [int(table.lines_of(np.array([6]))[0]) for table in small.tables(codes)] == expected


def test_tables_of_functions_are_kept_up_to_their_limit(tmp_path):
    path, _, address = library(tmp_path)
    for most in (0, 1 << 20):
        kept = FunctionTables(most)
        for _ in range(2):
            with ElfFile(os.open(path, os.O_RDONLY), 2**62) as file:
                found = symbols._owners(file, np.array([address], np.uint64), kept)
            assert [found.functions[each].name for each in found.owner] == ["_ZN4shop5totalEid"]
        assert bool(kept._symbols) == (most > 0)


def test_idle_processors_are_those_that_we_may_use(monkeypatch):
    rows = ["cpu 9 9 9 9000 9000", "cpu0 0 0 0 {idle} 50 0", "cpu1 0 0 0 {idle} 0", "cpu2 0 0 0 {other} 0", "intr 5"]
    state = {"idle": 0, "other": 0, "now": 100.0, "stops": 3}
    files = {"stat": "\n".join(rows), "b": "usage_usec 5", "a": "usage_usec 5\nnr_throttled {stops}"}
    monkeypatch.setattr(idle.cgroups, "files", lambda *names: [Path("/b"), Path("/a"), Path("/gone")])
    monkeypatch.setattr(idle.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(idle.time, "monotonic", lambda: state["now"])
    monkeypatch.setattr(idle.Path, "read_text", lambda path: read(path.name))

    def read(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(name)
        return files[name].format(**state)

    measured = idle.IdleProcessors()

    def after_a_second() -> float:
        state.update(idle=state["idle"] + 50 * idle._TICKS_PER_S // 100, other=10**6, now=state["now"] + 1)
        return measured.since_last()

    assert after_a_second() == pytest.approx(1.0)
    assert measured.since_last() == 0  # no time has passed
    state["stops"] += 1
    assert after_a_second() == 0  # the quota was used up
    assert after_a_second() == pytest.approx(1.0)
