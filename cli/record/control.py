"""``scalene-record --control TRACE COMMAND``: sends a command to a running recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...formats.units import counted, file_size_text
from ...recorder.errors import ControlError, UsageError
from ..render.text import clean

USAGE = "pause, resume, snapshot, mark TEXT, set NAME=VALUE... or status"

Answer = dict[str, Any]


def carry_out(target: str, words: list[str]) -> int:
    """Sends the command in ``words`` to the recording that writes ``target``, prints its answer and returns 0. Raises
    RecordError."""
    from ...recorder.control.client import ask, find_recording

    request = request_of(words)
    folder = find_recording(Path(target))
    if request["command"] == "snapshot":
        ask(folder, {"command": "status"})  # a recorder that answers this may take its time for the snapshot
        answer = ask(folder, request, timeout_s=None)  # which is as long as the trace is large
    else:
        answer = ask(folder, request)
    for line in _lines(request["command"], answer):
        print(clean(line))
    return 0


def _lines(command: str, answer: Answer) -> list[str]:
    """The lines that are printed for the answer to ``command``. Raises ControlError if it is not one."""
    try:
        return _ANSWERS[command](answer)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ControlError("The answer is not that of a recorder. Is the control socket another program's?") from error


def request_of(words: list[str]) -> dict[str, Any]:
    """The request that the words after ``--control TRACE`` mean. Raises UsageError."""
    command, values = (words[0], words[1:]) if words else ("", [])
    if command == "mark" and values:
        return {"command": command, "text": " ".join(values)}
    if command == "set" and values:
        return {"command": command, "values": dict(_pair(value) for value in values)}
    if command in ("pause", "resume", "snapshot", "status") and not values:
        return {"command": command}
    if command == "mark":
        raise UsageError('mark needs a text argument: mark "load test begins".')
    if command == "set":
        raise UsageError("set needs an argument NAME=VALUE: set cpu-interval=1ms.")
    if command in _ANSWERS:
        raise UsageError(f"{command} takes no argument, but {values[0]!r} was given.")
    unknown = f"{command} is not a command. " if command else ""
    raise UsageError(f"{unknown}--control TRACE takes a command: {USAGE}.")


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.removeprefix("--").partition("=")
    if not equals:
        raise UsageError(f"set takes arguments like cpu-interval=1ms, but {word!r} has no =.")
    return name, value


def _snapshot(answer: Answer) -> list[str]:
    return [
        f"{counted(answer['events'], 'event', 'events')} in {answer['output']} ({file_size_text(answer['size_bytes'])})"
    ]


def _set(answer: Answer) -> list[str]:
    return [f"{name} {value}" for name, value in answer["settings"].items()]


def _status(answer: Answer) -> list[str]:
    state = "paused" if answer["paused"] else "recording"
    if answer["paused"] and answer.get("paused_by"):
        state += f" by {answer['paused_by']}"
    return [
        f"state {state}",
        f"output {answer['output']}",
        f"pid {answer['pid']}",
        _recorded(answer["recorded_s"], answer.get("paused_s", 0.0)),
        f"processes {answer['processes']}, threads {answer['threads']} so far",
        f"spool {file_size_text(answer['spool_bytes'])}",
        *_set(answer),
    ]


def _recorded(length_s: float, paused_s: float) -> str:
    if not paused_s:
        return f"recorded {length_s:.1f} s"
    return f"{length_s:.1f} s long, {length_s - paused_s:.1f} s of it recorded"


def _resumed(answer: Answer) -> str:
    if answer.get("paused") and answer["changed"]:
        return f"Resumed; now it is paused by {answer['cause']}, which decides when it records. Resume again to record now."
    if answer.get("kept"):
        return (
            "Resumed: records until the next pause."
            if answer["changed"]
            else "It already records until the next pause."
        )
    return "Resumed." if answer["changed"] else "The recording was not paused."


#: By command: the lines that are printed for its answer.
_ANSWERS: dict[str, Callable[[Answer], list[str]]] = {
    "pause": lambda answer: ["Paused." if answer["changed"] else "The recording was already paused."],
    "resume": lambda answer: [_resumed(answer)],
    "mark": lambda _: ["Marked."],
    "snapshot": _snapshot,
    "set": _set,
    "status": _status,
}
