"""Takes the pictures of docs/html.md and docs/live.md: pages of ``examples/catalogue.py``, and of a comparison, in Chromium.

``python docs/generate.py --images`` runs it. It needs Chromium and the tests' environments (``make dev``, ``make test``).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cases import ROOT, TOOLS, python_with_pandas, said
from live_images import draw_live, write_live_images

#: Picture: page, tab, height, dark.
PICTURES = {
    "html-light.png": ("report.html", "lines", 820, False),
    "html-dark.png": ("report.html", "flame", 820, True),
    "html-diff.png": ("diff.html", "source", 1000, False),
    "html-diff-flame.png": ("diff.html", "flame", 1000, True),
}
WIDTH = 1400


def make_pages(folder: Path) -> None:
    """Records the programs in a copy of ``examples``, and writes both pages."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    record, analyze = TOOLS / "scalene-record", TOOLS / "scalene-analyze"
    for output, program in (("trace", "catalogue"), ("before", "before/regions"), ("after", "after/regions")):
        words = ["--python", python_with_pandas(), f"examples/{program}.py"]
        said(record, "-o", f"{output}.parquet", *words, folder=folder)
    said(analyze, "html", "trace.parquet", "-o", "report.html", folder=folder)
    said(analyze, "diff", "before.parquet", "after.parquet", "--html", "diff.html", folder=folder)


def write_images() -> None:
    """Puts the pictures into docs."""
    sys.path.insert(0, str(ROOT))
    with TemporaryDirectory() as name:
        make_pages(Path(name))
        live = draw_live(Path(name))  # which needs an event loop of its own, as the browser does
        _take(Path(name), live)


def _take(folder: Path, live: dict[str, Path]) -> None:
    from tests.support.browser import running_browser

    with running_browser() as browser:
        for picture, (page, tab, height, dark) in PICTURES.items():
            with browser.page(folder / page, WIDTH, height, dark, f"#tab={tab}") as opened:
                opened.settle()
                opened.tab.screenshot(path=ROOT / "docs" / picture)
            print(f"written: docs/{picture}")
        write_live_images(live, browser)
