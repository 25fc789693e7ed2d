"""Findings: what is said first, only where the figures bear it, and nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.findings.find import find_findings
from scalene_trace.analyze.findings.memory import Peaks
from scalene_trace.analyze.findings.words import chosen, fraction
from scalene_trace.analyze.report.processes import build_processes
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.findings import KINDS, Finding
from scalene_trace.analyze.results.libraries import CalleeTime, LibraryTime
from scalene_trace.analyze.results.report import Report, report_json
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.processes import processes_text
from scalene_trace.cli.render.report import report_text
from scalene_trace.cli.render.text import Screen, cells
from tests.support.example_traces import rich_trace
from tests.support.gpu_traces import gpu_trace, used
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
LIB = "/usr/lib/python3.11"
FUTEX, NANOSLEEP, EPOLL, WAIT4 = 202, 230, 232, 61


class Program(TraceBuilder):
    """A builder with one process of ten seconds, one thread, and the source of app.py."""

    def __init__(self) -> None:
        super().__init__()
        self.main = self.process(end_ns=10 * SECOND)
        self.first = self.thread(self.main, cpu_ns=0)
        self.source(APP, "".join(f"statement_{n}()\n" for n in range(1, 200)))

    def at(self, line: int, *inner: tuple[str, str]) -> int:
        """A stack on a line of app.py; ``inner``: files and functions that the line called, innermost first."""
        return self.stack(*((file, name, 1, 2) for file, name in inner), (APP, f"f{line}", line, line))

    def work(self, line: int, ticks: int, **columns: Any) -> None:
        """So many ticks of 10 ms on a line."""
        for number in range(ticks):
            self.tick(number, self.main, self.first, self.at(line), **({"user_ns": 10 * MS} | columns))

    def report(self, path: Path, **selection: Any) -> Report:
        return build_report([self.write(path / "t.parquet")], Selection(**selection))


def said(report: Report, *kinds: str) -> list[str]:
    """The texts of the findings of some kinds."""
    return [each.text for each in report.findings if each.kind in kinds]


def test_the_line_with_most_cpu_time_is_said_with_its_error(tmp_path: Path) -> None:
    program = Program()
    program.work(5, 600)
    program.work(6, 390)
    program.work(7, 10)
    report = program.report(tmp_path)
    first, second = (each for each in report.findings if each.kind == "line")
    # 1,000 ticks: the standard error of a share of 0.6 is sqrt(0.6 * 0.4 / 1000) = 1.5 points
    assert first.text.startswith("60 % (±2) of the CPU time is in app.py:5 `statement_5()`, ")
    assert (first.file, first.line, first.unit) == (APP, 5, "percent")
    assert first.value == pytest.approx(60) and first.error == pytest.approx(1.55, abs=0.05)
    assert second.text.startswith("39 % (±2) is in app.py:6 ")
    assert not [text for text in said(report, *KINDS) if "app.py:7" in text]


def test_a_line_without_a_text_is_said_with_its_function(tmp_path: Path) -> None:
    """A function that cloudpickle has sent to a worker has lost its file."""
    program = Program()
    caller = (f"{LIB}/concurrent/futures/process.py", "run", 1, 2)
    stack = program.stack(("<dynamic-code>", "make.<locals>.f", 2, 4), caller)
    for number in range(100):
        program.tick(number, program.main, program.first, stack, user_ns=10 * MS)
    report = program.report(tmp_path)
    (text,) = said(report, "line")
    assert " of the CPU time is in <dynamic-code>:4 (function make.<locals>.f), all of it in Python code" in text
    shown = "\n".join(report_text(report, Screen(width=120)))
    assert "in make.<locals>.f()  (source not in the trace)" in shown


@pytest.mark.parametrize(
    ("ticks", "words"), [(0, "No CPU sample"), (1, "Only 1 CPU sample was taken"), (19, "Only 19 CPU samples")]
)
def test_a_short_run_says_that_it_cannot_tell(ticks: int, words: str, tmp_path: Path) -> None:
    program = Program()
    program.work(5, ticks)
    report = program.report(tmp_path)
    assert not said(report, "line", "function", "package", "part", "idle")
    (text,) = said(report, "samples")
    assert text.startswith(words)


def test_a_share_with_a_large_error_is_not_said(tmp_path: Path) -> None:
    program = Program()
    program.work(5, 22)  # of 100 ticks: 22 % with an error of 4.1 points
    for line in range(20, 98):
        program.work(line, 1)
    assert said(program.report(tmp_path), "line")
    program = Program()
    program.work(5, 10)  # 10 of 60: 17 % with an error of 4.8 points, more than a quarter of it
    for line in range(20, 70):
        program.work(line, 1)
    assert not said(program.report(tmp_path), "line")


def test_a_flat_program_is_described_by_its_function_or_package(tmp_path: Path) -> None:
    program = Program()
    for line in range(2, 102):
        stack = program.stack((APP, "work", 1, line))
        for number in range(6):
            program.tick(number, program.main, program.first, stack, user_ns=10 * MS)
    for number in range(300):
        stack = program.stack((f"{LIB}/json/decoder.py", "decode", 1, 2))
        program.tick(number, program.main, program.first, stack, user_ns=10 * MS)
    report = program.report(tmp_path)
    (function,) = said(report, "function")
    assert function.startswith(
        "67 % (±2) of the CPU time is in the function work (app.py:1), which no single line explains"
    )
    (package,) = said(report, "package")
    assert package.startswith("33 % (±2) is in json (standard library)")


@pytest.mark.parametrize(
    ("file", "is_importer"),
    [("<frozen importlib._bootstrap>", True), ("<frozen runpy>", False), (f"{LIB}/x.py", False)],
)
def test_compiled_modules_run_while_they_are_imported(file: str, is_importer: bool, tmp_path: Path) -> None:
    """As programs of Cython do from their beginning to their end."""
    program = Program()
    for number in range(300):
        stack = program.stack((file, "_call_with_frames_removed", 1, 2))
        program.tick(number, program.main, program.first, stack, user_ns=10 * MS)
    (package,) = said(program.report(tmp_path), "package")
    assert ("what compiled ones do then has no lines of its own" in package) == is_importer


def test_the_kernel_is_said_once_at_the_line_or_for_all_of_them(tmp_path: Path) -> None:
    program = Program()
    program.work(5, 400, user_ns=0, system_ns=10 * MS)
    program.work(6, 400)
    report = program.report(tmp_path)
    assert not said(report, "part")
    assert [text for text in said(report, "line") if "all of it in the kernel" in text and "app.py:5" in text]
    program = Program()
    for line in range(2, 102):
        program.work(line, 10, user_ns=4 * MS, system_ns=6 * MS)
    (text,) = said(program.report(tmp_path), "part")
    assert text.endswith("of the CPU time is spent in the kernel.") and text.startswith("60 % ")


def waiting(tmp_path: Path, *inner: tuple[str, str], threads: int = 1, **columns: Any) -> list[str]:
    """What is said if threads wait on line 9 for 6 of 10 s, inside these calls."""
    program = Program()
    program.settings["features"] = '["cpu", "wait"]'
    program.work(5, 500)
    others = [program.thread(program.main, cpu_ns=0) for _ in range(threads)]
    for thread in others:
        duration = {"duration_ns": 6 * SECOND, "span_ns": 6 * SECOND}
        program.wait(SECOND, program.main, thread, program.at(9, *inner), **(duration | columns))
    return said(program.report(tmp_path), "wait")


@pytest.mark.parametrize(
    ("syscall", "words"),
    [
        (FUTEX, "for a lock"),
        (NANOSLEEP, "sleeping"),
        (EPOLL, "for events"),
        (WAIT4, "for a child process"),
        (9999, "in a system call"),
    ],
)
def test_a_wait_is_said_with_its_cause_and_place(syscall: int, words: str, tmp_path: Path) -> None:
    (text,) = waiting(tmp_path, syscall=syscall, **{"class": "sleep"})
    assert text.startswith("6.00 s ") and words in text and text.endswith("at app.py:9 `statement_9()`.")


def test_threads_that_wait_together_are_counted(tmp_path: Path) -> None:
    (text,) = waiting(tmp_path, threads=3, syscall=FUTEX, **{"class": "sleep"})
    assert text.startswith("18.00 s waiting for a lock") and text.endswith("(3 threads together).")


@pytest.mark.parametrize(
    "inner",
    [
        [(f"{LIB}/queue.py", "Queue.get")],
        [(f"{LIB}/threading.py", "Condition.wait"), (f"{LIB}/queue.py", "Queue.get")],
        [(f"{LIB}/threading.py", "Thread.join")],
        [(f"{LIB}/threading.py", "wait")],  # without qualified names (3.10)
        [(f"{LIB}/concurrent/futures/thread.py", "_worker")],
        [(f"{LIB}/multiprocessing/pool.py", "worker")],
        [(f"{LIB}/selectors.py", "EpollSelector.select"), (f"{LIB}/asyncio/base_events.py", "run_forever")],
    ],
)
def test_idle_threads_are_not_said(inner: list[tuple[str, str]], tmp_path: Path) -> None:
    assert not waiting(tmp_path, *inner, syscall=FUTEX, **{"class": "sleep"})


def test_calls_that_wait_for_no_work_are_said(tmp_path: Path) -> None:
    """The user's own module named like one of the standard library, and calls of other modules."""
    for file, name in (
        ("/home/me/queue.py", "get"),
        (f"{LIB}/subprocess.py", "Popen.wait"),
        (f"{LIB}/socket.py", "recv"),
    ):
        assert waiting(tmp_path, (file, name), syscall=FUTEX, **{"class": "sleep"}), file


