"""CPython's own regression tests under the recorder, against the same tests bare.

``python -m tests.long.regression`` runs every file of :data:`FILES` on each interpreter that has it, bare and recorded
with everything on and a tick every millisecond, compares test by test, and writes a dated result into
``benchmarks/results/``. The tests of an interpreter that was unpacked for our own tests are unpacked too. What passes
bare and fails recorded is repeated: a test *newly fails* when it fails recorded more than once and never bare. Exit
status 1 when one does that :data:`KNOWN` does not explain.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tests.support import unpacked_python
from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import ROOT
from tests.support.recording import environment, losses, record_command, report

_FILES = """
test_fork1 test_thread test_threadsignals test_wait3 test_wait4 test_resource test_select test_poll test_epoll
test_selectors test_generators test_coroutines test_exceptions test_weakref test_gc test_mmap test_tracemalloc
test_faulthandler test_signal test_threading test_threading_local test_sys test_posix test_os test_ctypes test_io
test_socket test_subprocess test_eintr test_time test_timeout test_fcntl test_pty test_sys_settrace test_sys_setprofile
test_cprofile test_atexit test_queue test_context test_asyncgen test_contextlib_async test_memoryview test_bytes
test_decimal test_zlib test_hashlib test_sqlite3 test_import test_importlib test_embed test_repl test_cmd_line test_site
test_runpy test_venv test_capi test_ssl test_socketserver test_httpservers test_concurrent_futures
test_multiprocessing_fork test_multiprocessing_spawn test_multiprocessing_forkserver test_asyncio test_dict test_buffer
test_popen
"""
FILES = _FILES.split()
#: Where these are folders, their files are run one by one: some of them wait for ever on 3.13.0, bare.
SPLIT = ("test_concurrent_futures", "test_multiprocessing")

#: Tests that assert what no preloaded recorder can keep, by the end of their names, and why.
KNOWN = {
    "test_sys.SysModuleTest.test_debugmallocstats": "sys._debugmallocstats() tells of pymalloc only while Python calls it "
    "directly: whoever stands in front of Python's allocators, tracemalloc too, silences it",
    "test_cmd_line.CmdLineTest.test_python_malloc_stats": "PYTHONMALLOCSTATS prints the same, at the end",
    "test_cmd_line.CmdLineTest.test_xdev": "a function of CPython's own tests names allocators by their addresses: those that "
    "stand in front of them have other ones",
}

#: Waits for ever, bare, on virtual machines whose host does not answer.
IGNORED = ("--ignore", "*VSOCK*")
OPTIONS = ("--cpu-interval", "1ms")
REPEATS = 3
LONGEST_S = 600
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


@dataclass(frozen=True)
class Run:
    """One run of one file: exit status, result by test, wall seconds, losses of the trace (recorded runs)."""

    status: int
    tests: dict[str, str]
    wall_s: float
    output: str
    losses: dict[str, int]

    @property
    def failed(self) -> set[str]:
        """Names of the tests that failed; "(the file)" when it failed with no test to name."""
        found = {name for name, result in self.tests.items() if result == FAILED}
        return found or ({"(the file)"} if self.status else set())


@dataclass(frozen=True)
class Comparison:
    """One file on one interpreter. ``new``: tests that newly fail; ``shaky``: failed recorded once, or also bare."""

    python: str
    file: str
    tests: int
    passed_bare: int
    passed_recorded: int
    status_bare: int
    status_recorded: int
    wall_ratio: float
    new: list[str]
    known: list[str]
    shaky: list[str]
    losses: dict[str, int]


def result_of(case: ElementTree.Element) -> str:
    """What the XML of regrtest says of one test."""
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    return SKIPPED if case.find("skipped") is not None else PASSED


def read_results(path: Path) -> dict[str, str]:
    """Result by test; empty when the run died before it wrote them."""
    if not path.exists():
        return {}
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return {case.get("name", "?"): result_of(case) for case in cases}


def run_file(python: Interpreter, file: str, recorded: bool) -> Run:
    """Runs one file in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = ["-m", "test", "--junit-xml", str(folder / "results.xml"), "--tempdir", name, *IGNORED, file]
        trace = folder / "t.parquet"
        command = record_command(trace, program, python, OPTIONS) if recorded else [str(python.path), *program]
        start = time.monotonic()
        status, output = finished(command, folder)
        wall_s = time.monotonic() - start
        lost = losses(report(trace)) if recorded else {}
        return Run(status, read_results(folder / "results.xml"), wall_s, output, lost)


