"""Programs whose rights are limited, as services, containers and daemons are: recorded, they do what they do bare.

``targets/restrict.py`` takes the rights away and ``targets/limited_work.py`` reports what a program can still do. The rights
are taken from the recorder and its program (``around``), or by the recorded program, which works and then executes another
one (``inside``).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreters import Interpreter
from tests.support.memory_group import joining, memory_group
from tests.support.packages import chromium
from tests.support.paths import PATIENCE_S
from tests.support.recording import Json, environment, losses, record_command, report, rows, target

FAST = ["--cpu-interval", "1ms", "--no-source"]
#: The recorder cannot record, or not start a program.
REFUSED = (125, 126)
IMPOSSIBLE_HERE = 77
NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can take these rights away")

#: What any user can do to its own process: several together, and each alone in the long runs.
WAYS = """
no_new_privileges,memory_deny_write_execute,few_descriptors,no_locked_memory,no_core,small_stack,little_data,docker_profile
no_home,no_temporary_files,no_environment,mask_of_files,no_folder,all_closed closed_errors address_space small_files
no_signals
"""
#: What only root can do.
ROOT_WAYS = """
private_tmp read_only_files,no_capabilities no_processes mask_of_files_of_a_user container
"""
LONG_WAYS = """
no_new_privileges memory_deny_write_execute few_descriptors no_locked_memory no_core no_files small_stack little_data
mask_of_files closed_input closed_output all_closed no_folder no_home no_temporary_files no_environment docker_profile
"""
LONG_ROOT_WAYS = "read_only_files ordinary_user no_capabilities"


def parameters(short: str, long: str) -> list[Any]:
    """Each way, of the recorder and of the program for itself; the long ones only in long runs."""
    marked = [(way, []) for way in short.split()] + [(way, [pytest.mark.long]) for way in long.split()]
    return [
        pytest.param(way, where, marks=marks, id=f"{way} {where}")
        for way, marks in marked
        for where in ("around", "inside")
    ]


#: In these, nothing can be recorded: files may not grow, the folder of the trace is out of reach, or no process may start.
MAY_BE_REFUSED = ("small_files", "no_files", "private_tmp", "no_processes")
FOLDERS = ("bare", "recorded", "traces")
PROCESS_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
#: What stands between the ways and the program that is executed.
WHERE = {"around": [], "inside": ["here"], "here": ["here"]}


@dataclass(frozen=True)
class Outcome:
    """What a program did: exit status, outputs, and what its images reported of each of their steps."""

    status: int
    stdout: bytes
    stderr: bytes
    report: list[Json]


def outcome_of(command: Sequence[str], folder: Path, extra: Mapping[str, str]) -> Outcome:
    """Runs a command that reports into a pipe."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env=environment({"WORK_RESULTS": str(writer), "HOME": str(folder), **extra}),
            pass_fds=[writer],
            timeout=PATIENCE_S,
        )
    finally:
        os.close(writer)
    with open(reader, "rb") as pipe:  # noqa: PTH123 (a descriptor)
        text = pipe.read()
    return Outcome(done.returncode, done.stdout, done.stderr, [json.loads(line) for line in text.splitlines()])


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder with the folders in which the program runs bare and recorded, and one for the trace. Every user may write
    into them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        for each in FOLDERS:
            folder = Path(name) / each
            folder.mkdir()
            folder.chmod(0o777)
        yield Path(name)


def command_of(where: str, way: str, python: Interpreter, trace: Path | None) -> list[str]:
    """The command that restricts and works; recorded into the trace if there is one."""
    restrict, work = [str(target("restrict")), way], str(target("limited_work"))
    inside = [*restrict, *WHERE[where], *([str(python.path), work] if where != "here" else [])]
    if trace is None:
        return [str(python.path), *inside]
    if where != "around":
        return record_command(trace, inside, python, FAST)
    return [str(python.path), *restrict, *record_command(trace, [work], python, FAST)]


