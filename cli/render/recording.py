"""What was recorded, as text: the heading of every command with the losses, and the table of marks."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...analyze.results.trace import Loss, MarkInfo, TraceInfo
from ...formats.trace.text import BUDGET_NOTE
from ...formats.units import counted, file_size_text, percent, seconds
from .table import columns_text, joined, wrap
from .text import Screen, clean, fit, not_shown

_MOST_MARKS = 40
#: More pauses of the recorder's own are one line. Of what it says of its budget, only the last is shown.
_FEW_PAUSES = 5


def trace_lines(trace: TraceInfo, screen: Screen) -> Iterator[str]:
    """What was recorded, in two lines where the screen is wide enough, then the losses of the trace."""
    yield screen.paint(fit(command_line(trace), screen.width, screen), "bold")
    facts = [trace.started_at and clean(trace.started_at[:19].replace("T", " ")) + " UTC", _wall(trace)]
    facts += [f"Python {clean(trace.python)}" if trace.python else "no Python"]
    facts += [counted(trace.processes, "process", "processes"), counted(trace.threads, "thread", "threads")]
    facts += [f"{clean(Path(trace.path).name)} {_file_size(trace.path)}"]
    facts += [_ended(trace.exit_status)]
    separator = screen.glyph(" · ", " | ")
    for line in joined([fact for fact in facts if fact], separator, screen.width):
        yield fit(line, screen.width, screen)
    for loss in trace.losses:
        style = loss.severity if loss.severity in ("error", "loss") else "info"
        yield from (screen.paint(line, style) for line in loss_lines(loss, screen))


def command_line(trace: TraceInfo) -> str:
    """The words of the command."""
    return " ".join(map(clean, trace.command)) if trace.command else "(command not stored)"


def loss_lines(loss: Loss, screen: Screen) -> list[str]:
    """What was lost, how often and why."""
    times = screen.glyph("×", "x")
    text = f"{clean(loss.severity)}: {clean(loss.name)} {times}{loss.count:,}: {clean(loss.text)}"
    return wrap(text, screen.width, indent="  ")


def _wall(trace: TraceInfo) -> str:
    if trace.wall_s is None:
        return "length unknown"
    long = f"{seconds(trace.wall_s)} long"
    if not trace.paused_s:
        return long
    share = f"{percent(trace.recorded_s, trace.wall_s):.3g} %"
    return f"{long}, {seconds(trace.recorded_s)} of it recorded ({share})"


def _ended(status: int | None) -> str:
    """How the program ended, unless all was well. A program may also return a number above 128 by itself."""
    if not status:
        return ""
    try:
        return f"exit status {status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return f"exit status {status}"


def _file_size(path: str) -> str:
    try:
        return f"({file_size_text(Path(path).stat().st_size)})"
    except OSError:
        return ""


def marks_table(marks: Sequence[MarkInfo], screen: Screen) -> Iterator[str]:
    """The user's marks, the pauses and the changed settings, after an empty line; nothing where there is none."""
    if not marks:
        return
    yield ""
    own = [mark for mark in marks if not _is_of_budget(mark)]
    notes = [mark for mark in marks if _is_of_budget(mark)]
    pauses = [mark for mark in own if mark.what == "pause" and mark.text]
    if len(pauses) > _FEW_PAUSES:
        own = [mark for mark in own if not (mark.what == "pause" and mark.text)]
    else:
        pauses = []
    rows = [[*_times(mark), clean(mark.what), clean(mark.text)] for mark in own[:_MOST_MARKS]]
    if rows:
        yield from columns_text(["marked at", "for", "what", "text"], rows, screen, {0, 1})
    if len(own) > _MOST_MARKS:
        yield not_shown(len(own) - _MOST_MARKS, "more mark", "more marks") + "; --json lists all of them."
    for cause in sorted({mark.text for mark in pauses}):
        own_lengths = [mark.end_s - mark.t_s for mark in pauses if mark.text == cause and mark.end_s is not None]
        times = counted(sum(mark.text == cause for mark in pauses), "pause", "pauses")
        yield f"{times} by {clean(cause)}, together {seconds(sum(own_lengths))}; --json lists all of them."
    if notes:
        yield from wrap(clean(notes[-1].text), screen.width, indent="  ")


def _is_of_budget(mark: MarkInfo) -> bool:
    return mark.what == "set" and mark.text.startswith(BUDGET_NOTE)


def _times(mark: MarkInfo) -> list[str]:
    return [seconds(mark.t_s), seconds(None if mark.end_s is None else mark.end_s - mark.t_s)]