def test_a_program_that_mostly_waits_says_so(tmp_path: Path) -> None:
    program = Program()
    program.settings["features"] = '["cpu", "wait"]'
    program.work(5, 100)
    (text,) = said(program.report(tmp_path), "idle")
    assert text == "The program mostly waited: it used 1.00 s of CPU time in 10.00 s."
    program.wait(
        SECOND, program.main, program.first, program.at(5), 8 * SECOND, span_ns=8 * SECOND, **{"class": "runnable"}
    )
    report = program.report(tmp_path)
    assert not said(report, "idle")
    (text,) = said(report, "wait")
    assert text.startswith("8.00 s runnable without a CPU")


def test_a_leak_is_said_with_its_probability_and_only_once(tmp_path: Path) -> None:
    program = Program()
    program.settings["features"] = '["memory", "alloc"]'
    for index in range(100):
        program.alloc((index * 100 + 50) * MS, program.main, program.first, program.at(5), 1_000_007, type="bytes")
    program.memory(9 * SECOND, program.main, program.first, program.at(5), 90_000_003, 90_000_003)
    report = program.report(tmp_path)
    (leak,) = (each for each in report.findings if each.kind in ("leak", "growth", "peak"))
    assert leak.kind == "leak" and "at app.py:5 `statement_5()`, 98 % sure" in leak.text
    assert leak.probability == report.leaks[0].probability  # type: ignore[index]
    assert leak.value == report.leaks[0].bytes_per_s and leak.unit == "bytes/s"  # type: ignore[index]


