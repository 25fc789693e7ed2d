"""Budgets of tests: ``@pytest.mark.scalene`` and the markers of pytest-memray."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.recording import rows
from tests.support.suites import outcomes, run_suite, suite

#: The marker, what the test does, and what the failure says: None = it passes.
CASES: dict[str, tuple[str, str, str | None]] = {
    "cpu": ("scalene(cpu='100ms')", "spin(0.3)", r"used \d+\.\d+ m?s of CPU time; its budget is 100.0 ms"),
    "cpu_kept": ("scalene(cpu='20s')", "spin(0.1)", None),
    "cpu_of_a_child": (
        "scalene(cpu=0.1)",
        "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass'])",
        r"used \d+\.\d+ m?s of CPU time",
    ),
    "sleep_is_no_cpu_time": ("scalene(cpu='100ms')", "time.sleep(0.3)", None),
    "wall": ("scalene(wall=0.2)", "time.sleep(0.3)", r"took \d+\.\d+ m?s; its budget is 200.0 ms"),
    "peak": (
        "scalene(peak='30MB')",
        "bytearray(40_000_000)",
        r"allocated 40\.\d MB at its peak; its budget is 30.0 MB",
    ),
    "peak_kept": ("scalene(peak='41MB')", "bytearray(40_000_000)", None),
    "peak_of_little_objects": (
        "scalene(peak='5MB')",
        "[str(each) for each in range(200_000)]",
        r"allocated 1\d\.\d MB",
    ),
    "peak_in_bytes": ("scalene(peak=30_000_000)", "bytearray(40_000_000)", r"allocated 40\.\d MB"),
    "leak": (
        "scalene(leaks=0)",
        "kept.append(bytearray(100_000))",
        r"keeps 1\d\d\.\d KB after its end; its budget is 65.5 KB",
    ),
    "leak_of_little_objects": (
        "scalene(leaks='100KB')",
        "kept.extend(str(each) for each in range(10_000))",
        r"keeps \d\d\d\.\d KB",
    ),
    "cycles_are_no_leak": ("scalene(leaks=0)", "a = [bytearray(1_000_000)]; a.append(a)", None),
    "freed_is_no_leak": ("scalene(leaks=0)", "bytearray(50_000_000)", None),
    "several": (
        "scalene(cpu='1ms', peak='1MB')",
        "spin(0.05); bytearray(4_000_000)",
        r"used (?s:.)*allocated 4\.\d MB",
    ),
    "limit_memory": (
        "limit_memory('30 MB')",
        "bytearray(40_000_000)",
        r"allocated 40\.\d MB at its peak; its budget is 31.5 MB",
    ),
    "limit_memory_kept": ("limit_memory('40 MB')", "bytearray(41_000_000)", None),
    "limit_leaks": ("limit_leaks('1 KB')", "kept.append(bytearray(30_000))", r"its budget is 1.0 KB"),
    "unknown_limit": ("scalene(memory='1MB')", "pass", r"scalene has no limit 'memory'. It has cpu, wall, peak, leaks"),
    "no_limit": ("scalene", "pass", r"takes limits by name"),
    "by_place": ("scalene('1s')", "pass", r"takes limits by name"),
    "wrong_size": ("scalene(peak='much')", "pass", r"scalene, peak: 'much' is not a size"),
    "wrong_time": ("scalene(cpu='1 week')", "pass", r"scalene, cpu: '1 week' is not a duration"),
    "not_a_number": ("scalene(cpu=float('nan'))", "pass", r"nan is not a number of seconds"),
    "too_large_a_number": ("scalene(wall=10**400)", "pass", r"is not a number of seconds"),
    "truth_is_no_time": ("scalene(cpu=True)", "pass", r"'True' is not a duration"),
    "truth_is_no_size": ("scalene(peak=True)", "pass", r"'True' is not a size"),
    "negative": ("scalene(peak=-5)", "pass", r"-5 is not a number of bytes"),
    "none_is_no_limit": ("scalene(peak=None, cpu='20s')", "bytearray(1_000_000)", None),
    "memray_by_name": ("limit_memory(memory_limit='.5 MB')", "bytearray(1_000_000)", r"its budget is 524.3 KB"),
    "no_leaks_for_memray": ("limit_leaks('0 B')", "kept.append(bytearray(30_000))", None),
    "asks_itself": (
        "scalene(peak='10MB')",
        "bytearray(40_000_000)\n    from scalene_trace.recorder import memory\n    memory()",
        r"allocated 40\.\d MB",
    ),
    "wrong_memray": ("limit_memory('much')", "pass", r"limit_memory takes a size like '24 MB', not 'much'"),
    "fails_anyway": ("scalene(cpu='1ms')", "spin(0.05); assert kept == 'other'", r"assert \[.*\] == 'other'"),
}


def test_tests_that_exceed_their_budget_fail(tmp_path: Path) -> None:
    tests = (f"@pytest.mark.{marker}\ndef test_{name}():\n    {body}\n" for name, (marker, body, _) in CASES.items())
    suite(tmp_path, "".join(tests))
    done = run_suite(tmp_path, "--scalene-trace")
    said = done.stdout.decode()
    failures = said.partition("= FAILURES =")[2].partition("= scalene-trace: ")[0]
    sections = re.split(r"^_+ test_(\w+) _+$", failures, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    expected = {name: sentence for name, (_, _, sentence) in CASES.items() if sentence}
    assert found.keys() == expected.keys()
    for name, sentence in expected.items():
        assert re.search(sentence, found[name]), (name, found[name])
    assert "budget" not in found["fails_anyway"]
    assert "Traceback" not in said
    assert done.status == 1


REPLACES = {
    "clocks": (
        "import time\n    for name in ('monotonic_ns', 'monotonic', 'process_time'):\n"
        "        monkeypatch.setattr(time, name, lambda: 0)\n    time.sleep(0.3)"
    ),
    "environment": "for name in list(os.environ): monkeypatch.delenv(name)\n    time.sleep(0.3)",
    "environment for good": "os.environ.clear()\n    time.sleep(0.3)",
    "sockets": (
        "import socket\n    def refuse(*_): raise RuntimeError\n    monkeypatch.setattr(socket, 'socket', refuse)\n"
        "    time.sleep(1.2)"
    ),
}


@pytest.mark.parametrize("what", REPLACES)
def test_what_a_test_replaces_changes_no_figure(tmp_path: Path, what: str) -> None:
    suite(
        tmp_path,
        f"""
