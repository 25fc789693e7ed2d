"""A trace that another program cuts, or replaces, while a command reads it: a sentence, and never a crash (SIGBUS)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scalene_trace.cli.analyze.command import COMMANDS
from tests.support.paths import PATIENCE_S
from tests.support.trace_builder import write_large_trace

#: How many statements of DuckDB a command has made when the file changes.
STATEMENTS = (1, 4, 12, 40)

#: Runs a command in a process of its own. The file changes at the second piece of its checksum, or at a statement.
_DRIVER = """
import os, shutil, sys, types, zlib
import duckdb
from scalene_trace.cli.analyze.command import run
from scalene_trace.formats.trace import integrity

good, path, how, moments, *arguments = sys.argv[1:]

def change():
    if how == "replaced":
        shutil.copy(good, path + ".new")
        os.replace(path + ".new", path)
    else:
        os.truncate(path, 0 if how == "emptied" else os.path.getsize(path) // 2)

class Counting:
    def __init__(self, inner):
        self.inner = inner
    def count(self):
        global left
        left -= 1
        if left == 0:
            assert path not in open("/proc/self/maps").read(), "the trace is mapped"
            change()
    def execute(self, *values):
        self.count()
        return self.inner.execute(*values)
    def sql(self, *values):
        self.count()
        return self.inner.sql(*values)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.inner.close()
    def __getattr__(self, name):
        return getattr(self.inner, name)

def crc32(data, start=0):
    global pieces
    pieces -= 1
    if pieces == 0:
        change()
    return zlib.crc32(data, start)

connect = duckdb.connect
duckdb.connect = lambda *values, **options: Counting(connect(*values, **options))
integrity.zlib = types.SimpleNamespace(crc32=crc32)
for moment in moments.split(","):
    shutil.copy(good, path)
    pieces, left = (2, -1) if moment == "check" else (-1, int(moment))
    print("moment", moment, flush=True, file=sys.stderr)
    code = run([word.replace("TRACE", path) for word in arguments])
    sys.stdout.flush()
    print("code", code, "reached" if pieces <= 0 and left <= 0 else "ended before", flush=True, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of more than 1 MiB, a piece of the checksum."""
    return write_large_trace(tmp_path_factory.mktemp("good") / "t.parquet", ticks=40_000, allocations=20_000)


def ran(good: Path, folder: Path, how: str, moments: str, arguments: list[str]) -> list[tuple[str, str, str]]:
    """Of each moment: its name, "code N reached" (or "ended before"), and what was printed to stderr."""
    command = [sys.executable, "-c", _DRIVER, str(good), str(folder / "t.parquet"), how, moments, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-2000:]}"
    parts = [each.split("\n") for each in done.stderr.split("moment ")[1:]]
    return [(lines[0], lines[-2], "\n".join(lines[1:-2])) for lines in parts]


def arguments_of(command: str, folder: Path) -> list[str]:
    (folder / "budget.toml").write_text('[total]\ncpu = "1 s"\n')
    own = {
        "diff": ["TRACE", "TRACE"],
        "check": ["--budget", str(folder / "budget.toml"), "TRACE"],
        "sql": ["TRACE", "FROM lines"],
        "export": ["--format", "speedscope", "TRACE", "-o", str(folder / "out")],
        "html": ["TRACE", "-o", str(folder / "page.html"), "--force"],
    }
    return [command, *own.get(command, ["TRACE"])]


def assert_refused(found: list[tuple[str, str, str]]) -> None:
    for moment, end, said in found:
        if end.endswith("reached"):
            assert end == "code 3 reached", (moment, end, said)
            assert said.startswith("scalene-analyze: ") and "Traceback" not in said, (moment, said)
            assert "changed while it was read" in said, (moment, said)


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name not in ("live", "mcp")]
)  # which answer by the others
def test_a_trace_that_is_cut_is_refused_at_every_moment(command: str, good: Path, tmp_path: Path) -> None:
    moments = ",".join(map(str, STATEMENTS))
    found = ran(good, tmp_path, "cut", f"check,{moments}", arguments_of(command, tmp_path))
    assert_refused(found)
    assert sum(end.endswith("reached") for _, end, _ in found) >= 3, found


@pytest.mark.parametrize("how", ["emptied", "replaced"])
def test_a_trace_that_is_emptied_or_replaced_is_refused(how: str, good: Path, tmp_path: Path) -> None:
    moments = "check,1,4,12" if how == "emptied" else "1,4,12"
    found = ran(good, tmp_path, how, moments, arguments_of("report", tmp_path))
    assert_refused(found)
    assert all(end.endswith("reached") for _, end, _ in found)


def test_statements_for_another_duckdb_are_not_made_of_a_cut_trace(good: Path, tmp_path: Path) -> None:
    assert_refused(ran(good, tmp_path, "cut", "check,1,4", ["sql", "--init", "TRACE"]))
