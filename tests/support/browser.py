"""Pages in a browser for tests: the installed Chromium, without a window, driven by Playwright."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.packages import chromium
from tests.support.paths import PATIENCE_S

if TYPE_CHECKING:  # where it runs, it is imported late: most workers open no page
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import Page as Tab

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
#: How long a page may take for anything, in milliseconds. Long: other tests may keep the machine busy.
PATIENCE_MS = 1000 * PATIENCE_S


class Browser:
    """A running Chromium."""

    def __init__(self, running: Chromium) -> None:
        self._running = running

    @contextmanager
    def page(
        self, path: Path, width: int = 1400, height: int = 1000, dark: bool = False, part: str = ""
    ) -> Iterator[Page]:
        """The file at ``path``, opened in a tab of its own as soon as the page says that it is ready."""
        scheme = "dark" if dark else "light"
        context = self._running.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE_MS)
        try:
            page = Page(context.new_page())
            page.tab.goto(path.as_uri() + part)
            page.wait("document.documentElement?.dataset.ready === 'true'")
            page.settle()
            yield page
        finally:
            context.close()


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium, until the end of the block. Skips the test if there is none.

    Its processes start and end as it likes, so they do not inherit the mark by which a test's own are counted.
    """
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as home,
        sync_playwright() as driver,
    ):
        environment = {name: value for name, value in os.environ.items() if name != "SCALENE_TEST_RUN"} | {"HOME": home}
        running = driver.chromium.launch(executable_path=chromium(), args=list(FLAGS), env=environment)
        try:
            yield Browser(running)
        finally:
            running.close()


class Page:
    """A tab of the browser. ``tab`` is Playwright's."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self._complaints: list[str] = []
        self._requests: list[str] = []
        tab.on("console", lambda message: self._complaints.append(message.text))
        tab.on("pageerror", lambda error: self._complaints.append(str(error)))
        tab.on("request", lambda request: self._requests.append(request.url))

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        return self.tab.evaluate(expression)

    def wait(self, expression: str) -> None:
        """Waits until an expression is true. Playwright's own wait polls inside the page, by `eval`, which the page's policy
        forbids: it fails if the expression is not true at once."""
        end_s = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < end_s, f"not true in {PATIENCE_S} s: {expression}"
            self.tab.wait_for_timeout(10)

    def settle(self) -> None:
        """Waits until the page has been drawn as it is now: a click that comes earlier may hit nothing."""
        self.value("new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(() => shown(true))))")

    def press(self, key: str) -> None:
        """Presses and releases a key, for example ``Shift+ArrowRight``."""
        self.tab.keyboard.press(key)

    def type(self, text: str) -> None:
        """Types a text into the field that has the focus."""
        self.tab.keyboard.insert_text(text)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self.tab.mouse.move(x, y)

    def drag(self, from_xy: tuple[float, float], to_xy: tuple[float, float]) -> None:
        """Drags the mouse with its left button."""
        self.tab.mouse.move(*from_xy)
        self.tab.mouse.down()
        self.tab.mouse.move(*to_xy)
        self.tab.mouse.up()

    def click(self, selector: str) -> None:
        """Clicks into the middle of an element."""
        self.settle()
        self.tab.locator(selector).first.click()

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, in pixels."""
        box = self.tab.locator(selector).first.bounding_box()
        assert box, f"{selector} is not shown"
        return box["x"], box["y"], box["width"], box["height"]

    def complaints(self) -> list[str]:
        """Errors and warnings: exceptions, messages on the console, and what the browser itself logged."""
        self.value("0")
        return list(self._complaints)

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        self.value("0")
        return list(self._requests)
