"""A browser for tests: Chromium without a window, told what to do through a pipe (the DevTools protocol)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE_S = 60
#: What the DevTools protocol calls keys that have no character.
KEY_CODES = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Tab": 9,
    "End": 35,
}


class Browser:
    """A running Chromium. Use it as a context manager."""

    def __init__(self) -> None:
        found = [path for path in map(shutil.which, NAMES) if path]
        assert found, "no Chromium here: install the package chromium (as .ci/run does)"
        self._profile = tempfile.mkdtemp(prefix="browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [found[0], *FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = _started(command, to_read, to_write, self._profile)
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(20)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """The result of a command. What else arrives meanwhile goes to ``events``."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(time.monotonic() + PATIENCE_S)
            if answer.get("id") == self._last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    @contextmanager
    def page(
        self, path: Path, width: int = 1400, height: int = 1000, dark: bool = False, part: str = ""
    ) -> Iterator[Page]:
        """The file at ``path``, opened in a tab of its own once it says that it is ready."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=path.as_uri() + part)
        page.wait("document.documentElement?.dataset.ready === 'true'")
        page.settle()
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)


def _started(command: list[str], to_read: int, to_write: int, home: str) -> subprocess.Popen[bytes]:
    """The browser, which reads commands from descriptor 3 and writes answers to 4.

    Its helpers come and go as it likes until it ends, so that they are not counted among a test's own processes.
    """

    def place() -> None:
        low, high = fcntl.fcntl(to_read, fcntl.F_DUPFD, 10), fcntl.fcntl(to_write, fcntl.F_DUPFD, 10)
        os.dup2(low, 3)
        os.dup2(high, 4)

    environment = {name: value for name, value in os.environ.items() if name != "SCALENE_TEST_RUN"} | {"HOME": home}
    unheard = subprocess.DEVNULL
    return subprocess.Popen(command, preexec_fn=place, close_fds=False, stdout=unheard, stderr=unheard, env=environment)


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command to this tab."""
        return self._browser.call(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Waits until a picture of the page as it is now has been shown: what is clicked before is not met."""
        self.value("new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(() => shown(true))))")

    def press(self, key: str, shift: bool = False) -> None:
        """Presses and releases a key."""
        common: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": KEY_CODES.get(key, ord(key[0].upper()))}
        common |= {"modifiers": 8} if shift else {}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def drag(self, from_xy: tuple[float, float], to_xy: tuple[float, float]) -> None:
        """Drags the mouse with its left button."""
        for kind, (x, y) in (
            ("mouseMoved", from_xy),
            ("mousePressed", from_xy),
            ("mouseMoved", to_xy),
            ("mouseReleased", to_xy),
        ):
            pressed = {} if kind == "mouseMoved" and (x, y) == from_xy else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def click(self, selector: str) -> None:
        """Clicks into the middle of an element."""
        self.settle()
        x, y, width, height = self.box(selector)
        middle = (x + width / 2, y + height / 2)
        self.drag(middle, middle)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, in pixels."""
        box = self.value(
            f"(({{x, y, width, height}}) => [x, y, width, height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        return box[0], box[1], box[2], box[3]

    def screenshot(self) -> bytes:
        """A picture of the page (PNG)."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def events(self, *methods: str) -> list[dict[str, Any]]:
        """What has happened in this tab, of these kinds."""
        self.value("0")
        own = [each for each in self._browser.events if each.get("sessionId") == self._session]
        return [each["params"] for each in own if each["method"] in methods]

    def complaints(self) -> list[str]:
        """Errors and warnings: exceptions, the console's, and what the browser itself logged."""
        found = [each["exceptionDetails"]["text"] for each in self.events("Runtime.exceptionThrown")]
        found += [str(each["args"]) for each in self.events("Runtime.consoleAPICalled")]
        return found + [each["entry"]["text"] for each in self.events("Log.entryAdded")]

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [each["request"]["url"] for each in self.events("Network.requestWillBeSent")]
