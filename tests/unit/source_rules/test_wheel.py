"""The wheel has all files that run, and none that only build."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.paths import ROOT


def test_the_wheel_serves_every_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    options = f"--config-settings=build-dir={tmp_path}/build"
    done = subprocess.run([*command, options], capture_output=True, text=True, env=os.environ | {"PATH": tools})
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    assert re.fullmatch(r"scalene_trace-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert "scalene_trace/shim/libscalene_shim.so" in names and "scalene_trace/formats/spool/spool.h" in names
    assert any(name.endswith(".sql") for name in names)
    assert "scalene_trace/analyze/html/assets/report.js" in names and not any("/web/" in name for name in names)
    assert {name.split("/")[0] for name in names} == {"scalene_trace", wheel.name.split("-py3")[0] + ".dist-info"}
