"""What the recorder leaves out of numpy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scalene_trace.recorder.run import load


def test_only_releases_that_the_tests_have_run_with_are_imported_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load._is_known_numpy(), "a newer numpy: run the tests with it, then raise _NEWEST_NUMPY"
    monkeypatch.setattr(load, "_NEWEST_NUMPY", (1, 26))
    assert not load._is_known_numpy()


def test_masked_arrays_are_there_for_whoever_asks_for_them() -> None:
    code = (
        "from scalene_trace.recorder.run.load import leave_out\n"
        "leave_out()\n"
        "import numpy, pyarrow, sys\n"
        "assert 'numpy.ma.core' not in sys.modules and pyarrow.array(numpy.arange(3)).to_pylist() == [0, 1, 2]\n"
        "print(numpy.ma.masked_array([1, 2], [True, False]).sum(), 'numpy.ma.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2 True\n", "")
