"""Which interpreter runs a script, a module or code, and what the user is told about it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from scalene_trace.recorder.run import interpreter
from scalene_trace.recorder.run.program import resolve_program

OWN = Path(sys.executable)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one, and nothing on PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """The recorder's environment is one that pipx made."""
    prefix = tmp_path / "pipx"
    prefix.mkdir()
    (prefix / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))


def make(path: Path, to: Path | str = "/bin/true") -> Path:
    """An executable at ``path``: a link, as in a virtual environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


def set_path(monkeypatch, *folders):
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))


def test_scripts_modules_and_code_run_under_python_of_path(folder, monkeypatch):
    """As in a container with ``ENV PATH=/venv/bin:$PATH``. The recorder's own environment is behind it on PATH."""
    python = make(folder / "venv" / "bin" / "python")
    set_path(monkeypatch, folder / "gone", python.parent, OWN.parent)
    (folder / "app.py").touch()
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__main__.py").touch()
    for words in (["app.py", "-o", "x"], ["-m", "pytest"], ["-c", "pass", "a"], ["pkg"]):
        program = resolve_program(words, None)
        assert (program.executable, program.argv, program.remark) == (str(python), [str(python), *words], "")
    assert resolve_program(["-c", "pass"], None).code == "pass"
    assert resolve_program(["app.py"], str(OWN)).argv[0] == str(OWN)


def test_the_first_runnable_python_of_path_is_taken_then_python3(folder, monkeypatch):
    (folder / "a" / "python").mkdir(parents=True)
    make(folder / "b" / "python", "nowhere")
    (folder / "c").mkdir()
    (folder / "c" / "python").touch()  # is not executable
    three = make(folder / "a" / "python3")
    set_path(monkeypatch, *(folder / name for name in "abc"), OWN.parent)
    assert interpreter.choose("x").path == str(OWN.parent / "python")
    set_path(monkeypatch, *(folder / name for name in "abc"))
    assert interpreter.choose("x").path == str(three)


def test_folders_that_cannot_be_searched_are_ignored(pyenv, folder, monkeypatch):
    """/root/bin on the PATH of another user, for example; here with an error that root gets too."""
    closed = folder / ("x" * 300)
    for name in ("VIRTUAL_ENV", "PYENV_DIR"):
        monkeypatch.setenv(name, str(closed))
    set_path(monkeypatch, closed, pyenv / "shims")
    assert interpreter.choose("x").path == str(pyenv / "versions" / "3.11.7" / "bin" / "python")
    (pyenv / "version").write_text(closed.name)
    assert interpreter.choose("x").path == str(pyenv / "shims" / "python")


def test_a_script_called_python_is_run_as_by_a_shell(folder, monkeypatch):
    """Whatever it starts is recorded."""
    shim = folder / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {OWN} "$@"\n')
    shim.chmod(0o755)
    set_path(monkeypatch, shim.parent, OWN.parent)
    assert interpreter.choose("x") == interpreter.Choice(str(shim))


@pytest.mark.parametrize("name", ["python2", "python2.7", "pypy"])
def test_python_2_is_not_taken(name, folder, monkeypatch):
    binary = folder / "old" / name
    binary.parent.mkdir()
    shutil.copy("/bin/true", binary)
    make(folder / "old" / "python", name)
    three = make(folder / "new" / "python3")
    set_path(monkeypatch, folder / "old", folder / "new")
    choice = interpreter.choose("app.py")
    assert choice.path == str(three)
    assert choice.remark.startswith(f"{folder / 'old' / 'python'} is Python 2, so app.py runs under {three}. ")


def test_without_python_on_path_our_own_runs_with_a_warning(folder):
    choice = interpreter.choose("app.py")
    assert choice.path == sys.executable
    assert "no Python 3 on PATH" in choice.remark and f"own interpreter, {OWN}," in choice.remark


def test_the_environment_of_a_tool_is_warned_of(folder, tool, monkeypatch):
    set_path(monkeypatch, OWN.parent)
    assert "runs in the environment of the recorder" in interpreter.choose("app.py").remark
    other = make(folder / "bin" / "python")
    set_path(monkeypatch, other.parent)
    assert interpreter.choose("app.py") == interpreter.Choice(str(other))


def test_another_python_than_that_of_the_recorders_own_environment_is_named(folder, monkeypatch):
    """``.venv/bin/scalene-record app.py``, which once ran ``.venv/bin/python``."""
    other = make(folder / "bin" / "python")
    set_path(monkeypatch, other.parent)
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert interpreter.choose("app.py").remark.startswith(
        f"app.py runs under {other}, from PATH, and not under {OWN}. "
    )


def test_an_active_environment_counts_where_it_is_not_on_path(folder, monkeypatch):
    active, other = make(folder / "venv" / "bin" / "python"), make(folder / "other" / "python")
    monkeypatch.setenv("VIRTUAL_ENV", str(folder / "venv"))
    assert interpreter.choose("x") == interpreter.Choice(str(active))
    set_path(monkeypatch, other.parent, OWN.parent)
    assert interpreter.choose("x").path == str(active) and "by $VIRTUAL_ENV" in interpreter.choose("x").remark
    set_path(monkeypatch, active.parent, other.parent, OWN.parent)
    assert interpreter.choose("x") == interpreter.Choice(str(active))
    set_path(monkeypatch, other.parent, active.parent, OWN.parent)
    assert interpreter.choose("x").path == str(other) and "before $VIRTUAL_ENV" in interpreter.choose("x").remark
    monkeypatch.setenv("VIRTUAL_ENV", str(folder / "gone"))
    assert interpreter.choose("x") == interpreter.Choice(str(other))


@pytest.fixture
def pyenv(folder, monkeypatch):
    """A folder of pyenv with three versions, of which 3.11.7 is the global one."""
    root = folder / "pyenv"
    (root / "shims").mkdir(parents=True)
    (root / "shims" / "python").write_text('#!/usr/bin/env bash\nexec "/x/pyenv/libexec/pyenv" exec "$program" "$@"\n')
    (root / "shims" / "python").chmod(0o755)
    for name in ("3.11.7", "3.12.1", "3.12.1/envs/shop"):
        make(root / "versions" / name / "bin" / "python")
    (root / "version").write_text("3.11.7\n3.12.1\n")
    set_path(monkeypatch, root / "shims", OWN.parent)
    monkeypatch.delenv("PYENV_VERSION", raising=False)
    monkeypatch.delenv("PYENV_DIR", raising=False)
    return root


def test_the_interpreter_behind_a_shim_of_pyenv_is_started_without_the_shim(pyenv, folder, monkeypatch):
    def chosen() -> str:
        return interpreter.choose("x").path.removeprefix(f"{pyenv}/")

    assert chosen() == "versions/3.11.7/bin/python"
    (folder / ".python-version").write_text("# shop\n3.12.1/envs/shop\n")
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    assert chosen() == "versions/3.12.1/envs/shop/bin/python"
    monkeypatch.setenv("PYENV_VERSION", "3.12.1:3.11.7")
    assert chosen() == "versions/3.12.1/bin/python"


@pytest.mark.parametrize("version", ["system", "3.12", "../../..", "/usr", ":", "3.12.1\0"])
def test_what_is_not_plain_is_left_to_the_shim_of_pyenv(version, pyenv, folder):
    (folder / ".python-version").write_text(version)
    assert interpreter.choose("x").path == str(pyenv / "shims" / "python")