def check(where: str, way: str, python: Interpreter, base: Path) -> None:
    """Runs it bare and recorded."""
    folders = [base / name for name in FOLDERS]
    trace = folders[2] / "t.parquet"
    extra = {"OPEN_FOLDER": str(base)}
    alone = outcome_of(command_of(where, way, python, None), folders[0], extra)
    if alone.status == IMPOSSIBLE_HERE:
        pytest.skip(f"this system cannot do it: {alone.stderr.decode()}")
    done = outcome_of(command_of(where, way, python, trace), folders[1], extra)
    if where == "around" and done.status in REFUSED:
        assert way in MAY_BE_REFUSED and (done.report, done.stdout) == ([], b""), done.stderr
        assert done.stderr.startswith(b"scalene-record: ") and done.stderr.count(b"\n") == 1, done.stderr
        return
    assert differences(alone.report, done.report) == {}
    lines = done.stderr.splitlines(keepends=True)
    messages = [line for line in lines if line.startswith(b"scalene-record: ")]
    kept = b"".join(line for line in lines if line not in messages)
    assert (done.status, done.stdout, kept) == (alone.status, alone.stdout, alone.stderr)
    assert len(messages) <= (where == "around")
    if trace.exists():
        assert rows(trace, "process")


@NEEDS_ROOT
def test_a_container_as_in_production(any_python: Interpreter, base: Path) -> None:
    """The recorder is process 1 of a container of 256 MiB whose root is read-only."""
    folders, trace = [base / name for name in FOLDERS], base / "traces" / "t.parquet"
    extra = {"OPEN_FOLDER": str(base)}
    with memory_group(256 << 20) as group:
        alone, done = (
            outcome_of(
                joining(group, [*PROCESS_1, *command_of("around", "container", any_python, output)]), folder, extra
            )
            for folder, output in ((folders[0], None), (folders[1], trace))
        )
    assert differences(alone.report, done.report) == {}
    assert (done.status, done.stdout, done.stderr) == (alone.status, alone.stdout, alone.stderr)
    assert len(rows(trace, "process")) >= 5 and losses(report(trace)).keys() <= {"engine_posix", "python_malloc"}


SQUARES = '<p id="a"></p><script>document.getElementById("a").textContent = [1, 2, 3].map(x => x * x).join()</script>'
HEADLESS = ["--headless", "--disable-gpu", "--dump-dom", "--virtual-time-budget=2000"]


@NEEDS_ROOT
def test_chromium_in_its_sandbox_prints_what_it_prints_bare(any_python: Interpreter, base: Path) -> None:
    """Of an ordinary user. It filters the system calls of its processes, and ends those that make others."""
    page, recorder = base / "page.html", record_command(base / "traces" / "t.parquet", ["--"], None, FAST)
    page.write_text(SQUARES)
    as_user = [str(any_python.path), str(target("restrict")), "ordinary_user"]
    browser = [chromium(), *HEADLESS, f"file://{page}"]
    alone = outcome_of([*as_user, *browser], base / "bare", {})
    done = outcome_of([*as_user, *recorder, *browser], base / "recorded", {})
    assert alone.status == done.status == 0
    assert b'<p id="a">1,4,9</p>' in alone.stdout and done.stdout == alone.stdout
    assert b"CRASHING" not in done.stderr


def differences(alone: list[Json], done: list[Json]) -> Json:
    """The steps that had another result when they were recorded: both results."""
    found: list[Json] = json.loads(json.dumps(done).replace("/recorded", "/bare").replace('"recorded"', '"bare"'))
    if len(alone) != len(found):
        return {"images": (len(alone), len(found))}
    both = [
        (number, step, one[step], two[step])
        for number, (one, two) in enumerate(zip(alone, found, strict=True))
        for step in one
    ]
    return {f"{step} of image {number}": (one, two) for number, step, one, two in both if one != two}


@pytest.mark.parametrize(("way", "where"), parameters(WAYS, LONG_WAYS))
def test_a_restricted_program_does_what_it_does_bare(way: str, where: str, any_python: Interpreter, base: Path) -> None:
    check(where, way, any_python, base)


@NEEDS_ROOT
@pytest.mark.parametrize(("way", "where"), parameters(ROOT_WAYS, LONG_ROOT_WAYS))
def test_a_program_that_root_restricts_does_what_it_does_bare(
    way: str, where: str, any_python: Interpreter, base: Path
) -> None:
    check(where, way, any_python, base)


@NEEDS_ROOT
@pytest.mark.parametrize("way", ["separated", "in_child,separated"])
def test_a_separated_daemon_does_what_it_does_bare(way: str, any_python: Interpreter, base: Path) -> None:
    check("here", way, any_python, base)
