"""Line tables and instruction tables against the interpreters themselves."""

from __future__ import annotations

import json
import re
import subprocess
import time

import numpy as np
import pytest

from scalene_trace.formats.cpython import generate_opcodes, linetable
from scalene_trace.formats.cpython.jumps import backward_targets
from scalene_trace.formats.cpython.linetable import NO_LINE, Encoded, line_table, line_tables
from scalene_trace.formats.cpython.opcodes import instruction_set, instruction_starts, starts_of_all
from tests.support.interpreters import interpreters
from tests.support.paths import ROOT

# Compiles a part of the standard library and prints, per code object: first line, table, lines by code unit, the starts of
# instructions that dis counts, and its jumps backwards with their targets.
ORACLE = r"""
import base64, dis, json, os, sys
def codes(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from codes(const)
library = os.path.dirname(os.__file__)
for name in ("argparse.py", "typing.py", "asyncio/base_events.py", "decimal.py", "_pydecimal.py", "dataclasses.py", "difflib.py",
             "test/test_grammar.py", "subprocess.py"):
    path = os.path.join(library, name)
    if not os.path.exists(path):
        continue
    for code in codes(compile(open(path, encoding="utf-8").read(), path, "exec")):
        lines = [0] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = line or 0
        starts = sorted({i.offset // 2 for i in dis.get_instructions(code)})
        jumps = {i.offset // 2: i.argval // 2 for i in dis.get_instructions(code)
                 if i.opcode in dis.hasjrel + dis.hasjabs and i.argval <= i.offset}
        print(json.dumps([code.co_firstlineno, base64.b64encode(code.co_linetable).decode(),
                          base64.b64encode(code.co_code).decode(), lines, starts, sorted(jumps.items())]))
"""

PATHS = {each.name: each.path for each in interpreters()}
EVERY = pytest.mark.parametrize("version", sorted(PATHS))


def version_hex(version: str) -> int:
    major, minor = version.split(".")
    return int(major) << 24 | int(minor) << 16


@pytest.fixture(scope="module")
def oracle():
    import base64

    answers = {}

    def ask(version):
        if version not in answers:
            out = subprocess.run([PATHS[version], "-I", "-c", ORACLE], check=True, capture_output=True).stdout
            rows = [json.loads(line) for line in out.splitlines()]
            answers[version] = [(f, base64.b64decode(t), base64.b64decode(c), *rest) for f, t, c, *rest in rows]
        return answers[version]

    return ask


@EVERY
def test_every_instruction_of_the_standard_library_finds_its_line(version, oracle):
    compared = 0
    for first_line, table, _, lines, *_ in oracle(version):
        decoded = line_table(version_hex(version), first_line, table)
        assert decoded.lines_of(np.arange(len(lines))).tolist() == lines
        compared += len(lines)
    assert compared > 20_000


def test_a_table_that_is_decoded_in_pieces_is_the_same(monkeypatch):
    # three units two lines on, a unit one line on with two columns, two units without a line, one 1,000 lines back
    entries = bytes([0x80 | 13 << 3 | 2, 4, 0x80 | 11 << 3, 5, 6, 0x80 | 15 << 3 | 1, 0x80 | 13 << 3, 0x51, 0x1F])
    encoded = [Encoded(0x030B00F0, first_line, entries * 90) for first_line in (100_000, 200_000)]
    whole = list(line_tables(encoded))
    assert whole[0].starts[:5].tolist() == [0, 3, 4, 6, 7] and whole[0].lines[:4].tolist() == [
        100_002,
        100_003,
        0,
        99_003,
    ]
    monkeypatch.setattr(linetable, "_MOST_BYTES", 100)
    for one, other in zip(whole, line_tables(encoded), strict=True):
        assert (one.starts.tolist(), one.lines.tolist()) == (other.starts.tolist(), other.lines.tolist())


@EVERY
def test_instruction_starts_are_those_that_dis_counts(version, oracle):
    instructions = instruction_set(version_hex(version))
    for _, _, bytecode, _, expected, _ in oracle(version):
        starts = instruction_starts(instructions, bytecode)
        assert sorted(set(starts.tolist())) == expected
        assert (starts <= range(len(starts))).all()


