"""Functions from the symbol tables of ELF files: compared with nm, and read from damaged files."""

from __future__ import annotations

import lzma
import os
import random
import shutil
import subprocess
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.formats.trace.columns import Masked
from scalene_trace.recorder.convert.native import elf as elf_file
from scalene_trace.recorder.convert.native import symbols, tables
from scalene_trace.recorder.convert.native.addresses import Image, ModuleIds, Segment
from scalene_trace.recorder.convert.native.symbols import Symbols, distinct_offsets, read_symbols
from tests.support import native

LATE = 2**62
FUNCTION, GLOBAL_FUNCTION, WEAK_FUNCTION, OBJECT = 2, 1 << 4 | 2, 2 << 4 | 2, 1
CODE = (0x1000, 0x100000)


def elf(path: Path, found: Sequence[tuple[str, int, int, int]], kind: int = 2) -> Path:
    """An ELF file with these symbols (name, value, size, info) in a section of type ``kind``, and code at CODE."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in found)
    table = np.zeros(len(found), tables.SYMBOL)
    ends = np.cumsum([0, *(len(name.encode()) + 1 for name, *_ in found)])
    table["name"], table["shndx"] = 1 + ends[:-1], 7
    table["value"], table["size"] = [row[1] for row in found], [row[2] for row in found]
    table["info"] = [row[3] for row in found]
    return write_elf(path, table, names, kind)


def write_elf(path: Path, table: np.ndarray[Any, Any], names: bytes, kind: int = 2) -> Path:
    header, segment = np.zeros(1, elf_file.HEADER), np.zeros(1, elf_file.SEGMENT)
    sections, start = np.zeros(3, symbols._SECTION), 64 + 56 + 3 * 64
    fields = {"magic": elf_file.MAGIC, "class": 2, "data": 1, "phoff": 64, "phnum": 1, "shoff": 120, "shnum": 3}
    for name, value in fields.items():
        header[name] = value
    for name, value in {"type": 1, "flags": 5, "vaddr": CODE[0], "memsz": CODE[1] - CODE[0]}.items():
        segment[name] = value
    for row, values in ((1, (kind, start, table.nbytes, 24, 2)), (2, (3, start + table.nbytes, len(names), 0, 0))):
        for name, value in zip(("type", "offset", "size", "entsize", "link"), values, strict=True):
            sections[name][row] = value
    path.write_bytes(header.tobytes() + segment.tobytes() + sections.tobytes() + table.tobytes() + names)
    return path


def resolved(path: Path, addresses: Sequence[int], limit_s: float = 5.0, **changes: Any) -> Symbols:
    """What is found in ``path`` for these addresses."""
    known = {"ranges": frozenset({CODE}), "loaded_ns": LATE} | changes
    offsets = np.unique(np.array(addresses, np.int64))
    return read_symbols({1: Image(str(path), **known)}, {1: offsets}, "/", limit_s)


def names(found: Symbols) -> list[tuple[int, int, str]]:
    table = found.table
    return list(zip(table["start_offset"], table["end_offset"], table["name"], strict=True))


def code_of(path: Path) -> frozenset[tuple[int, int]]:
    """The executable segments, by readelf."""
    said = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines() if line.strip().startswith("LOAD") and " E " in line]
    return frozenset((int(row[2], 16), int(row[2], 16) + int(row[5], 16)) for row in rows)


@pytest.mark.skipif(not shutil.which("nm"), reason="binutils are needed to compare with")
def test_first_and_last_byte_of_each_function_are_where_nm_has_them(tmp_path: Path) -> None:
    path = native.library(tmp_path, "pool.c")
    for options in ([], ["-D"]):
        said = subprocess.run(["nm", "-S", *options, path], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in said.splitlines()]
        functions = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}
        assert {"grind", "pool_run"} <= set(functions)
        if options:
            subprocess.run(["strip", path], check=True)
        for name, (start, size) in functions.items():
            found = resolved(path, [start, start + size - 1], ranges=code_of(path))
            assert names(found) == [(start, start + size, name)]
            assert all(
                name not in row for row in names(resolved(path, [start - 1, start + size], ranges=code_of(path)))
            )


def stripped_with_debugdata(folder: Path) -> tuple[Path, dict[str, tuple[int, int]]]:
    """A stripped library with .gnu_debugdata, as Fedora's are made, and its functions."""
    path, symbols, packed = native.library(folder, "pool.c"), folder / "symbols", folder / "symbols.xz"
    said = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()]
    functions = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}
    subprocess.run(["objcopy", "--only-keep-debug", path, symbols], check=True)
    packed.write_bytes(lzma.compress(symbols.read_bytes()))
    subprocess.run(["strip", path], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", path], check=True)
    return path, functions


def test_functions_that_are_not_exported_are_named_by_compressed_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)  # as in a Python that was built with an old glibc
    path, functions = stripped_with_debugdata(tmp_path)
    said = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    hidden = {name for name in functions if f" {name}\n" not in said}
    assert hidden and len(hidden) < len(functions)
    starts = [start for start, _ in functions.values()]
    ends = [start + size - 1 for start, size in functions.values()]
    found = names(resolved(path, [*starts, *ends], ranges=code_of(path)))
    assert found == sorted((start, start + size, name) for name, (start, size) in functions.items())


