"""What a recorded run says of each test: CPU time as by the test's own stopwatch, memory as when it runs alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.recording import Finished
from tests.support.suites import run_suite, suite

WORK = """
import functools, resource, time
def cpu_s():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
def noted(test):
    "Writes the CPU time within the test, and around it with all of its fixtures."
    @functools.wraps(test)
    def run(stopwatch):
        begin_s = cpu_s()
        test(stopwatch)
        stopwatch.append(cpu_s() - begin_s)
    return run
@pytest.fixture
def stopwatch(request):
    begin_s, within = cpu_s(), []
    yield within
    with open(f"{request.node.name}.cpu", "a") as file:
        print(*within, cpu_s() - begin_s, file=file)
def work(turns):
    total = 0
    for turn in range(turns):
        total += turn * turn
@noted
def test_short(stopwatch): work(1_000_000)
@noted
def test_long(stopwatch): work(6_000_000)
@noted
def test_sorts(stopwatch): sorted(str(each) for each in range(600_000))
@noted
def test_in_a_child(stopwatch): subprocess.run([sys.executable, "-c", "sum(each * each for each in range(5_000_000))"])
@noted
def test_large(stopwatch): bytearray(60_000_000)
@noted
def test_keeps(stopwatch): kept.extend(bytearray(1000) for _ in range(8_000))
"""
SET_UP = """
import unittest
class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls): kept.append(bytearray(50_000_000))
    def setUp(self): kept.append(bytearray(20_000_000))
    def tearDown(self): kept.append(bytearray(30_000_000))
    def test_of_unittest(self): pass
@pytest.fixture
def large(): kept.append(bytearray(40_000_000))
def test_with_a_fixture(large): pass
"""
UNITS = {"ms": 1e-3, "s": 1, "B": 1, "KB": 1e3, "MB": 1e6}
ROW = re.compile(
    r"^ +([\d.]+) (ms|s) +[\d.]+ (?:ms|s) +([\d.]+) (B|KB|MB) +(-?[\d.]+) (B|KB|MB)  \S+::(\w+)$", re.MULTILINE
)


def figures(done: Finished) -> dict[str, tuple[float, ...]]:
    """CPU seconds, bytes at the peak and bytes kept of each test."""
    rows = ROW.findall(done.stdout.decode())
    return {row[6]: tuple(float(row[at]) * UNITS[row[at + 1]] for at in (0, 2, 4)) for row in rows}


def test_each_test_has_its_own_figures(tmp_path: Path) -> None:
    suite(tmp_path, WORK)
    together = figures(run_suite(tmp_path, "-n", "2", "--scalene-trace", "--scalene-top=9"))
    assert len(together) == 6
    for name, (cpu_s, *sizes) in together.items():
        within_s, around_s = map(float, (tmp_path / f"{name}.cpu").read_text().split())
        assert 0.99 * within_s - 0.001 <= cpu_s <= 1.01 * around_s + 0.001, name  # it is rounded
        if name in ("test_large", "test_keeps"):
            _, *own_sizes = figures(run_suite(tmp_path, "--scalene-trace", f"test_suite.py::{name}"))[name]
            assert sizes == pytest.approx(own_sizes, rel=0.1, abs=100_000), name


def test_set_up_and_tear_down_of_unittest_count_and_fixtures_do_not(tmp_path: Path) -> None:
    suite(tmp_path, SET_UP)
    found = figures(run_suite(tmp_path, "--scalene-trace"))
    assert found["test_of_unittest"][1:] == pytest.approx([50_000_000] * 2, rel=0.01)
    assert max(found["test_with_a_fixture"][1:]) < 1_000_000
