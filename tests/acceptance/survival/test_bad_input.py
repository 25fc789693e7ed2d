"""Bad input and hostile surroundings: an error message, the documented exit code, and no data lost."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.packages import needed
from tests.support.paths import ROOT
from tests.support.recording import (
    Finished,
    Json,
    environment,
    figure,
    line_of,
    lines_of,
    losses,
    record,
    record_command,
    report,
    run,
    target,
    total,
)

HELLO = ["-c", "print('hello')"]
RECORDER_FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and foreign owners need root")


def a_sentence(done: Finished) -> str:
    """What was said on stderr: short, plain, no traceback."""
    words = done.stderr.decode().strip()
    assert words and len(words) < 500 and "Traceback" not in words, words
    return words


@pytest.mark.parametrize(("name", "status"), [("no-such-command", NOT_FOUND), ("missing.py", NOT_FOUND)])
def test_a_program_that_is_not_there(name: str, status: int, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [name], cwd=tmp_path)
    assert done.status == status and name in a_sentence(done)
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_a_directory_or_not_executable(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("plain\n")
    for name in ("./folder", "./text"):
        done = record(tmp_path / "t.parquet", [name], cwd=tmp_path)
        assert done.status == NOT_EXECUTABLE and name.removeprefix("./") in a_sentence(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "text"]


def test_an_empty_program_is_recorded(any_python: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    assert record(tmp_path / "t.parquet", [tmp_path / "empty.py"], any_python).status == 0
    assert report(tmp_path / "t.parquet")["traces"][0]["processes"] == 1


def test_wrong_usage_of_the_recorder(tmp_path: Path) -> None:
    for arguments in (
        [],
        ["--no-such-option", "x.py"],
        ["--cpu-interval", "soon", "x.py"],
        ["--memory-threshold", "-3", "x.py"],
    ):
        done = run([*record_command(tmp_path / "t.parquet", arguments)], env=environment(None), cwd=tmp_path)
        assert done.status == RECORDER_FAILED, arguments
        a_sentence(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["missing/t.parquet", "/proc/t.parquet", "file/t.parquet"])
def test_an_output_that_cannot_be_written(output: str, any_python: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = record(tmp_path / output, HELLO, any_python)
    assert done.status == RECORDER_FAILED and done.stdout == b"", "the program must not have been started"
    a_sentence(done)


def test_a_read_only_folder(any_python: Interpreter, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        mounted = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', str(tmp_path)]
    else:
        tmp_path.chmod(0o500)
        mounted = []
    command = [*mounted, *record_command(tmp_path / "t.parquet", HELLO, any_python)]
    done = run(command, env=environment(None))
    assert done.status == RECORDER_FAILED and done.stdout == b""
    a_sentence(done)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@NEEDS_ROOT
def test_a_disk_that_fills_up_while_recording(small_disk: Path, any_python: Interpreter) -> None:
    trace = small_disk / "t.parquet"
    done = record(trace, [target("many_blocks"), "100000"], any_python, ["--alloc-interval", "2KB"])
    assert (done.status, done.stderr) == (0, b"") and done.facts["parts"] == 0, "the program must not notice"
    found = report(trace)
    assert losses(found)["spool_full"] > 0
    assert lines_of(found, target("many_blocks"))[line_of("many_blocks", "blocks")]["alloc_bytes"] > 1_000 * 3407


@NEEDS_ROOT
def test_a_full_disk(small_disk: Path, any_python: Interpreter) -> None:
    with (small_disk / "filler").open("wb") as file:
        while space := os.statvfs(small_disk).f_bavail:
            file.write(bytes(space * 4096))
            file.flush()
    done = record(small_disk / "t.parquet", HELLO, any_python)
    assert done.status == RECORDER_FAILED and done.stdout == b""
    a_sentence(done)
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


UNWRITABLE = ("/tmp", "/var/tmp", "/dev/shm")


@NEEDS_ROOT
def test_a_tmp_that_cannot_be_written(python: Interpreter) -> None:
    folder = ROOT / "build" / f"unwritable-{python.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # read-only in place, as the tests themselves may lie there
    places = " && ".join(f"mount --rbind {at} {at} && mount -o remount,ro,bind {at}" for at in UNWRITABLE)
    script = f'mount --bind "$1" "$1" && shift && {places} && cd . && exec "$@"'
    command = record_command(folder / "t.parquet", HELLO, python)
    done = run(["unshare", "-m", "sh", "-c", script, "sh", folder, *command], env=environment(None), cwd=folder)
    assert (done.status, done.stdout, done.stderr) == (0, b"hello\n", b"")
    assert [path.name for path in folder.iterdir()] == ["t.parquet"]
    shutil.rmtree(folder)


#: Name: flags, environment, bytes that one of the objects takes, whether they are still known to be Python's.
FLAGS: dict[str, tuple[Sequence[str], dict[str, str], int, bool]] = {
    "PYTHONMALLOC=malloc": ([], {"PYTHONMALLOC": "malloc"}, 152, False),
    "PYTHONMALLOC=debug": ([], {"PYTHONMALLOC": "debug"}, 176, True),
    "-X dev": (["-X", "dev"], {}, 176, True),
    "-I": (["-I"], {}, 144, True),
    "-E": (["-E"], {"PYTHONMALLOC": "malloc"}, 144, True),
}


@pytest.mark.parametrize("name", FLAGS)
def test_interpreter_flags_and_foreign_allocators(name: str, python: Interpreter, tmp_path: Path) -> None:
    flags, env, size_bytes, is_python = FLAGS[name]
    trace = tmp_path / "t.parquet"
    done = record(trace, [python.path, *flags, target("small_objects")], env=env)
    assert done.status == 0, done.stderr.decode()
    found = report(trace)
    row = lines_of(found, target("small_objects"))[line_of("small_objects", "objects")]
    assert row["growth_bytes"] == pytest.approx(size_bytes * done.facts["objects"], rel=0.025)
    assert row["python_alloc_fraction"] == pytest.approx(float(is_python), abs=0.01)
    assert is_python or losses(found)["python_malloc"] >= 1


#: Allocator: what it reserves for 512,000,000 bytes (jemalloc rounds up to a size class, and that is counted).
ALLOCATORS = {"jemalloc": 536_870_912, "tcmalloc": 512_000_000}


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_preloaded_allocator_keeps_working_underneath(allocator: str, python: Interpreter, tmp_path: Path) -> None:
    library = needed(allocator)
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("touched_array")], python, env={"LD_PRELOAD": library})
    assert done.status == 0 and done.stderr == b""
    lines = lines_of(report(trace), target("touched_array"))
    for mark in ("touched_0", "touched_50", "touched_100"):
        growth = lines[line_of("touched_array", mark)]["growth_bytes"]
        error = 100 * (growth / ALLOCATORS[allocator] - 1)
        figure(f"size of a 512 MB array under {allocator}, {mark}", python, error, 1, "percent")
        assert abs(error) <= 1


def refusing(syscalls: str, trace: Path, python: Interpreter, seconds: str) -> Json:
    """The report on a recording made where the kernel refuses these system calls."""
    command = record_command(trace, [target("dying"), "exit", seconds], python, ["--cpu-interval", "1ms"])
    done = run([sys.executable, target("refuse_readv"), syscalls, *command], env=environment(None))
    assert done.status == 7, done.stderr.decode()
    return report(trace)


def test_process_vm_readv_refused_is_said_and_harmless(python: Interpreter, tmp_path: Path) -> None:
    found = refusing("process_vm_readv", tmp_path / "t.parquet", python, "1")
    assert found["totals"]["cpu_s"] > 0.5, "of a second that the program surely used"
    work = [row for row in found["lines"] if row["file"] == str(target("dying")) and row["function"] == "work"]
    if python.version[:2] not in ((3, 11), (3, 12)):  # those two publish a frame pointer before it is filled in
        assert losses(found)["read_refused"] >= 1
        assert total(work, "cpu_s") > 0.5
    else:
        assert losses(found)["stacks_off"] >= 1
        assert total([found["unattributed"]], "cpu_s") > 0.5 and total(work, "cpu_s") == 0


def test_process_vm_writev_refused_makes_no_difference(python: Interpreter, tmp_path: Path) -> None:
    found = refusing("process_vm_writev", tmp_path / "t.parquet", python, "1")
    work = [row for row in found["lines"] if row["file"] == str(target("dying")) and row["function"] == "work"]
    assert total(work, "cpu_s") > 0.5
    assert not {"read_refused", "stacks_off", "torn_stack"} & set(losses(found))


def test_perf_events_refused_is_said_and_recorded_by_timers(python: Interpreter, tmp_path: Path) -> None:
    found = refusing("perf_event_open", tmp_path / "t.parquet", python, "1")
    assert losses(found)["engine_posix"] >= 1
    work = [row for row in found["lines"] if row["file"] == str(target("dying")) and row["function"] == "work"]
    assert total(work, "cpu_s") > 0.5


def test_a_static_binary_as_child_runs_and_is_named(python: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text("int main(void) { return 5; }\n")
    subprocess.run(["cc", "-static", "-o", tmp_path / "static", tmp_path / "static.c"], check=True)
    code = f"import subprocess; print(subprocess.call([{str(tmp_path / 'static')!r}]))"
    done = record(tmp_path / "t.parquet", ["-c", code], python)
    assert (done.status, done.stdout) == (0, b"5\n")
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_static"] == 1


@NEEDS_ROOT
def test_a_setuid_program_as_child_runs_and_is_named(python: Interpreter, tmp_path: Path) -> None:
    program = tmp_path / "whoami"
    shutil.copy("/usr/bin/id", program)
    shutil.chown(program, "nobody")
    program.chmod(0o4755)
    code = f"import subprocess; print(subprocess.call([{str(program)!r}, '-u']))"
    done = record(tmp_path / "t.parquet", ["-c", code], python)
    assert (done.status, done.stdout) == (0, b"65534\n0\n")
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_setuid"] == 1


def installed_parts() -> dict[str, Path]:
    """Where the parts of the installed package are: name to folder."""
    spec = importlib.util.find_spec("scalene_trace")
    assert spec is not None and spec.submodule_search_locations is not None
    places = [Path(each) for each in spec.submodule_search_locations]
    places += [Path(each) / "scalene_trace" for each in sys.path]
    found = {name: ROOT / name for name in ("formats", "recorder", "analyze", "cli")}
    found["shim"] = next(place / "shim" for place in places if (place / "shim" / "libscalene_shim.so").exists())
    return found


START = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if "Redirecting" not in type(each).__name__]
sys.path.insert(0, {place!r})
sys.modules.pop("scalene_trace", None)
from scalene_trace.cli.record.command import main
import scalene_trace.cli.record.command as used
assert used.__file__.startswith({place!r}), used.__file__
sys.exit(main())
"""


def test_an_install_path_with_spaces_and_colons(python: Interpreter, tmp_path: Path) -> None:
    place = tmp_path / "an install: path"
    for name, folder in installed_parts().items():
        shutil.copytree(folder, place / "scalene_trace" / name)
    shutil.copy(ROOT / "cli" / "top_level.py", place / "scalene_trace" / "__init__.py")
    trace = tmp_path / "out put: x" / "t.parquet"
    trace.parent.mkdir()
    arguments = record_command(trace, [target("dying"), "exit", "0.3"], python)
    arguments = arguments[arguments.index("-o") :]
    done = run([sys.executable, "-c", START.format(place=str(place)), *arguments], env=environment(None))
    assert done.status == 7, done.stderr.decode()
    found = report(trace)
    assert lines_of(found, target("dying"))[line_of("dying", "work")]["cpu_s"] > 0
