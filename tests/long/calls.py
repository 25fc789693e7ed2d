"""Is the work of a call native where its callee is written in C, and Python's where it is not? On each interpreter.

Calls of C code: targets/calls.py calls every callable of ``builtins`` and of some modules in C that takes long enough, each
in two forms, with a stopwatch around each call; errors are in points (percent of the case's CPU time). Calls of Python code
that pass through C code are Python's. For C functions that call Python functions back, Linux's perf tells the truth: it
samples the same program without the recorder, with DWARF call chains and symbols. A dated result is written into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.dated_results import parser_of_check, write_result
from tests.support.paths import TARGETS
from tests.support.perf import FRAMES, LOOP, sampled
from tests.support.recording import native_percent, record_cpu, tool
from tests.support.stopwatch import Case, cases_of, listed
from tests.support.target_environments import interpreters_and_distribution, version_of

#: Of the standard library, with functions and types in C; a distribution may build them into the interpreter.
MODULES = (
    *("_bisect", "_collections", "_csv", "_datetime", "_heapq", "_json", "_pickle", "_random", "_struct", "array"),
    *("binascii", "cmath", "math", "unicodedata", "zlib"),
)
CALLBACKS = ("maps_lambda", "sorts_with_lambda", "filters_with_lambda")
IN_PYTHON = ("calls_unpacked", "calls_with_keywords", "calls_decorated", "calls_instance", "indexes_instance")
LIMIT = 5.0
#: The C functions that the callbacks' cases call.
CALLED = (
    *("builtin_sorted", "list_sort", "list_extend", "list_vectorcall", "list___init__", "map_next", "filter_next"),
    "PySequence_List",
)


def recorded(python: str, program: str, arguments: list[str], interval: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Output of a target, and its functions by name."""
    path = TARGETS / program
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "t.parquet"
        out = record_cpu(trace, python, [path, *arguments], interval)
        report = [*tool("scalene-analyze"), "functions", "--json", "--all", trace]
        rows = json.loads(subprocess.run(report, capture_output=True, text=True, check=True).stdout)["functions"]
    mine = {row["function"].rpartition(".")[2]: row for row in rows if row["file"] == str(path)}
    return out, mine


def calls_of_c(python: str, version: str, seconds: float, interval: str) -> list[Case]:
    """The cases of targets/calls.py."""
    probe = (
        f"import sys\nfor name in {MODULES!r}:\n    try: __import__(name); print(name)\n    except ImportError: pass"
    )
    modules = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    out, rows = recorded(python, "calls.py", [str(seconds), *modules], interval)
    truth: dict[str, float] = json.loads(out.splitlines()[-1])
    return cases_of(version, truth, rows)


def perf_percent(python: str, case: str, seconds: float) -> float | None:
    """Native share of a function of targets/python_calls.py that runs without the recorder, by perf; None = the interpreter's
    file does not name its static functions."""
    run = sampled([python, TARGETS / "python_calls.py", str(seconds), case])
    samples = [[frame.name for frame in sample.frames] for sample in run.samples]
    if not any(name.startswith(CALLED) for sample in samples for name in sample):
        return None
    counts = Counter(class_of(each) for each in samples)
    split = counts["python"] + counts["native"]
    return 100 * counts["native"] / split if split else float("nan")


def class_of(chain: list[str]) -> str:
    """Python, native, or outside (no bytecode loop: start and end of the interpreter)."""
    if LOOP not in chain:
        return "outside"
    inside = chain[: chain.index(LOOP)]
    is_called = any(name.startswith(CALLED) for name in inside)
    return "native" if is_called and not any(name.startswith(FRAMES) for name in inside) else "python"


def calls_of_python(python: str, version: str, seconds: float, interval: str) -> list[Case]:
    """The cases of targets/python_calls.py, each in a run of its own, because the functions that are called count too. Without
    perf only those in which nothing is native."""
    truth: dict[str, float | None] = dict.fromkeys(IN_PYTHON, 0.0)
    if shutil.which("perf"):
        truth |= {name: perf_percent(python, name, seconds) for name in CALLBACKS}
    cases = []
    for name, share in truth.items():
        if share is None:
            continue
        _, rows = recorded(python, "python_calls.py", [str(seconds), name], interval)
        total = {key: sum(row[key] for row in rows.values()) for key in ("python_s", "native_s", "ticks")}
        cases.append(Case(version, name, share, share, native_percent(total), total["ticks"]))
    return cases


def text_of(cases: list[Case]) -> str:
    """For each interpreter: how large the errors are, and which are larger than the limit."""
    lines = []
    for version in dict.fromkeys(case.python for case in cases):
        mine = [case for case in cases if case.python == version]
        for title, chosen in {
            "calls of C code": [case for case in mine if case.case.startswith("c_")],
            "calls of Python classes": [case for case in mine if case.case.startswith("py_")],
            "calls through C code, against perf": [case for case in mine if not case.case.startswith(("c_", "py_"))],
        }.items():
            if not chosen:
                continue
            errors = [abs(case.error) for case in chosen]
            within = sum(error <= LIMIT for error in errors)
            ticks = statistics.median(case.ticks for case in chosen)
            lines.append(
                f"{version:8} {title:36} {len(chosen):4} cases, {ticks:.0f} ticks each: mean error "
                f"{statistics.mean(errors):4.1f}, largest {max(errors):4.1f} points; {within} within {LIMIT:g}"
            )
            lines += listed(case for case in chosen if abs(case.error) > LIMIT or title.endswith("perf"))
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """The command line."""
    parser = parser_of_check(__doc__, 0.5)
    return parser.parse_args()


def main() -> int:
    """Exit status 1 if a case is off by more than the limit."""
    asked = options()
    cases: list[Case] = []
    for python in asked.python or interpreters_and_distribution():
        version = version_of(python)
        mine = calls_of_c(python, version, asked.seconds, asked.interval)
        mine += calls_of_python(python, version, max(asked.seconds, 2.0), asked.interval)
        print(text_of(mine), flush=True)
        cases += mine
    if not asked.print_only:
        facts = {"seconds": asked.seconds, "cases": [asdict(case) for case in cases]}
        write_result("calls", facts, text_of(cases))
    return int(any(abs(case.error) > LIMIT for case in cases))


if __name__ == "__main__":
    sys.exit(main())