@pytest.mark.parametrize(
    "packed",
    [
        lambda: b"",
        lambda: b"no xz",
        lambda: lzma.compress(b"no ELF"),
        lambda: lzma.compress(bytes(65 << 20), preset=0)[:-1],
    ],
    ids=["nothing", "no xz", "no ELF", "too much"],
)
def test_compressed_symbols_that_cannot_be_read_take_no_names_away(tmp_path: Path, packed: Callable[[], bytes]) -> None:
    path, functions = stripped_with_debugdata(tmp_path)
    (tmp_path / "bad").write_bytes(packed())
    section = f".gnu_debugdata={tmp_path / 'bad'}"
    subprocess.run(["objcopy", "--update-section", section, path], check=True)
    found = resolved(path, [start for start, _ in functions.values()], ranges=code_of(path))
    assert "grind" in {name for _, _, name in names(found)} and not found.unread


def test_the_innermost_function_and_the_global_name_are_taken(tmp_path: Path) -> None:
    path = elf(
        tmp_path / "x.so",
        [
            ("outer", 0x2000, 0x100, FUNCTION),
            ("data", 0x2000, 0x100, OBJECT),
            ("inner", 0x2010, 0x10, FUNCTION),
            ("inner_weak@@V_1", 0x2010, 0x10, WEAK_FUNCTION),
            ("inner_global@@V_1", 0x2010, 0x10, GLOBAL_FUNCTION),
            ("empty", 0x2050, 0, FUNCTION),
            ("wraps", 0x3000, 2**64 - 1, FUNCTION),
        ],
    )
    found = names(resolved(path, [0x1FFF, 0x2000, 0x200F, 0x2010, 0x201F, 0x2020, 0x2050, 0x2100, 0x3000]))
    assert found == [(0x2000, 0x2010, "outer"), (0x2010, 0x2020, "inner_global"), (0x2020, 0x2051, "outer")]


def test_dynamic_symbols_serve_where_there_are_no_others(tmp_path: Path) -> None:
    path = elf(tmp_path / "x.so", [("f", 0x2000, 8, FUNCTION)], kind=11)
    assert names(resolved(path, [0x2004])) == [(0x2004, 0x2005, "f")]
    path = elf(tmp_path / "y.so", [("f", 0x2000, 8, FUNCTION)], kind=5)
    found = resolved(path, [0x2004])
    assert (names(found), found.unread, found.changed) == ([], 0, 0)