def test_before(): pass
@pytest.mark.scalene(wall="200ms", peak="900MB")
def test_replaces(monkeypatch):
    {REPLACES[what]}
@pytest.mark.scalene(peak="1MB")
def test_after(): bytearray(2_000_000)
@pytest.mark.scalene(peak="30MB")
def test_later(): bytearray(2_000_000)
""",
    )
    done = run_suite(tmp_path, "--scalene-trace")
    said = done.stdout.decode()
    assert outcomes(done) == ["2 failed", "2 passed"], said
    assert re.search(r"test_replaces - Failed: The test took \d", said)
    assert f"scalene-trace: {tmp_path}/trace.parquet" in said
    marks = {each["text"].partition("::test_")[2] for each in rows(tmp_path / "trace.parquet", "mark")}
    assert marks == {"before", "replaces", "after", "later"}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_closest_marker_decides(tmp_path: Path, workers: int) -> None:
    suite(
        tmp_path,
        """
pytestmark = pytest.mark.scalene(cpu="100ms", peak="1MB")
def test_over(): spin(0.3)
@pytest.mark.scalene(cpu="20s")
def test_slow_one(): spin(0.3)
@pytest.mark.scalene(cpu="20s")
def test_large_one(): bytearray(2_000_000)
""",
    )
    done = run_suite(tmp_path, "--scalene-trace", *(["-n", str(workers)] if workers else []))
    assert outcomes(done) == ["2 failed", "1 passed"], done.stdout.decode()
    assert {"test_over", "test_large_one"} == set(re.findall(r"FAILED test_suite.py::(\w+)", done.stdout.decode()))
