"""Fixtures of all tests: the interpreters that are recorded, and the check that nothing is left behind.

With several workers (pytest-xdist), tests that hold figures against clocks run first: those of ``measures`` and
``measures_busy`` beside each other, then those of ``measures_alone`` one by one. All other tests wait for them.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import IO

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.closing_line import OUTCOMES, write_counts
from tests.support.command_line import Ran
from tests.support.interpreters import PARAMETERS, Interpreter, hand_to_workers
from tests.support.measure import SELECTED
from tests.support.packages import advice
from tests.support.target_environments import newest_recorded, recorded_interpreters

#: Inherited by every process that a test starts, so that one that is left behind is recognised.
RUN_MARK = "SCALENE_TEST_RUN"
#: Seats that a test of each kind takes while it runs: of SEATS seats, a test that needs the machine for itself takes all.
SEATS = 4
SEATS_TAKEN = {"measures": 1, "measures_busy": 2, "measures_alone": SEATS}
#: Tests with one of these markers get the marker ``figures`` too, by which `make test` and `make measure` choose.
FIGURES = (*SEATS_TAKEN, "samples")
#: How many tests of this run measure. Other tests wait for them, but not forever: a worker may have crashed.
MEASURING_TESTS = pytest.StashKey[int]()
PATIENCE_S = 900
STARTED_S = time.monotonic()


#: Random inputs of each test: few in `make test`, which has 25 minutes with all the rest, many in `make stress`.
hypothesis.settings.register_profile("short", max_examples=2, deadline=None)
hypothesis.settings.register_profile("long", max_examples=150, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        hand_to_workers()
    os.environ[RUN_MARK] = f"{os.getpid()}.{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    # As if the environment of the tests were active: a program without --python runs in it, and not under pyenv's shim.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    if not config.getoption("hypothesis_profile", None):
        hypothesis.settings.load_profile("short")


def seats_of(item: pytest.Item) -> int:
    """How many seats a test takes: 0 if it does not measure."""
    return max((SEATS_TAKEN[each.name] for each in item.iter_markers() if each.name in SEATS_TAKEN), default=0)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without looking for garbage: of the many objects that are made, nearly all stay. Nobody looks at them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@cache
def names_figures(path: Path) -> bool:
    """Whether a file of tests names a marker by which tests hold figures."""
    return re.search(rf"\bmark\.({'|'.join(FIGURES)}|figures)\b", path.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make measure` imports only files that name a marker of figures."""
    of_tests = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if config.option.markexpr == SELECTED and of_tests and not names_figures(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if any(each.name in FIGURES for each in item.iter_markers()):
        item.add_marker("figures")
    if item.get_closest_marker("figures"):
        assert names_figures(item.path), f"{item.path} must name its marker, because `make measure` looks for it"
    if not is_drawn(item):
        item.add_marker("long")


@cache
def versions_here() -> tuple[tuple[int, ...], ...]:
    return tuple(each.version for each in recorded_interpreters())


def is_drawn(item: pytest.Item) -> bool:
    """Whether `make test` and `make measure` run a test on its interpreter.

    Each test runs on one of those that are here, drawn by its name and its other parameters, so that all get about as many.
    `make stress` runs the rest.
    """
    params = getattr(getattr(item, "callspec", None), "params", {})
    python = next((params[name] for name in PARAMETERS if name in params), None)
    versions = versions_here()
    if not isinstance(python, Interpreter) or python.version not in versions:
        return True
    turn = zlib.crc32(item.nodeid.replace(python.name, "").encode())
    return (turn + versions.index(python.version)) % len(versions) == 0


class OneGroupPerVersion(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests that share costly fixtures to one worker: a module's tests on one interpreter, and all that run alone.

    Tests that measure form groups of their own, which come first. In one group with other tests, which wait for all
    that measure, they would wait for tests that no worker has begun.
    """

    def _split_scope(self, nodeid: str) -> str:
        seats = self._seats.get(nodeid, 0)
        version = re.search(r"\[(3\.\d+)", nodeid)
        group = nodeid.partition("::")[0] + (version[1] if version else "")
        return "alone" if seats == SEATS else f"{group} measures" if seats else group

    @cached_property
    def _seats(self) -> dict[str, int]:
        """The seats of each test that measures. Only the workers know the markers; they have written them here."""
        found: dict[str, int] = json.loads((run_folder(self.config) / "seats.json").read_text())
        return found


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return OneGroupPerVersion(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (seats_of(item) == 0, seats_of(item) == SEATS))
    seats = {item.nodeid: seats_of(item) for item in items if seats_of(item)}
    config.stash[MEASURING_TESTS] = len(seats)
    if "PYTEST_XDIST_WORKER" in os.environ:
        written = run_folder(config) / f"seats.{os.getpid()}"
        written.write_text(json.dumps(seats))
        written.replace(run_folder(config) / "seats.json")


def run_folder(config: pytest.Config) -> Path:
    """A folder that the workers of this run and their controller share."""
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return base.parent if hasattr(config, "workerinput") else base


def shared_file(config: pytest.Config, name: str) -> IO[bytes]:
    """A file that the workers of this run share."""
    return (run_folder(config) / name).open("ab", buffering=0)


def take_any(files: list[IO[bytes]], wanted: int) -> None:
    """Locks ``wanted`` of the files, whichever are free, as soon as there are as many."""
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
def turn_to_measure(config: pytest.Config, wanted: int) -> Iterator[None]:
    """Holds ``wanted`` seats. The file ``turns`` grows by a byte for each test that has measured."""
    with ExitStack() as stack:
        seats = [stack.enter_context(shared_file(config, f"seat{number}")) for number in range(SEATS)]
        turns = stack.enter_context(shared_file(config, "turns"))
        if wanted == SEATS:
            for seat in seats:
                fcntl.flock(seat, fcntl.LOCK_EX)
        else:
            take_any(seats, wanted)
        try:
            yield
        finally:
            turns.write(b".")


def wait_for_measuring_tests(config: pytest.Config) -> None:
    """Waits until all tests that measure have finished."""
    deadline = time.monotonic() + PATIENCE_S
    with shared_file(config, "turns") as file:
        while os.fstat(file.fileno()).st_size < config.stash[MEASURING_TESTS] and time.monotonic() < deadline:
            time.sleep(0.2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    if seats := seats_of(item):
        with turn_to_measure(item.config, seats):
            return (yield)
    wait_for_measuring_tests(item.config)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """At the very end of a run: which tests were skipped for a missing package, and how to install it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    skipped = [str(each.longrepr[2]) for each in reporter.stats.get("skipped", []) if isinstance(each.longrepr, tuple)]
    for line in advice(skipped):
        reporter.write_line(line, yellow=True)
    counts = {what: len(reporter.stats.get(what, [])) for what in OUTCOMES}
    write_counts(counts | {"seconds": time.monotonic() - STARTED_S})


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
    """The newest interpreter of the machine, for what does not depend on the version."""
    return newest_recorded()


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
