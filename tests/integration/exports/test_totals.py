"""Exports: their totals are the report's, and text out of the trace stays text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS, METRICS
from scalene_trace.analyze.exports.shared.profile import Rounder
from scalene_trace.analyze.exports.shared.text import json_bytes, plain
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.analyze import command as analyze
from scalene_trace.cli.analyze.export import FORMAT_NAMES, METRIC_NAMES
from tests.support.example_traces import APP, HOSTILE, THIN, TOTALS, hostile_trace, rich_trace, thin_trace
from tests.support.paths import PATIENCE_S

#: Characters that a terminal or a line-based reader would act on.
ACTIVE = set("\x1b\x07\r\x00\u202e\u2028\x9b")

Export = Callable[..., bytes]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return rich_trace(tmp_path / "t.parquet")


@pytest.fixture
def export(capsysbinary: pytest.CaptureFixture[bytes]) -> Export:
    """What the command writes to stdout; it must succeed and say nothing."""

    def call(*arguments: object, says: str = "") -> bytes:
        code = analyze.run(["export", *map(str, arguments)])
        captured = capsysbinary.readouterr()
        assert code == 0, captured.err
        assert (says in captured.err.decode()) if says else captured.err == b""
        return captured.out

    return call


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says where it refuses."""
    code = analyze.run(["export", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    return captured.err


# ---- all formats -----------------------------------------------------------------------------------------------------


def test_the_names_of_the_command_line_are_those_of_the_formats() -> None:
    assert list(FORMATS) == [name for name in FORMAT_NAMES if name in FORMATS]
    assert tuple(METRICS) == METRIC_NAMES


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", THIN)
def test_a_thin_trace_can_be_exported(kind: str, name: str, export: Export, tmp_path: Path) -> None:
    contents = export(thin_trace(kind, tmp_path / "t.parquet"), "--format", name)
    assert contents or name == "collapsed"
    if name != "collapsed" and not FORMATS[name].is_binary:
        json.loads(contents)


def strings(document: Any) -> list[str]:
    """Every text of a JSON document, keys too."""
    if isinstance(document, dict):
        return [text for pair in document.items() for each in pair for text in strings(each)]
    if isinstance(document, list):
        return [text for each in document for text in strings(each)]
    return [document] if isinstance(document, str) else []


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "collapsed" and not FORMATS[name].is_binary])
def test_hostile_text_is_inert_in_json(name: str, export: Export, tmp_path: Path) -> None:
    contents = export(hostile_trace(tmp_path / "t.parquet"), "--format", name)
    assert contents.isascii() and b"<" not in contents
    texts = strings(json.loads(contents))
    assert not ACTIVE & set("".join(texts))
    assert any("<script>alert(1)</script>]]>" in text and "x" * 10_000 in text for text in texts)


def test_the_file_is_replaced_as_a_whole_and_private(trace: Path, export: Export, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("older")
    assert export(trace, "--format", "collapsed", "-o", out) == b""
    assert out.read_bytes() == export(trace, "--format", "collapsed", "-o", "-")
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "t.parquet"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "spedscope"], "Did you mean speedscope?"),
        (["--format", "collapsed", "--metric", "cpus"], "Did you mean cpu?"),
        (["--format", "collapsed", "--metric", "cpu", "--metric", "wait"], "holds one metric"),
        (["--format", "collapsed", "-o", "t.parquet"], "is the trace itself"),
        (["--format", "collapsed", "-o", "nowhere/out"], "Cannot write nowhere/out"),
        ([], "--format"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str], says: str, trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    before = trace.read_bytes()
    assert says in refused(capsys, "t.parquet", *arguments)
    assert trace.read_bytes() == before


def test_a_metric_that_was_not_recorded_is_said(export: Export, tmp_path: Path) -> None:
    path = thin_trace("cpu only", tmp_path / "t.parquet")
    assert export(path, "--format", "collapsed", "--metric", "wait", says="wait was not recorded") == b""


def test_a_closed_pipe_is_not_an_error(trace: Path) -> None:
    code = f"from scalene_trace.cli.analyze.start import main; import sys; sys.argv[1:] = ['export', {str(trace)!r}, '--format', 'collapsed']; main()"
    line = f'{sys.executable} -c "{code}" | true; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_whole_numbers_add_up_to_the_rounded_sum() -> None:
    rounder = Rounder(1.0)
    assert [rounder.round(0.4) for _ in range(5)] == [0, 1, 0, 1, 0]
    assert sum(map(rounder.round, [0.3] * 10)) == 3