@EVERY
def test_instruction_starts_of_many_are_those_of_each(version, oracle):
    instructions = instruction_set(version_hex(version))
    bytecodes = [each[2] for each in oracle(version)]
    bytecodes[5:5] = [b"", bytecodes[0][:-1], b"\x01", bytecodes[1][:-2], b""]
    found = starts_of_all(instructions, bytecodes)
    for bytecode, starts in zip(bytecodes, found, strict=True):
        at, expected = 0, []
        while at < len(bytecode) // 2:
            units = instructions.units[bytecode[2 * at]]
            expected += [at] * min(units, len(bytecode) // 2 - at)
            at += units
        assert starts.tolist() == expected


@EVERY
def test_jumps_backwards_lead_where_dis_says(version, oracle):
    instructions, compared, without_line = instruction_set(version_hex(version)), 0, 0
    for _, _, bytecode, lines, starts, jumps in oracle(version):
        found = list(zip(starts, backward_targets(instructions, bytecode, starts), strict=True))
        names = {unit: instructions.names[bytecode[2 * unit]] for unit in starts}
        # 3.10: others have a condition, and therefore a line. 3.14: END_ASYNC_FOR names its loop, and does not jump there
        jumps = [each for each in jumps if names[each[0]] != "END_ASYNC_FOR"]
        wanted = [[unit, to] for unit, to in jumps if version != "3.10" or names[unit] == "JUMP_ABSOLUTE"]
        assert [[unit, to] for unit, to in found if to is not None] == wanted
        compared += len(wanted)
        without_line += sum(lines[unit] == NO_LINE and lines[to] > 0 for unit, to in wanted)
    assert compared > 200 and (without_line > 20 or version > "3.11")


def test_opcodes_of_halved_calls_are_those_of_311() -> None:
    """instruction.c has their numbers: on 3.11, what a PRECALL that calls a C function itself is specialized to."""
    source = (ROOT / "shim/watch/native/instruction.c").read_text()
    names = instruction_set(0x030B00F0).names  # type: ignore[union-attr]

    def numbers(array: str) -> set[int]:
        (found,) = re.findall(array + r"\[\] = \{([^}]*)\}", source)
        return {int(each) for each in found.split(",")}

    of_c = {n for n, name in enumerate(names) if re.match("PRECALL_(BUILTIN|METHOD_DESCRIPTOR|NO_KW)_", name)}
    assert numbers("precall_of_c") == of_c
    assert numbers("skipped_call") == {names.index("CALL"), names.index("CALL_ADAPTIVE")}


@pytest.mark.parametrize("unit", [-1, 0, 3, 4, 1 << 40])
def test_made_up_bytecode_has_no_target(unit):
    instructions = instruction_set(0x030B00F0)
    extended = bytes([144, 255] * 3 + [140, 255])  # EXTENDED_ARG three times, JUMP_BACKWARD
    assert list(backward_targets(instructions, extended, [unit])) == [None]
    assert list(backward_targets(instructions, b"", [unit])) == [None]


@EVERY
def test_the_instruction_table_is_current(version):
    stored = json.loads(generate_opcodes.DATA_PATH.read_text("utf-8"))
    assert stored[version] == generate_opcodes.ask(str(PATHS[version]))[version]


def test_the_instruction_table_is_written_in_its_own_format():
    text = generate_opcodes.DATA_PATH.read_text("utf-8")
    assert text == generate_opcodes.render(json.loads(text))


def test_an_instruction_before_the_first_run_is_on_the_first_line():
    assert line_table(0x030B00F0, 17, bytes([0x80 | 10 << 3, 0, 1])).lines_of(np.array([-1])).tolist() == [17]


def test_a_table_of_an_unknown_version_gives_the_first_line():
    assert line_table(0x03630000, 41, b"\x80\x00").lines_of(np.array([3])).tolist() == [41]
    assert instruction_set(0x03630000) is None


@pytest.mark.parametrize("version", [0x030A00F0, 0x030C00F0])
def test_a_damaged_line_table_is_read_as_far_as_it_goes(version):
    for table in (b"\x80", b"\xf0", b"\xf0\xff\xff", bytes(range(256)) * 3, b"\x00" * 9):
        decoded = line_table(version, 1, table)
        assert len(decoded.lines_of(np.arange(-1, 99))) == 100
    assert line_table(version, 1, b"\xff\x80\xff\x80").lines_of(np.array([0]))[0] in (NO_LINE, 1)


@pytest.mark.measures
@pytest.mark.parametrize(
    ("first", "rest"), [(b"", bytes([0x80 | 13 << 3, 2])), (b"\xf0", b"\x7e\x7e")], ids=["whole", "endless varint"]
)
def test_a_line_table_eight_times_as_long_takes_eight_times_as_long(first, rest):
    def seconds(count):
        start = time.process_time()
        decoded = line_table(0x030B00F0, 1, first + rest * count)
        assert decoded.lines[-1] == (NO_LINE if first else 1 + count)
        return time.process_time() - start

    assert min(seconds(1_600_000) for _ in range(3)) < 16 * min(seconds(200_000) for _ in range(3))


def test_specialised_instructions_are_as_long_as_their_base():
    for version in ("3.11", "3.12", "3.13"):
        instructions = instruction_set(version_hex(version))
        units = dict(zip(instructions.names, instructions.units, strict=True))
        assert units["CALL_PY_EXACT_ARGS"] == units["CALL"] > 1
        assert units["BINARY_OP_ADD_INT"] == units["BINARY_OP"] == 2
