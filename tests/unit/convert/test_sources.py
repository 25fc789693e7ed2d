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
    return read_sources([str(file) for file in files], set(), "/", 1 << 62, {})


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


def test_a_file_with_the_name_of_code_that_no_file_holds_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("secret")
    file = str(tmp_path / "a.py")
    found = read_sources([file], set(), "/", 0, {file: None})
    assert (found.table["text"], found.unread) == ([], 1)
    assert read_sources([file], set(), "/", 0, {file: "told"}).table["text"] == ["told"]


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
    assert len(read_sources(files, set(), "/", 0, {}, counting).table["file"]) == 20 and len(opened) == 1
    monkeypatch.setattr(sources, "LARGEST_ARCHIVE_BYTES", 100)
    found = read_sources(files, set(), "/", 0, {}, counting)
    assert found.unread == 20 and len(opened) == 2


def test_an_archive_that_may_not_be_opened_is_withheld(tmp_path: Path) -> None:
    app = archive(tmp_path, {"a.py": b"x = 1\n"})

    def withholding(path: Path) -> int:
        if path == app:
            raise Withheld
        return open_regular_file(path)

    assert read_sources([str(app / "a.py")], set(), "/", 0, {}, withholding).withheld == 1


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


def test_the_code_of_c_is_the_source_of_its_file(tmp_path: Path) -> None:
    """Only the process that runs it has written a code object of that name."""
    for writer, text in ((1, None), (2, "x = 1\n")):
        builder = SpoolBuilder().start(1, ("python", "app.py")).start(2, ("python", "-c", "x = 1\n"), cause=SPAWN)
        with_code(builder, 1, writer)
        assert texts(builder, tmp_path) == ({"<string>": text} if text else {})


def test_workers_of_libraries_have_no_source(tmp_path: Path) -> None:
    builder = SpoolBuilder().start(1, ("python", "-c", "import sys;exec(eval(sys.stdin.readline()))"))
    assert texts(with_code(builder, 1, 1), tmp_path) == {}


def test_programs_of_several_c_have_files_and_sources_of_their_own(tmp_path: Path) -> None:
    builder = SpoolBuilder()
    programs = ["x = 1\n", "\n  y = 2\nz = 3", "open('/a')", "open('/b')", "w = '" + 50 * "w" + "'"]
    for process, program in enumerate(programs, 1):
        builder.start(process, ("python", "-c", program), cause=SPAWN)
        with_code(builder, process, process)
    builder.start(6, ("python", "-c", programs[0]), cause=SPAWN)  # runs the same as process 1
    builder.code(1, process=6, file="<string>")
    builder.code(3, process=C["PROCESS_WATCHER"], file="<string>", first_line=3)
    builder.start(7, ("python", "-c", "forgotten"), cause=FORK, parent=2)  # a forked process runs its parent's
    with_code(builder, 7, 7)
    assert texts(builder, tmp_path) == {
        "<string> -c 'x = 1'": programs[0],
        "<string> -c 'y = 2…'": programs[1],
        "<string> -c 'open('…'": programs[2],
        "<string> -c 'open('…' (2)": programs[3],
        f"<string> -c 'w = '{35 * 'w'}…'": programs[4],
    }
    files = {row["id"]: row["file"] for row in rows(tables_of(builder, tmp_path)["location"])}
    assert sorted(files.values()) == sorted([*texts(builder, tmp_path), "<string> -c 'y = 2…'"])


def test_the_recorded_program_keeps_its_name_and_so_does_what_programs_share(tmp_path: Path) -> None:
    builder = SpoolBuilder().start(1, ("python", "-c", "own = 1")).start(2, ("python", "-c", "x = 1"), cause=SPAWN)
    builder.start(3, ("python", "app.py"), cause=SPAWN)
    for number, process in enumerate((1, 2, 3), 1):
        with_code(builder, number, process)
    with_code(builder, 4, 1)
    builder.code(4, process=2, file="<string>")
    found = rows(tables_of(builder, tmp_path, command_code="own = 1")["location"])
    assert [row["file"] for row in found] == ["<string>", "<string> -c 'x = 1'", "<string>", "<string>"]
    expected = {"<string>": "own = 1", "<string> -c 'x = 1'": "x = 1"}
    assert texts(builder, tmp_path, command_code="own = 1") == expected


@pytest.mark.parametrize("runner", ["<frozen runpy>", "lib/python3.10/runpy.py"])
def test_the_source_of_an_installed_program_is_stored(tmp_path: Path, runner: str) -> None:
    """That of a module which is only on the way to the innermost frame is not."""
    library = tmp_path / "lib" / "python3.11"
    (library / "json").mkdir(parents=True)
    for name in ("tool.py", "outer.py", "inner.py"):
        (library / "json" / name).write_text(f"# {name}\n")
    builder = SpoolBuilder()
    frames = [(runner, "_run_code"), ("tool.py", "<module>"), ("outer.py", "<module>"), ("inner.py", "dump")]
    for number, (file, name) in enumerate(frames, 1):
        path = file if file == runner else str(library / "json" / file)
        builder.code(number, file=path, name=name).add("node", hash=number, parent=number - 1, code=number)
    builder.add("wait", thread=3, t_ns=START_MONO_NS, end_ns=START_MONO_NS + 9, waited_ns=9, stack=4, process=1)
    assert sorted(texts(builder, tmp_path).values()) == ["# inner.py\n", "# tool.py\n"]


SPAWN, FORK = C["CAUSE_SPAWN"], C["CAUSE_FORK"]


def with_code(builder: SpoolBuilder, number: int, process: int) -> SpoolBuilder:
    """A sample of the program in a process, whose code object has this number and first line."""
    builder.code(number, process=process, file="<string>", first_line=number)
    builder.add("node", process=process, hash=number, parent=0, code=number)
    begin_ns = START_MONO_NS + number
    return builder.add("wait", process=process, thread=3, t_ns=begin_ns, end_ns=begin_ns + 9, waited_ns=9, stack=number)


def texts(builder: SpoolBuilder, tmp_path: Path, **facts: str) -> dict[str, str]:
    return {row["file"]: row["text"] for row in rows(tables_of(builder, tmp_path, **facts)["source"])}
