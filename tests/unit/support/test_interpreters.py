"""How the interpreters that tests record are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.interpreters import FOUND, Interpreter, interpreters


def test_at_least_two_interpreters_are_here() -> None:
    found = [each.full_name for each in interpreters()]
    assert len(found) >= 2, f"the tests must run on two versions of CPython from 3.10 to 3.15; found: {found}"


def test_a_script_that_starts_an_interpreter_is_resolved_to_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the shims of pyenv are: a recording of the script would contain the script's processes."""
    script = tmp_path / "python3"
    script.write_text(f'#!/bin/sh\n/bin/true\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.delenv(FOUND, raising=False)
    monkeypatch.setenv("SCALENE_TEST_PYTHONS", f"{tmp_path / 'missing'}:/bin/true:{script}")
    interpreters.cache_clear()
    try:
        assert interpreters() == (Interpreter(Path(sys.executable), sys.version_info[:3]),)
    finally:
        interpreters.cache_clear()
