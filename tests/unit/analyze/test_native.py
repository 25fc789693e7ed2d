"""Threads of libraries, libraries by name, process trees: tiny traces whose figures are worked out beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.libraries import build_libraries
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.base import Table
from scalene_trace.analyze.results.libraries import CalleeTime, LibraryRow
from scalene_trace.analyze.results.report import Line, Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.cli.analyze import command as analyze
from scalene_trace.cli.render.native import libraries_text, line_note
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
BLAS, NUMPY, LIBC = 1, 2, 3
PATHS = {
    BLAS: "/x/lib/python3.12/site-packages/numpy.libs/libscipy_openblas64_-4b78795a.so",
    NUMPY: "/x/lib/python3.12/site-packages/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so",
    LIBC: "/lib/x86_64-linux-gnu/libc.so.6",
}
IN_BLAS = {"pc_class": "extension", "pc_module": BLAS, "pc_offset": 0x1005}
IN_LIBC = {"pc_class": "support", "pc_module": LIBC, "pc_offset": 0x9000}
NATIVE = {"has_python": False, "stack": None, **IN_BLAS}


class Program(TraceBuilder):
    """A process with a main thread, the libraries, and two lines."""

    def __init__(self) -> None:
        super().__init__()
        self.one = self.process()
        self.main = self.thread(self.one, cpu_ns=0, tid=1001)
        for module, path in PATHS.items():
            self.add("module", id=module, path=path, **{"class": "support" if module == LIBC else "extension"})
        self.add("symbol", module=BLAS, start_offset=0x1000, end_offset=0x1010, name="dgemm")
        self.add("symbol", module=NUMPY, start_offset=0x50, end_offset=0x60, name="matmul")
        self.line5, self.line6 = (self.stack((APP, "work", 4, number)) for number in (5, 6))

    def helper(self, process: int = 1) -> int:
        return self.thread(process, cpu_ns=0, tid=7000)

    def native(self, t_ms: int, thread: int, stack: int | None, process: int = 1, **columns: Any) -> None:
        """10 ms in BLAS, of a Python thread, or of a library's where ``stack`` is None."""
        self.tick(t_ms * MS, process, thread, stack, **(IN_BLAS | {"has_python": stack is not None} | columns))

    def report(self, tmp_path: Path, **selection: Any) -> Report:
        return build_report([self.write(tmp_path / "t.parquet")], Selection(**selection))


def line(report: Report, number: int) -> Line:
    return next(each for each in report.lines if each.line == number)


def test_a_librarys_thread_belongs_to_the_line_in_native_code(tmp_path: Path) -> None:
    program = Program()
    helper = program.helper()
    program.native(100, program.main, program.line5)
    program.native(108, helper, None, system_ns=2 * MS, gc=True)
    report = program.report(tmp_path)
    # 10 ms of its own, 10 + 2 ms of the helper
    found = line(report, 5)
    assert (found.ticks, found.cpu_s, found.native_s) == (2, pytest.approx(0.022), pytest.approx(0.020))
    assert (found.parallel_native_s, found.system_s, found.gc_s) == pytest.approx((0.010, 0.002, 0.012))
    assert (
        report.functions[0].parallel_native_s == pytest.approx(0.010)
        and report.functions[0].cumulative_cpu_s == found.cpu_s
    )
    assert report.unattributed.cpu_s == 0


@pytest.mark.parametrize(("t_ms", "is_found"), [(79, False), (80, True), (100, True), (119, True), (120, False)])
def test_two_intervals_away_is_the_limit(t_ms: int, is_found: bool, tmp_path: Path) -> None:
    program = Program()
    program.native(100, program.main, program.line5)
    program.native(t_ms, program.helper(), None)
    report = program.report(tmp_path)
    assert (report.unattributed.ticks, line(report, 5).ticks) == ((0, 2) if is_found else (1, 1))


def test_the_nearest_tick_decides(tmp_path: Path) -> None:
    program = Program()
    helper = program.helper()
    program.native(100, program.main, program.line5)
    program.tick(110 * MS, 1, program.main, program.line6)  # Python code
    program.native(120, program.main, program.line6)
    for t_ms in (104, 106, 114, 116):  # half-way is 105 and 115
        program.native(t_ms, helper, None)
    report = program.report(tmp_path)
    assert (line(report, 5).parallel_native_s, line(report, 6).parallel_native_s) == pytest.approx((0.010, 0.010))
    assert report.unattributed.native_s == pytest.approx(0.020)


