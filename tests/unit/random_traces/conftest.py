"""Small traces are read as large ones are, where a test does not ask for the other way: test_tables.py compares both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scalene_trace.analyze.trace import views


@pytest.fixture(autouse=True, scope="module")
def as_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "MOST_STORED", 0)
        yield
