"""`scalene-analyze diff`: two versions of a program, as traces, through the command line."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.diff.compare import Asked, _in_order
from scalene_trace.analyze.diff.results import Change, Diff, GateResult, LineChange, Statistics
from tests.support.command_line import as_process, fields_of
from tests.support.example_traces import APP, HOSTILE, THIN, damaged, hostile_trace, small_trace, thin_trace
from tests.support.paths import DOCS
from tests.support.trace_builder import MS, SECOND, TraceBuilder

OLD = [
    "import tool",
    "",
    "def work(rows):",
    "    for row in rows:",
    "        tool.crunch(row)",
    "    tool.store(rows)",
    "",
    "work([1])",
]
#: A line inserted at the top, the function renamed, its loop edited; what it stores is stored elsewhere.
NEW = ["import sys", "import tool", "", "def process(rows):", "    for row in sorted(rows):", "        tool.crunch(row)", "    log[rows[0]] = 77", "", "process([1])"]  # fmt: skip
MEMORY = '["cpu", "memory", "alloc", "copy", "wait"]'


def trace(
    path: Path,
    ticks: Mapping[int, int],
    source: Sequence[str] | None = OLD,
    file: str = APP,
    function: str = "work",
    wall_s: int = 10,
    more: Callable[[TraceBuilder, int, int], None] = lambda builder, process, thread: None,
) -> Path:
    """A trace with so many ticks of 10 ms on each line of one file, all in a function that starts on line 3 or 4."""
    builder = TraceBuilder()
    builder.settings |= {"wall_ns": str(wall_s * SECOND), "features": '["cpu"]'}
    process = builder.process(end_ns=wall_s * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    if source is not None:
        builder.source(file, "\n".join(source))
    first_line = 3 if source is OLD or source is None else 4
    for line, count in ticks.items():
        for index in range(count):
            builder.tick(index * MS, process, thread, builder.stack((file, function, first_line, line)))
    more(builder, process, thread)
    return builder.write(path)


def line_of(document: Any, number: int) -> Any:
    """The row of a line of the new version."""
    (row,) = [row for row in document["lines"] if row["line"] == number]
    return row


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A version, and one that is edited, moved, renamed, and much slower on its line 6."""
    before = trace(tmp_path / "a.parquet", {4: 100, 5: 1_000, 6: 50})
    return before, trace(tmp_path / "b.parquet", {5: 100, 6: 2_000, 7: 80}, NEW, function="process")


def test_an_edited_and_renamed_program_is_compared_line_by_line(run: Any, two: tuple[Path, Path]) -> None:
    document = run("diff", "--json", *two).json
    assert document["schema"] == "scalene-trace/diff/1"
    slow = line_of(document, 6)
    assert (slow["status"], slow["before_line"], slow["before_function"], slow["function"]) == (
        "same",
        5,
        "work",
        "process",
    )
    change = slow["changes"]["cpu_s"]
    assert (change["before"], change["after"], change["difference"]) == pytest.approx((10.0, 20.0, 10.0))
    assert (change["before_per_s"], change["after_per_s"], change["ratio"]) == pytest.approx((1.0, 2.0, 2.0))
    assert change["low"] < 2 < change["high"] and change["p"] < 1e-9 and change["verdict"] == "worse"
    edited = line_of(document, 5)
    assert (edited["status"], edited["before_line"], edited["changes"]["cpu_s"]["verdict"]) == ("edited", 4, "noise")
    (gone,) = [row for row in document["lines"] if row["status"] == "removed"]
    assert (gone["before_line"], gone["before_source"], gone["line"]) == (6, "    tool.store(rows)", None)
    assert gone["changes"]["cpu_s"]["before"] == pytest.approx(0.5) and gone["changes"]["cpu_s"]["verdict"] is None
    assert line_of(document, 7)["status"] == "added"
    assert document["summary"].startswith("1.9× slower, almost all from app.py:6")


def test_the_json_has_every_key_and_the_documents_name_them(run: Any, two: tuple[Path, Path]) -> None:
    document = run("diff", "--json", "--fail-on", "cpu>+900%", *two).json
    assert list(document) == ["schema", *fields_of(Diff)]
    assert list(document["lines"][0]) == fields_of(LineChange)
    assert list(document["lines"][0]["changes"]["cpu_s"]) == fields_of(Change)
    assert list(document["gates"][0]) == fields_of(GateResult)
    assert document["lines"][0]["changes"]["alloc_bytes"] is None and document["totals"]["gpu_s"] is None
    described = (DOCS / "json.md").read_text()
    names = {name for row in (Diff, LineChange, Change, GateResult, Statistics) for name in fields_of(row)}
    names |= set(document["totals"]) | set(document["lines"][0]["changes"]) | set(document["query"])
    assert [name for name in sorted(names) if f"`{name}`" not in described] == []


