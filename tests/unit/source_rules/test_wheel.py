"""The wheel has all files that run, and none that only build."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

WHEEL = "scalene_trace-0.1.0-py3-none-linux_x86_64.whl"
NEEDED = (
    "scalene_trace/shim/libscalene_attached.so",
    "scalene_trace/shim/libscalene_shim.so",
    "scalene_trace/shim/libscalene_watch.so",
    "scalene_trace/formats/spool/spool.h",
    "scalene_trace/formats/spool/records.h",
    "scalene_trace/analyze/html/assets/report.js",
    *(f"scalene_trace/{package}/py.typed" for package in ("analyze", "cli", "formats", "recorder")),
)


def faults(wheel: str, names: list[str]) -> list[str]:
    """What is wrong with the name of a wheel or with the files in it."""
    found = [] if re.fullmatch(r"scalene_trace-[\d.]+-py3-none-linux_\w+\.whl", wheel) else [f"the name {wheel}"]
    found += [f"{name} is missing" for name in NEEDED if name not in names]
    found += ["no query is in it"] * (not any(name.endswith(".sql") for name in names))
    tops = {"scalene_trace", wheel.split("-py3")[0] + ".dist-info"}
    for name in names:
        parts = name.split("/")
        if parts[0] not in tops or "web" in parts or "tests" in parts or name.endswith(".c"):
            found.append(f"{name} does not belong there")
    return found


def test_the_wheel_serves_every_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    options = f"--config-settings=build-dir={tmp_path}/build"
    done = subprocess.run([*command, options], capture_output=True, text=True, env=os.environ | {"PATH": tools})
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    assert faults(wheel.name, zipfile.ZipFile(wheel).namelist()) == []


@pytest.mark.parametrize(
    ("wheel", "more", "found"),
    [
        (WHEEL, [], []),
        (WHEEL.replace("py3-none", "cp311-cp311"), [], ["the name scalene_trace-0.1.0-cp311-cp311-linux_x86_64.whl"]),
        (WHEEL, ["shim/shared/spool.c"], ["shim/shared/spool.c does not belong there"]),
        (WHEEL, ["scalene_trace/analyze/html/web/a.ts"], ["scalene_trace/analyze/html/web/a.ts does not belong there"]),
        (WHEEL, ["scalene_trace/shim/ticks.c"], ["scalene_trace/shim/ticks.c does not belong there"]),
    ],
)
def test_a_planted_fault_of_a_wheel_is_found(wheel: str, more: list[str], found: list[str]) -> None:
    assert faults(wheel, [*NEEDED, "scalene_trace/analyze/sql/views/report/lines.sql", *more]) == found
    assert len(faults(WHEEL, [])) == len(NEEDED) + 1
