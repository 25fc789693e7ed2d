"""A table of leaks, and places in source files, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analyze.results.report import Leak
from .text import Screen, cells, clean, fit, fit_left, megabytes, per_second, percent, seconds, sparkline


def leak_table(leaks: Sequence[Leak], screen: Screen, has_source: bool = False) -> Iterator[str]:
    """Title, column names and a line for each leak; ``has_source``: a second line with its source."""
    is_wide = screen.width >= 100
    titles = f"{'rate':>10} {'±':>6} {'sure':>6} {'at end':>8} " + f"{'age':>7} {'trend':12} " * is_wide
    yield screen.paint("Leaks", "bold") + fit(
        "  rate and its standard error, alive at the end", screen.width - 5, screen
    )
    yield screen.paint(titles.replace("±", screen.glyph("±", "+-")) + " where", "dim")
    for leak in leaks:
        error = f"{percent(leak.error_bytes_per_s, leak.bytes_per_s):.0f} %"
        text = f"{per_second(leak.bytes_per_s):>10} {error:>6} {100 * leak.probability:>4.1f} %"
        text += f" {megabytes(leak.live_at_end_bytes):>8} "
        if is_wide:
            end_s = leak.trend[-1][0] if leak.trend else 0.0
            curve = sparkline(screen, leak.trend, leak.trend[0][0] if leak.trend else 0.0, end_s, 12)
            text += f"{seconds(leak.age_s):>7} {screen.paint(curve, 'memory')} "
        used = len(titles)
        yield (
            text + " " + place(leak.file, leak.line, f"{leak.type or leak.allocator} in {leak.function}", used, screen)
        )
        if has_source and leak.source is not None:
            yield " " * (used + 1) + fit(clean(leak.source.strip()), screen.width - used - 1, screen)


def place(file: str, line: int | None, text: str, used: int, screen: Screen) -> str:
    """``file:line``, then a text: what fits beside ``used`` columns, the end of the path first."""
    place, said = f"{clean(file)}:{line}", clean(text)
    room = screen.width - used - 1
    place = fit_left(place, max(room * 3 // 5, room - cells(said) - 2), screen)
    return f"{place}  {fit(said, room - cells(place) - 2, screen)}".rstrip()
