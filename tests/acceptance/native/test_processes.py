"""Processes without Python: their native stacks lead from the start of the program to the function that runs."""

from __future__ import annotations

from pathlib import Path

from tests.support import native
from tests.support.recording import analyze, run, tool


def test_a_program_without_python_has_native_stacks(tmp_path: Path) -> None:
    trace, program = tmp_path / "t.parquet", native.build(tmp_path, "burns.c")
    done = run([*tool("scalene-record"), "-o", trace, "--", program])
    assert done.status == 0, done.stderr.decode()
    stacks = analyze("export", trace, "--format", "collapsed").stdout.decode()
    assert ";main (burns);outer (burns);burn (burns) " in stacks
