"""``%%scalene`` and ``%scalene``: record a cell or a statement in its kernel, and show the report below it.

Without more, a recorder attaches to the kernel from outside: CPU time by line, waits and tasks. Where the kernel runs under
``scalene-record``, its recording is resumed for the cell, memory included (:mod:`scalene_trace.recorder.inside`).
"""

from __future__ import annotations

import argparse
import html
import linecache
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import HTML, display

from ...recorder import start, stop
from ...recorder.api import set_marks, snapshot, tell_source

_ANALYZE = (sys.executable, "-P", "-c", "from scalene_trace.cli.analyze.command import main; main()")
_HEIGHT = 600


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"%%scalene: {message}.")

    def option_strings(self) -> list[str]:
        """Every spelling of an option."""
        return [name for action in self._actions for name in action.option_strings]


def magic_options() -> _Options:
    """The options of ``%%scalene``; others are those of scalene-record."""
    options = _Options(prog="%%scalene", add_help=False, allow_abbrev=False)
    options.add_argument("-o", "--output")
    options.add_argument("--text", action="store_true")
    options.add_argument("--height", type=int, default=_HEIGHT)
    return options


@magics_class
class ScaleneMagics(Magics):
    """The commands."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._own_shell = shell
        self._titles: dict[str, str] = {}  # of what was run by these commands, by the names that it was compiled with

    @cell_magic
    def scalene(self, line: str, cell: str) -> None:
        """Record this cell, and show where its time goes, line by line.

        ::

          %%scalene [-o FILE] [--text] [--height PIXELS] [OPTIONS OF scalene-record]

        -o FILE keeps the trace; --text prints the report of the terminal instead of the page. Other options are those of
        `scalene-record --pid`, for example --cpu-interval 1ms. Memory is recorded if Jupyter was started by
        `scalene-record --pause-at-start jupyter lab`.
        """
        given, more = magic_options().parse_known_args(shlex.split(line))
        if more and not more[0].startswith("-"):
            raise UsageError(f"%%scalene: {more[0]!r} is no option. The code stands in the lines below.")
        # A line before the cell, so that its lines have the numbers that the notebook shows. Other magics must come first.
        self._record(cell if cell.startswith("%%") else f"# %%scalene {line}\n{cell}", given, more)

    @line_magic("scalene")  # type: ignore[arg-type]
    def scalene_line(self, line: str) -> None:
        """Record one statement: `%scalene f(1)`. See %%scalene."""
        self._record(line, magic_options().parse_args([]), [])

    def _record(self, code: str, given: argparse.Namespace, more: Sequence[str]) -> None:
        if self._own_shell.should_run_async(code, transformed_cell=self._own_shell.transform_cell(code)):  # type: ignore[no-untyped-call]
            raise UsageError(
                "A cell with await cannot be run within another. Record it by `with scalene_trace.recorder.record(FILE):` in the "
                "cell."
            )
        with tempfile.TemporaryDirectory(prefix="scalene-trace-") as folder:
            own = Path(given.output or Path(folder, "trace.parquet"))
            if (under := "SCALENE_TRACE_SPOOL" in os.environ) and (more or given.output):
                print("%%scalene: scalene-record records this kernel, and its own options hold.", file=sys.stderr)
            is_recorded = start(own, more)
            before = dict(self._compiled())
            name, number = max(before.items(), key=lambda each: each[1], default=("", 0))  # of this cell
            self._titles[name] = f"In[{number}], magic command"
            begin_ns = time.monotonic_ns()
            try:
                self._own_shell.run_cell(code)  # type: ignore[no-untyped-call]  # shows results and errors itself
            finally:
                end_ns = time.monotonic_ns()
                # IPython counts what was run within the cell as the next one.
                new = {each for each, count in self._compiled().items() if before.get(each) != count}
                self._titles |= dict.fromkeys(new, f"In[{number}]")
                trace = self._stopped(under, number, begin_ns, end_ns) if is_recorded else None
            if trace:
                _show(*trace, given.text, given.height)

    def _stopped(self, under: bool, number: int, begin_ns: int, end_ns: int) -> tuple[str, str] | None:
        """Ends the recording, or pauses the one that the kernel is ``under``. Returns the trace, and the mark of the cell."""
        mark = f"In[{number}] of {os.getpid()}"
        for file, count in self._compiled().items():
            if lines := linecache.getlines(file):
                tell_source(file, self._titles.get(file, f"In[{count}]"), "".join(lines))
        set_marks([(mark, begin_ns, end_ns)])
        found = stop()
        return (found, mark) if found and (not under or snapshot()) else None

    def _compiled(self) -> dict[str, int]:
        """IPython's numbers of the cells that were run, by the names that they were compiled with."""
        found: dict[str, int] = getattr(self._own_shell.compile, "_filename_map", {})
        return found


def _show(trace: str, mark: str, as_text: bool, height: int) -> None:
    """The report on the cell, from a trace that may hold more."""
    form = ["report", "--color", "never"] if as_text else ["html", "-o", "-"]
    done = subprocess.run([*_ANALYZE, *form, "--mark", mark, trace], capture_output=True)
    if done.stderr:
        print(done.stderr.decode(errors="replace"), end="", file=sys.stderr)
    if done.returncode:
        return
    text = done.stdout.decode(errors="replace")
    if as_text:
        print(text, end="")
        return
    # Without the notebook's origin: what is recorded may be anything, and the page needs nothing of the notebook.
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(text)}" width="100%" height="{height}"></iframe>'
    display(HTML(f'<div style="width: 100%">{frame}</div>'))  # type: ignore[no-untyped-call]


def load(shell: InteractiveShell) -> None:
    """Registers the commands."""
    shell.register_magics(ScaleneMagics)
