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


def test_numpy_works_without_the_parts_that_are_left_out() -> None:
    """Whoever wants masked arrays gets them."""
    code = """if True:
        import gc, sys
        from scalene_trace.recorder.run import load
        load.leave_out()
        import numpy as np, numpy.typing as npt, pyarrow
        Ints = npt.NDArray[np.int64] | None
        for name in ("numpy._core._add_newdocs", "numpy.typing"):
            assert sys.modules[name].__loader__ is load._SmallNumpy, name
        assert np.unique(np.array([2, 1, 2])).tolist() == [1, 2] and pyarrow.array(np.arange(3)).to_pylist() == [0, 1, 2]
        assert "numpy.ma.core" not in sys.modules
        array = np.ma.masked_array([1, 2, 3], mask=[False, True, False])
        assert np.ma.is_masked(array) and isinstance(array, np.ma.MaskedArray) and np.ma.filled(array, 9).tolist() == [1, 9, 3]
        import numpy.ma
        assert numpy.ma is np.ma and np.unique(array).tolist() == [1, 3, None]
        assert not gc.isenabled()
        load.load_converter()
        assert gc.isenabled() and gc.get_freeze_count() > 10_000
    """
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE).stderr == b""
