"""Pools of threads: what they run for a line of the user's, without a line of the user's, is charged to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import lines_of, record, report, rows

PROGRAM = """\
import concurrent.futures, multiprocessing.pool, time, zlib
blobs = [bytes(1_000_000)] * 1400
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    list(pool.map(zlib.crc32, blobs))
pool = multiprocessing.pool.ThreadPool(2)
pool.map(zlib.adler32, blobs)
pool.close()
time.sleep(0.1)
"""
SUBMITS, STARTS = 4, 5


@pytest.mark.parametrize("starts", ["threads", "forked child"])
def test_the_work_of_a_pool_belongs_to_the_line_that_has_started_it(
    starts: str, python: Interpreter, tmp_path: Path
) -> None:
    program = tmp_path / "pools.py"
    program.write_text(
        ("import os\nif os.fork(): os._exit(os.wait()[1])\n" if starts == "forked child" else "") + PROGRAM
    )
    trace, offset = tmp_path / "t.parquet", 2 * (starts == "forked child")
    done = record(trace, [program], python, ["--cpu-interval", "1ms"])
    assert done.status == 0, done.stderr.decode()
    found = report(trace)
    lines = lines_of(found, program)
    submits, creates = lines[SUBMITS + offset], lines[STARTS + offset]
    in_pools = submits["native_s"] + creates["native_s"]
    # The rest is the start of the interpreter, which takes longest on 3.14.
    assert in_pools > 0.9 * found["totals"]["native_s"] - 0.05, found["outside"]
    assert submits["callees"][0]["name"] and creates["callees"][0]["name"]
    assert found["functions"][0]["cumulative_cpu_s"] >= in_pools
    threads = {row["thread"]: row for row in rows(trace, "thread")}
    started = [row for row in threads.values() if row["starter"] is not None]
    assert len(started) >= 4 and all(row["start_stack"] for row in started)
    assert {threads[row["starter"]]["process"] for row in started} == {started[0]["process"]}
