"""The environment of a child that is not to be recorded."""

from __future__ import annotations

import pytest

from scalene_trace.formats.libraries import SHIM_NAME
from scalene_trace.recorder.shim_library import unrecorded_environment


@pytest.mark.parametrize(
    ("preloaded", "left"),
    [
        (f"/a/{SHIM_NAME}:libm.so.6 /b.so", "libm.so.6:/b.so"),
        (f"/a/{SHIM_NAME}", None),
        ("libm.so.6", "libm.so.6"),
        (None, None),
    ],
)
def test_only_our_library_is_not_preloaded(
    monkeypatch: pytest.MonkeyPatch, preloaded: str | None, left: str | None
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    if preloaded is not None:
        monkeypatch.setenv("LD_PRELOAD", preloaded)
    assert unrecorded_environment().get("LD_PRELOAD") == left
