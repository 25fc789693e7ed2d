"""Programs that do with their processes what few do: recorded, they end and print as they do bare."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scalene_trace.recorder.shim_library import find_shim
from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.packages import needed
from tests.support.paths import TARGETS
from tests.support.recording import bare, losses, record, record_command, report, run, target


def test_children_without_thread_local_storage_end_and_exec(tmp_path: Path) -> None:
    program = build(tmp_path, "own_tls.c")
    alone = run([program])
    assert alone.status == 0 and alone.stdout.count(b"bare") == 8 and b": b" not in alone.stdout
    done = record(tmp_path / "t.parquet", [program], None)
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")


def test_an_executable_with_its_own_allocator_gets_no_block_of_another(tmp_path: Path) -> None:
    program = build(tmp_path, "own_allocator.c")
    alone = run([program])
    assert alone.status == 0 and alone.stdout == b"kept, read\n"
    done = record(tmp_path / "t.parquet", [program], None, ["--alloc-interval", "1"])
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")
    assert "foreign_allocator" in losses(report(tmp_path / "t.parquet"))


def test_allocators_that_a_preloaded_library_puts_on_top_work_as_bare(python: Interpreter, tmp_path: Path) -> None:
    """The library stands before the shim. Its blocks are counted once, at whatever time it looks whether it is on top."""
    library = tmp_path / "libontop.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TARGETS / "on_top.c"], check=True)
    code = (
        f"import ctypes; ctypes.CDLL('{library}').on_top(); kept = [float(n) for n in range(400_000)]; print(len(kept))"
    )
    line = f'LD_PRELOAD="{library}:$LD_PRELOAD" exec "$@"'
    program = ["/bin/sh", "-c", line, "sh", str(python.path), "-c", code]
    done = record(tmp_path / "t.parquet", program, None, ["--alloc-interval", "1"])
    assert (done.status, done.stdout, done.stderr) == (0, b"400000\n", b"")
    assert report(done.trace)["totals"]["peak_bytes"] == pytest.approx(17e6, abs=4e6)


def test_a_library_with_a_clock_of_its_own_changes_no_time(python: Interpreter, tmp_path: Path) -> None:
    """Its times lie a day before the recorder's, so that waits ended before they began, and footprints before the start."""
    library = tmp_path / "libclock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TARGETS / "other_clock.c"], check=True)
    code = "import select; kept = [float(n) for n in range(400_000)]; select.select([], [], [], 0.5); print(len(kept))"
    line = f'LD_PRELOAD="$LD_PRELOAD:{library}" exec "$@"'
    program = ["/bin/sh", "-c", line, "sh", str(python.path), "-c", code]
    done = record(tmp_path / "t.parquet", program, None, ["--alloc-interval", "1"])
    assert (done.status, done.stdout, done.stderr) == (0, b"400000\n", b"")
    found = report(done.trace)
    assert "waits_impossible" not in losses(found)
    assert found["totals"]["wait_s"] > 0.4 and found["totals"]["peak_bytes"] > 12e6


def test_two_names_of_one_function_stay_one_function(python: Interpreter, tmp_path: Path) -> None:
    """memray, inside a recorded program, warns on stderr where they are two."""
    each = "len({ctypes.cast(getattr(ctypes.CDLL(None), n), ctypes.c_void_p).value for n in ('mmap', 'mmap64')})"
    done = record(tmp_path / "t.parquet", ["-c", f"import ctypes; print({each})"], python)
    assert (done.status, done.stdout, done.stderr) == (0, b"1\n", b"")


@pytest.mark.parametrize("size", [2048, 2500, 3000, 6000, 65536])
def test_forked_children_with_a_small_alternate_stack_live(size: int, any_python: Interpreter, tmp_path: Path) -> None:
    program = [target("forked_small_stack"), str(size)]
    alone = bare(program, any_python)
    done = record(tmp_path / "t.parquet", program, any_python, ["--cpu-interval", "1ms"])
    assert (alone.status, alone.stderr) == (0, b"") and b"refused" not in alone.stdout
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")
    found = losses(report(tmp_path / "t.parquet")).get("small_alternate_stack", 0)
    assert (found >= 4) if size <= 4096 else (found == 0) if size == 65536 else True  # the parent and three children


