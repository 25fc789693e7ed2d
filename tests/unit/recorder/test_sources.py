"""Source files inside zip archives: zipapps and eggs. Their contents are the program's choice."""

from __future__ import annotations

import random
import struct
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from scalene_trace.recorder.convert import sources
from scalene_trace.recorder.convert.sources import LARGEST_BYTES, Sources, read_sources
from scalene_trace.recorder.rights.opening import Withheld, open_regular_file
from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder


def read(*files: Path) -> Sources:
    return read_sources([str(file) for file in files], set(), "/", 1 << 62, None)


def archive(folder: Path, contents: dict[str, bytes], name: str = "app.pyz") -> Path:
    path = folder / name
    with path.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")  # zipapps begin with a line for the shell
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            for member, data in contents.items():
                made.writestr(member, data)
    return path


def test_modules_in_an_archive_are_read_by_their_own_encoding(tmp_path: Path) -> None:
    latin = "# coding: latin-1\r\nname = 'é'\r\n".encode("latin-1")
    app = archive(tmp_path, {"__main__.py": b"import pack.a\n", "pack/a.py": latin})
    found = read(app / "__main__.py", app / "pack" / "a.py", app / "pack" / "gone.py", tmp_path / "gone.pyz" / "a.py")
    assert found.table["file"] == [str(app / "__main__.py"), str(app / "pack" / "a.py")]
    assert found.table["text"] == ["import pack.a\n", "# coding: latin-1\nname = 'é'\n"]
    assert found.table["changed"] == [False, False] and found.unread == 0


def test_lines_end_with_a_newline_whatever_ends_them_in_the_file(tmp_path: Path) -> None:
    for name, data in {"a.py": b"a = 1\r\nb = 2\rc = 3\n\r\n\r", "b.py": b"\xef\xbb\xbfd = '\xc3\xa9'\r\n"}.items():
        (tmp_path / name).write_bytes(data)
    found = read(tmp_path / "a.py", tmp_path / "b.py")
    assert found.table["text"] == ["a = 1\nb = 2\nc = 3\n\n\n", "d = 'é'\n"]


def test_a_member_that_unpacks_to_more_than_a_source_file_is_not_read(tmp_path: Path) -> None:
    app = archive(tmp_path, {"a.py": b"#" * (LARGEST_BYTES + 1), "b.py": b"#" * LARGEST_BYTES})
    found = read(app / "a.py", app / "b.py")
    assert found.table["file"] == [str(app / "b.py")] and found.unread == 1


def test_an_archive_is_opened_once_and_a_large_one_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, opened = archive(tmp_path, {f"m{i}.py": b"x = 1\n" for i in range(20)}), []

    def counting(path: Path) -> int:
        if path == app:
            opened.append(path)
        return open_regular_file(path)

    files = [str(app / f"m{i}.py") for i in range(20)]
    assert len(read_sources(files, set(), "/", 0, None, counting).table["file"]) == 20 and len(opened) == 1
    monkeypatch.setattr(sources, "LARGEST_ARCHIVE_BYTES", 100)
    found = read_sources(files, set(), "/", 0, None, counting)
    assert found.unread == 20 and len(opened) == 2


def test_an_archive_that_may_not_be_opened_is_withheld(tmp_path: Path) -> None:
    app = archive(tmp_path, {"a.py": b"x = 1\n"})

    def withholding(path: Path) -> int:
        if path == app:
            raise Withheld
        return open_regular_file(path)

    assert read_sources([str(app / "a.py")], set(), "/", 0, None, withholding).withheld == 1


def test_damaged_archives_are_unread_or_read(tmp_path: Path) -> None:
    counts = Counter(damaged(tmp_path, random.Random(seed)) for seed in range(300))
    assert counts["unread"] > 50 and counts["read"] > 50


def damaged(folder: Path, drawn: random.Random) -> str:
    """Was a file of an archive read in which some bytes were changed and the end may be missing?"""
    app = archive(folder, {"a.py": b"x = 1\n" * 50, "b.py": b"y = 2\n"})
    data = bytearray(app.read_bytes())
    for _ in range(drawn.randint(1, 3)):
        if drawn.random() < 0.5:
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        else:
            at = drawn.randrange(len(data) - 4)
            data[at : at + 4] = struct.pack("<I", drawn.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, drawn.getrandbits(32)]))
    app.write_bytes(data[: len(data) - drawn.choice([0, 0, 0, 1, 30])])
    found = read(app / "a.py")
    return "read" if found.table["file"] else "unread" if found.unread else "gone"


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        ([("python", "-c", "x = 1\n")], "x = 1\n"),
        ([("python", "-c", "x = 1\n")] * 2, "x = 1\n"),
        ([("python", "-c", "x = 1\n"), ("python", "-c", "y = 2\n")], None),
        ([("python", "app.py"), ("python", "-c", "x = 1\n")], None),
        ([("python", "-c", "import sys;exec(eval(sys.stdin.readline()))")], None),
    ],
)
def test_the_code_of_c_is_the_source_if_nothing_else_runs(
    tmp_path: Path, commands: list[tuple[str, ...]], text: str | None
) -> None:
    builder = SpoolBuilder()
    for process, command in enumerate(commands, 1):
        builder.start(process, command, cause=C["CAUSE_SPAWN"])
    builder.code(1, file="<string>").add("node", hash=1, parent=0, code=1)
    builder.add("wait", thread=3, t_ns=START_MONO_NS, end_ns=START_MONO_NS + 9, waited_ns=9, stack=1, process=1)
    found = rows(tables_of(builder, tmp_path)["source"])
    assert [row["text"] for row in found] == [text] * (text is not None)
