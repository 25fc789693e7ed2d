"""``scalene-record --doctor``: prints what will be recorded on this host, and starts nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from ...formats.units import counted
from ...recorder.host.checks import IN_PART, LESS_EXACT, NOT, WHOLE, Check, checks_of, irrelevant_losses, is_missing
from ...recorder.host.host import this_host
from ...recorder.settings import Settings
from ..render.table import wrap
from ..render.text import Screen, clean, screen_for

_STYLES = {WHOLE: "dim", LESS_EXACT: "info", IN_PART: "loss", NOT: "error"}
_INDENT = "    "


def examine(words: list[str], settings: Settings, as_json: bool) -> int:
    """Prints the checks for a recording with these settings. Returns 0, or 1 if something will not be recorded. Raises
    UsageError."""
    host = this_host(words, settings.python, settings.output, settings.cpu_engine == "posix")
    checks = checks_of(host, irrelevant_losses(settings))
    if as_json:
        text = json.dumps({"complete": not any(map(is_missing, checks)), "checks": list(map(_row, checks))}, indent=1)
    else:
        text = "\n".join(lines(checks, screen_for(sys.stdout)))
    try:
        print(text, flush=True)
    except BrokenPipeError:  # its reader needs no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(any(map(is_missing, checks)))


def lines(checks: list[Check], screen: Screen) -> Iterator[str]:
    """The text: a line for each check, below it what follows and what to change, and a last line for all of them."""
    widest = max(len(each.what) for each in checks)
    for check in checks:
        label, recorded = f"{check.what:{widest}}", f"{check.recorded:10}"
        first, *rest = wrap(clean(check.found), max(screen.width - widest - len(recorded) - 3, 20))
        yield f"{label}  {screen.paint(recorded, _STYLES[check.recorded])} {first}".rstrip()
        yield from (" " * (widest + len(recorded) + 3) + line for line in rest)
        for text in filter(None, (check.consequence, check.change)):
            yield from (_INDENT + line for line in wrap(clean(text), screen.width - len(_INDENT)))
    yield ""
    yield from wrap(_summary(checks), screen.width)


def _summary(checks: list[Check]) -> str:
    missing = sum(map(is_missing, checks))
    if missing:
        found = counted(missing, "check has", "checks have")
        return f"{found} found something that will not be recorded."
    if any(each.recorded == LESS_EXACT for each in checks):
        return "Everything will be recorded, some of it less exactly."
    return "Everything will be recorded."


def _row(check: Check) -> dict[str, object]:
    return {
        "name": check.name,
        "found": check.found,
        "recorded": check.recorded,
        "losses": list(check.losses),
        "consequence": check.consequence,
        "change": check.change,
    }
