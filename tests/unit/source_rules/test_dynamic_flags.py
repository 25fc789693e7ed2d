"""The flags that the build sets where the linker has no options for them (shim/dynamic_flags.py)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "shim" / "dynamic_flags.py"


def library(path: Path, *options: str) -> Path:
    """A small shared library, linked with these options."""
    source = path.with_suffix(".c")
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", *options, "-o", path, source], check=True)
    return path


def flags(path: Path) -> set[str]:
    shown = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    return {word for line in shown.splitlines() if "(FLAGS_1)" in line for word in line.partition("Flags:")[2].split()}


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True)


def test_they_are_those_that_a_linker_sets(tmp_path: Path) -> None:
    changed = library(tmp_path / "changed.so", "-Wl,-z,now")
    linked = library(tmp_path / "linked.so", "-Wl,-z,now", "-Wl,-z,nodlopen", "-Wl,-z,initfirst")
    assert ctypes.CDLL(str(shutil.copy(changed, tmp_path / "before.so"))).answer() == 42
    before = changed.read_bytes()
    assert run(changed).returncode == 0
    assert flags(changed) == flags(linked) >= {"NOW", "INITFIRST", "NOOPEN"}
    assert sum(old != new for old, new in zip(before, changed.read_bytes(), strict=True)) == 1
    with pytest.raises(OSError, match="cannot be dlopen"):
        ctypes.CDLL(str(changed))


@pytest.mark.parametrize("options", [(), ("-m32", "-nostdlib", "-Wl,-z,now")], ids=["no flags", "32 bits"])
def test_other_libraries_are_refused_and_left_as_they_are(tmp_path: Path, options: tuple[str, ...]) -> None:
    try:
        path = library(tmp_path / "plain.so", "-Wl,-z,lazy", *options)
    except subprocess.CalledProcessError:
        pytest.skip("gcc builds no such library here")
    before = path.read_bytes()
    done = run(path)
    assert done.returncode == 1 and "ValueError" in done.stderr and path.read_bytes() == before
