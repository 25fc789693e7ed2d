"""Finds a running recording and sends it a command."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.spool.regular import is_plain_file
from ..api import exchange
from ..errors import CommandRefused, ControlError
from ..folder.files import CONTROL_NAME
from ..folder.output import is_live
from ..folder.place import spool_of

_TIMEOUT_S = 10.0


def find_recording(target: Path) -> Path:
    """The folder of the running recording that ``target`` names: the trace that it writes, or the folder itself.

    Raises ControlError when there is no such recording, or when its recorder has died.
    """
    found = [each for each in _candidates(target) if is_plain_file(spool_of(each))]
    for folder in found:
        if is_live(folder):
            return folder
    if found:
        raise ControlError(f"The recorder of {target} has died. {_advice(found[0])}")
    raise ControlError(
        f"No recording to {target} is running. Name the trace that a running scalene-record writes (its -o), "
        "or the .spool folder beside it."
    )


def _advice(folder: Path) -> str:
    """What to do with a recording whose recorder has died. Another user's may name files that are not meant for its trace."""
    if _is_own(folder):
        return f"Turn what it recorded into a trace with: scalene-record --recover {folder}"
    return f"The recording {folder} belongs to another user, who can recover it."


def _is_own(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _candidates(target: Path) -> Iterator[Path]:
    yield target
    yield target.with_name(f"{target.name}.spool")
    if target.name.endswith(".spool") or not target.parent.is_dir():
        return
    # With %p in the name, the folder has the recorder's pid. In a folder for everybody, strangers may claim our output.
    for folder in filter(_is_own, sorted(target.parent.glob("*.spool"))):
        with suppress(ControlError, OSError):
            if ask(folder, {"command": "status"}).get("output") == os.path.abspath(target):  # noqa: PTH100
                yield folder


def ask(folder: Path, request: dict[str, object], timeout_s: float | None = _TIMEOUT_S) -> dict[str, Any]:
    """The recorder's answer to ``request``. ``timeout_s``: seconds for the answer, None = no limit.

    Raises ControlError when the recorder does not answer; CommandRefused, with its own message, when it refuses.
    """
    try:
        answer: Any = json.loads(exchange(str(folder), request, round((timeout_s or 0) * 1e6)))
    except (OSError, ValueError, RecursionError) as error:
        raise ControlError(unreachable(folder, error)) from error
    if not isinstance(answer, dict):
        raise ControlError(f"{folder / CONTROL_NAME} is not a recorder's control socket.")
    if not answer.get("ok"):
        raise CommandRefused(str(answer.get("error", "The recorder refused the command.")))
    return answer


def unreachable(folder: Path, error: Exception) -> str:
    """Why the recorder of ``folder`` gave no answer, in a sentence. ``error``: what :func:`.api.exchange` raised."""
    if isinstance(error, BlockingIOError):
        return "The recorder does not answer. It may be stopped: check its state with ps."
    if isinstance(error, PermissionError):
        return f"The recording {folder} belongs to another user. Control it as the user who records."
    if isinstance(error, FileNotFoundError) and folder.is_dir() and not (folder / CONTROL_NAME).exists():
        return f"The recording {folder} accepts no commands: its file system could not hold a socket."
    return f"The recorder of {folder} cannot be reached: it has just ended, or it has died."
