"""Where the libraries in C are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalene_trace.formats import libraries
from scalene_trace.formats.errors import LibraryMissing
from scalene_trace.formats.libraries import OVERRIDE_VARIABLE, SHIM_NAME, WATCH_NAME, library_path
from scalene_trace.formats.spool import events


def test_a_shim_elsewhere_has_its_libraries_beside_it_or_else_the_installed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = library_path(WATCH_NAME)
    (tmp_path / SHIM_NAME).touch()
    monkeypatch.setenv(OVERRIDE_VARIABLE, str(tmp_path / SHIM_NAME))
    assert library_path(WATCH_NAME) == installed and installed.is_file()
    (tmp_path / WATCH_NAME).touch()
    assert library_path(WATCH_NAME) == tmp_path / WATCH_NAME
    (tmp_path / SHIM_NAME).unlink()
    assert library_path(WATCH_NAME) == installed
    with pytest.raises(LibraryMissing, match=f"{SHIM_NAME} is not installed"):
        library_path(SHIM_NAME)


def test_a_library_of_an_older_version_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        events, "watch_library", lambda: libraries._loaded(library_path(SHIM_NAME).with_name(WATCH_NAME))
    )
    assert events.unfolded([])[1] == 0
    monkeypatch.setattr(events, "watch_library", lambda: object())
    with pytest.raises(LibraryMissing, match=f"{WATCH_NAME} is not installed"):
        events.unfolded([(np.zeros((1, events.EVENTS_SLOTS, 64), np.uint8), 1)])
