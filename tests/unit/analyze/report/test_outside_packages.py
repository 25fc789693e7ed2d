"""CPU time outside of the user's code has a name: the package, the module of the standard library, or the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Package, Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.report import report_text
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = ("/home/me/app.py", "main", 1, 2)
SITE = "/venv/lib/python3.11/site-packages"
PACKAGES = {
    f"{SITE}/numpy/core/_methods.py": ("numpy", False),
    f"{SITE}/six.py": ("six", False),
    f"{SITE}/google/cloud/storage.py": ("google", False),
    "/usr/lib/python3/dist-packages/yaml/__init__.py": ("yaml", False),
    "/usr/lib/python3.11/asyncio/base_events.py": ("asyncio", True),
    "/usr/lib64/python3.13t/threading.py": ("threading", True),
    "/usr/lib/python311.zip/json/decoder.py": ("json", True),
    "/usr/lib/python3.11/lib-dynload/_csv.cpython-311-x86_64-linux-gnu.so": ("_csv", True),
    "/usr/local/lib/python3.12/.hidden": (".hidden", True),
    f"{SITE}//foo/a.py": ("foo", False),
    f"{SITE}/foo.pyx": ("foo", False),
    f"{SITE}/a.b/c.py": ("a.b", False),
    "/home/u/site-packages/venv/lib/python3.12/json/decoder.py": ("json", True),
    "/home/u/website-packages/app/lib/python3.11/json/x.py": ("json", True),
    "/usr/lib/python3.11/__init__.py": ("__init__", True),
    "<frozen importlib._bootstrap_external>": ("importlib", True),
    "<frozen runpy>": ("runpy", True),
}


def report_of(path: Path, files: list[str | None], **selection: bool) -> Report:
    """1 ms on the user's line, and 1 ms in each file, called from nobody; None = without a Python stack."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    stacks = [builder.stack((file, "f", 1, 3)) if file else None for file in files]
    for number, stack in enumerate([builder.stack((f"{SITE}/six.py", "f", 1, 3), APP), *stacks]):
        builder.tick(number, process, thread, stack, user_ns=MS)
    return build_report([builder.write(path)], Selection(**selection))


