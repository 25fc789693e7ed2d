"""Pages that `make generate` makes are up to date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "status"), [("as it should be\n", 0), ("as it was\n", 1), (None, 1)])
def test_a_planted_stale_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, status: int
) -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(ROOT / "docs")
    spec.loader.exec_module(module)
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    monkeypatch.setattr(module, "PAGES", {page: lambda: "as it should be\n"})
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert module.main() == status
    assert not page.exists() or page.read_text() == text
