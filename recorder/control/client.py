"""Finds a recording that runs, and sends it a command."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..api import exchange
from ..errors import ControlError
from ..folder.contents import CONTROL_NAME, SPOOL_NAME
from ..folder.output import is_recording

_PATIENCE_S = 10.0


def find_recording(target: Path) -> Path:
    """The folder of the recording that writes the trace ``target``, or whose folder that is.

    Raises ControlError: no such recording, or its recorder is gone.
    """
    found = [each for each in _candidates(target) if (each / SPOOL_NAME).exists()]
    for folder in found:
        if is_recording(folder):
            return folder
    if found:
        raise ControlError(
            f"The recorder of {target} is gone. Make the trace of what it recorded with: "
            f"scalene-record --recover {found[0]}"
        )
    raise ControlError(
        f"There is no recording to {target}. Name the trace that a running scalene-record writes (its -o), "
        "or the .spool folder beside it."
    )


def _candidates(target: Path) -> Iterator[Path]:
    yield target
    yield target.with_name(f"{target.name}.spool")
    if target.name.endswith(".spool") or not target.parent.is_dir():
        return
    for folder in sorted(target.parent.glob("*.spool")):  # a pid in the name (%p): the folder has the recorder's
        with suppress(ControlError, OSError):
            if ask(folder, {"command": "status"}).get("output") == os.path.abspath(target):  # noqa: PTH100
                yield folder


def ask(folder: Path, request: dict[str, object], patience_s: float | None = _PATIENCE_S) -> dict[str, Any]:
    """The recorder's answer to ``request``. Raises ControlError, with its words where it refuses."""
    try:
        answer: Any = json.loads(exchange(str(folder), request, round((patience_s or 0) * 1e6)))
    except BlockingIOError as error:
        raise ControlError("The recorder does not answer. It may be stopped: look at it with ps.") from error
    except (OSError, ValueError) as error:
        raise ControlError(_unreachable(folder, error)) from error
    if not isinstance(answer, dict):
        raise ControlError(f"What answers at {folder / CONTROL_NAME} is no recorder.")
    if not answer.get("ok"):
        raise ControlError(str(answer.get("error", "The recorder refused the command.")))
    return answer


def _unreachable(folder: Path, error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"The recording {folder} belongs to somebody else. Control it as the user who records."
    if isinstance(error, FileNotFoundError) and folder.is_dir() and not (folder / CONTROL_NAME).exists():
        return f"The recording {folder} takes no commands: its file system has no room for a socket."
    return f"The recorder of {folder} cannot be reached: it has just ended, or it is gone."