def sanitized(*options: str) -> list[str]:
    return ["cc", *options, str(TARGETS / "answer.c")]


#: Programs that a preloaded library would stop or disturb: how each is built.
REFUSING = {
    "address sanitizer": sanitized("-fsanitize=address"),
    "static address sanitizer": sanitized("-fsanitize=address", "-static-libasan"),
    "thread sanitizer": sanitized("-fsanitize=thread"),
    "leak sanitizer": sanitized("-fsanitize=leak"),
    "musl": ["musl-gcc", str(TARGETS / "answer.c")],
    "32 bit": [
        *("cc", "-m32", "-nostdlib", "-nostartfiles", "-pie", "-fPIE", "-fno-stack-protector", "-Wl,-z,noexecstack"),
        *("-Wl,-dynamic-linker,/lib/ld-linux.so.2", str(TARGETS / "answer_32.c")),
    ],
}


def refusing_program(how: str, folder: Path) -> Path:
    """The program; skips the test if this machine cannot build or run it."""
    if how == "musl":
        needed("musl")
    if how == "32 bit":
        needed("libc32")
    program = folder / "answer"
    done = subprocess.run([*REFUSING[how], "-o", program], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot build a program ({how}): {done.stderr.splitlines()[-1:]}")
    return program


@pytest.mark.parametrize("how", REFUSING)
def test_a_program_that_a_library_would_disturb_runs_as_bare_and_is_counted(how: str, tmp_path: Path) -> None:
    program = refusing_program(how, tmp_path)
    alone = run([program])
    assert (alone.status, alone.stdout, alone.stderr) == (7, b"seven\n", b"")
    done = record(tmp_path / "t.parquet", [program], None)
    assert (done.status, done.stdout) == (7, b"seven\n")
    said = done.stderr.decode()
    assert said.count("\n") == 1 and f"{program} cannot be recorded: a preloaded library would" in said
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_image"] == 1


@pytest.mark.parametrize("how", REFUSING)
def test_a_child_that_a_library_would_disturb_runs_as_bare_and_is_counted(
    how: str, any_python: Interpreter, tmp_path: Path
) -> None:
    program = refusing_program(how, tmp_path)
    code = (
        "import os, subprocess, sys\n"
        "print(subprocess.run(sys.argv[1]).returncode, flush=True)\n"
        "print(subprocess.run(sys.argv[1], close_fds=False, env={'A': '1'}).returncode, flush=True)\n"
        "print(os.waitstatus_to_exitcode(os.system(sys.argv[1])), flush=True)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = record(tmp_path / "t.parquet", ["-c", code, str(program)], any_python)
    assert (done.status, done.stderr) == (7, b"")
    assert done.stdout == b"seven\n7\n" * 3 + b"seven\n"
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_image"] == 4


@pytest.mark.parametrize("way", ["fexecve", "execveat", "path", "nested"])
def test_a_disturbed_program_is_recognized_however_it_is_named(way: str, tmp_path: Path) -> None:
    """By a descriptor that cannot be read, and behind scripts whose interpreters are scripts."""
    program, starter = refusing_program("address sanitizer", tmp_path), build(tmp_path, "exec_of.c")
    if way == "nested":
        for outer, inner in (("middle", program), ("outer", tmp_path / "middle")):
            (tmp_path / outer).write_text(f"#!{inner}\n")
            (tmp_path / outer).chmod(0o755)
        program, way = tmp_path / "outer", "path"
    alone = run([starter, way, program])
    assert (alone.status, alone.stdout, alone.stderr) == (0, b"seven\n700\n", b"")
    done = record(tmp_path / "t.parquet", [starter, way, program], None)
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_image"] == 1


def test_an_exec_that_fails_reads_no_environment(tmp_path: Path) -> None:
    starter = build(tmp_path, "exec_of.c")
    command = [starter, "nowhere", starter]
    assert record(tmp_path / "t.parquet", command, None).stdout == run(command).stdout == b"6300\n"


def test_an_executable_that_wraps_malloc_is_counted(tmp_path: Path) -> None:
    program = build(tmp_path, "wrapped_malloc.c")
    done = record(tmp_path / "t.parquet", [program], None, ["--alloc-interval", "1"])
    assert (done.status, done.stdout, done.stderr) == (0, b"100\n", b"")
    found = report(tmp_path / "t.parquet")
    assert 104_857_600 <= found["totals"]["alloc_bytes"] < 106_000_000 and "foreign_allocator" in losses(found)


def test_privileges_of_files_count_only_where_they_are_granted(tmp_path: Path) -> None:
    """Under no_new_privs, as in most containers, the loader takes LD_PRELOAD in a program that is set-group-id."""
    program = build(tmp_path, "answer.c")
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another group")
    os.chown(program, 0, 1234)
    program.chmod(0o2755)
    done = record(tmp_path / "granted.parquet", [program], None)
    assert b"gains privileges" in done.stderr and done.status == 7
    limited = ["setpriv", "--no-new-privs", *record_command(tmp_path / "t.parquet", [program], None)]
    done_limited = run(limited)
    assert (done_limited.status, done_limited.stdout, done_limited.stderr) == (7, b"seven\n", b"")
    found = report(tmp_path / "t.parquet")
    assert "unrecorded_setuid" not in losses(found) and found["traces"][0]["processes"] == 1


def test_a_shell_of_libc_beside_a_preloaded_sanitizer_is_counted(tmp_path: Path) -> None:
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    command = [build(tmp_path, "exec_of.c"), "system", Path(found).resolve()]
    done = record(tmp_path / "t.parquet", command, None, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (done.status, done.stdout, done.stderr) == (0, b"700\n", b"")
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_image"] == 1


@pytest.mark.parametrize("spool", [{}, {"SCALENE_TRACE_SPOOL": "/no/such/file"}], ids=["none", "missing"])
def test_an_inert_shim_needs_no_thread_local_storage(spool: dict[str, str], tmp_path: Path) -> None:
    program = build(tmp_path, "own_tls.c")
    alone = run([program])
    done = run([program], env={**os.environ, **spool, "LD_PRELOAD": str(find_shim())})
    assert (done.status, done.stdout, done.stderr) == (0, alone.stdout, b"")


def test_a_preloaded_sanitizer_is_left_alone(any_python: Interpreter, tmp_path: Path) -> None:
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    env = {"LD_PRELOAD": str(Path(found).resolve()), "ASAN_OPTIONS": "detect_leaks=0"}
    program = ["-c", "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(1)']).returncode)"]
    alone = bare(program, any_python, env)
    done = record(tmp_path / "t.parquet", program, any_python, env=env)
    assert (alone.status, alone.stdout, alone.stderr) == (0, b"1\n0\n", b"")
    assert (done.status, done.stdout) == (0, alone.stdout) and b"cannot be recorded" in done.stderr
    code = (
        "import os, sys\nos.execve(sys.executable, [sys.executable, '-c', 'print(1)'], {**os.environ, **" + f"{env}}})"
    )
    done = record(tmp_path / "t.parquet", ["-c", code], any_python)
    assert (done.status, done.stdout, done.stderr) == (0, b"1\n", b"")
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_image"] == 1


def test_a_static_program_is_named(tmp_path: Path) -> None:
    program = build(tmp_path, "answer.c", "-static")
    done = record(tmp_path / "t.parquet", [program], None)
    assert (done.status, done.stdout) == (7, b"seven\n") and b"it is a static binary" in done.stderr
    assert losses(report(tmp_path / "t.parquet"))["unrecorded_static"] == 1