def test_the_text_says_it_in_a_sentence_and_shows_the_lines(run: Any, two: tuple[Path, Path]) -> None:
    shown = run("diff", *two)
    assert (shown.code, shown.err) == (0, "")
    assert "1.9× slower, almost all from app.py:6." in shown.out
    assert "/home/me/app.py:6 (was 5)  tool.crunch(row)" in shown.out
    assert re.search(r"CPU +10\.00 s +20\.00 s +\+100\.0 % .* worse", shown.out)
    assert re.search(r"New lines\n +CPU +800 ms +/home/me/app.py:7 +log", shown.out)
    assert re.search(r"Removed lines\n +CPU +500 ms +/home/me/app.py:6 +tool.store", shown.out)
    assert "A single run per side cannot distinguish small changes from noise" in shown.out
    assert "scalene-analyze diff 'before-*.parquet' 'after-*.parquet'" in shown.out


def test_by_the_second_needs_runs_of_known_length(run: Any, two: tuple[Path, Path], tmp_path: Path) -> None:
    builder = TraceBuilder()
    thread = builder.thread(process := builder.process(), cpu_ns=0)
    builder.tick(0, process, thread, builder.stack((APP, "main", 1, 2)))
    del builder.settings["wall_ns"]
    path = builder.write(tmp_path / "t.parquet")
    refused = run("diff", "--per-second", two[0], path)
    assert (refused.code, refused.out) == (2, "")
    assert f"the window of {path} has no known duration" in refused.err


def test_to_give_back_less_of_what_others_allocated_is_neither_better_nor_worse(run: Any, tmp_path: Path) -> None:
    def grows(rounds: int) -> Callable[[TraceBuilder, int, int], None]:
        """Line 5 allocates 400 times so many blocks, line 6 gives them back."""

        def more(builder: TraceBuilder, process: int, thread: int) -> None:
            builder.settings["features"] = '["cpu", "memory"]'
            for index in range(2 * rounds):
                line, sign = (6, -1) if index % 2 else (5, 1)
                stack = builder.stack((APP, "work", 3, line))
                builder.memory(index * MS, process, thread, stack, sign * 10_485_767, 10_485_767 * (sign > 0))

        return more

    before = trace(tmp_path / "a.parquet", {4: 100}, more=grows(400))
    after = trace(tmp_path / "b.parquet", {4: 100}, more=grows(0))
    document = run("diff", "--json", "--fail-on", "worse", before, after)
    assert document.code == 0, "nothing is worse"
    verdicts = {row["before_line"]: row["changes"]["growth_bytes"]["verdict"] for row in document.json["lines"]}
    assert (verdicts[5], verdicts[6]) == ("better", None)
    assert run("diff", "--json", "--fail-on", "worse", after, before).code == 1


def test_if_the_busiest_line_is_gone_no_detectable_change_is_given(run: Any, tmp_path: Path) -> None:
    before = trace(tmp_path / "a.parquet", {4: 2, 5: 3, 6: 1_000})
    after = trace(tmp_path / "b.parquet", {5: 2, 6: 3}, NEW, function="process")
    document = run("diff", "--json", before, after).json
    assert document["statistics"]["detectable_ratio"] > 5
    assert document["advice"][0].startswith(
        "A single run per side cannot distinguish small changes from noise (assuming that runs differ by 3 % on each line and by"
        " 10 % on all lines together)"
    )


def test_of_an_edited_line_both_texts_are_shown(run: Any, tmp_path: Path) -> None:
    before = trace(tmp_path / "a.parquet", {4: 1_000})
    after = trace(tmp_path / "b.parquet", {5: 100}, NEW, function="process")
    shown = run("diff", before, after).out
    assert re.search(r"app.py:5 \(was 4\) edited  for row in sorted\(rows\):\n  was +for row in rows:\n", shown)


