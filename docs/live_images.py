"""Pictures of ``scalene-analyze live`` for docs/live.md: ``examples/service.py`` while it runs, on a wide and on a narrow terminal.

``python docs/generate.py --images`` runs it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cases import ROOT, TOOLS, python_with_pandas

from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.live.app import LiveApp
from scalene_trace.cli.live.asked import Asked, Readings
from scalene_trace.cli.live.following import Following

if TYPE_CHECKING:
    from tests.support.browser import Browser

#: Picture: columns and rows of the terminal, and the keys that are pressed.
PICTURES = {"live-200.png": ((200, 40), ("v",)), "live-80.png": ((80, 24), ("3",))}
_BEFORE_S, _READING_S = 8.0, 3.0


def draw_live(folder: Path) -> dict[str, Path]:
    """By picture: a page with the terminal as SVG."""
    pages = {}
    with _recorded(folder / "service.parquet") as trace:
        for picture, (size, keys) in PICTURES.items():
            pages[picture] = folder / f"{picture}.html"
            drawn = asyncio.run(_drawn(trace, size, keys))
            pages[picture].write_text(f"<html data-ready='true'><body>{drawn}</body></html>")
    return pages


def write_live_images(pages: dict[str, Path], browser: Browser) -> None:
    """Puts the pictures into docs."""
    for picture, page in pages.items():
        (columns, rows), _ = PICTURES[picture]
        with browser.page(page, columns * 8, rows * 17, True) as opened:
            opened.tab.locator("svg").screenshot(path=ROOT / "docs" / picture)
        print(f"written: docs/{picture}")


@contextmanager
def _recorded(trace: Path) -> Iterator[Path]:
    command = [TOOLS / "scalene-record", "-o", trace, "--python", python_with_pandas(), ROOT / "examples/service.py"]
    recorder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_BEFORE_S)
        yield trace
    finally:
        recorder.terminate()
        recorder.wait()


async def _drawn(trace: Path, size: tuple[int, int], keys: tuple[str, ...]) -> str:
    """The terminal as SVG."""
    asked = Asked("lines", 10.0, 1.0, Selection(), None, 20, "")
    app = LiveApp(asked, Readings(asked, Following(str(trace))))
    async with app.run_test(size=size) as pilot:
        await pilot.pause(_READING_S)
        await pilot.press(*keys)
        await pilot.pause(_READING_S)
        drawn = app.export_screenshot(title=f"scalene-analyze live {trace.name}")
    return re.sub(r"@font-face \{[^}]*\}", "", drawn).replace("Fira Code", "DejaVu Sans Mono")  # of the network
