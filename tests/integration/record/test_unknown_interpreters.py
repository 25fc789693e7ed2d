"""Interpreters whose layout is unknown: no figure is a guess, and the report says why."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter, interpreters
from tests.support.recording import analyze, losses, record, report

COOKIE = b"xdebugpy"
#: Half in a builtin, half in Python code.
PROGRAM = """
import time
def builtin():
    end = time.process_time() + 0.4
    while time.process_time() < end: sorted(numbers)
def python():
    end = time.process_time() + 0.4
    while time.process_time() < end:
        for number in range(2000): number * number + 1
numbers = [n * 7919 % 10007 for n in range(20000)]
builtin()
python()
print("done")
"""


def table_at(data: bytearray, python: Interpreter) -> int:
    """Where the table of offsets lies: behind the cookie follows the version, unlike in code that knows the cookie."""
    major, minor, patch = python.version
    return data.index(COOKIE + struct.pack("<Q", major << 24 | minor << 16 | patch << 8 | 0xF0))


def of_the_future(data: bytearray, python: Interpreter) -> None:
    """A version that does not exist yet, with the offsets of this one."""
    at = table_at(data, python)
    text = f"{python.full_name}\0".encode()
    assert text in data
    data[:] = data.replace(text, text.replace(f"{python.name}.".encode(), b"3.16."))
    struct.pack_into("<Q", data, at + 8, 0x031000F0)


def nonsense(data: bytearray, python: Interpreter) -> None:
    """Offsets that look as if they were some, but are of other fields."""
    at = table_at(data, python)
    for number, position in enumerate(range(at + 24, at + 1024, 8)):
        struct.pack_into("<Q", data, position, number * 24 % 176)


def huge(data: bytearray, python: Interpreter) -> None:
    """Offsets that lead out of every structure."""
    at = table_at(data, python)
    for position in range(at + 24, at + 1024, 8):
        struct.pack_into("<Q", data, position, 0xFFFFFFFFFFFFFF00)


@pytest.mark.parametrize("change", [of_the_future, nonsense, huge])
def test_time_of_an_unknown_layout_is_unclassified(
    change: Callable[[bytearray, Interpreter], None], tmp_path: Path
) -> None:
    unpacked = [each for each in interpreters() if each.version >= (3, 14) and not each.can_be_embedded]
    if not unpacked:
        pytest.skip("no interpreter that publishes its offsets is a file of its own")
    python = unpacked[-1]
    data = bytearray(python.path.resolve().read_bytes())
    change(data, python)
    copy = tmp_path / "bin" / "python"
    copy.parent.mkdir()
    copy.write_bytes(data)
    shutil.copymode(python.path.resolve(), copy)
    (tmp_path / "pyvenv.cfg").write_text(f"home = {python.path.resolve().parent}\n")
    changed = Interpreter(copy, python.version)
    done = record(tmp_path / "t.parquet", ["-c", PROGRAM], changed, ["--cpu-interval", "1ms"])
    assert (done.status, done.stdout) == (0, b"done\n"), done.stderr
    found = report(done.trace)
    totals = found["totals"]
    assert losses(found)["unknown_python"] == 1
    assert totals["unclassified_s"] > 0.3, totals
    assert 0.1 < totals["python_s"] < totals["cpu_s"] - totals["unclassified_s"], "the bytecode loop itself is Python's"
    assert totals["native_s"] < 0.2 * totals["cpu_s"], totals
    said = [each["text"] for each in found["findings"] if each["kind"] == "package"]
    assert all("without a Python stack" in each for each in said), said
    text = analyze(done.trace).stdout.decode()
    assert "unclassified " in text
    assert "outside Python code" not in text
    parts = sum(totals[name] for name in ("python_s", "native_s", "unclassified_s", "system_s"))
    assert parts == pytest.approx(totals["cpu_s"], abs=1e-6)