def test_a_call_that_goes_on_between_two_ticks_spans_what_lies_between(tmp_path: Path) -> None:
    program = Program()
    helper = program.helper()
    for t_ms, stack in ((100, program.line5), (1000, program.line5), (2500, program.line5), (3000, program.line6)):
        program.native(t_ms, program.main, stack)
    for t_ms in (500, 1500, 2700):  # within 100 intervals and one stack; 1.5 s apart; between two lines
        program.native(t_ms, helper, None)
    report = program.report(tmp_path)
    assert (line(report, 5).ticks, line(report, 6).ticks, report.unattributed.ticks) == (4, 1, 2)


def test_several_threads_in_native_code_share_equally(tmp_path: Path) -> None:
    program = Program()
    second, helper = program.thread(1, cpu_ns=0, tid=1002), program.helper()
    program.native(100, program.main, program.line5)
    program.native(101, second, program.line6, user_ns=0)
    program.native(102, helper, None, user_ns=10 * MS)
    report = program.report(tmp_path)
    assert [line(report, number).parallel_native_s for number in (5, 6)] == pytest.approx([0.005, 0.005])
    assert report.totals.cpu_s == pytest.approx(0.020)
    assert sum(each.ticks or 0 for each in report.lines) == 3  # the helper's tick counts once


def test_spans_of_a_long_interval_are_in_few_pieces(tmp_path: Path) -> None:
    """Ticks 100 s apart under an interval of 1 s stand for all of the time between them: 2,000 pieces of 50 ms each."""
    program = Program()
    program.settings["cpu_interval_ns"] = str(1_000 * MS)
    helper = program.helper()
    for number in range(50):
        program.native(number * 100_000, program.main, program.line5)
        program.native(number * 100_000 + 49_000, helper, None)
    with open_traces([program.write(tmp_path / "t.parquet")]) as traces:
        pieces = "SELECT count(*), max(to_ns // bucket_ns - from_ns // bucket_ns + 1) FROM native_spans"
        assert traces.connection.execute(pieces).fetchall() == [(50, 21)]
    assert line(program.report(tmp_path), 5).parallel_native_s == pytest.approx(0.490)  # the last one is 49 s away


def test_other_threads_stay_what_they_are(tmp_path: Path) -> None:
    program = Program()
    other, later = program.process(pid=3000), program.thread(1, cpu_ns=0, tid=1003)
    bare_main = program.thread(other, cpu_ns=0, tid=3000)
    stranger = program.helper(other)
    program.native(100, program.main, program.line5)
    program.native(101, bare_main, None, process=other)  # of another process
    program.native(101, stranger, None, process=other)
    program.native(102, later, None)  # before its first Python
    program.native(500, later, program.line6)
    report = program.report(tmp_path)
    assert (line(report, 5).ticks, line(report, 6).ticks, report.unattributed.ticks) == (1, 1, 3)
    assert report.unattributed.parallel_native_s == 0


def test_windows_and_threads_select_by_the_thread_that_ran(tmp_path: Path) -> None:
    program = Program()
    helper = program.helper()
    program.native(100, program.main, program.line5)
    program.native(108, helper, None)
    assert program.report(tmp_path, threads=(helper,)).totals.cpu_s == pytest.approx(0.010)
    assert line(program.report(tmp_path, threads=(helper,)), 5).parallel_native_s == pytest.approx(0.010)
    assert line(program.report(tmp_path, threads=(program.main,)), 5).parallel_native_s == 0
    assert line(program.report(tmp_path, from_s=0.105), 5).ticks == 1


