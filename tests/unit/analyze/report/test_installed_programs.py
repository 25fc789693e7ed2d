"""Programs that are installed modules: ``-m json.tool`` is what the user runs, and its lines are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.trace_builder import MS, TraceBuilder

LIBRARY = "/usr/lib/python3.11"
RUNPY = [("<frozen runpy>", "_run_module_as_main", 196, 198), ("<frozen runpy>", "_run_code", 65, 88)]
OLD_RUNPY = [(f"{LIBRARY}/runpy.py", name, 1, 2) for name in ("_run_module_as_main", "_run_code")]
TOOL, TOOL_MAIN = (f"{LIBRARY}/json/tool.py", "<module>", 1, 83), (f"{LIBRARY}/json/tool.py", "main", 19, 75)
DUMP = (f"{LIBRARY}/json/__init__.py", "dump", 120, 179)
BOOTSTRAP = (f"{LIBRARY}/threading.py", "_bootstrap", 992, 995)
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load", 1, 3)
SITE = (f"{LIBRARY}/site.py", "<module>", 1, 600)
APP = ("/home/me/app.py", "<module>", 1, 2)
LAUNCHER = ("/venv/bin/tool", "<module>", 1, 5)
TEXT = "import sys\nfrom tool import main\nsys.argv[0] = 'tool'\nif True:\n    sys.exit(main())\n"
OWN = (f"{LIBRARY}/site-packages/tool/work.py", "work", 1, 9)
MODULE = (f"{LIBRARY}/site-packages/tool.py", "work", 1, 9)
OTHER = (f"{LIBRARY}/site-packages/other/__init__.py", "other", 1, 9)
PACKAGE = (f"{LIBRARY}/site-packages/tool/__main__.py", "<module>", 1, 4)


@pytest.mark.parametrize(
    ("stacks", "files"),
    [
        ([[*RUNPY, TOOL, TOOL_MAIN, DUMP], [IMPORT, SITE], [BOOTSTRAP, DUMP]], [TOOL[0]]),
        ([[*OLD_RUNPY, TOOL, TOOL_MAIN, DUMP]], [TOOL[0]]),
        ([[*RUNPY, PACKAGE, DUMP]], [PACKAGE[0]]),
        ([[TOOL, TOOL_MAIN, DUMP]], [TOOL[0]]),  # python /usr/lib/python3.11/json/tool.py
        ([[*RUNPY, TOOL, TOOL_MAIN, DUMP], [APP]], [APP[0]]),
        ([[*RUNPY, TOOL, IMPORT, APP]], [APP[0]]),  # -m pytest runs the user's files
        ([[LAUNCHER, DUMP]], []),
        ([[LAUNCHER, OTHER, OWN, DUMP]], [OWN[0]]),  # a launcher is not the program: its package is
        ([[LAUNCHER, OTHER, OWN, OTHER], [APP]], [APP[0]]),
        ([[LAUNCHER, OTHER, MODULE, DUMP]], [MODULE[0]]),
        ([[*RUNPY, PACKAGE, OTHER, OWN, DUMP]], [OWN[0]]),  # and so is that of -m
        ([[*RUNPY, PACKAGE], [BOOTSTRAP, OTHER, OWN]], [PACKAGE[0], OWN[0]]),
        ([[BOOTSTRAP, DUMP], [IMPORT, SITE]], []),
    ],
)
def test_the_program_is_the_users_if_nothing_else_is(
    stacks: list[list[tuple[str, str, int, int]]], files: list[str], tmp_path: Path
) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=10 * MS * len(stacks))
    for number, frames in enumerate(stacks):
        builder.tick(number * 10 * MS, process, thread, builder.stack(*reversed(frames)))
    builder.source(LAUNCHER[0], TEXT)
    path = builder.write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    assert sorted({line.file for line in report.lines}) == files
    if files == [TOOL[0]]:
        excluded = build_report([path], Selection(exclude=("tool.py",)))
        assert excluded.lines == []
        assert excluded.unattributed.cpu_s == report.totals.cpu_s
