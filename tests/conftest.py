"""Fixtures of all tests: the interpreters that are recorded, and the proof that nothing is left behind.

With several workers (pytest-xdist), the tests that compare times run first: those whose truth the program's own clocks
tell two or three at a time, then, one by one, those that any company would disturb. All others wait for them. What they
miss is measured again by ``whole.py``.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

sys.path.insert(0, str(Path(__file__).resolve().parent))

from command_line import Ran
from interpreters import Interpreter, interpreters
from targets_env import environment_python

#: Inherited by every process that a test starts, so that one left behind is recognised.
RUN_MARK = "SCALENE_TEST_RUN"
#: Modules whose tests compare CPU or waiting time with the program's own clocks, or need a core for some seconds: others of
#: them may run beside.
TOGETHER = {
    "test_must_gpu.py",
    "test_must_size.py",
    "test_must_split.py",
    "test_must_tasks.py",
    "test_must_time.py",
    "test_must_waits.py",
}
#: Those of them whose programs keep a core busy from beginning to end; the others mostly wait.
BUSY = {"test_must_size.py", "test_must_split.py", "test_must_time.py"}
#: Modules whose tests compare times: nothing else may run beside them.
ALONE = {"test_must_kernel.py", "test_must_native.py"}
MEASURING = TOGETHER | ALONE
#: Modules that hold figures of random samples, or of a CPU clock, against exact ones; others may run beside them.
SAMPLING = {
    "test_must_deaths.py",
    "test_must_leaks.py",
    "test_must_processes.py",
    "test_must_reconcile.py",
    "test_must_sampling.py",
}
#: Modules whose tests are costly and hold on each interpreter for the same reasons: the short form runs each test on two of
#: four, drawn by its name, so that every interpreter meets half of them; `make stress` runs the other half (marked long).
HALVED = {
    "test_control.py",
    "test_drain.py",
    "test_exec.py",
    "test_memory_edges.py",
    "test_must_bad_input.py",
    "test_must_deaths.py",
    "test_must_devices.py",
    "test_must_exact.py",
    "test_must_gpu.py",
    "test_must_kernel.py",
    "test_must_memory.py",
    "test_must_memory_harm.py",
    "test_must_native.py",
    "test_must_processes.py",
    "test_must_reconcile.py",
    "test_must_size.py",
    "test_must_split.py",
    "test_must_stress.py",
    "test_must_survival.py",
    "test_must_tasks.py",
    "test_must_time.py",
    "test_must_waits.py",
    "test_never_harm.py",
    "test_real_programs.py",
    "test_signals.py",
}
#: Tests that measure take a seat while they run, or two where they are busy, or all to be alone.
SEATS = 4
#: How many tests of this run measure. Those that do not wait for them, but not for ever: a worker may have crashed.
MEASURERS = pytest.StashKey[int]()
PATIENCE_S = 900


def recorded_interpreters() -> list[Interpreter]:
    """The interpreters of the target environments where they were made, else the bare ones."""
    made = {each: environment_python(each) for each in interpreters()}
    return [Interpreter(path if path.exists() else each.path, each.version) for each, path in made.items()]


#: Random inputs of each test: few in the short form, many in `make stress`.
hypothesis.settings.register_profile("short", max_examples=8, deadline=None)
hypothesis.settings.register_profile("long", max_examples=150, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    os.environ[RUN_MARK] = f"{os.getpid()}.{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    if not config.getoption("hypothesis_profile", None):
        hypothesis.settings.load_profile("short")
    config.addinivalue_line("markers", "leaves_spool: the test leaves a spool behind on purpose")


def module_of(nodeid: str) -> str:
    """File name of the module that a test is in."""
    return Path(nodeid.partition("::")[0]).name


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the half of the tests of HALVED that is not run in the short form: by the test's name alone, so that it is the same
    half whichever tests are collected."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    python = params.get("python") or params.get("server_python")
    if module_of(item.nodeid) in HALVED and python is not None:
        turn = zlib.crc32(item.nodeid.replace(python.name, "").encode())
        if (turn + python.version[1]) % 2:
            item.add_marker("long")


class OneGroupPerVersion(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests that share costly fixtures to one worker: a module's tests on one interpreter, and all that run
    alone."""

    def _split_scope(self, nodeid: str) -> str:
        version = re.search(r"\[(3\.\d+)", nodeid)
        return "alone" if module_of(nodeid) in ALONE else nodeid.partition("::")[0] + (version[1] if version else "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return OneGroupPerVersion(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (module_of(item.nodeid) not in TOGETHER, module_of(item.nodeid) not in ALONE))
    config.stash[MEASURERS] = sum(module_of(item.nodeid) in MEASURING for item in items)


def shared_file(config: pytest.Config, name: str) -> IO[bytes]:
    """A file that the workers of this run share."""
    folder: Path = config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]
    return (folder / name).open("ab", buffering=0)


def take_any(files: list[IO[bytes]], wanted: int) -> None:
    """Locks so many of the files, whichever are free, as soon as there are as many."""
    while True:
        taken: list[IO[bytes]] = []
        for file in files:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken.append(file)
            if len(taken) == wanted:
                return
        for file in taken:
            fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.05)


@contextmanager
def turn_to_measure(config: pytest.Config, module: str) -> Iterator[None]:
    """Holds the seats that a test of ``module`` takes. ``turns`` grows by a byte for each test that has measured."""
    with ExitStack() as stack:
        seats = [stack.enter_context(shared_file(config, f"seat{number}")) for number in range(SEATS)]
        turns = stack.enter_context(shared_file(config, "turns"))
        if module in ALONE:
            for seat in seats:
                fcntl.flock(seat, fcntl.LOCK_EX)
        else:
            take_any(seats, 2 if module in BUSY else 1)
        try:
            yield
        finally:
            turns.write(b".")


def wait_for_measurers(config: pytest.Config) -> None:
    """Waits until all tests that measure have done so."""
    deadline = time.monotonic() + PATIENCE_S
    with shared_file(config, "turns") as file:
        while os.fstat(file.fileno()).st_size < config.stash[MEASURERS] and time.monotonic() < deadline:
            time.sleep(0.2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    if (module := module_of(item.nodeid)) in MEASURING:
        with turn_to_measure(item.config, module):
            return (yield)
    wait_for_measurers(item.config)
    return (yield)


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


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Calls `scalene-analyze` within this process, as the command line does."""
    from scalene_trace.cli.analyze import command as analyze

    return lambda *arguments: Ran(analyze.run([str(each) for each in arguments]), capsys.readouterr())


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


def spools_in(folders: set[Path]) -> set[Path]:
    """Spool folders anywhere below ``folders``."""
    return {path for folder in folders for path in folder.rglob("*.spool*") if path.is_dir()}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """After each test: no spool in the folders that it made, no process, no changed environment."""
    base = tmp_path_factory.getbasetemp()
    processes, variables, folders = marked_processes(), dict(os.environ), set(base.iterdir())
    yield
    left = newly_left(processes)
    assert not left, f"processes were left behind: {left}"
    changed = {name for name in variables.keys() | os.environ.keys() if variables.get(name) != os.environ.get(name)}
    assert changed <= {"PYTEST_CURRENT_TEST"}, f"environment variables were changed: {changed}"
    if request.node.get_closest_marker("leaves_spool") is None:
        new = spools_in(set(base.iterdir()) - folders)
        assert not new, f"spools were left behind: {new}"
