"""Typical programs (numpy, pytest, a server, asyncio, compileall): each is recorded, and its report checked against known facts."""

from __future__ import annotations

import subprocess
import threading
import urllib.request
from pathlib import Path

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    environment,
    line_of,
    lines_of,
    record,
    record_command,
    report,
    rows,
    target,
    total,
)

FAST = ["--cpu-interval", "1ms"]
#: Shares are compared as majorities. Of a line that is native (or Python) at least 49 times in 50, a majority of 12 ticks or
#: more is charged to the other side with a probability of at most C(12, 6) / 50^6 = 6e-8.


def test_a_numpy_and_pandas_script(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("tables")], python, FAST)
    assert done.status == 0 and done.facts == {"regions": 40, "words": 400_000}, done.stderr.decode()
    found = report(tmp_path / "t.parquet")
    lines = lines_of(found, target("tables"))
    convolve, words = (lines[line_of("tables", mark)] for mark in ("convolve", "words"))
    assert convolve["native_s"] > convolve["python_s"], "numpy's C code is native"
    assert words["python_s"] > words["native_s"], "a comprehension of f-strings is Python"
    assert found["totals"]["peak_bytes"] > 3 * 8 * 1_500_000, "the frame has three columns of 8 bytes"


SUITE = """
import pytest

@pytest.mark.parametrize("n", range(20))
def test_square(n):
    assert sum(2 * i + 1 for i in range(n)) == n * n

def test_slow():
    total = 0
    for i in range(3_000_000):
        total = (total * 31 + i) & 0xFFFF
    assert total >= 0
"""


def test_pytest_on_a_small_suite(python: Interpreter, tmp_path: Path) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    program = ["-m", "pytest", "-q", "-p", "no:cacheprovider", suite]
    done = record(tmp_path / "t.parquet", program, python, FAST, cwd=tmp_path)
    assert done.status == 0 and b"21 passed" in done.stdout
    found = report(tmp_path / "t.parquet")
    slow = [row for row in found["functions"] if row["file"] == str(suite) and row["function"] == "test_slow"]
    assert total(slow, "python_s") > total(slow, "native_s")
    assert total(slow, "cpu_s") > 0.5 * total([row for row in found["functions"] if row["file"] == str(suite)], "cpu_s")


def fetch(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
        return body


def load(port: int, requests: int) -> None:
    """``requests`` requests from each of four threads."""
    threads = [
        threading.Thread(target=lambda who=who: [fetch(port, f"/{who}/{n}") for n in range(requests)])
        for who in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_threaded_http_server_under_load(python: Interpreter, tmp_path: Path) -> None:
    command = record_command(tmp_path / "t.parquet", [target("server")], python, FAST)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(None))
    assert process.stdout is not None
    port = int(process.stdout.readline())
    load(port, 50)
    assert len(fetch(port, "/stop")) == 64
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, b'{"served": 201}\n', b"")
    found: Json = report(tmp_path / "t.parquet")
    digest = lines_of(found, target("server"))[line_of("server", "digest")]
    assert digest["cpu_s"] == max(row["cpu_s"] for row in found["lines"]) and digest["native_s"] > digest["python_s"]
    assert found["traces"][0]["threads"] >= 200, "a thread for each request"


def test_an_asyncio_program(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("aio")], python)
    assert done.status == 0 and done.facts == {"results": 6_000}
    found = report(tmp_path / "t.parquet")
    checksum = lines_of(found, target("aio"))[line_of("aio", "checksum")]
    assert checksum["python_s"] > checksum["native_s"]
    assert checksum["cpu_s"] == max(row["cpu_s"] for row in lines_of(found, target("aio")).values())


def test_compileall(python: Interpreter, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for number in range(40):
        body = "\n".join(f"def f{i}(a, b={i}):\n    return [a + b * j for j in range({i})]" for i in range(400))
        (package / f"module_{number}.py").write_text(body + "\n")
    done = record(tmp_path / "t.parquet", ["-m", "compileall", "-q", package], python, FAST)
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert len(list(package.glob("__pycache__/*.pyc"))) == 40
    found = report(tmp_path / "t.parquet", "--all")
    compiling = [row for row in found["functions"] if row["function"] == "_call_with_frames_removed"]
    assert total(compiling, "native_s") > total(compiling, "python_s"), "the compiler is C code"
    reaching = [row for row in found["functions"] if row["function"].endswith("source_to_code")]
    assert total(reaching, "cumulative_cpu_s") >= 0.5 * total(compiling, "cpu_s") > 0
    assert [row["cause"] for row in rows(tmp_path / "t.parquet", "process")] == ["root"]
