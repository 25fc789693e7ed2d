"""``scalene-record --doctor``: prints what will be recorded on this host, and starts nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from ...formats.units import counted
from ...recorder.host.checks import IN_PART, LESS_EXACT, NOT, WHOLE, Check, checks_of, is_missing
from ...recorder.host.host import this_host
from ..render.table import wrap
from ..render.text import Screen, clean, screen_for

_STYLES = {WHOLE: "dim", LESS_EXACT: "info", IN_PART: "loss", NOT: "error"}
_INDENT = "    "


def examine(words: list[str], python: str | None, output: Path, as_json: bool) -> int:
    """Prints the checks. Returns 0, or 1 if something will not be recorded. Raises UsageError."""
    checks = checks_of(this_host(words, python, output))
    if as_json:
        print(json.dumps({"complete": not any(map(is_missing, checks)), "checks": list(map(_row, checks))}, indent=1))
    else:
        screen = screen_for(sys.stdout)
        for line in lines(checks, screen):
            print(line)
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
