"""``scalene-record --control TRACE COMMAND``: commands to a recording that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...recorder.errors import UsageError
from ...recorder.units import human_bytes

USAGE = "pause, resume, snapshot, mark TEXT, set NAME=VALUE…, status"

Answer = dict[str, Any]


def carry_out(target: str, words: list[str]) -> int:
    """Sends the command in ``words`` to the recording that writes ``target``, prints its answer, and returns 0.

    Raises RecordError.
    """
    from ...recorder.control.client import ask, find_recording

    request = request_of(words)
    patience = {"patience_s": None} if request["command"] == "snapshot" else {}
    answer = ask(find_recording(Path(target)), request, **patience)
    print("\n".join(_WORDS[request["command"]](answer)))
    return 0


def request_of(words: list[str]) -> dict[str, Any]:
    """The request that the words after ``--control TRACE`` mean. Raises UsageError."""
    command, values = (words[0], words[1:]) if words else ("", [])
    if command == "mark" and values:
        return {"command": command, "text": " ".join(values)}
    if command == "set" and values:
        return {"command": command, "values": dict(_pair(value) for value in values)}
    if command in ("pause", "resume", "snapshot", "status") and not values:
        return {"command": command}
    if command in ("mark", "set"):
        raise UsageError(f"{command} needs {'a text' if command == 'mark' else 'NAME=VALUE'} behind it.")
    if command in _WORDS:
        raise UsageError(f"{command} takes nothing behind it.")
    raise UsageError(f"--control TRACE takes a command: {USAGE}.")


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.removeprefix("--").partition("=")
    if not equals:
        raise UsageError(f"set takes NAME=VALUE, like cpu-interval=1ms; {word!r} has no =.")
    return name, value


def _snapshot(answer: Answer) -> list[str]:
    return [f"{answer['events']:,} events in {answer['output']} ({human_bytes(answer['size_bytes'])})"]


def _set(answer: Answer) -> list[str]:
    return [f"{name} {value}" for name, value in answer["settings"].items()]


def _status(answer: Answer) -> list[str]:
    state = "paused" if answer["paused"] else "recording"
    return [
        f"state {state}",
        f"output {answer['output']}",
        f"pid {answer['pid']}",
        f"recorded {answer['recorded_s']:.1f} s",
        f"processes {answer['processes']}, threads {answer['threads']} so far",
        f"spool {human_bytes(answer['spool_bytes'])}",
        *_set(answer),
    ]


#: What is printed when a command is done.
_WORDS: dict[str, Callable[[Answer], list[str]]] = {
    "pause": lambda answer: ["Paused." if answer["changed"] else "It was paused already."],
    "resume": lambda answer: ["Recording goes on." if answer["changed"] else "It was not paused."],
    "mark": lambda _: ["Marked."],
    "snapshot": _snapshot,
    "set": _set,
    "status": _status,
}
