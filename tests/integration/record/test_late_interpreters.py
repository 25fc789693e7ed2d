"""Programs that load an interpreter after their start: it is recorded as one that was there from the start."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter, interpreters
from tests.support.native import build, library
from tests.support.observed_program import attached, until
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    Recording,
    line_of,
    lines_of,
    losses,
    record,
    report,
    rows,
    target,
    total,
)

SCRIPT = target("inside")
FAST = ["--cpu-interval", "2ms", "--alloc-interval", "64KiB"]
QUESTION = """
import os, sys, sysconfig
print(os.path.join(sysconfig.get_config_var('LIBDIR'), sysconfig.get_config_var('INSTSONAME')), sys.base_prefix, sep='\\n')
"""


def library_and_home(python: Interpreter) -> list[str]:
    """The path of the interpreter's library, and where it finds its modules."""
    if not python.can_be_embedded:
        pytest.skip(f"programs cannot load the library of {python.path}, which has a C library of its own")
    said = subprocess.run([python.path, "-c", QUESTION], capture_output=True, text=True, check=True).stdout.splitlines()
    if not said[0].split("/")[-1].startswith("libpython") or ".so" not in said[0]:
        pytest.skip(f"{python.path} has no shared library")
    return said


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program embeds_late.c."""
    return build(tmp_path_factory.mktemp("program"), "embeds_late.c", "-ldl")


def recorded(folder: Path, program: Path, way: str, *pythons: Interpreter) -> Recording:
    """A recording of the program, which must end well."""
    arguments = [argument for python in pythons for argument in library_and_home(python)]
    done = record(folder / "t.parquet", [program, way, SCRIPT, *arguments], options=FAST)
    assert (done.status, done.stderr) == (0, b"")
    return done


def checked(found: Json, times: int) -> None:
    """Holds the report against what the script does, ``times`` times."""
    lines = lines_of(found, SCRIPT)
    busy, native, large, small, sleep = (
        lines[line_of("inside", mark)] for mark in ("busy", "native", "large", "small", "sleep")
    )
    ours = total(list(lines.values()), "cpu_s")
    assert ours > 0.8 * found["totals"]["cpu_s"]
    assert 0.4 < busy["cpu_s"] / ours < 0.9 and busy["python_s"] > busy["native_s"]
    assert native["native_s"] > native["python_s"]
    assert 0.35 * times < sleep["wait_s"] < 2 * times
    # 401 bytes and a header of 33, in classes of 16; and the list, which grows by an eighth each time.
    assert 15e6 < small["alloc_bytes"] / times < 42e6
    assert 0 < large["alloc_bytes"] / times < 3 * 7 * 300_041
    assert small["python_alloc_fraction"] == 1


@pytest.mark.parametrize("way", ["local", "global", "local+thread", "global+thread"])
def test_it_is_found_when_it_starts(python: Interpreter, program: Path, way: str, tmp_path: Path) -> None:
    done = recorded(tmp_path, program, way, python)
    found = report(done.trace)
    assert losses(found) == {} and found["traces"][0]["python"] == done.facts["version"]
    checked(found, 1)
    (process,) = rows(done.trace, "process")
    assert process["stacks"] and process["cause"] == "root"
    starts = [row["start_stack"] is not None for row in rows(done.trace, "thread")]
    assert starts.count(True) == 1, "one thread is started by Python code"


def test_it_may_come_with_a_library_that_is_linked_to_it(python: Interpreter, program: Path, tmp_path: Path) -> None:
    path, home = library_and_home(python)
    folder = Path(path).parent
    options = (f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{python.name}")
    plugin = library(tmp_path, "embedded.c", *options)
    options = ["--alloc-interval", "1"]
    done = record(tmp_path / "t.parquet", [program, "plugin", SCRIPT, plugin, home], options=options)
    assert (done.status, done.stdout) == (0, b"5\n5\nended\n"), done.stderr.decode()
    found = [row for row in rows(done.trace, "alloc") if row["size_bytes"] == 3_000_050]
    assert len(found) == 10 and all(row["python"] for row in found)
    assert losses(report(done.trace)) == {}


def test_it_may_be_closed_and_another_version_loaded(program: Path, tmp_path: Path) -> None:
    first, *others = (each for each in interpreters() if each.can_be_embedded)
    if not others:
        pytest.skip("needs two versions of Python")
    done = recorded(tmp_path, program, "close", first, others[-1], first)
    found = report(done.trace)
    assert losses(found) == {}
    checked(found, 3)


def test_a_second_interpreter_beside_the_first_is_a_loss(program: Path, tmp_path: Path) -> None:
    first, *others = (each for each in interpreters() if each.can_be_embedded)
    if not others:
        pytest.skip("needs two versions of Python")
    done = recorded(tmp_path, program, "local", first, others[0])
    found = report(done.trace)
    assert losses(found) == {"python_second": 1} and found["traces"][0]["python"] == first.full_name


def test_a_namespace_of_its_own_is_a_loss(python: Interpreter, program: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path, program, "namespace", python)
    # the watcher finds no images of another namespace, so it may count waits whose native stack it cannot follow
    assert {**losses(report(done.trace)), "waits_unplaced": 0} == {"python_namespace": 1, "waits_unplaced": 0}


def test_calls_that_do_not_arrive_are_a_loss(python: Interpreter, program: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path, program, "deep", python)
    found = report(done.trace)
    assert losses(found) == {"python_direct": 1}
    lines = lines_of(found, SCRIPT)
    assert total(list(lines.values()), "cpu_s") > 0.8 * found["totals"]["cpu_s"]


def test_its_waits_are_on_their_lines_in_a_crowd_that_rests(python: Interpreter, program: Path, tmp_path: Path) -> None:
    """The interpreter may be found when its only thread waits, and no thread of the process runs any more."""
    script, trace = tmp_path / "waits.py", tmp_path / "t.parquet"
    script.write_text("import time\ntime.sleep(4)\n")
    command = [program, "crowd", script, *library_and_home(python)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, attached(trace, process.pid) as recorder:
        process.communicate(b"\n")
        assert process.returncode == recorder.wait().status == 0
    assert lines_of(report(trace), script)[2]["wait_s"] > 3


def test_its_memory_is_recorded_from_an_attach_on(python: Interpreter, program: Path, tmp_path: Path) -> None:
    """CPython 3.13 notes which thread is its main one only where the program is python itself."""
    script, trace, ready, stop = (tmp_path / name for name in ("keeps.py", "t.parquet", "ready", "stop"))
    script.write_text(
        f"import os, time\nopen({str(ready)!r}, 'w').close()\nkept, end_s = [], time.monotonic() + {PATIENCE_S}\n"
        f"while not os.path.exists({str(stop)!r}) and time.monotonic() < end_s:\n"
        "    kept.append(bytes(50_000))\n    time.sleep(0.005)\n"
    )
    with subprocess.Popen([program, "global", script, *library_and_home(python)]) as process:
        try:
            until(ready.exists)
            with attached(trace, process.pid, "--memory") as recorder:
                time.sleep(2)
                stop.touch()
                assert process.wait(PATIENCE_S) == recorder.wait().status == 0
        finally:
            stop.touch()
    assert lines_of(report(trace), script)[5]["alloc_bytes"] > 100_000