def test_the_library_is_that_of_the_instruction_then_of_the_stack_then_of_the_instruction(tmp_path: Path) -> None:
    program = Program()
    above = {"extension_module": NUMPY, "extension_offset": 0x60}
    program.native(100, program.main, program.line5, **above)
    program.native(110, program.main, program.line5, **(IN_LIBC | above))
    program.native(120, program.main, program.line5, **(IN_LIBC | {"opcode": "CALL_BUILTIN_FAST"}))
    program.native(130, program.main, program.line6, pc_class="unknown", pc_module=None, pc_offset=None)
    program.native(140, program.main, program.line6, pc_offset=0x1010)
    report = program.report(tmp_path)
    libraries = {each.library: each for each in line(report, 5).native_libraries or ()}
    assert {name: each.native_s for name, each in libraries.items()} == pytest.approx({
        "libscipy_openblas": 0.010, "numpy/_core/_multiarray_umath": 0.010, "libc": 0.010,
    })  # fmt: skip
    assert [[s.name for s in libraries[name].symbols] for name in sorted(libraries)] == [[], ["dgemm"], ["matmul"]]
    assert {each.library for each in line(report, 6).native_libraries or ()} == {None, "libscipy_openblas"}
    assert report.functions[0].native_libraries is not None
    assert report.functions[0].native_libraries[0].native_s == pytest.approx(0.020)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/numpy.libs/libopenblas64_p-r0-2f7c42d4.3.18.so", "libopenblas"),
        ("/a/numpy.libs/libgfortran-040039e1-0352e75f.so.5.0.0", "libgfortran"),
        ("/usr/lib/libopenblas.so.0", "libopenblas"),
        ("/lib/libm-2.31.so", "libm"),
        ("/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64"),
        ("/usr/lib/libpython3.12.so.1.0", "libpython3.12"),
        ("/usr/bin/python3.12", "python3.12"),
        ("/usr/lib/python3.12/lib-dynload/_hashlib.cpython-312-x86_64-linux-gnu.so", "_hashlib"),
        (
            "/v/lib/python3.13/site-packages/cryptography/hazmat/bindings/_rust.abi3.so",
            "cryptography/hazmat/bindings/_rust",
        ),
        ("/home/me/build/fast.cpython-313-x86_64-linux-gnu.so", "fast"),
        ("/v/lib/python3.13/site-packages/torch/lib/libtorch_cpu.so", "libtorch_cpu"),
        ("", ""),
    ],
)
def test_libraries_have_readable_names(path: str, name: str, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add("module", id=1, path=path, **{"class": "extension"})
    with open_traces([builder.write(tmp_path / "t.parquet")]) as traces:
        assert traces.connection.execute("SELECT library, path FROM libraries").fetchall() == [(name, path)]


def busy_program() -> Program:
    """Line 5 in BLAS with three helpers of the library, line 6 in the C library."""
    program = Program()
    program.source(APP, "import numpy\n\n\ndef work():\n    return a @ b\n    return sorted(c)\n")
    helpers = [program.helper() for _ in range(3)]
    for index in range(10):
        for thread, stack in ((program.main, program.line5), *((helper, None) for helper in helpers)):
            program.native(100 + 10 * index, thread, stack)
    program.native(2000, program.main, program.line6, **(IN_LIBC | {"opcode": "CALL_BUILTIN_FAST"}))
    return program


def printed(arguments: list[object], width: int, monkeypatch: Any, capsys: Any, is_terminal: bool = True) -> str:
    """What a command prints on a terminal of this width (without colours), or into a pipe."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert analyze.run([*map(str, arguments), "--no-color"]) == 0
    text: str = capsys.readouterr().out
    assert "\x1b" not in text
    if is_terminal:
        assert max(map(len, text.splitlines())) <= width
    return text


@pytest.mark.parametrize(("width", "note"), [(80, "×4.0"), (118, "×4.0"), (200, "← libscipy_openblas 100 % ×4.0")])
def test_a_line_says_its_library_and_its_cores(
    width: int, note: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    path = busy_program().write(tmp_path / "t.parquet")
    text = printed([path], width, monkeypatch, capsys)
    row = next(each for each in text.splitlines() if "return a @ b" in each and "•" not in each)
    assert row.endswith(note)
    assert "×3.8: CPU seconds" in " ".join(text.split())
    assert "← libscipy_openblas 100 % ×4.0" in printed([path], 80, monkeypatch, capsys, is_terminal=False)


@pytest.mark.parametrize(("native_s", "system_s", "is_named"), [(0.1, 0.1, False), (0.4, 0.0, True), (0.0, 0.5, True)])
def test_only_lines_with_native_code_call_native_functions(native_s: float, system_s: float, is_named: bool) -> None:
    """A line of additions runs functions of the interpreter's own, and its time is Python's."""
    callees = [CalleeTime("x_add", "python", "python", 0.3)]
    line = Line("a.py", 1, "f", 1, cpu_s=1.0, native_s=native_s, system_s=system_s, callees=callees)
    assert line_note(line, "x += 1", 80, Screen()) == "  ← x_add() 30 %" * is_named


def test_without_native_code_nothing_is_said_of_it(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    program = Program()
    program.tick(0, 1, program.main, program.line5)
    path = program.write(tmp_path / "t.parquet")
    assert "←" not in printed([path], 200, monkeypatch, capsys)
    assert "No native time was recorded." in printed(["libraries", path], 80, monkeypatch, capsys)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_libraries_are_shown_with_their_functions(width: int, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    path = busy_program().write(tmp_path / "t.parquet")
    text = printed(["libraries", path], width, monkeypatch, capsys)
    rows = text.splitlines()
    first = next(index for index, row in enumerate(rows) if "libscipy_openblas" in row)
    # 40 of 41 ticks, 30 of them of the library's threads
    assert rows[first].split()[0] == "97.6" and "400 ms" in rows[first] and "300 ms" in rows[first]
    assert "dgemm" in rows[first + 1] and ("app.py:5" in rows[first + 1]) == (width > 60)
    assert "410 ms of native code, of which 300 ms in threads" in " ".join(text.split())
    by_share = printed(["libraries", "--sort", "ticks", "--limit", "1", path], width, monkeypatch, capsys)
    assert "libscipy_openblas" + " dgemm" * (width > 60) in by_share and "libc" not in by_share


@pytest.mark.parametrize("sort", [None, "ticks"])
@pytest.mark.parametrize(
    ("names", "remark"),
    [
        (["f", None, "_Z"], ""),
        (["_Z1fv", "g"], "1 name of C++ or Rust is as in the file: the recorder could not read it."),
        (["_Z1fv", "_RNvC1a1g"], "2 names of C++ or Rust are as in the file: the recorder could not read them."),
    ],
)
def test_names_that_stayed_mangled_are_said(names: list[str | None], remark: str, sort: str | None) -> None:
    rows = [LibraryRow("lib", name, "extension", "/x/lib.so", 1, 0.1, 0.0, 50.0, None, None, None) for name in names]
    shown = list(libraries_text(Table("libraries", {"sort": sort}, [], rows), Screen(width=80)))
    assert max(map(len, shown)) <= 80
    assert remark in " ".join(shown) if remark else "as in the file" not in " ".join(shown)


def test_the_json_of_libraries(tmp_path: Path, capsys: Any) -> None:
    path = busy_program().write(tmp_path / "t.parquet")
    assert analyze.run(["libraries", "--json", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "query", "traces", "libraries"]
    assert document["schema"] == "scalene-trace/libraries/1"
    assert document["libraries"][0] == {
        "library": "libscipy_openblas", "symbol": "dgemm", "image": "extension", "path": PATHS[BLAS], "ticks": 40,
        "native_s": pytest.approx(0.4), "parallel_native_s": pytest.approx(0.3),
        "native_percent": pytest.approx(100 * 40 / 41), "file": APP, "line": 5, "function": "work",
    }  # fmt: skip
    assert [row["library"] for row in document["libraries"]] == ["libscipy_openblas", "libc"]


def test_several_traces_are_added_up_by_library(tmp_path: Path) -> None:
    paths = [busy_program().write(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    rows = build_libraries(paths, Selection(), {}, None, None).rows
    assert [(row.library, row.ticks) for row in rows] == [("libscipy_openblas", 80), ("libc", 2)]
    assert build_report(paths, Selection()).lines[0].parallel_native_s == pytest.approx(0.6)


def family() -> TraceBuilder:
    """A root (1) with a daemon (4, of 3, of 1), a shell (2) that ran a Python (5, exec 6), and two that form a ring."""
    builder = TraceBuilder()
    facts: list[dict[str, Any]] = [
        {"end_ns": 9 * SECOND, "exit_status": 0, "end_footprint_bytes": 3_000_000, "peak_rss_bytes": 50_000_000},
        {"parent": 1, "cause": "spawn", "command": ["/bin/sh", "-c", "python x.py"], "python_version": None},
        {"parent": 1, "cause": "fork", "end": "quick_exit", "exit_status": 0},
        {"parent": 3, "cause": "fork"},
        {"parent_pid": 1002, "cause": "spawn", "end": "exec"},
        {"parent": 5, "cause": "exec", "command": None, "executable": "/opt/tool"},
        {"parent": 8, "cause": "fork"},
        {"parent": 7, "cause": "fork"},
    ]
    for index, columns in enumerate(facts):
        process = builder.process(index * SECOND // 10, **columns)
        thread = builder.thread(process, cpu_ns=40 * MS)
        builder.tick(SECOND, process, thread, None, user_ns=30 * MS)
        builder.tick(SECOND, process, thread, None, user_ns=0, system_ns=10 * MS)
    builder.memory(2 * SECOND, 1, 1, None, 11_000_003, 11_000_003)
    builder.memory(3 * SECOND, 1, 1, None, -9_000_001, 2_000_002)
    return builder


def test_processes_are_a_tree(tmp_path: Path, capsys: Any) -> None:
    path = family().write(tmp_path / "t.parquet")
    assert analyze.run(["processes", "--json", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "scalene-trace/processes/1"
    rows = document["processes"]
    assert [(row["process"], row["depth"]) for row in rows] == [
        (1, 0), (2, 1), (5, 2), (6, 3), (3, 1), (4, 2), (7, 0), (8, 1),
    ]  # fmt: skip
    assert {name: rows[0][name] for name in ("cpu_s", "python_s", "native_s", "system_s")} == pytest.approx({
        "cpu_s": 0.04, "python_s": 0.03, "native_s": 0, "system_s": 0.01,
    })  # fmt: skip
    assert (rows[0]["growth_bytes"], rows[0]["peak_bytes"], rows[0]["peak_rss_bytes"]) == (
        2_000_002,
        11_000_003,
        50_000_000,
    )
    assert analyze.run(["info", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["processes"] == rows


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_tree_is_indented(width: int, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    path = family().write(tmp_path / "t.parquet")
    text = printed(["processes", path], width, monkeypatch, capsys)
    below_heading = text.partition("\n\n")[2]
    rows = [row for row in below_heading.splitlines() if row.lstrip()[:1].isdigit()]
    commands = [
        "python3 app.py",
        "  sh -c python x.py",
        "    python3 app.py",
        "      tool",
        "  python3 app.py",
        "    python3 app.py",
    ]
    starts = [
        row.index(command.strip()) - (len(command) - len(command.lstrip()))
        for row, command in zip(rows, commands, strict=False)
    ]
    assert len(set(starts)) == 1
    assert ("growth" in text, any("3.12.4" in row for row in rows)) == (width == 200, width == 200)
    if width == 200:
        assert all(row in printed(["info", path], width, monkeypatch, capsys) for row in rows)
    by_time = printed(["processes", "--sort", "start_s", "--limit", "2", path], width, monkeypatch, capsys)
    assert (
        len({row.index(name) for row in by_time.splitlines() for name in ("tool", "python3 app.py") if name in row})
        == 1
    )


def test_what_was_not_recorded_of_a_process_is_null(tmp_path: Path, capsys: Any) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = "[]"
    builder.process()
    assert analyze.run(["processes", "--json", str(builder.write(tmp_path / "t.parquet"))]) == 0
    row = json.loads(capsys.readouterr().out)["processes"][0]
    assert [row[name] for name in ("python_s", "native_s", "system_s", "growth_bytes", "peak_bytes")] == [None] * 5


def test_the_peak_of_a_tree_is_the_peak_of_the_sum(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, (start_s, end_s) in enumerate(((1, 3), (5, 7), (6, 8)), start=1):
        process = builder.process(start_s * SECOND, end_ns=end_s * SECOND, peak_rss_bytes=100_000_000)
        builder.thread(process, cpu_ns=0)
        builder.memory(start_s * SECOND + 1, process, number, None, 100_000_000, 100_000_000)
        builder.memory(end_s * SECOND - SECOND // 2, process, number, None, -60_000_000, 40_000_000)
        builder.add("rss", t_ns=start_s * SECOND + 2, process=process, rss_bytes=100_000_000)
        builder.add("rss", t_ns=end_s * SECOND - SECOND // 2, process=process, rss_bytes=70_000_000)
    totals = build_report([builder.write(tmp_path / "t.parquet")], Selection()).totals
    # alone; then the second's 100 MB with the third's 100 MB from 6 to 6.5 s: 200 MB, not the 300 MB of all peaks
    assert (totals.peak_bytes, totals.peak_rss_bytes) == (200_000_000, 200_000_000)