def test_the_package_of_a_file(tmp_path: Path) -> None:
    """Each file has twice the time of the one before, so that the time of a package says which files it has."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.tick(0, process, thread, builder.stack(APP), user_ns=MS)
    expected: dict[tuple[str, bool], int] = {}
    for number, (file, package) in enumerate(PACKAGES.items()):
        builder.tick(number, process, thread, builder.stack((file, "f", 1, 3)), user_ns=MS << number)
        expected[package] = expected.get(package, 0) + (MS << number)
    found = build_report([builder.write(tmp_path / "t.parquet")], Selection()).outside or []
    assert {(each.name, each.is_standard): round(each.cpu_s * SECOND) for each in found} == expected
    whole = MS << len(PACKAGES)  # 1 ms of the user's line, and 1 + 2 + 4 + ... ms
    for each in found:
        cpu_ns = expected[each.name or "", each.is_standard is True]
        cpu_s, percent = pytest.approx(cpu_ns / SECOND), pytest.approx(100 * cpu_ns / whole)
        assert each == Package(each.name, each.is_standard, cpu_s, percent, None)


def test_a_name_in_angle_brackets_is_whole(tmp_path: Path) -> None:
    """Code that the attrs library generates."""
    (found,) = report_of(tmp_path / "t.parquet", ["<attrs generated init a/b.C>"]).outside or []
    assert (found.name, found.is_standard) == ("<attrs generated init a/b.C>", False)


def test_the_times_are_those_of_the_unattributed_row(tmp_path: Path) -> None:
    report = report_of(tmp_path / "t.parquet", [f"{SITE}/six.py", f"{SITE}/numpy/a.py", f"{SITE}/numpy/b.py", None])
    assert [(each.name, each.is_standard, round(each.cpu_percent)) for each in report.outside or []] == [
        ("numpy", False, 40),
        (None, None, 20),
        ("six", False, 20),
    ]
    assert sum(each.cpu_s for each in report.outside or []) == pytest.approx(report.unattributed.cpu_s)
    assert report_of(tmp_path / "t.parquet", [f"{SITE}/six.py"], all_files=True).outside == []


def test_traces_are_added_up_by_package(tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    report_of(paths[0], [f"{SITE}/six.py", None])
    report_of(paths[1], [f"{SITE}/six.py", f"{SITE}/yaml.py"])
    found = {each.name: each.cpu_percent for each in build_report(paths, Selection()).outside or []}
    assert found == {name: pytest.approx(100 * share / 6) for name, share in (("six", 2), ("yaml", 1), (None, 1))}


def test_the_report_names_them(tmp_path: Path) -> None:
    files = [f"{SITE}/p{number}.py" for number in range(9)] + ["/usr/lib/python3.11/json/a.py", None, "<string>"]
    report = report_of(tmp_path / "t.parquet", [*files, files[8], files[8]])
    text = " ".join(" ".join(report_text(report, Screen())).split())
    assert "93.3 % of the CPU time was spent outside the program's own code: p8 20.0 %, no Python code 6.7 %, " in text
    assert "6 more packages 40.0 %. --all shows library code too." in text


@pytest.mark.parametrize(
    ("life", "said"),
    [
        (None, "Outside the program's own code, 60.0 MB were allocated and 60.0 MB were alive at the end."),
        (MS, "Outside the program's own code, 60.0 MB were allocated."),
    ],
)
def test_memory_that_no_line_has_is_said(tmp_path: Path, life: int | None, said: str) -> None:
    builder = TraceBuilder()
    process = builder.process(python_version="3.11.7")
    thread = builder.thread(process, cpu_ns=0)
    for stack, size, lifetime in ((builder.stack(APP), 40_000_000, None), (None, 60_000_000, life)):
        builder.alloc(MS, process, thread, stack, size, lifetime)
        builder.memory(2 * MS, process, thread, stack, size, 100_000_000)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert said in " ".join(" ".join(report_text(report, Screen())).split())
    builder.rows["alloc"][1]["size_bytes"] = builder.rows["alloc"][1]["usable_bytes"] = 1_000_000
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert "Outside the program's own code" not in " ".join(report_text(report, Screen()))


@pytest.mark.parametrize(("package", "why"), [("gevent", True), ("trio", False)])
def test_waiting_that_no_line_has_is_said(tmp_path: Path, package: str, why: bool) -> None:
    builder = TraceBuilder()
    process = builder.process(python_version="3.11.7")
    thread = builder.thread(process, cpu_ns=0)
    hub, idle = builder.stack((f"{SITE}/{package}/hub.py", "run", 1, 2)), builder.stack((f"{SITE}/six.py", "f", 1, 2))
    for stack, length_ms in ((hub, 800), (builder.stack(APP), 150), (idle, 50), (None, 3_000)):
        builder.wait(MS, process, thread, stack, length_ms * MS)
    report = build_report([path := builder.write(tmp_path / "t.parquet")], Selection())
    waits = {each.name: round(each.wait_s or 0.0, 6) for each in report.outside or []}
    assert waits == {package: 0.8, "six": 0.05, None: 3.0}
    assert sum(waits.values()) == pytest.approx(report.unattributed.wait_s)
    text = " ".join(" ".join(report_text(report, Screen())).split())
    said = f"20 % of the waiting time is on no line of the program's own code: {package} 800 ms."
    assert said in text and ("gevent's hub waits for all greenlets at once" in text) == why
    twice = build_report([path, path], Selection())
    assert {each.name: round(each.wait_s or 0.0, 6) for each in twice.outside or []}[package] == 1.6
    assert said.split(":")[0] not in " ".join(report_text(build_report([path], Selection(all_files=True)), Screen()))


@pytest.mark.parametrize(("collections", "is_named"), [(1, True), (0, False)])
def test_a_line_says_that_it_collects_garbage(tmp_path: Path, collections: int, is_named: bool) -> None:
    builder = TraceBuilder()
    process = builder.process(python_version="3.13.0")
    thread = builder.thread(process, cpu_ns=30 * MS)
    builder.source(APP[0], "def f():\n    g()\n")
    for number in range(3):
        builder.tick(number * MS, process, thread, builder.stack(APP), gc=number < collections)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    text = "\n".join(report_text(report, Screen(140)))
    assert ("← garbage collection 33 %" in text) == is_named, text