def test_several_runs_use_the_spread_between_them(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for index, (before, after) in enumerate([(2_000, 1_150), (2_060, 1_100), (1_990, 1_120)]):
        trace(Path(f"old-{index}.parquet"), {5: before, 4: 200})
        trace(Path(f"new-{index}.parquet"), {5: after, 4: 200})
    trace(Path("new-9.old.parquet"), {5: 9_000})
    document = run("diff", "--json", "old-*.parquet", "new-*.parquet").json
    assert document["query"]["before"] == [f"old-{index}.parquet" for index in range(3)]
    assert document["query"]["after"] == [f"new-{index}.parquet" for index in range(3)]
    statistics = document["statistics"]
    assert (statistics["runs_before"], statistics["runs_after"], statistics["assumed"]) == (3, 3, [])
    assert document["advice"] == [] and document["summary"].startswith("Median 1.7× faster, almost all from app.py:5")
    change = line_of(document, 5)["changes"]["cpu_s"]
    assert (change["before"], change["after"]) == pytest.approx((20.1667, 11.2333), rel=1e-4)
    named = [
        word for index in range(3) for word in ("--before", f"old-{index}.parquet", "--after", f"new-{index}.parquet")
    ]
    again = run("diff", "--json", *named).json["lines"]
    assert [row["line"] for row in again] == [row["line"] for row in document["lines"]]
    for row, same in zip(again, document["lines"], strict=True):  # DuckDB adds up in any order: the last digits differ
        assert row["changes"]["cpu_s"] == pytest.approx(same["changes"]["cpu_s"])


def test_lines_that_are_alike_but_for_the_last_digits_of_sums_are_in_the_order_of_the_text() -> None:
    def line(number: int, difference: float) -> LineChange:
        changes = {"cpu_s": Change(1.0, 1.0 + difference)}
        return LineChange("same", APP, number, "f", None, APP, number, "f", None, changes)

    assert [each.line for each in _in_order([line(2, 2e-15), line(1, 0.0), line(3, 0.5)], Asked())] == [3, 1, 2]


def test_without_arguments_the_replaced_recording_is_compared(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("diff").code == 3
    trace(Path("trace.old.parquet"), {5: 900})
    trace(Path("trace.parquet"), {5: 100})
    assert run("diff", "--json").json["totals"]["cpu_s"]["verdict"] == "better"


def test_a_program_that_did_not_change_is_said_not_to_have(run: Any, two: tuple[Path, Path]) -> None:
    same = run("diff", two[0], two[0])
    assert (
        "No significant change of CPU time: +0.0 %" in same.out
        and "No line changed by more than noise explains." in same.out
    )


def test_per_second_a_longer_run_is_not_slower(run: Any, tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{s}.parquet", {5: 100 * s}, wall_s=s) for s in (10, 30)]
    assert run("diff", "--json", *paths).json["totals"]["cpu_s"]["verdict"] == "worse"
    by_second = run("diff", "--json", "--per-second", *paths).json
    assert by_second["totals"]["cpu_s"]["verdict"] == "noise" and by_second["totals"]["cpu_s"][
        "ratio"
    ] == pytest.approx(1)
    assert re.search(r"CPU +(1\.00 |1000 m)s/s +(1\.00 |1000 m)s/s", run("diff", "--per-second", *paths).out)


def test_without_sources_lines_are_found_by_their_function(run: Any, tmp_path: Path) -> None:
    before = trace(tmp_path / "a.parquet", {5: 500}, None)
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    for index in range(1_500):
        builder.tick(index * MS, process, thread, builder.stack((APP, "work", 13, 15)))
    document = run("diff", "--json", before, builder.write(tmp_path / "b.parquet")).json
    (row,) = document["lines"]
    assert (row["before_line"], row["line"], row["changes"]["cpu_s"]["verdict"]) == (5, 15, "worse")


def memory_of(size: int, copies: int, waits: int) -> Callable[[TraceBuilder, int, int], None]:
    """Blocks of ``size`` that stay, copies, waits of a tenth of a second, all on line 6."""

    def add(builder: TraceBuilder, process: int, thread: int) -> None:
        builder.settings["features"] = MEMORY
        stack = builder.stack((APP, "work", 3, 6))
        for index in range(20):
            builder.alloc((index + 1) * MS, process, thread, stack, size)
        builder.memory(25 * MS, process, thread, stack, 20 * size, 20 * size)
        for index in range(copies):
            builder.copy(index * MS, process, thread, stack, 20_000_003)
        for index in range(waits):
            builder.wait(index * 100 * MS, process, thread, stack, 100 * MS)

    return add


def waiting(of_class: str, length_ms: int) -> Callable[[TraceBuilder, int, int], None]:
    """A hundred waits of that class and length on line 6."""

    def add(builder: TraceBuilder, process: int, thread: int) -> None:
        builder.settings["features"] = MEMORY
        stack = builder.stack((APP, "work", 3, 6))
        for index in range(100):
            builder.wait(index * 20 * MS, process, thread, stack, length_ms * MS, **{"class": of_class})

    return add


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(("of_class", "verdict"), [("sleep", "worse"), ("runnable", "noise")])
def test_time_kept_off_the_cpu_is_the_machines(
    run: Any, tmp_path: Path, of_class: str, verdict: str, runs: int
) -> None:
    sides = [
        [f"--{side}", str(trace(tmp_path / f"{side}{turn}.parquet", {5: 500}, more=waiting(of_class, length_ms)))]
        for side, length_ms in (("before", 2), ("after", 15))
        for turn in range(runs)
    ]
    document = run("diff", "--json", *itertools.chain(*sides)).json
    verdicts = [document["totals"]["wait_s"]["verdict"], line_of(document, 6)["changes"]["wait_s"]["verdict"]]
    assert verdicts == [verdict] * 2


def test_memory_copies_and_waits_are_compared_too(run: Any, tmp_path: Path) -> None:
    before = trace(tmp_path / "a.parquet", {5: 500}, more=memory_of(1_000_003, 100, 20))
    after = trace(tmp_path / "b.parquet", {5: 500}, more=memory_of(3_000_017, 300, 21))
    document = run("diff", "--json", before, after).json
    changes = line_of(document, 6)["changes"]
    assert (changes["alloc_bytes"]["before"], changes["alloc_bytes"]["after"]) == (20_000_060, 60_000_340)
    assert (changes["live_at_peak_bytes"]["after"], changes["growth_bytes"]["difference"]) == (60_000_340, 40_000_280)
    assert changes["copy_bytes"]["ratio"] == pytest.approx(3) and changes["wait_s"]["after"] == pytest.approx(2.1)
    verdicts = {name: change and change["verdict"] for name, change in changes.items()}
    assert [verdicts[name] for name in ("alloc_bytes", "live_at_peak_bytes", "copy_bytes")] == ["worse"] * 3
    assert (verdicts["wait_s"], verdicts["cpu_s"], verdicts["gpu_s"]) == ("noise", None, None)
    assert document["totals"]["peak_bytes"]["difference"] == 40_000_280


# Gates


#: Conditions, and whether a program that got 1.9 times slower meets them.
GATES = {
    "cpu>+5%": True,
    "cpu>5%": True,
    "cpu > 5 s": True,
    "cpu>+200%": False,
    "cpu>+20s": False,
    "cpu>-50%": True,
    "wall>+1%": False,
    "worse": True,
}


def test_a_gate_fails_with_1_and_only_then(run: Any, two: tuple[Path, Path]) -> None:
    options = [word for gate in GATES for word in ("--fail-on", gate)]
    found = run("diff", *two, *options, "--json")
    assert (found.code, found.err) == (1, "")
    found.code = 0
    rows = found.json["gates"]
    assert [row["failed"] for row in rows] == [*GATES.values()], rows
    exceeded = ["exceeded" in row["text"] for row in rows]
    assert exceeded == [fails and gate != "worse" for gate, fails in GATES.items()], rows
    fine = run("diff", *two, *(word for gate, fails in GATES.items() if not fails for word in ("--fail-on", gate)))
    assert (fine.code, fine.err) == (0, "") and "exceeded" not in fine.out
    back = run("diff", *two[::-1], *options, "--json")
    assert back.code == 1
    back.code = 0
    assert [row["failed"] for row in back.json["gates"]] == [gate == "cpu>-50%" for gate in GATES], (
        "-47 % is not enough"
    )


@pytest.mark.parametrize("gate", ["cpu>+5%", "worse"])
def test_one_gate_decides_the_status(gate: str, run: Any, two: tuple[Path, Path]) -> None:
    failed = run("diff", *two, "--fail-on", gate)
    assert (failed.code, failed.err, "exceeded" in failed.out) == (1, "", gate != "worse")
    assert run("diff", *two[::-1], "--fail-on", gate).code == 0


def test_a_rise_that_noise_explains_does_not_fail(run: Any, tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{n}.parquet", {5: n}) for n in (1_000, 1_060)]
    found = run("diff", *paths, "--fail-on", "cpu>+5%", "--json")
    assert found.code == 0
    assert found.json["gates"] == [
        {"gate": "cpu>+5%", "failed": False, "text": "cpu>+5%: +6.0 %, exceeded, but within noise: not failed"}
    ]


def test_a_gate_is_in_every_form_of_the_answer(run: Any, two: tuple[Path, Path]) -> None:
    assert "❌ cpu&#62;+5%: +89.6 %, exceeded" in run("diff", *two, "--fail-on", "cpu>+5%", "--markdown").out
    failed = run("diff", *two, "--fail-on", "cpu>+5%", "--json")
    assert failed.code == 1 and '"failed": true' in failed.out


def test_memory_gates_take_sizes(run: Any, tmp_path: Path) -> None:
    before = trace(tmp_path / "a.parquet", {5: 500}, more=memory_of(10_000_019, 0, 0))
    after = trace(tmp_path / "b.parquet", {5: 500}, more=memory_of(20_000_003, 0, 0))
    assert run("diff", before, after, "--fail-on", "peak>+50MB").code == 1
    assert run("diff", before, after, "--fail-on", "peak>+1GiB", "--fail-on", "alloc>+300%").code == 0
    assert run("diff", after, before, "--fail-on", "peak>+50MB").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a.parquet"], "diff compares two traces, but the number of traces given is 1"),
        (["a.parquet", "b.parquet", "c.parquet"], "in quotes"),
        (["a.parquet", "b.parquet", "--before", "c.parquet"], "in two ways"),
        (["--after", "c.parquet"], "--before is missing"),
        (["no-*.parquet", "b.parquet"], "No trace matches no-*.parquet"),
        (["a.parquet", "b.parquet", "--sort", "cpu"], "Cannot sort by cpu: there is no such measure"),
        (["a.parquet", "b.parquet", "--fail-on", "cpu"], "such as cpu>+5%"),
        (["a.parquet", "b.parquet", "--fail-on", "cpu>5MB"], "is not a duration"),
        (["a.parquet", "b.parquet", "--fail-on", "peak>5s"], "is not a size"),
        (["a.parquet", "b.parquet", "--fail-on", "speed>5%"], "speed"),
    ],
)
def test_wrong_usage_is_2_and_a_sentence(arguments: list[str], says: str, run: Any) -> None:
    wrong = run("diff", *arguments)
    assert (wrong.code, wrong.out) == (2, "")
    assert says in wrong.err and "Traceback" not in wrong.err


def test_a_gate_on_what_was_not_recorded_is_refused(run: Any, two: tuple[Path, Path]) -> None:
    wrong = run("diff", *two, "--fail-on", "peak>+50MB")
    assert wrong.code == 2 and "was not recorded on both sides" in wrong.err


# Bad, thin and hostile traces


@pytest.mark.parametrize("kind", ["missing", "directory", "empty", "text", "another table", "cut", "headless"])
def test_a_bad_trace_is_refused_by_name(kind: str, run: Any, tmp_path: Path, two: tuple[Path, Path]) -> None:
    bad = damaged(kind, tmp_path / "bad.parquet")
    for paths in ((bad, two[0]), (two[0], bad)):
        refused = run("diff", *paths)
        assert (refused.code, refused.out) == (3, "") and str(bad) in refused.err


@pytest.mark.parametrize("kind", THIN)
def test_a_thin_trace_is_compared_sensibly(kind: str, run: Any, tmp_path: Path, two: tuple[Path, Path]) -> None:
    thin = thin_trace(kind, tmp_path / "thin.parquet")
    for form, paths in (
        ([], (thin, thin)),
        (["--markdown"], (thin, two[0])),
        (["--per-second"], (two[0], thin)),
    ):
        shown = run("diff", *paths, *form)
        assert (shown.code, shown.err) == (0, "") and shown.out.strip()
    judged = run("diff", "--json", thin, thin).json
    changes = [each for row in judged["lines"] for each in row["changes"].values()] + list(judged["totals"].values())
    assert {change["verdict"] for change in changes if change} <= {"noise", None}


def test_hostile_text_is_inert_on_the_terminal(run: Any, tmp_path: Path) -> None:
    hostile, other = hostile_trace(tmp_path / "t.parquet"), small_trace(tmp_path / "u.parquet")
    for paths in ((hostile, hostile), (hostile, other), (other, hostile)):
        shown = run("diff", *paths)
        assert shown.code == 0, shown.err
        assert not set(shown.out) & set("\x1b\x07\r\x00\u202e\u2028\x9b")
        assert not [line for line in shown.out.split("\n") if line.startswith("fake line")]
        assert "PROGRAM..." in shown.out or HOSTILE not in shown.out
        document = run("diff", "--json", *paths)
        assert document.out.isascii() and document.json


NAMES = [
    "<script>alert(1)</script>",
    "a|b`c*d_e[f](g)#h@i~j\\k!l&m",
    "\x1b[31mred\x07",
    "two\nlines\r| x |",
    "lone \ud800 surrogate",
    "https://evil.example www.evil.example me@evil.example",
    "x" * 10_000,
    "'\"><img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_are_inert_in_markdown(name: str, run: Any, tmp_path: Path) -> None:
    paths = [
        trace(tmp_path / f"{n}.parquet", {1: n}, [name.encode("utf-8", "replace").decode()], f"/x/{name}"[:200].replace("\ud800", "?"), name.replace("\ud800", "?"))
        for n in (100, 900)
    ]  # fmt: skip
    shown = run("diff", "--markdown", *paths)
    assert shown.code == 0, shown.err
    text = shown.out
    assert not re.search(r"<(?!/?code>)", text) and not re.search(r"https?://|www\.|@", text)
    assert "\x1b" not in text and max(map(len, text.split("\n"))) < 2_000
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in text.split("\n") if row.startswith("|")]
    assert set(widths) <= {7, 8}, "no cell breaks out of its table"
    assert "worse" in text


def test_colour_is_for_terminals_only(two: tuple[Path, Path]) -> None:
    done = as_process("diff", *two)
    assert done.returncode == 0 and b"\x1b" not in done.stdout


def test_rows_are_sorted_and_cut_as_asked(run: Any, two: tuple[Path, Path]) -> None:
    rows = run("diff", "--json", "--sort", "cpu_s", "--limit", "2", *two).json["lines"]
    sizes = [abs(row["changes"]["cpu_s"]["difference"] or row["changes"]["cpu_s"]["after"]) for row in rows]
    assert len(rows) == 2 and sizes == sorted(sizes, reverse=True)


def test_runs_of_a_side_may_be_of_different_texts(run: Any, tmp_path: Path) -> None:
    before = [
        trace(tmp_path / "a1.parquet", {5: 1_000}),
        trace(tmp_path / "a2.parquet", {6: 1_100}, NEW, function="process"),
    ]
    after = [trace(tmp_path / f"b{n}.parquet", {5: 1_050 + n}) for n in (1, 2)]
    words = [w for pair in zip(before, after, strict=True) for w in ("--before", pair[0], "--after", pair[1])]
    (row,) = run("diff", "--json", *words).json["lines"]
    assert (row["before_line"], row["line"], row["changes"]["cpu_s"]["before"]) == (5, 5, pytest.approx(10.5))


def test_lines_that_the_first_run_of_a_side_lacks_are_unattributed(run: Any, tmp_path: Path) -> None:
    """Line 1 of the second run is new: 40 ticks, which were line 1 of the first. Before: (30 + 30 + 40) / 2 ticks."""
    edited = ["completely_new(77, 'hello')", *OLD]
    first, second = trace(tmp_path / "1.parquet", {1: 30}), trace(tmp_path / "2.parquet", {1: 40, 2: 30}, edited)
    both = ("--before", first, "--before", second, "--after", trace(tmp_path / "3.parquet", {1: 30}))
    document = run("diff", "--json", *both).json
    assert document["totals"]["cpu_s"]["before"] == pytest.approx(0.5)
    assert [row["changes"]["cpu_s"]["before"] for row in document["lines"]] == pytest.approx([0.3])
    assert document["unattributed"]["cpu_s"]["before"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("words", "found"), [("di", b"diff"), ("diff --fa", b"--fail-on"), ("check --bu", b"--budget")]
)
def test_the_shell_completes_commands_and_options(words: str, found: bytes) -> None:
    asked = {"COMP_WORDS": f"scalene-analyze {words}", "COMP_CWORD": str(len(words.split()))}
    done = as_process(env=os.environ | asked | {"_SCALENE_ANALYZE_COMPLETE": "complete_bash"})
    assert (done.returncode, done.stdout.split()) == (0, [found])


def test_the_help_has_examples(run: Any) -> None:
    shown = run("diff", "--help")
    assert shown.code == 0 and "scalene-analyze diff --fail-on" in shown.out
