"""The recorded program sees nothing of the recorder, and gets its own options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import TARGETS
from tests.support.recording import bare, environment, record, record_command, report, rows, target

WAYS = {
    "script": [str(target("unchanged")), "--flag", "-o", "x", ""],
    "module": ["-m", "unchanged", "-m", "y"],
    "code": ["-c", target("unchanged").read_text(), "-c", "-o"],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_recorded_program_sees_what_a_bare_one_sees(way: str, python: Interpreter, tmp_path: Path) -> None:
    env = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "unchanged.py").write_text(target("unchanged").read_text())
    alone = bare(WAYS[way], python, env, cwd=tmp_path)
    done = record(tmp_path / "t.parquet", WAYS[way], python, env=env, cwd=tmp_path)
    assert done.status == alone.status == 0
    assert done.stdout.decode().splitlines() == alone.stdout.decode().splitlines()
    assert done.stderr == alone.stderr == b"some words for stderr\n"


def test_pytest_gets_its_own_options(python: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text("import logging\n\ndef test_one():\n    logging.error('heard')\n")
    program = ["-m", "pytest", "-o", "log_cli=true", "-q", "-p", "no:cacheprovider"]
    done = record(tmp_path / "t.parquet", program, python, cwd=tmp_path)
    assert done.status == 0, done.stdout.decode()
    assert b"live log call" in done.stdout and b"1 passed" in done.stdout
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == ["t.parquet"]


def test_a_module_prints_its_own_help(python: Interpreter, tmp_path: Path) -> None:
    program = ["-m", "http.server", "--help"]
    done = record(tmp_path / "t.parquet", program, python)
    assert (done.status, done.stdout) == (0, bare(program, python).stdout)


def test_code_gets_its_own_arguments(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", ["-c", "import sys; print(1, sys.argv)", "-o", "x"], python, cwd=tmp_path)
    assert (done.status, done.stdout) == (0, b"1 ['-c', '-o', 'x']\n")
    assert not (tmp_path / "x").exists()


def test_a_command_after_two_dashes_gets_its_own_help(python: Interpreter, tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.write_text(f"#!{python.path}\nimport sys\nprint('help of', sys.argv[0], sys.argv[1:])\n")
    program.chmod(0o755)
    done = record(tmp_path / "t.parquet", ["--", "./prog", "--help"], cwd=tmp_path)
    assert (done.status, done.stdout) == (0, b"help of ./prog ['--help']\n")


def test_a_command_is_found_on_the_path_and_stdin_is_its_own(tmp_path: Path) -> None:
    text = b"three\nshort\nlines\n"
    (tmp_path / "in").write_bytes(text)
    with (tmp_path / "in").open("rb") as file:
        command = record_command(tmp_path / "t.parquet", ["cat", "-"])
        done = subprocess.run(command, stdin=file, capture_output=True, env=environment(None))
    assert (done.returncode, done.stdout, done.stderr) == (0, text, b"")
    assert [row["python_version"] for row in rows(tmp_path / "t.parquet", "process")] == [None]


def test_many_bytes_of_output_pass_untouched(any_python: Interpreter, tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4099); sys.stderr.buffer.write(b'\\xff\\0' * 1999)"
    done = record(tmp_path / "t.parquet", ["-c", code], any_python)
    assert done.stdout == bytes(range(256)) * 4099
    assert done.stderr == b"\xff\0" * 1999


def test_an_existing_trace_is_kept_as_old(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    record(trace, ["-c", "print(1)"], any_python)
    first = trace.read_bytes()
    record(trace, ["-c", "print(2)"], any_python)
    assert (tmp_path / "t.old.parquet").read_bytes() == first != trace.read_bytes()
    assert record(trace, ["no-such-command-anywhere"]).status == 127
    assert (tmp_path / "t.old.parquet").read_bytes() == first


def test_the_report_needs_no_checkout(any_python: Interpreter, tmp_path: Path) -> None:
    program, trace = tmp_path / "pure.py", tmp_path / "t.parquet"
    shutil.copy(TARGETS / "pure_python.py", program)
    record(trace, [program, "0.1"], any_python)
    program.unlink()
    sources = {row["line"]: row["source"] for row in report(trace)["lines"] if row["file"] == str(program)}
    assert any("x = (x * 31 + i)" in (source or "") for source in sources.values())
