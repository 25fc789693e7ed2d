"""How much address space and locked memory recording adds to a process, and what limits on them do."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.recording import Recording, bare, losses, record, report, run, target

#: Every allocation is sampled, so that hundreds of chunks are written.
EXACT = ["--alloc-interval", "1", "--cpu-interval", "1ms"]
#: One heap for all threads: how many there are else depends on chance, and each reserves 64 MiB.
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
MOST_SPACE_KIB, MOST_LOCKED_KIB = 64 << 10, 8 << 10


def unlimited_locks() -> None:
    """Lets the program lock its memory, where that is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


def held(alone: Any, recorded: Any) -> None:
    """Recording has added at most as much as it may."""
    print({name: recorded[name] - alone[name] for name in ("size_kib", "locked_kib")})
    assert 0 < recorded["size_kib"] - alone["size_kib"] <= MOST_SPACE_KIB
    if alone["locked"]:
        assert recorded["locked"] and recorded["locked_kib"] - alone["locked_kib"] <= MOST_LOCKED_KIB


def complete(done: Recording) -> None:
    """Nothing was lost, although many chunks were written."""
    assert done.status == 0, done.stderr.decode()
    assert not {"unmapped_chunk", "spool_full"} & losses(report(done.trace)).keys()


def test_recording_adds_little_to_a_python_program(python: Interpreter, tmp_path: Path) -> None:
    program = [target("space"), "sizes"]
    done = record(tmp_path / "t.parquet", program, python, (), ONE_HEAP, preexec_fn=unlimited_locks)
    complete(done)
    held(bare(program, python, ONE_HEAP, preexec_fn=unlimited_locks).facts, done.facts)


def test_the_spool_stays_out_of_core_dumps_and_small_while_every_allocation_is_sampled(
    python: Interpreter, tmp_path: Path
) -> None:
    program = [target("space"), "sizes"]
    done = record(tmp_path / "t.parquet", program, python, EXACT, ONE_HEAP)
    complete(done)
    assert done.facts["undumped"]
    assert done.facts["size_kib"] - bare(program, python, ONE_HEAP).facts["size_kib"] <= MOST_SPACE_KIB


def test_recording_adds_little_to_a_c_program(tmp_path: Path) -> None:
    program = build(tmp_path, "space.c")
    done = record(tmp_path / "t.parquet", ["--", program], None, EXACT, ONE_HEAP, preexec_fn=unlimited_locks)
    complete(done)
    held(run(["env", "MALLOC_ARENA_MAX=1", program], preexec_fn=unlimited_locks).facts, done.facts)


def test_a_limit_that_the_program_sets_leaves_it_nearly_as_much_as_bare(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("space"), "limited"], python, EXACT, ONE_HEAP)
    complete(done)
    alone = bare([target("space"), "limited"], python, ONE_HEAP).facts["done"]
    assert 10 < alone - MOST_SPACE_KIB // (10 << 10) <= done.facts["done"] <= alone


def test_small_objects_leave_a_later_limit_to_the_program(python: Interpreter, tmp_path: Path) -> None:
    """What is kept for each of them counts in the limit, too."""
    done = record(tmp_path / "t.parquet", [target("space"), "limited_later"], python, EXACT, ONE_HEAP)
    complete(done)
    assert done.facts == bare([target("space"), "limited_later"], python, ONE_HEAP).facts == {"kept": 171000}


def test_a_program_that_locks_its_memory_is_recorded(python: Interpreter, tmp_path: Path) -> None:
    program = [target("space"), "locked"]
    done = record(tmp_path / "t.parquet", program, python, EXACT, ONE_HEAP, preexec_fn=unlimited_locks)
    complete(done)
    assert done.stdout == bare(program, python, ONE_HEAP, preexec_fn=unlimited_locks).stdout


def test_a_core_dump_does_not_contain_the_spool(any_python: Interpreter, tmp_path: Path) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text() != "core\n":
        pytest.skip("core dumps are not written into the current folder here")
    sizes = []
    for name in ("alone", "recorded"):
        (folder := tmp_path / name).mkdir()
        program = [target("space"), "dumped"]
        if name == "alone":
            bare(program, any_python, ONE_HEAP, cwd=folder)
        else:
            record(tmp_path / "t.parquet", program, any_python, EXACT, ONE_HEAP, cwd=folder)
        sizes += [path.stat().st_size for path in folder.glob("core*")]
    if len(sizes) < 2:
        pytest.skip("core dumps are not allowed here")
    assert sizes[1] - sizes[0] <= MOST_LOCKED_KIB << 10