def test_the_line_that_held_most_at_the_peak_is_said(tmp_path: Path) -> None:
    program = Program()
    program.settings["features"] = '["memory", "alloc"]'
    program.alloc(SECOND, program.main, program.first, program.at(5), 300_000_007, 2 * SECOND, free_stack=program.at(5))
    program.alloc(SECOND, program.main, program.first, program.at(6), 100_000_007)
    (text,) = said(program.report(tmp_path), "peak")
    assert text == "Memory peaks at 400 MB, three quarters of it from app.py:5 `statement_5()`."


def test_the_part_of_the_peak_is_the_same_in_several_traces(tmp_path: Path) -> None:
    program = Program()
    program.settings["features"] = '["memory", "alloc"]'
    program.alloc(SECOND, program.main, program.first, program.at(5), 130_000_007)
    program.alloc(SECOND, program.main, program.first, program.at(6), 270_000_007)
    path = program.write(tmp_path / "t.parquet")
    one, three = (build_report([path] * count, Selection()) for count in (1, 3))
    assert said(one, "peak") == ["Memory peaks at 400 MB, two thirds of it from app.py:6 `statement_6()`."]
    assert said(three, "peak") == said(one, "peak")


def gpu_findings_of(builder: TraceBuilder, tmp_path: Path, copies: int = 1) -> list[Finding]:
    report = build_report([builder.write(tmp_path / "t.parquet")] * copies, Selection())
    return [each for each in report.findings if each.kind == "gpu"]


