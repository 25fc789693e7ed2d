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
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.display import HTML, display

from ...recorder import record, recording
from ...recorder.api import set_marks, snapshot, tell_source
from ...recorder.shim_library import unrecorded_environment
from ..analyze import COMMAND as ANALYZE
from ..record.options import split_command_line

_HEIGHT = 600
_NO_REPORT = (
    "%%scalene: no report is shown, because the recording of this kernel goes on, or its recorder does not answer. The trace "
    "will have this cell."
)
#: Options of scalene-record that start nothing, or end the recording before the cell.
_REFUSED = frozenset(
    [
        "-h",
        "--help",
        "--version",
        "-p",
        "--pid",
        "--duration",
        "--control",
        "--recover",
        "--doctor",
        "--pause-at-start",
        "--snapshot-every",
        "--rotate",
        "--keep",
        "--install-completion",
        "--show-completion",
    ]
)


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"%%scalene: {message}.")

    def option_strings(self) -> list[str]:
        """Every spelling of an option."""
        return [name for action in self._actions for name in action.option_strings]


def _pixels(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not a number of pixels")
    return int(text)


def magic_options() -> _Options:
    """The options of ``%%scalene``; others are those of scalene-record."""
    options = _Options(prog="%%scalene", add_help=False, allow_abbrev=False)
    options.add_argument("-o", "--output")
    options.add_argument("--text", action="store_true")
    options.add_argument("--height", type=_pixels, default=_HEIGHT)
    return options


@magics_class
class ScaleneMagics(Magics):
    """The commands."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._own_shell = shell
        #: Of what was run by these commands, by the name and number that it was compiled with.
        self._titles: dict[tuple[str, int], str] = {}
        #: The number of the cell that is being recorded, for a statement within it; IPython counts that as the next cell.
        self._number = 0
        #: Names and titles that the recorder knows that this kernel runs under.
        self._told: set[tuple[str, str]] = set()
        #: Cells so far.
        self._recorded = 0

    @cell_magic
    def scalene(self, line: str, cell: str) -> None:
        """Record this cell, and show where its time goes, line by line.

        ::

          %%scalene [-o FILE] [--text] [--height PIXELS] [OPTIONS OF scalene-record]

        -o FILE keeps the trace; --text prints the report of the terminal instead of the page. Other options are those of
        `scalene-record --pid`, for example --cpu-interval 1ms. Memory is recorded if Jupyter was started by
        `scalene-record --pause-at-start jupyter lab`.
        """
        try:
            given, more = magic_options().parse_known_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"%%scalene: {error}.") from None
        if program := split_command_line(more).program:
            raise UsageError(f"%%scalene: {program[0]!r} is not an option. The code stands in the lines below.")
        if refused := [each for each in more if each.partition("=")[0] in _REFUSED or each.startswith("-p")]:
            raise UsageError(f"%%scalene: a cell cannot be recorded with {refused[0]}. %%scalene? says what it takes.")
        # A line before the cell, so that its lines have the numbers that the notebook shows. Other magics must come first.
        code = cell.lstrip("\n")
        code = code if code.startswith("%%") else f"# %%scalene {line}\n{cell}"
        self._record(code, given, more, is_cell=True)

    @no_var_expand
    @line_magic("scalene")  # type: ignore[arg-type]
    def scalene_line(self, line: str) -> None:
        """Record one statement: `%scalene f(1)`. See %%scalene."""
        self._record(line, magic_options().parse_args([]), [], is_cell=False)

    def _record(self, code: str, given: argparse.Namespace, more: Sequence[str], is_cell: bool) -> None:
        """Records the code of a cell, which its own text only starts, or a statement of it."""
        shell = self._own_shell
        if shell.should_run_async(code, transformed_cell=shell.transform_cell(code)):  # type: ignore[no-untyped-call]
            raise UsageError(
                "A cell with await cannot be run within another. Record it by `with scalene_trace.recorder.record(FILE):` in the "
                "cell."
            )
        outer = self._outer()
        number = self._number or outer[1]
        name = f"In[{number}]"
        self._titles.setdefault(outer, f"{name}, magic command" if is_cell else name)
        with tempfile.TemporaryDirectory(prefix="scalene-trace-") as folder:
            with record(Path(given.output or Path(folder, "trace.parquet")), more) as block:
                under = recording() and not block.is_own
                if under and (more or given.output):
                    print("%%scalene: scalene-record records this kernel, and its own options hold.", file=sys.stderr)
                begin_ns = time.monotonic_ns()
                result, compiled = self._run(code, number)
                end_ns = time.monotonic_ns()
                for each in compiled:  # a statement within the cell has its title
                    self._titles.setdefault(each, name if is_cell else f"{name}, %scalene")
                self._recorded += 1
                mark = f"{name} of {os.getpid()}, recorded cell {self._recorded}"
                self._tell(self._told if under else set())  # a recorder of its own knows nothing yet
                set_marks([(mark, begin_ns, end_ns)])
            if result.error_before_exec is None:
                if block.path and (not under or snapshot()):
                    _show(block.path, mark, given.text, given.height)
                elif under and not self._number:  # a statement within a recorded cell is in the report on the cell
                    print(_NO_REPORT, file=sys.stderr)
        result.raise_error()  # type: ignore[no-untyped-call]

    def _run(self, code: str, number: int) -> tuple[ExecutionResult, set[tuple[str, int]]]:
        """Runs code as a cell of its own, for cell ``number``; its error is not shown yet. Also returns the names and numbers
        that it was compiled with."""
        before = self._compiled().copy()
        with ExitStack() as shown:
            for name in ("showtraceback", "showsyntaxerror", "showindentationerror"):
                shown.enter_context(patch.object(self._own_shell, name))
            shown.enter_context(patch.object(self, "_number", number))
            result = self._own_shell.run_cell(code)  # type: ignore[no-untyped-call]
        # IPython counts what is run within a cell as the next one.
        return result, set(self._compiled().items() - before.items())

    def _outer(self) -> tuple[str, int]:
        """The name and number that the cell with this command was compiled with: of the nearest caller that is a cell."""
        compiled = self._compiled()
        frame: FrameType | None = sys._getframe()
        while frame and frame.f_code.co_filename not in compiled:
            frame = frame.f_back
        name = frame.f_code.co_filename if frame else ""
        return name, compiled.get(name, 0)

    def _tell(self, told: set[tuple[str, str]]) -> None:
        """Tells the recorder the texts and titles of all cells but those ``told``, to which they are added."""
        for file, count in self._compiled().items():
            title = self._titles.get((file, count), f"In[{count}]")
            if (file, title) not in told and (lines := linecache.getlines(file)):
                told.add((file, title))
                tell_source(file, title, "".join(lines))

    def _compiled(self) -> dict[str, int]:
        """IPython's numbers of the cells that were run, by the names that they were compiled with."""
        found: dict[str, int] = getattr(self._own_shell.compile, "_filename_map", {})
        return found


def _show(trace: str, mark: str, as_text: bool, height: int) -> None:
    """The report on the cell, from a trace that may hold more."""
    form = ["report", "--color", "never"] if as_text else ["html", "-o", "-"]
    command = [*ANALYZE, *form, "--mark", mark, trace]
    done = subprocess.run(command, capture_output=True, env=unrecorded_environment())
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
