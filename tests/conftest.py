"""Fixtures of all tests: the interpreters that are recorded, and the proof that nothing is left behind.

With several workers (pytest-xdist), the tests that compare times run first, on one worker, while the others wait.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from xdist.scheduler import LoadScopeScheduling

sys.path.insert(0, str(Path(__file__).resolve().parent))

from interpreters import Interpreter, interpreters
from targets_env import environment_python

#: Inherited by every process that a test starts, so that one left behind is recognised.
RUN_MARK = "SCALENE_TEST_RUN"
#: Modules whose tests compare times: nothing else may run beside them.
MEASURING = {"test_must_native.py", "test_must_split.py", "test_must_stress.py", "test_must_time.py"}
#: The lock that this worker holds.
TURN = pytest.StashKey["IO[str] | None"]()


def recorded_interpreters() -> list[Interpreter]:
    """The interpreters of the target environments where they were made, else the bare ones."""
    made = {each: environment_python(each) for each in interpreters()}
    return [Interpreter(path if path.exists() else each.path, each.version) for each, path in made.items()]


def pytest_configure(config: pytest.Config) -> None:
    os.environ[RUN_MARK] = f"{os.getpid()}.{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    config.addinivalue_line("markers", "leaves_spool: the test leaves a spool behind on purpose")


def measures(nodeid: str) -> bool:
    """Whether this test compares times."""
    return Path(nodeid.partition("::")[0]).name in MEASURING


class OneGroupPerVersion(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests that share costly fixtures to one worker: a module's tests on one interpreter, and all that measure."""

    def _split_scope(self, nodeid: str) -> str:
        version = re.search(r"\[(3\.\d+)", nodeid)
        return "measures" if measures(nodeid) else nodeid.partition("::")[0] + (version[1] if version else "")


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return OneGroupPerVersion(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not measures(item.nodeid))


def turn_file() -> IO[str]:
    """The file that the workers of this run lock: exclusively to measure, together for all else."""
    run = os.environ["PYTEST_XDIST_TESTRUNUID"]
    return (Path(tempfile.gettempdir()) / f"scalene-tests-{os.getuid()}-{run}.lock").open("a")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    config = item.config
    alone = measures(item.nodeid)
    if config.stash.get(TURN, None) is None:
        config.stash[TURN] = file = turn_file()
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    try:
        return (yield)
    finally:
        if not (alone and nextitem is not None and measures(nextitem.nodeid)):
            config.stash[TURN].close()
            config.stash[TURN] = None


def pytest_report_header() -> str:
    found = ", ".join(f"{each.full_name} ({each.path})" for each in recorded_interpreters())
    return f"recorded interpreters: {found or 'none'}"


@pytest.fixture(scope="session", params=recorded_interpreters(), ids=lambda each: each.name)
def python(request: pytest.FixtureRequest) -> Interpreter:
    """An interpreter to record; tests that take it run once on each."""
    found: Interpreter = request.param
    return found


@pytest.fixture(scope="session")
def any_python() -> Interpreter:
    """The newest interpreter, for what does not depend on the version."""
    return recorded_interpreters()[-1]


def marked_processes() -> dict[int, str]:
    """Processes of this test run other than ourselves: pid to command line."""
    mark = f"{RUN_MARK}={os.environ[RUN_MARK]}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
        except OSError:
            continue
    return found


def newly_left(before: dict[int, str], patience_s: float = 5) -> dict[int, str]:
    """Marked processes that were not there before, once those that are just ending have had time to end."""
    deadline = time.monotonic() + patience_s
    while True:
        left = {pid: command for pid, command in marked_processes().items() if pid not in before}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def spools_below(folder: Path) -> set[Path]:
    """Spool folders anywhere below ``folder``."""
    return {path for path in folder.rglob("*.spool*") if path.is_dir()}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After each test: no spool, no process, no changed environment."""
    processes, variables, spools = marked_processes(), dict(os.environ), spools_below(tmp_path_factory.getbasetemp())
    yield
    left = newly_left(processes)
    assert not left, f"processes were left behind: {left}"
    changed = {name for name in variables.keys() | os.environ.keys() if variables.get(name) != os.environ.get(name)}
    assert changed <= {"PYTEST_CURRENT_TEST"}, f"environment variables were changed: {changed}"
    if request.node.get_closest_marker("leaves_spool") is None:
        new = spools_below(tmp_path_factory.getbasetemp()) - spools
        assert not new, f"spools were left behind: {new}"
