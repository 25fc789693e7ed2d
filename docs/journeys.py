"""Runs the commands of docs/journeys.md and writes their output below them.

``python docs/generate.py --journeys`` does so. The page itself holds the commands, so there is one list of them. A test
runs them too, and holds behaviour against the page, but no figure.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "journeys.md"
TOOLS = Path(sys.executable).parent
#: A slot in the page: the name of the journey, and the commands with their output below it.
SLOT = re.compile(r"(<!-- journey: (\w+) -->\n)```console\n(.*?)```\n", re.DOTALL)
STYLES = re.compile(r"\x1b\[[0-9;]*m")
#: A path of the temporary folder that a table has cut on its left.
CUT_PATH = re.compile(r"…[\w/]*/(?=examples/)")
WIDTH, HEIGHT = 118, 50
#: A service is observed for so long before the next command.
SERVICE_S = 20.0
#: Of a long output, so many lines are kept at its beginning and its end.
_KEPT_FIRST, _KEPT_LAST = 32, 8
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": str(WIDTH), "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Done:
    """A command that has run: its exit status (None: it still runs), and what a terminal showed."""

    command: str
    status: int | None
    output: str


def journeys(page: str) -> dict[str, list[str]]:
    """The commands of each journey."""
    return {slot[2]: re.findall(r"^\$ (.*)$", slot[3], re.MULTILINE) for slot in SLOT.finditer(page)}


def run_journey(commands: list[str], service_s: float = SERVICE_S) -> list[Done]:
    """Runs commands in a folder with a copy of ``examples``, on a terminal. One that ends with & is ended at the end."""
    found: list[Done] = []
    with TemporaryDirectory() as name, _services() as services:
        shutil.copytree(ROOT / "examples", Path(name) / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for command in commands:
            if command.endswith("&"):
                services.append(_started(command.removesuffix("&").strip(), Path(name)))
                time.sleep(service_s)
                found.append(Done(command, services[-1].poll(), ""))
            else:
                found.append(_finished(command, Path(name)))
    return found


@contextmanager
def _services() -> Iterator[list[subprocess.Popen[bytes]]]:
    services: list[subprocess.Popen[bytes]] = []
    try:
        yield services
    finally:
        for service in services:
            service.terminate()
            service.wait()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "FORCE_COLOR")}
    return kept | PLAIN | {"PATH": f"{TOOLS}:{os.environ.get('PATH', os.defpath)}"}


def _started(command: str, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a command that goes on until it is ended."""
    silent = subprocess.DEVNULL
    shell = ["bash", "-c", f"exec {command}"]
    return subprocess.Popen(shell, cwd=folder, env=_environment(), stdin=silent, stdout=silent, stderr=silent)


def _finished(command: str, folder: Path) -> Done:
    """Runs a command on a terminal of its own to its end."""
    mine, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (HEIGHT, WIDTH))
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=_environment(), stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = bytearray()
    reader = threading.Thread(target=_read, args=(mine, shown))
    reader.start()
    status = process.wait()
    reader.join()
    os.close(mine)
    return Done(command, status, _plain(shown.decode(), folder))


def _read(terminal: int, shown: bytearray) -> None:
    """Reads until the last process has closed the terminal, which Linux reports as an error."""
    try:
        while part := os.read(terminal, 65_536):
            shown += part
    except OSError:
        return


def _plain(text: str, folder: Path) -> str:
    """The text as it stands on the screen at the end, with paths relative to the folder."""
    text = CUT_PATH.sub("…/", STYLES.sub("", text).replace("\r\n", "\n").replace(f"{folder}/", ""))
    lines = text.split("\n")
    return "\n".join(line.rpartition("\r")[2].rstrip() for line in lines).strip("\n")


def _shortened(output: str) -> str:
    """An output whose middle is left out if it is long."""
    lines = output.split("\n")
    left_out = len(lines) - _KEPT_FIRST - _KEPT_LAST
    if left_out < 3:
        return output
    return "\n".join([*lines[:_KEPT_FIRST], f"[... {left_out} more lines ...]", *lines[-_KEPT_LAST:]])


def transcript(found: list[Done]) -> str:
    """The commands with their outputs, as the page shows them."""
    parts = [f"$ {done.command}\n{_shortened(done.output)}".strip() for done in found]
    return "\n".join(parts) + "\n"


def write_journeys() -> None:
    """Puts the outputs into the page."""
    page = PAGE.read_text()
    texts = {name: transcript(run_journey(commands)) for name, commands in journeys(page).items()}
    PAGE.write_text(SLOT.sub(lambda slot: f"{slot[1]}```console\n{texts[slot[2]]}```\n", page))
    print(f"written: docs/{PAGE.name}")