def finished(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Exit status and output of a command; 124 when it hangs."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment(None),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, output.decode(errors="replace")
    return process.returncode, output.decode(errors="replace")


def reason_for(test: str) -> str | None:
    """Why this test cannot pass under a preload; None where it should."""
    return next((reason for end, reason in KNOWN.items() if test.endswith(end)), None)


def compare(python: Interpreter, file: str, repeats: int, outputs: Path | None) -> Comparison:
    """Runs one file both ways, and again while tests seem to fail newly."""
    bare, ours = [run_file(python, file, False)], [run_file(python, file, True)]
    while len(ours) <= repeats and suspects(bare, ours):
        bare.append(run_file(python, file, False))
        ours.append(run_file(python, file, True))
    times = Counter(test for run in ours for test in run.failed)
    suspected = suspects(bare, ours)
    if outputs and suspected:
        (outputs / f"{python.name}-{file}.txt").write_text("\n=====\n".join(run.output for run in ours if run.failed))
    new = {test for test in suspected if times[test] > 1 or repeats == 0}
    known = {test for test in new if reason_for(test)}
    return Comparison(
        python=python.full_name,
        file=file,
        tests=len(bare[0].tests),
        passed_bare=passed(bare[0]),
        passed_recorded=passed(ours[0]),
        status_bare=bare[0].status,
        status_recorded=ours[0].status,
        wall_ratio=ours[0].wall_s / bare[0].wall_s,
        new=sorted(new - known),
        known=sorted(known),
        shaky=sorted(set(times) - new),
        losses=ours[0].losses,
    )


def suspects(bare: Sequence[Run], ours: Sequence[Run]) -> set[str]:
    """Tests that failed recorded, and never bare."""
    return {test for run in ours for test in run.failed} - {test for run in bare for test in run.failed}


def passed(run: Run) -> int:
    """How many tests passed."""
    return sum(result == PASSED for result in run.tests.values())


@cache
def test_folder(python: Interpreter) -> Path:
    """Where the interpreter's own tests are."""
    code = "import os, test; print(os.path.dirname(test.__file__))"
    return Path(subprocess.run([python.path, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def installed(python: Interpreter, files: Sequence[str]) -> list[str]:
    """Those of the files that the interpreter was installed with; folders of :data:`SPLIT` as their files."""
    found: list[str] = []
    for file in files:
        path = test_folder(python) / file.removeprefix("test.").replace(".", "/")
        if path.is_dir() and file.startswith(SPLIT):
            found += [f"test.{file}.{each.stem}" for each in sorted(path.glob("test_*.py"))]
        elif path.is_dir() or path.with_suffix(".py").exists():
            found.append(file)
    return found


HEADINGS = f"{'python':8}{'file':46}{'tests':>7}{'bare':>7}{'recorded':>10}{'wall':>7}  newly failing"


def row(each: Comparison) -> str:
    """One line of the table."""
    words = [*each.new, *(f"known: {name}" for name in each.known), *(f"shaky: {name}" for name in each.shaky)]
    figures = f"{each.tests:>7}{each.passed_bare:>7}{each.passed_recorded:>10}{each.wall_ratio:>7.2f}"
    return f"{each.python:8}{each.file.removeprefix('test.'):46}{figures}  {', '.join(words)}"


def save(compared: Comparison) -> None:
    """Puts it into the result of the day: JSON, and a table as text. Runs of several files at once may do so."""
    now = datetime.now(UTC)
    path = ROOT / "benchmarks" / "results" / f"regression-tests-{now:%Y-%m-%d}.json"
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = json.loads(path.read_text() or "{}").get("files", [])
        files = {(each["python"], each["file"]): Comparison(**each) for each in before}
        files[compared.python, compared.file] = compared
        found = [files[key] for key in sorted(files)]
        result = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), "options": OPTIONS}
        path.write_text(json.dumps(result | {"files": [asdict(each) for each in found]}, indent=1) + "\n")
        path.with_suffix(".txt").write_text(table(found))


def table(compared: Sequence[Comparison]) -> str:
    """All files, sums, and why known failures cannot be helped."""
    sums = [sum(getattr(each, name) for each in compared) for name in ("tests", "passed_bare", "passed_recorded")]
    total = f"{'sum':8}{len(compared):<46}{sums[0]:>7}{sums[1]:>7}{sums[2]:>10}"
    reasons = [f"{end}: {reason}" for end, reason in KNOWN.items()]
    lines = ["tests that pass bare and recorded", HEADINGS, *map(row, compared), total, "", *reasons]
    return "\n".join(lines).rstrip() + "\n"


def make_room() -> None:
    """Where the limit on descriptors cannot be raised, ours cannot lie behind it, and tests that look at every number
    below it would see it: most hosts have a hard limit above the soft one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES, help="test files (default: all of the list)")
    parser.add_argument("--versions", default="3.11,3.13,3.15,3.14,3.10,3.12", help="minor versions, in this order")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="further runs where a test seems to fail newly")
    parser.add_argument("--outputs", type=Path, help="folder for the output of recorded runs that failed")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    return parser.parse_args()


def main() -> int:
    """Exit status 1 when a test newly fails and nothing explains it."""
    asked = options()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where this runs in a shell's background
    make_room()
    if asked.outputs:
        asked.outputs.mkdir(parents=True, exist_ok=True)
    found = {each.name: each for each in interpreters()}
    pythons = [found[name] for name in asked.versions.split(",") if name in found]
    for python in list(pythons):
        is_ours = python.path == unpacked_python.unpacked(python.name)
        if is_ours and (reason := unpacked_python.unpack_tests(python.name)):
            print(f"CPython {python.name} has no tests: {reason}", file=sys.stderr)
            pythons.remove(python)
    compared = []
    print(HEADINGS, flush=True)
    for python in pythons:
        for file in installed(python, asked.files):
            compared.append(compare(python, file, asked.repeats, asked.outputs))
            print(row(compared[-1]), flush=True)
            if not asked.print_only:
                save(compared[-1])
    return int(any(each.new for each in compared))


if __name__ == "__main__":
    sys.exit(main())
