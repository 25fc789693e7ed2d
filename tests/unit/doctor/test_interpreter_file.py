"""The version of an interpreter is read from its file, without starting it."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scalene_trace.recorder.host.interpreter_file import build_of
from tests.support.interpreters import Interpreter, interpreters


@pytest.mark.parametrize("python", interpreters(), ids=lambda each: each.name)
def test_the_version_is_that_of_the_interpreter(python: Interpreter) -> None:
    found = build_of(python.path)
    assert found and found.is_known and not found.is_free_threaded
    assert found.version >> 16 == python.version[0] << 8 | python.version[1]
    assert found.is_exact == (python.version >= (3, 11))
    if found.is_exact:
        assert found.text == f"CPython {python.full_name}"
    assert found.needs_reads == (python.version[:2] in ((3, 11), (3, 12)))


def test_what_is_no_interpreter_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "python3.12").write_text("#!/bin/sh\n")
    assert build_of(Path("/bin/sh")) is None and build_of(tmp_path / "python3.12") is None
    with pytest.raises(OSError, match="No such file"):
        build_of(tmp_path / "gone")


SOURCE = """
const unsigned long Py_Version = {version};
struct {{ char cookie[8]; unsigned long rest[200]; }} _PyRuntime = {{"{cookie}", {{{version}, {free_threaded}}}}};
int main(void) {{ return 0; }}
"""


def invented(folder: Path, name: str, version: int, cookie: str = "xdebugp", free_threaded: int = 0) -> Path:
    path = folder / name
    text = SOURCE.format(version=version, cookie=cookie, free_threaded=free_threaded)
    command = ["cc", "-x", "c", "-", "-rdynamic", "-o", str(path)]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    return path


def test_versions_that_no_layout_is_known_of_are_named(tmp_path: Path) -> None:
    for version, text in (
        (0x031000F0, "CPython 3.16.0"),
        (0x030E00F0, "CPython 3.14.0"),  # without a table of offsets
        (0x030D00B2, "CPython 3.13.0, before its release"),
    ):
        found = build_of(invented(tmp_path, "python", version))
        assert found and (found.text, found.is_known) == (text, False)
    free = build_of(invented(tmp_path, "python3.13t", 0x030D00F0))  # without a table of offsets
    assert free and (free.text, free.is_known) == ("CPython 3.13.0, free-threaded", False)
    for name, flag in (("python3.13t", 1), ("python", 1), ("python", 0)):
        free = build_of(invented(tmp_path, name, 0x030D00F0, "xdebugpy", flag))
        assert free and (free.is_free_threaded, free.is_known) == (bool(flag), True)
    assert build_of(invented(tmp_path, "python", 0x030C00F0)).is_known  # type: ignore[union-attr]


def test_damaged_files_are_no_interpreters(tmp_path: Path) -> None:
    drawn, counts = random.Random(1), Counter[bool]()
    path = invented(tmp_path, "python3.12", 0x030C01F0)
    data = path.read_bytes()
    sections = struct.unpack_from("<Q", data, 40)[0]
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(drawn.randint(0, 3)):
            at = drawn.choice(
                [drawn.randrange(64), sections + drawn.randrange(len(data) - sections), drawn.randrange(4096)]
            )
            changed[at] = drawn.choice([0, 1, 0x7F, 0x80, 0xFF])
        path.write_bytes(changed[: len(changed) - drawn.choice([0, 0, 0, 64, 5000])])
        counts[build_of(path) is None] += 1
    assert min(counts.values()) > 10, counts


def test_a_library_that_is_linked_says_the_version(tmp_path: Path) -> None:
    made = invented(tmp_path, "source", 0x030C01F0)
    library = tmp_path / "libpython3.12.so.1.0"
    text = SOURCE.format(version=0x030C01F0, cookie="", free_threaded=0)
    shared = ["cc", "-x", "c", "-", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library)]
    subprocess.run(shared, input=text, text=True, check=True, capture_output=True)
    user = "extern unsigned long Py_Version; int main(void) { return (int)Py_Version; }"
    linked = ["cc", "-x", "c", "-", "-o", str(made), "-Wl,-rpath,$ORIGIN", "-x", "none", str(library)]
    subprocess.run(linked, input=user, text=True, check=True, capture_output=True)
    found = build_of(made)
    assert found and found.text == "CPython 3.12.1"
    shutil.move(library, tmp_path / "elsewhere")
    assert build_of(made) is None
