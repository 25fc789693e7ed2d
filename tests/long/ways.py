"""Are constructs that lead into C code native, and those that only look like it Python's, equally on each interpreter?

targets/ways.py runs each of its constructs on a line of a function of its own: calls through ctypes, cffi, Cython and
pybind11, numpy, pandas, SQLite, modules and types in C; and the language itself, of which the definition
(docs/design/attribution.md) says that it is Python's. Errors are in points (percent of the case's user CPU time), against the
program's own stopwatch. A dated result is written into ``benchmarks/results/``.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.dated_results import parser_of_check, write_result
from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import TARGETS
from tests.support.recording import record_cpu, tool
from tests.support.stopwatch import Case, cases_of, listed
from tests.support.target_environments import DISTRIBUTION, environment_python, make, version_of

#: Points: of truth, and between two interpreters.
LIMIT = 3.0
PROGRAM = TARGETS / "ways.py"
#: Each case, with all that it called.
TICKS = """
SELECT f.function, count(*) AS ticks, sum(t.user_s) FILTER (class = 'python') AS python_s,
    sum(t.user_s) FILTER (class != 'python') AS native_s, sum(t.system_s) AS system_s, sum(t.user_s + t.system_s) AS cpu_s
FROM cpu_ticks t JOIN (SELECT DISTINCT trace, stack, function FROM stack_frames) f USING (trace, stack)
WHERE regexp_matches(f.function, '^(c|py)_') GROUP BY ALL
"""
COMPILED = """
import pathlib, pybind11, subprocess, sys, sysconfig
source, folder, flags = pathlib.Path(sys.argv[1]), pathlib.Path(sysconfig.get_path("platlib")), ["-O2", "-shared", "-fPIC"]
include, suffix = pathlib.Path(sysconfig.get_path("include")), sysconfig.get_config_var("EXT_SUFFIX")
headers = ["-I", include, "-I", include.parent]  # Debian's headers name one beside the folder
out = folder / "cython_ways.c"
subprocess.run([sys.executable, "-m", "cython", source / "cython_ways.pyx", "-o", out], check=True)
subprocess.run(["gcc", *flags, *headers, out, "-o", folder / f"cython_ways{suffix}"], check=True)
headers += ["-std=c++17", "-fvisibility=hidden", "-I", pybind11.get_include()]
subprocess.run(["g++", *flags, *headers, source / "pybind_ways.cpp", "-o", folder / f"pybind_ways{suffix}"], check=True)
"""


def environment(interpreter: Interpreter) -> str:
    """The interpreter with the packages that the constructs need, and with modules compiled for it."""
    make(interpreter, "ways")
    python = environment_python(interpreter, "ways")
    subprocess.run([python, "-c", COMPILED, TARGETS], check=True)
    return str(python)


def measured(python: str, seconds: float, interval: str, names: Sequence[str]) -> list[Case]:
    """The constructs on an interpreter; no names = all."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "t.parquet"
        out = record_cpu(trace, python, [PROGRAM, str(seconds), *names], interval)
        query = [*tool("scalene-analyze"), "sql", "--json", str(trace), TICKS]
        text = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    rows = {row["function"]: {name: value or 0 for name, value in row.items()} for row in json.loads(text)["rows"]}
    return cases_of(version_of(python), json.loads(out.splitlines()[-1]), rows)


def spreads(cases: list[Case]) -> dict[str, float]:
    """For each construct, how far its errors on the interpreters are apart."""
    errors: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        errors[case.case].append(case.error)
    return {name: max(each) - min(each) for name, each in errors.items()}


def text_of(cases: list[Case]) -> str:
    """For each interpreter: how large the errors are, and which are larger than the limit. Then: which differ between them."""
    lines = []
    for version in dict.fromkeys(case.python for case in cases):
        mine = [case for case in cases if case.python == version]
        errors = [abs(case.error) for case in mine]
        lines.append(
            f"{version}: {len(mine)} constructs, {statistics.median(case.ticks for case in mine):.0f} ticks each; mean error "
            f"{statistics.mean(errors):.1f}, largest {max(errors):.1f} points; "
            f"{sum(error <= LIMIT for error in errors)} within {LIMIT:g}"
        )
        lines += listed(case for case in mine if abs(case.error) > LIMIT)
    apart = {name: spread for name, spread in spreads(cases).items() if spread > LIMIT}
    found = ", ".join(f"{name} {spread:.1f}" for name, spread in sorted(apart.items(), key=lambda each: -each[1]))
    lines.append(f"errors more than {LIMIT:g} points apart between interpreters: {found or 'none'}")
    return "\n".join(lines)


def main() -> int:
    """Exit status 1 if a construct is off by more than the limit."""
    parser = parser_of_check(__doc__, 0.6)
    parser.add_argument("names", nargs="*", help="constructs, such as c_numpy_sort (default: all)")
    asked = parser.parse_args()
    if not shutil.which("g++"):
        sys.exit("this check needs g++")
    distribution = [str(DISTRIBUTION)] * DISTRIBUTION.exists()
    pythons = asked.python or [*map(environment, interpreters()), *distribution]
    cases = [case for python in pythons for case in measured(python, asked.seconds, asked.interval, asked.names)]
    print(text_of(cases))
    if not asked.print_only:
        write_result("ways", {"seconds": asked.seconds, "cases": [asdict(case) for case in cases]}, text_of(cases))
    return int(any(abs(case.error) > LIMIT for case in cases))


if __name__ == "__main__":
    sys.exit(main())
