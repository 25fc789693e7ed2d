"""Exports, read by the programs they are for. The long form: what these programs need is installed first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.trace.selection import Selection
from tests.long import consumers
from tests.support.example_traces import hostile_trace, rich_trace
from tests.support.page_traces import device_trace

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    consumers.install()


def exported(name: str, path: Path, hostile: bool = False, devices: bool = False) -> Path:
    """An export of the small trace, of the hostile one, or of one of two GPUs, in the folder ``path``."""
    trace = (hostile_trace if hostile else device_trace if devices else rich_trace)(path / "t.parquet")
    out = path / f"trace.{name}"
    out.write_bytes(FORMATS[name].make(Asked([trace], Selection())).contents)
    return out


@pytest.mark.parametrize(
    ("column", "total", "rows"),
    [
        ("cpu", "61ms", {"crc32_z": "20ms", "work": "10ms", "[kernel]": "1ms", "<module>": "0"}),
        ("wait", "2500ms", {"[sleep]": "2000ms", "[GIL]": "500ms"}),
        ("allocated", "4.77MB", {"main": "2.86MB", "work": "1.91MB"}),
        ("copies", "19.07MB", {"work": "19.07MB"}),
    ],
)
def test_pprof_says_what_the_report_says(column: str, total: str, rows: dict[str, str], tmp_path: Path) -> None:
    text = consumers.pprof(exported("pprof", tmp_path), column)
    assert f"Total samples = {total}" in text
    flat = {
        line.split(None, 5)[5]: line.split()[0] for line in text.splitlines() if re.match(r" +[\d.]+\w* +[\d.]+%", line)
    }
    assert rows.items() <= flat.items()


def test_speedscope_says_what_the_report_says(tmp_path: Path) -> None:
    path = exported("speedscope", tmp_path)
    consumers.speedscope_schema(path)
    found = consumers.speedscope(path)
    assert found["title"] == "app.py --fast - speedscope"
    assert found["rows"][1:] == [
        "1CPU time61.00ms",
        "2waiting time2.50s",
        "3allocated4.77 MB",
        "4alive at the peak4.77 MB",
        "5copied19.07 MB",
    ]


def test_the_firefox_profiler_says_what_the_report_says(tmp_path: Path) -> None:
    info, markers = consumers.firefox(exported("firefox", tmp_path))
    assert re.search(r"python3 app.py, thread-1 \[tid 1001\] - 31\.000ms", info)
    assert re.search(r"python3 app.py, thread-3 \[tid 2003\] - 30\.000ms", info)
    assert "memory range in graph: 11.0MB" in info and "memory range in graph: 50.0MB" in info
    for what in (r"wait: sleep +t=4s +2s", r"wait: GIL +t=4s +500ms", r"generation 2 +t=6s", r"mark +t=2s +1s"):
        assert re.search(what, markers), what


def test_gpus_are_read_as_tracks_and_calls_as_markers_and_slices(tmp_path: Path) -> None:
    info, markers = consumers.firefox(exported("firefox", tmp_path, devices=True))
    assert "GPU 0 busy [51 samples]" in info and re.search(r"GPU 1 memory - memory range in graph: 200MB", info)
    assert re.search(r"device copy: host to device +t=1\.000s +3ms", markers)
    found = consumers.perfetto(exported("chrome", tmp_path, devices=True))
    assert found["problems"] == [] and ["device wait", "1000000000", "3000000"] in found["slices"]
    highest = {name: float(value) for name, _, value in found["counters"]}
    assert (highest["GPU 1 busy percent"], highest["GPU 1 memory bytes"]) == (40, 200_000_003)


def test_scalene_says_what_the_report_says(tmp_path: Path) -> None:
    text = consumers.scalene(exported("scalene", tmp_path))
    assert "/home/me/app.py: % of time =  50.82%" in text
    assert re.search(r"\b4 +│ +16% +│ +│ +2% +│.*line 4", text)
    assert re.search(r"\b5 +│ +│ +33% +│.*line 5", text)


def test_perfetto_says_what_the_report_says(tmp_path: Path) -> None:
    found = consumers.perfetto(exported("chrome", tmp_path))
    assert found["problems"] == []
    assert found["slices"] == [
        ["garbage collection, generation 0", "6000000000", "0"],
        ["garbage collection, generation 2", "6000000000", "0"],
        ["mark: load", "2000000000", "1000000000"],
        ["wait: GIL", "4000000000", "500000000"],
        ["wait: sleep", "4000000000", "2000000000"],
    ]
    highest = {name: float(value) for name, _, value in found["counters"]}
    assert highest["allocated minus freed bytes"] == 11_000_003
    assert highest["CPUs in use native"] == 2
    assert found["threads"] == [["thread-1", "1001"], ["fetcher", "2002"], ["thread-3", "2003"]]


def test_hostile_text_is_shown_as_text_by_all_of_them(tmp_path: Path) -> None:
    texts = [consumers.pprof(exported("pprof", tmp_path, hostile=True), "cpu")]
    texts += consumers.firefox(exported("firefox", tmp_path, hostile=True))
    texts += [consumers.scalene(exported("scalene", tmp_path, hostile=True))]
    assert not {"\x1b", "\x07", "\r", "\x00", "\u202e", "\u2028", "\x9b"} & set("".join(texts))
    assert consumers.perfetto(exported("chrome", tmp_path, hostile=True))["problems"] == []
    assert "red" in consumers.speedscope(exported("speedscope", tmp_path, hostile=True))["title"]
