"""Our unwinding of native stacks finds the frames that libgcc finds. The long form is tests/long/unwinding.py."""

from __future__ import annotations

import pytest

from tests.long.unwinding import commands, compare, compiled
from tests.support.recording import Json

STACKS = 400
#: Programs with code of the standard library, of an extension, of assembly, and of C++.
PROGRAMS = ["numpy", "ssl", "sort", "threads", "c++"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, Json]]:
    """Interpreter, program and result of each run."""
    folder = tmp_path_factory.mktemp("unwinding")
    preloaded = compiled(folder)
    return [
        (version, name, compare(preloaded, command, STACKS, folder / f"{version}-{name}.json"))
        for version, name, command in commands(folder, STACKS, PROGRAMS)
    ]


def test_no_stack_is_silently_wrong(found: list[tuple[str, str, Json]]) -> None:
    assert found
    for version, name, result in found:
        assert result["stacks"] >= STACKS and result["frames"] > 4 * STACKS, (version, name)
        assert result["outcomes"]["wrong"] == 0, (version, name, result["examples"][:3])


def test_nearly_all_stacks_are_complete(found: list[tuple[str, str, Json]]) -> None:
    """About one in 20,000 is incomplete; with one in 2,000, more than 8 of 400 would be so once in 10^11 runs."""
    for version, name, result in found:
        incomplete = sum(result["outcomes"][kind] for kind in ("incomplete_lost", "incomplete_gap"))
        assert incomplete <= 8, (version, name, result["examples"][:3])


def test_the_bytecode_loop_and_the_outermost_frame_end_stacks(found: list[tuple[str, str, Json]]) -> None:
    """A stack may end earlier while a C++ exception is thrown, as above, and in code without tables that has moved the
    stack pointer far away, where libgcc ends too: some kernels of OpenBLAS, which it chooses by the processor."""
    for version, name, result in found:
        loop, outermost, full, lost = result["ends"]
        without_tables = result["outcomes"]["equal_reference_ends_early"]
        assert lost <= 8 + without_tables and without_tables < STACKS / 5, (version, name)
        assert outermost + full > STACKS / 3, (version, name)
        assert name == "c++" or loop > STACKS / 10, (version, name)
