"""Every process is recorded, however it was started and whatever environment it was given."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.interpreters import Interpreter
from tests.support.recording import Json, Recording, bare, losses, record, report, rows, target

OURS = "LD_PRELOAD,SCALENE_TRACE_SPOOL"
STARTED = 20


def started(done: Recording) -> dict[str, tuple[int, str]]:
    """What the processes of the target said: way to (pid, the recorder's variables that it saw)."""
    assert done.status == 0, done.stderr.decode()
    lines = [line.split(" ") for line in done.stdout.decode().splitlines()]
    return {way: (int(pid), variables) for way, pid, variables in lines}


def python_rows(trace: Path) -> list[Json]:
    return [row for row in rows(trace, "process") if row["python_version"] and "last" in (row["command"] or [])]


def test_every_way_to_start_an_image_is_recorded(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    said = started(record(trace, [target("exec_ways")], python))
    assert len(said) == STARTED
    assert {way for way, (_, variables) in said.items() if variables != OURS} == set()
    by_way = {row["command"][-1]: row for row in python_rows(trace)}
    assert {way: row["pid"] for way, row in by_way.items()} == {
        way: pid for way, (pid, _) in said.items() if way != "first"
    }
    assert {row["end"] for row in by_way.values()} == {"exit"}
    assert by_way["last"]["cause"] == "exec" and by_way["posix_spawn"]["cause"] == "spawn"
    assert by_way["last"]["parent"] == next(row["process"] for row in rows(trace, "process") if row["cause"] == "root")
    assert "environment_lost" not in losses(report(trace))


def test_without_children_nothing_of_ours_is_handed_on(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    code = "import os, json; print(json.dumps(sorted(os.environ)))"
    start = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {code!r}])"
    done = record(trace, ["-c", start], any_python, ["--no-children"])
    alone = bare(["-c", start], any_python)
    assert json.loads(done.stdout) == json.loads(alone.stdout)
    assert len(rows(trace, "process")) == 1


def test_an_environment_that_the_shell_does_not_get_is_named(any_python: Interpreter, tmp_path: Path) -> None:
    code = "import os; del os.environ['LD_PRELOAD']; os.system('true')"
    record(tmp_path / "t.parquet", ["-c", code], any_python)
    assert losses(report(tmp_path / "t.parquet"))["environment_lost"] == 1


LISTS_LIBRARIES = """
import os, subprocess
names = {**os.environ, 'LD_TRACE_LOADED_OBJECTS': '1'}
print(subprocess.run(['ldd', '/bin/sh'], capture_output=True, text=True).stdout)
print(subprocess.run(['/bin/sh'], env=names, capture_output=True, text=True).stdout)
print(subprocess.run(['/bin/sh'], env={'LD_TRACE_LOADED_OBJECTS': ''}, capture_output=True, text=True).stdout)
os.environ['LD_TRACE_LOADED_OBJECTS'] = '1'
print(os.popen('true').read(), flush=True)
os.execv('/bin/sh', ['sh'])
"""


def test_the_library_is_not_in_lists_of_libraries(any_python: Interpreter, tmp_path: Path) -> None:
    """ldd has the loader print the libraries that it would load."""
    done = record(tmp_path / "t.parquet", ["-c", LISTS_LIBRARIES], any_python)
    alone = bare(["-c", LISTS_LIBRARIES], any_python)
    assert (done.status, done.stderr) == (alone.status, alone.stderr) == (0, b"")
    with_addresses = rb"\(0x[0-9a-f]+\)"
    assert alone.stdout.count(b"libc.so.6") == 10  # twice in each of five lists
    assert re.sub(with_addresses, b"", done.stdout) == re.sub(with_addresses, b"", alone.stdout)


def test_failures_to_start_are_the_same(any_python: Interpreter, tmp_path: Path) -> None:
    for name, text, mode in (
        ("garbage", "\x7fELF garbage", 0o755),
        ("plain", "", 0o644),
        ("lost", "#!/nowhere\n", 0o755),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    code = (
        "import os, subprocess\n"
        "for path in ('garbage', 'plain', 'lost', '.', 'missing', 'plain/x', ''):\n"
        "  for start in (lambda p: os.execv(p, ['x']), lambda p: os.execvp(p, ['x']),\n"
        "                lambda p: os.posix_spawn(p, ['x'], {}), lambda p: subprocess.run([p], env={})):\n"
        "    try: print(path, start(path))\n"
        "    except OSError as error: print(path, error.errno)\n"
    )
    done = record(tmp_path / "t.parquet", ["-c", code], any_python, cwd=tmp_path)
    alone = bare(["-c", code], any_python, cwd=tmp_path)
    assert (done.status, done.stdout, done.stderr) == (alone.status, alone.stdout, alone.stderr)