def test_the_time_of_gpus_is_said_with_its_line(tmp_path: Path) -> None:
    (found,) = gpu_findings_of(gpu_trace(), tmp_path)
    assert found.text == "GPUs worked for 1.00 s in 10.00 s, all of it for app.py:10 (function train)."
    assert (found.value, found.unit, found.name) == (pytest.approx(1), "s", "gpu")
    assert (found.part, found.file, found.line) == (pytest.approx(1), APP, 10)
    (twice,) = gpu_findings_of(gpu_trace(), tmp_path, copies=2)
    assert twice.text == "GPUs worked for 2.00 s in 20.00 s, all of it for app.py:10 (function train)."
    assert not gpu_findings_of(gpu_trace(busy_ms=400), tmp_path)  # less than a twentieth of the time


def test_several_gpus_work_for_more_than_the_recorded_time(tmp_path: Path) -> None:
    builder = gpu_trace()
    for device in (1, 2):
        used(builder, 0, 10 * SECOND, 10 * SECOND, device=device)
    (found,) = gpu_findings_of(builder, tmp_path)
    assert found.text.startswith("GPUs worked for 21.00 s in 10.00 s")


def test_a_line_that_waits_for_a_gpu_is_said(tmp_path: Path) -> None:
    program = Program()
    where = {"process": program.main, "thread": program.first, "stack": program.at(7)}
    program.add("device_sync", t_ns=SECOND, **where, calls=1, duration_ns=2 * SECOND, span_ns=2 * SECOND)
    (found,) = gpu_findings_of(program, tmp_path)
    assert found.text == "2.00 s waiting for a GPU at app.py:7 `statement_7()`."
    assert (found.value, found.name, found.line, found.part) == (pytest.approx(2), "sync", 7, None)


def test_losses_that_spoil_figures_come_first(tmp_path: Path) -> None:
    program = Program()
    program.work(5, 1000)
    program.loss("torn_stack", "loss", 3, "three of a thousand spoil nothing")
    program.loss("engine_posix", "info", 1, "only for information")
    assert not said(program.report(tmp_path), "loss")
    program.loss("waits_off", "error", 1, "waits are not recorded")
    report = program.report(tmp_path)
    assert report.findings[0].kind == "loss" and "waits_off ×1" in report.findings[0].text
    assert "torn_stack" not in report.findings[0].text
    program.rows["loss"][0]["count"] = 30
    assert "torn_stack ×30" in program.report(tmp_path).findings[0].text


