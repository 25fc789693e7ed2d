"""The wheel of `make wheels` is installed in an environment of its own, without this checkout, and records a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.recording import environment

EXAMPLE = ROOT / "examples" / "catalogue.py"
pytestmark = pytest.mark.long


def test_a_wheel_records_a_program(tmp_path: Path) -> None:
    subprocess.run(["make", "-C", ROOT, "wheels"], check=True)
    wheels = list((ROOT / "dist").glob("scalene_trace-*-py3-none-manylinux_2_28_x86_64.whl"))
    assert len(wheels) == 1
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    tools, trace = tmp_path / "env" / "bin", tmp_path / "t.parquet"
    subprocess.run([tools / "python", "-m", "pip", "install", "-q", wheels[0]], check=True)
    record = [tools / "scalene-record", "-o", trace, "--python", tools / "python", EXAMPLE]
    subprocess.run(record, check=True, cwd=tmp_path, env=environment({}))
    done = subprocess.run([tools / "scalene-analyze", "report", "--json", trace], capture_output=True, check=True)
    found = json.loads(done.stdout)
    lost = {loss["name"]: loss["count"] for loss in found["traces"][0]["losses"] if loss["severity"] != "info"}
    lines = [line for line in found["lines"] if line["file"] == str(EXAMPLE)]
    assert not lost and sum(line["cpu_percent"] for line in lines) > 60
    assert {line["native_s"] > line["python_s"] for line in lines if line["cpu_percent"] > 5} == {False, True}
