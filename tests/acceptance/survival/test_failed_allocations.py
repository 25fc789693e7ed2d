"""Allocations that fail or happen at delicate moments: the program continues as it would unrecorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import embedding, library
from tests.support.recording import Recording, bare, record, rows, run, target, tool

EXACT = ["--alloc-interval", "1"]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of blocks.c."""
    return library(tmp_path_factory.mktemp("blocks"), "blocks.c")


def recorded(trace: Path, blocks: Path, way: str, python: Interpreter) -> Recording:
    """``harm.py`` under exact recording; it must end well."""
    done = record(trace, [target("harm"), blocks, way], python, EXACT)
    assert (done.status, done.stderr) == (0, b"")
    return done


def seen(trace: Path, *sizes: int) -> Counter[tuple[int, bool]]:
    """Number of recorded allocations by size, and whether they were alive at the end."""
    found = [row for row in rows(trace, "alloc") if row["size_bytes"] in sizes]
    return Counter((row["size_bytes"], row["lifetime_ns"] is None) for row in found)


def test_what_fails_bare_fails_recorded_and_counts_nowhere(python: Interpreter, blocks: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "failures", python)
    assert done.stdout == bare([target("harm"), blocks, "failures"], python).stdout
    assert done.stdout.count(b"failed") == 23
    assert max(row["size_bytes"] for row in rows(done.trace, "alloc")) < 1 << 30
    assert max(row["footprint_bytes"] for row in rows(done.trace, "heap")) < 1 << 30
    assert max(row["reserved_bytes"] for row in rows(done.trace, "heap")) < 1 << 30
    sizes = (100_003, 300_057, 100_043, 100_057)
    assert seen(done.trace, *sizes) == {
        (100_003, True): 1,
        (300_057, True): 1,
        (100_043, False): 1,
        (100_057, False): 1,
    }


def test_memory_errors_stay_what_they_are(python: Interpreter, blocks: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "memory_errors", python)
    assert done.stdout == b"refused\nrefused\nrefused\n"
    assert max(row["size_bytes"] for row in rows(done.trace, "alloc")) < 1 << 30


def test_blocks_are_counted_up_to_the_one_that_is_refused(python: Interpreter, blocks: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "exhausted", python)
    alone = bare([target("harm"), blocks, "exhausted"], python).facts
    assert alone["errno"] == done.facts["errno"] == 12
    assert done.facts["done"] == pytest.approx(alone["done"], abs=10)
    assert seen(done.trace, 1_999_993) == {(1_999_993, True): done.facts["done"]}


@pytest.mark.parametrize("limit_kb", [300_000, 2_000_000])
def test_a_program_under_a_limit_of_its_address_space_meets_it(
    limit_kb: int, python: Interpreter, blocks: Path, tmp_path: Path
) -> None:
    program = f"ulimit -v {limit_kb}; exec {python.path} {target('harm')} {blocks} until_it_fails"
    done = record(tmp_path / "t.parquet", ["sh", "-c", program])
    assert done.status == 0, done.stderr.decode()
    assert done.facts == {"some": True, "errno": 12}


def test_handlers_that_interrupt_mappings_and_copies_may_allocate(
    python: Interpreter, blocks: Path, tmp_path: Path
) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "in_signal_handlers", python)
    assert done.facts["handled"] >= 2000
    found = seen(done.trace, 43_019, 43_037, 86_069)
    assert found[43_019, False] > 0.9 * done.facts["handled"]
    assert not any(alive for _, alive in found), "what a handler freed is not alive"


def test_handlers_of_python_may_allocate(python: Interpreter, blocks: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "in_python_handlers", python)
    assert done.facts["made"] >= 40
    assert sum(seen(done.trace, 43_084).values()) == done.facts["made"]


@pytest.mark.parametrize("options", [EXACT, []], ids=["exact", "default"])
def test_allocations_after_the_end_of_the_interpreter_do_no_harm(
    options: list[str], python: Interpreter, blocks: Path, tmp_path: Path
) -> None:
    program = [target("harm"), blocks, "at_exit"]
    done = record(tmp_path / "t.parquet", program, python, options)
    alone = bare(program, python)
    assert (done.status, done.stdout, done.stderr) == (alone.status, alone.stdout, alone.stderr)
    assert alone.stdout == b"5\nfinalized\ndestroyed\n"
    if options:
        assert seen(done.trace, 333_356) == {(333_356, False): 5}


def test_a_vfork_child_allocates_in_the_memory_of_its_parent(python: Interpreter, blocks: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", blocks, "in_a_vfork_child", python)
    assert done.facts == {"status": 7}
    assert seen(done.trace, 654_323) == {(654_323, True): 1, (654_323, False): 1}


def test_an_interpreter_inside_a_program_may_end_and_start_again(python: Interpreter, tmp_path: Path) -> None:
    program = embedding(tmp_path, "embedded.c", python)
    done = record(tmp_path / "t.parquet", program, options=EXACT)
    assert (done.status, done.stdout) == (0, b"5\n5\nended\n"), done.stderr.decode()
    assert seen(done.trace, 1_700_021, 1_700_023) == {(1_700_021, True): 2, (1_700_023, False): 2}
    assert sum(seen(done.trace, 3_000_050).values()) == 10


def test_only_what_an_end_of_the_interpreter_frees_is_called_alive_until_then(
    python: Interpreter, tmp_path: Path
) -> None:
    done = record(tmp_path / "t.parquet", embedding(tmp_path, "embedded_lives.c", python), options=EXACT)
    assert (done.status, done.stdout, done.stderr) == (0, b"life\n" * 3, b"")
    found = Counter((row["size_bytes"], row["at_exit"]) for row in rows(done.trace, "alloc"))
    freed, kept = 3_000_050, 3_100_050
    assert {key: n for key, n in found.items() if key[0] in (freed, kept)} == {(freed, False): 30, (kept, True): 15}


@pytest.mark.parametrize("when", ["early", "late", "again"])
def test_functions_of_the_allocators_are_called_without_a_context(
    when: str, any_python: Interpreter, tmp_path: Path
) -> None:
    program = [*embedding(tmp_path, "direct_allocators.c", any_python), when]
    done = record(tmp_path / "t.parquet", program, options=EXACT)
    assert (done.status, done.stdout, done.stderr) == (0, b"0 wrong\n", b"")
    made = seen(done.trace, 403, 433, 467, 3001)  # the interpreter itself has a few blocks of these sizes
    assert all(1000 <= made[size, False] < 1020 for size in (403, 433, 467, 3001)), made


SIZES = ("--alloc-interval", "--copy-threshold", "--memory-threshold")
NONSENSE = [(option, value) for option in SIZES for value in ("-1", "5 bananas", "nan", "900000TB", "0")]


@pytest.mark.parametrize(("option", "value"), [each for each in NONSENSE if each != ("--alloc-interval", "0")])
def test_a_size_that_makes_no_sense_is_refused_by_name(option: str, value: str, tmp_path: Path) -> None:
    done = run([*tool("scalene-record"), "-o", tmp_path / "t.parquet", f"{option}={value}", "-c", "pass"])
    assert done.status == 125
    assert option in done.stderr.decode() and value in done.stderr.decode() and b"Traceback" not in done.stderr
    assert not (tmp_path / "t.parquet").exists()
