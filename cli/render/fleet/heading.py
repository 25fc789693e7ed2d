"""The sentence that says what an answer about a fleet is about."""

from __future__ import annotations

from ....analyze.results.fleet import Coverage
from ....formats.units import counted
from ..table import wrap
from ..text import Screen, clean


def fleet_heading(fleet: Coverage, screen: Screen) -> list[str]:
    """What an answer is about, in one sentence."""
    facts = [counted(fleet.traces, "trace", "traces")]
    if fleet.hosts:
        facts.append(counted(fleet.hosts, "host", "hosts"))
    if fleet.versions:
        facts.append(counted(fleet.versions, "version", "versions"))
    if fleet.first_day and fleet.last_day:
        same = fleet.first_day == fleet.last_day
        facts.append(fleet.first_day if same else f"{fleet.first_day} to {fleet.last_day}")
    if fleet.exposure is not None:
        unit = "hours recorded" if fleet.per is None else f"marks {clean(fleet.per)}"
        facts.append(f"{fleet.exposure:,.2f} {unit}" if fleet.per is None else f"{fleet.exposure:,.0f} {unit}")
    text = f"{clean(fleet.folder)}: {', '.join(facts)}."
    if fleet.unreadable:
        text += f" {counted(fleet.unreadable, 'file', 'files')} could not be read."
    return [screen.paint(line, "bold") for line in wrap(text, screen.width)]
