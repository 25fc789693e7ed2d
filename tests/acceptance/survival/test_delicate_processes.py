"""Programs that do with their processes what few do: recorded, they end and print as they do bare."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.recording import bare, losses, record, report, run, target


def test_children_without_thread_local_storage_end_and_exec(tmp_path: Path) -> None:
    program = build(tmp_path, "own_tls.c")
    alone = run([program])
    assert alone.status == 0 and alone.stdout.count(b"bare") == 5 and b": b" not in alone.stdout
    done = record(tmp_path / "t.parquet", [program], None)
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")


def test_an_executable_with_its_own_allocator_gets_no_block_of_another(tmp_path: Path) -> None:
    program = build(tmp_path, "own_allocator.c")
    alone = run([program])
    assert alone.status == 0 and alone.stdout == b"kept, 1 lines\n"
    done = record(tmp_path / "t.parquet", [program], None, ["--alloc-interval", "1"])
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")
    assert "foreign_allocator" in losses(report(tmp_path / "t.parquet"))


@pytest.mark.parametrize("size", [2048, 2500, 3000, 6000, 65536])
def test_forked_children_with_a_small_alternate_stack_live(size: int, any_python: Interpreter, tmp_path: Path) -> None:
    program = [target("forked_small_stack"), str(size)]
    alone = bare(program, any_python)
    done = record(tmp_path / "t.parquet", program, any_python, ["--cpu-interval", "1ms"])
    assert (
        (done.status, done.stdout, done.stderr) == (alone.status, alone.stdout, alone.stderr) == (0, alone.stdout, b"")
    )
