"""Functions without symbols are named by the method tables of their file, in whatever way it was linked."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scalene_trace.recorder.convert.native import symbols
from scalene_trace.recorder.convert.native.addresses import Image
from scalene_trace.recorder.convert.native.elf import HEADER, MAGIC, SEGMENT, ElfFile
from scalene_trace.recorder.convert.native.methods import method_names, method_tables
from scalene_trace.recorder.convert.native.symbols import read_symbols
from scalene_trace.recorder.convert.native.tables import FunctionTables
from tests.support import native

KINDS = {
    "library": ["-shared", "-fPIC"],
    "library with packed relocations": ["-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"],
    "program that can be loaded anywhere": ["-pie", "-fPIE"],
    "program at a fixed address": ["-no-pie"],
}


def built(folder: Path, options: list[str]) -> tuple[Path, dict[str, int]]:
    """A stripped file, and the addresses of its functions."""
    whole = native.build(folder, "methods.c", *options)
    listed = subprocess.run(["nm", whole], check=True, capture_output=True, text=True).stdout
    functions = {row.split()[2]: int(row.split()[0], 16) for row in listed.splitlines() if len(row.split()) == 3}
    subprocess.run(["strip", whole], check=True)
    return whole, functions


def names(path: Path, addresses: list[int]) -> dict[int, str]:
    images = {1: Image(str(path), frozenset(), 2**62)}
    table = read_symbols(images, {1: np.unique(np.array(addresses, np.int64))}, "/").table
    assert all(end == start + 1 for start, end in zip(table["start_offset"], table["end_offset"], strict=True))
    return dict(zip(table["start_offset"], table["name"], strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_a_stripped_file_have_the_names_of_their_methods(tmp_path, kind):
    path, functions = built(tmp_path, KINDS[kind])
    wanted = [functions[name] for name in ("first", "second", "no_identifier", "no_flags", "no_name")]
    found = names(path, [*wanted, functions["first"] + 1])
    assert found == {functions["first"]: "first_method", functions["second"]: "second_method"}


@pytest.mark.parametrize("error", [OSError, ValueError("out of time")])
def test_a_name_that_could_not_be_read_is_asked_for_again(tmp_path, monkeypatch, error):
    path, functions = built(tmp_path, KINDS["library"])
    images = {1: Image(str(path), frozenset(), 2**62)}
    addresses, tables = {1: np.unique(np.array(list(functions.values()), np.int64))}, FunctionTables()

    def failing(*arguments):
        raise error

    with monkeypatch.context() as without:
        without.setattr(symbols, "method_names", failing)
        assert read_symbols(images, addresses, "/", tables=tables).table["name"] == ["main"]
    found = read_symbols(images, addresses, "/", tables=tables)
    assert sorted(found.table["name"]) == ["first_method", "main", "second_method"]
    monkeypatch.setattr(symbols, "method_names", failing)
    assert read_symbols(images, addresses, "/", tables=tables).table == found.table, "answers are kept"


@pytest.mark.parametrize("seed", range(4))
def test_addresses_that_are_asked_for_in_parts_have_the_same_functions(tmp_path, seed):
    draw = random.Random(seed)
    path = Path(np._core._multiarray_umath.__file__)
    with ElfFile(os.open(path, os.O_RDONLY), 2**62) as file:
        code = next(each for each in file.segments() if each["type"] == 1 and each["flags"] & 1)
    start, end = int(code["vaddr"]), int(code["vaddr"] + code["memsz"])
    images, tables = {1: Image(str(path), frozenset(), 2**62)}, FunctionTables(draw.choice((0, 1 << 24)))
    addresses = np.unique(np.array([draw.randrange(start, end) for _ in range(2_000)], np.int64))
    whole = read_symbols(images, {1: addresses}, "/").table
    assert len(whole["name"]) > 500
    known = np.empty(0, np.int64)
    while len(known) < len(addresses):
        known = np.union1d(known, draw.choices(addresses.tolist(), k=draw.choice((1, 30, 800))))
        known = addresses if len(known) > 1_500 else known
        found = read_symbols(images, {1: known}, "/", tables=tables).table
    assert found == whole


def test_a_malicious_table_is_not_searched(tmp_path):
    """Every word is the function, and its name is nowhere. The file counts as read, without that name."""
    segments, words = 2_000, 100_000
    header, table = np.zeros(1, HEADER), np.zeros(segments, SEGMENT)
    for name, value in {"magic": MAGIC, "class": 2, "data": 1, "phoff": 64, "phnum": segments}.items():
        header[name] = value
    start = 64 + table.nbytes
    table["type"], table["flags"], table["vaddr"] = 1, 7, 1 << 40
    table[0] = (1, 7, start, 0x10000, 0, 8 * words, 8 * words, 8)
    data = np.tile(np.array([0x10000, 1], "<u8"), words // 2)
    path = tmp_path / "x.so"
    path.write_bytes(header.tobytes() + table.tobytes() + data.tobytes())
    with ElfFile(os.open(path, os.O_RDONLY), 2**62) as file, pytest.raises(ValueError, match="too many places"):
        method_names(file, method_tables(file), np.array([0x10000], np.uint64))
    found = read_symbols({1: Image(str(path), frozenset(), 2**62)}, {1: np.array([0x10000])}, "/")
    assert found.table["name"] == [] and found.unread == 0
