"""What depends on the processor: a kernel with unknown pages is refused before the program starts."""

from __future__ import annotations

import pytest

from scalene_trace.recorder import processor
from scalene_trace.recorder.errors import SetupError


@pytest.mark.parametrize("size_bytes", [8192, 32768])
def test_other_sizes_of_pages_are_refused(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    monkeypatch.setattr(processor.resource, "getpagesize", lambda: size_bytes)
    with pytest.raises(SetupError, match=f"have {size_bytes // 1024} KiB"):
        processor.check_pages()


@pytest.mark.parametrize("size_bytes", [4096, 16384, 65536])
def test_pages_of_linux_are_accepted(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    monkeypatch.setattr(processor.resource, "getpagesize", lambda: size_bytes)
    processor.check_pages()