def test_plain_text_stays_as_it_is() -> None:
    assert plain("größe_日本 <lambda>") == "größe_日本 <lambda>"
    assert plain("a\tb\u00a0c\x1b\ud800") == "a b c\\x1b\\ud800"
    assert json_bytes({"a": "</script>"}) == b'{"a":"\\u003c/script\\u003e"}'


# ---- collapsed -------------------------------------------------------------------------------------------------------


def folded(contents: bytes) -> dict[str, int]:
    """The stacks of a collapsed file, read as flamegraph.pl does."""
    found = [re.fullmatch(r"(.*) (\d+)", line) for line in contents.decode().split("\n")[:-1]]
    assert all(found)
    return {each[1]: int(each[2]) for each in found if each}


def test_collapsed_stacks_go_from_the_outermost_frame_to_what_ran(trace: Path, export: Export) -> None:
    base = f"<module> ({APP}:20);main ({APP}:13);work ({APP}"
    assert folded(export(trace, "--format", "collapsed")) == {
        f"{base}:4)": 10_000,
        f"{base}:4);[kernel]": 1_000,
        f"{base}:5);decode (/usr/lib/python3.12/json/decoder.py:30);crc32_z (libz)": 20_000,
        "[no Python stack]": 30_000,
    }


@pytest.mark.parametrize("metric", METRICS)
def test_collapsed_totals_are_the_reports(metric: str, trace: Path, export: Export) -> None:
    total = sum(folded(export(trace, "--format", "collapsed", "--metric", metric)).values())
    assert total * (1 if METRICS[metric].unit == "bytes" else 1_000) == TOTALS[metric]


def test_the_totals_worked_out_by_hand_are_those_of_the_report(trace: Path) -> None:
    report = build_report([trace], Selection())
    live = sum(line.live_at_peak_bytes or 0 for line in (*report.lines, report.unattributed))
    totals = report.totals
    found = (totals.cpu_s, totals.wait_s, totals.alloc_bytes, live, totals.copy_bytes)
    assert found == pytest.approx((0.061, 2.5, 5_000_010, 5_000_010, 20_000_003))


def test_a_hostile_name_cannot_end_a_frame_or_a_line(export: Export, tmp_path: Path) -> None:
    contents = export(hostile_trace(tmp_path / "t.parquet"), "--format", "collapsed")
    assert not ACTIVE & set(contents.decode())
    assert {stack.count(";") for stack in folded(contents)} == {2, 3}
    assert len(HOSTILE) > 10_000 and b"x" * 10_000 in contents


def test_collapsed_takes_a_time_window_and_several_traces(trace: Path, export: Export) -> None:
    early = folded(export(trace, "--format", "collapsed", "--to", "2"))
    assert sum(early.values()) == 11_000
    assert sum(folded(export(trace, trace, "--format", "collapsed")).values()) == 2 * 61_000


# ---- speedscope ------------------------------------------------------------------------------------------------------


def profiles(contents: bytes) -> dict[str, Any]:
    """The profiles of a speedscope file by name, checked as the format's documentation asks."""
    document = json.loads(contents)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    for each in document["profiles"]:
        assert each["type"] == "sampled" and each["unit"] in ("nanoseconds", "bytes")
        assert len(each["samples"]) == len(each["weights"])
        assert all(0 <= index < len(frames) for stack in each["samples"] for index in stack)
        assert (each["startValue"], each["endValue"]) == (0, sum(each["weights"]))
    return {each["name"]: each for each in document["profiles"]}


def test_speedscope_has_a_profile_for_each_metric_with_the_reports_total(trace: Path, export: Export) -> None:
    found = profiles(export(trace, "--format", "speedscope"))
    totals = {METRICS[name].title: total for name, total in TOTALS.items()}
    assert {name: sum(each["weights"]) for name, each in found.items()} == totals


def test_speedscope_samples_stand_in_order_of_time(trace: Path, export: Export) -> None:
    contents = export(trace, "--format", "speedscope", "--metric", "cpu")
    frames = json.loads(contents)["shared"]["frames"]
    (cpu,) = profiles(contents).values()
    innermost = [frames[stack[-1]] for stack in cpu["samples"]]
    assert [frame["name"] for frame in innermost] == ["work", "[kernel]", "crc32_z", "[no Python stack]"]
    assert innermost[0] == {"name": "work", "file": APP, "line": 4}
    assert cpu["weights"] == [10_000_000, 1_000_000, 20_000_000, 30_000_000]
