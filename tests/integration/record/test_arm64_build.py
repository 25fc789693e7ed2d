"""The shim, the watcher and the unit tests compile for arm64 without a warning, where Debian's cross compiler is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.arm64_machine import COMPILER, has_libc
from tests.support.paths import ROOT

TOOLCHAIN = ROOT / "shim" / "cmake" / "aarch64.cmake"


def test_the_shim_compiles_for_arm64(tmp_path: Path) -> None:
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cmake = shutil.which("cmake", path=tools)
    compiler, ninja = shutil.which(COMPILER), shutil.which("ninja", path=tools)
    if not (compiler and cmake and ninja) or not has_libc(compiler):
        pytest.skip(f"{COMPILER} with a C library, cmake or ninja is missing")
    environment = os.environ | {"PATH": tools}
    options = [
        f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_C_FLAGS_RELEASE=-O0",  # half the time; what only the optimizer notices, it notices on x86-64 too
        "-DSHIM_WERROR=ON",
        "-DSHIM_TESTS=ON",
    ]
    made = [cmake, "-S", ROOT / "shim", "-B", tmp_path, "-G", "Ninja", *options]
    subprocess.run(made, check=True, capture_output=True, env=environment)
    done = subprocess.run([cmake, "--build", tmp_path, "-j", "2"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    for name in ("libscalene_shim.so", "libscalene_watch.so"):
        header = (tmp_path / name).read_bytes()[:20]
        assert header[:5] == b"\x7fELF\x02" and int.from_bytes(header[18:20], "little") == 183, name  # EM_AARCH64