def test_findings_do_not_depend_on_limit_and_order_and_are_at_most_six(tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    whole = build_report([path], Selection())
    for sort, limit in (("wait_s", 1), ("alloc_bytes", 0), (None, 2)):
        assert build_report([path], Selection(), sort, limit).findings == whole.findings
    assert len(whole.findings) <= 6
    kinds = [KINDS.index(each.kind) for each in whole.findings]
    assert kinds == sorted(kinds)
    document = json.loads(json.dumps(report_json(whole)))
    assert [each["text"] for each in document["findings"]] == [each.text for each in whole.findings]


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    program = Program()
    other = program.stack(("/home/me/web/app.py", "g", 1, 3))
    program.work(5, 500)
    for number in range(400):
        program.tick(number, program.main, program.first, other, user_ns=10 * MS)
    first, second = said(program.report(tmp_path), "line")
    assert "in me/app.py:5 " in first and "in web/app.py:3" in second


def test_a_text_begins_with_the_findings_and_fits_every_screen(tmp_path: Path) -> None:
    program = Program()
    program.source(APP, "x\x1b[31m = '日本語' * 1_000_000_000_000_000_000_000_000_000\n" * 9)
    program.work(5, 500)
    report = program.report(tmp_path)
    for width in (60, 80, 120, 200):
        lines = list(report_text(report, Screen(width, has_unicode=False, is_cut=True)))
        first = lines[lines.index("") + 1]  # after the heading
        assert first.startswith("* 100 % ")
        assert all(cells(line) <= width for line in lines)
        assert not [line for line in lines if "\x1b" in line or set(line) & set("•±…")]


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("h5py/_errors", "all of it in calls of call() of h5py/_errors."),
        ("libz", "all of it in calls of call() of h5py/_errors, and almost all in the library libz."),
    ],
)
def test_a_called_function_is_not_said_to_be_where_the_time_went(tmp_path: Path, library: str, words: str) -> None:
    program = Program()
    program.work(5, 500, pc_class="extension")
    report = program.report(tmp_path)
    cpu_s = report.lines[0].cpu_s or 0.0
    called = CalleeTime("call", "h5py/_errors", "extension", cpu_s)
    ran = LibraryTime(library, 0.94 * cpu_s, [], "extension")
    changed = {"native_s": cpu_s, "python_s": 0.0, "callees": [called], "native_libraries": [ran]}
    report = replace(report, lines=[replace(report.lines[0], **changed)])
    (found,) = (each for each in find_findings(report, [], 10.0, Peaks()) if each.kind == "line")
    assert found.text.endswith(words)


@pytest.mark.parametrize(
    ("status", "words"),
    [("0", ""), (None, ""), ("1", "exit status 1"), ("139", "exit status 139 (SIGSEGV)"), ("250", "exit status 250")],
)
def test_the_heading_says_how_the_program_ended(tmp_path: Path, status: str | None, words: str) -> None:
    program = Program()
    program.settings |= {"exit_status": status} if status else {}
    if status is None:
        program.settings.pop("exit_status", None)
    report = program.report(tmp_path)
    assert report.traces[0].exit_status == (None if status is None else int(status))
    facts = list(report_text(report, Screen(200)))[1]
    assert facts.endswith(f" · {words}") if words else "exit status" not in facts


def test_processes_explain_the_statuses_that_they_show(tmp_path: Path) -> None:
    def shown(*ends: tuple[str | None, int | None]) -> str:
        program = TraceBuilder()
        for end, status in ends:
            program.process(end=end, exit_status=status)
        path = program.write(tmp_path / "t.parquet")
        table = build_processes([path], (), {"sort": None}, None, None)
        return " ".join(" ".join(processes_text(table, Screen(120))).split())

    assert "status:" not in shown(("exit", 0), ("exit", 128)) and "No status" not in shown(("exit", 0), ("exec", None))
    assert "status: 128 + n if signal n killed the process." in shown(("exit", 0), ("signal", 137))
    assert "No status: nobody had waited for the process when the recording ended." in shown(("exit", 0), (None, None))


def test_a_program_that_could_not_be_recorded_is_said_last_in_words(tmp_path: Path) -> None:
    program = Program()
    program.work(5, 500)
    program.add("loss", name="unrecorded_static", severity="loss", count=1, text="static binaries were started")
    findings = program.report(tmp_path).findings
    assert [each.kind for each in findings][:: len(findings) - 1] == ["line", "loss"]
    assert findings[-1].text == (
        "1 program that was started is not in the trace, nor are its time and memory: a static binary, which cannot be "
        "recorded (×1)."
    )


def test_fractions_and_choices() -> None:
    assert [fraction(part) for part in (1.0, 0.66, 0.5, 0.1)] == ["all", "two thirds", "half", "10 %"]
    a, b, c = (Finding(kind, kind) for kind in ("line", "wait", "leak"))
    assert chosen([[a, a, a], [b], [c, c]], 4) == [a, a, b, c]
    assert chosen([[], []], 4) == []