def test_a_file_that_changed_names_nothing(tmp_path: Path) -> None:
    path = elf(tmp_path / "x.so", [("f", 0x2000, 8, FUNCTION)])
    modified_ns = path.stat().st_mtime_ns
    assert resolved(path, [0x2000], loaded_ns=modified_ns - 1).changed == 1
    assert resolved(path, [0x2000], ranges=frozenset({(0x1000, 0x2000)})).changed == 1
    assert names(resolved(path, [0x2000], loaded_ns=path.stat().st_ctime_ns)) == [(0x2000, 0x2001, "f")]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "empty").touch()
    for path in (
        *(tmp_path / each for each in ("fifo", "loop", "text", "empty", "none")),
        tmp_path,
        "/dev/zero",
        "/dev/tty",
    ):
        found = resolved(Path(path), [0x2000])
        assert (names(found), found.unread) == ([], 1), path


def test_the_kernels_own_image_is_neither_a_file_nor_a_loss() -> None:
    found = read_symbols({1: Image("linux-vdso.so.1", frozenset(), 0)}, {1: np.array([5])}, "/")
    assert (names(found), found.unread, found.changed) == ([], 0, 0)


def test_no_bytes_whatever_stop_the_recorder(tmp_path: Path) -> None:
    draw = random.Random(20_260_102)
    good = elf(tmp_path / "x.so", [(f"f{n}", 0x2000 + 16 * n, 16, FUNCTION) for n in range(40)]).read_bytes()
    path = tmp_path / "bad.so"
    for _ in range(400):
        data = bytearray(good)
        for _ in range(draw.randint(1, 6)):
            at, size = draw.randrange(len(data)), draw.choice((1, 2, 4, 8))
            data[at : at + size] = draw.choice((b"\xff" * 8, b"\x00" * 8, draw.randbytes(8), b"\x00" * 7 + b"\x7f"))[
                :size
            ]
        path.write_bytes(data[: draw.choice((len(data), draw.randrange(len(data))))])
        table = resolved(path, range(0x1FFC, 0x2300, 5)).table
        assert all(0 <= start < end for start, end in zip(table["start_offset"], table["end_offset"], strict=True))


def test_a_million_symbols_over_the_same_address_are_refused(tmp_path: Path) -> None:
    table = np.zeros(200_000, tables.SYMBOL)
    table["value"], table["size"], table["info"], table["shndx"] = 0x2000, 64, FUNCTION, 1
    assert resolved(write_elf(tmp_path / "x.so", table, b"\0f\0"), [0x2000]).unread == 1


def test_a_huge_library_is_read_in_pieces(tmp_path: Path) -> None:
    table = np.zeros(2_500_000, tables.SYMBOL)
    table["value"], table["size"] = 0x1000 + 16 * np.arange(len(table)), 16
    table["info"], table["shndx"], table["name"] = FUNCTION, 1, 1
    table["name"][-7] = 3
    path = write_elf(tmp_path / "x.so", table, b"\0f\0g\0")
    wanted = int(table["value"][-7]) + 3
    tracemalloc.start()
    found = resolved(path, [0x1000, wanted])
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [name for _, _, name in names(found)] == ["f", "g"]
    assert peak_bytes < 0.6 * path.stat().st_size


def test_when_time_is_over_files_stay_unread(tmp_path: Path) -> None:
    path = elf(tmp_path / "x.so", [("f", 0x2000, 8, FUNCTION)])
    assert resolved(path, [0x2000], limit_s=-1.0).unread == 1


def test_addresses_are_sorted_by_module_without_those_of_no_module_and_impossible_ones() -> None:
    modules = Masked(np.array([1, 1, 2, 3, 1]), np.array([False, False, True, False, False]))
    offsets = Masked(np.array([100, -5, 7, 9, 50]), np.array([False, False, True, False, False]))
    found = distinct_offsets(modules, offsets)
    assert {each: offsets.tolist() for each, offsets in found.items()} == {1: [50, 100], 3: [9]}


def test_an_image_knows_its_code_and_when_it_was_there() -> None:
    modules = ModuleIds()
    for start, t_ns in ((0x7000, 50), (0x9000, 40)):
        modules.id_of(Segment(start, start + 0x500, 0x6000, "/x.so", "extension", t_ns))
    image = modules.images(1_000)[1]
    assert image == Image("/x.so", frozenset({(0x1000, 0x1500), (0x3000, 0x3500)}), 1_040)
