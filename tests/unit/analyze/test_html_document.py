"""The document inside the HTML report: how it is packed, and that its sums are those of the queries."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.html import model, series, texts
from scalene_trace.analyze.html.bins import Bins, bins_for, highest
from scalene_trace.analyze.html.encode import packed, packed_series, safe_json
from scalene_trace.analyze.html.page import ASSETS, assemble, build_page
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from tests.support.gpu_traces import gpu_trace
from tests.support.page_traces import APP, busy_trace, device_trace, empty_traces, unpacked
from tests.support.trace_builder import MS, SECOND, TraceBuilder

WEB = ASSETS.parent / "web"


def rows_of(series: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(key, bin, value) of a packed series."""
    rows, key, time = [], 0, 0
    steps = zip(unpacked(series["keys"]), unpacked(series["bins"]), unpacked(series["values"], True), strict=True)
    for index, (key_step, bin_step, value) in enumerate(steps):
        key += key_step
        time = (0 if key_step or index == 0 else time) + bin_step
        rows.append((key, time, value))
    return rows


@given(st.lists(st.integers(-(2**62), 2**62), max_size=50))
def test_numbers_are_packed_and_come_back(numbers: list[int]) -> None:
    assert unpacked(packed(np.array(numbers, np.int64), is_signed=True), True) == numbers
    whole = [abs(each) for each in numbers]
    assert unpacked(packed(np.array(whole, np.int64))) == whole


@given(st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(-999, 999), max_size=40))
def test_a_series_keeps_what_is_not_zero_in_order(cells: dict[tuple[int, int], int]) -> None:
    rows = sorted((key, time, value) for (key, time), value in cells.items())
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    series = packed_series(*columns)
    assert rows_of(series) == [row for row in rows if row[2]]
    assert series["count"] == sum(row[2] != 0 for row in rows)


def test_rounding_never_adds_up() -> None:
    ticks = series.BinnedFigures(np.repeat([3, 5], 1_000), np.tile(np.arange(1_000), 2), {"x": np.full(2_000, 1.4)})
    rows = rows_of(series.packed_by_name([ticks], series.Index(np.array([3, 5]), np.array([0, 1])))["x"])
    for key, first, end in ((0, 0, 1_000), (1, 0, 1_000), (1, 500, 510), (0, 7, 8)):
        total = sum(value for each, time, value in rows if each == key and first <= time < end)
        assert abs(total - 1.4 * (end - first)) <= 1


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_any_text_is_inert_and_comes_back(text: str) -> None:
    written = safe_json({"text": text})
    assert written.isascii() and not set(written) & set("<>&") and json.loads(written) == {"text": text}


@given(st.integers(0, 10**13), st.integers(1, 10**14))
def test_a_time_is_cut_into_800_to_2000_pieces_of_a_round_length(start_ns: int, length_ns: int) -> None:
    bins = bins_for(start_ns, start_ns + length_ns)
    assert 1 <= bins.count <= 2_000 and bins.edge_ns(bins.count - 1) < start_ns + length_ns <= bins.edge_ns(bins.count)
    assert str(bins.width_ns).rstrip("0") in ("1", "2", "5")
    assert bins.count >= 800 or bins.width_ns == 10_000


def test_the_highest_value_of_a_piece_counts_what_held_before() -> None:
    bins = Bins(100, 10, 4)
    # 100..110: 5 held; 110..120: 9 from 112 on; 120..130: 9 held, 2 from 125 on; 130..: 2, then 7 beyond the end
    assert highest([(50, 5), (112, 9), (125, 2), (141, 7)], bins) == [(100, 5), (112, 9), (120, 9), (141, 7)]
    assert highest([], bins) == [(100, 0), (110, 0), (120, 0), (130, 0)]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return busy_trace(tmp_path_factory.mktemp("busy") / "t.parquet")


@pytest.fixture(scope="module")
def entry(busy: Path) -> dict[str, Any]:
    found: dict[str, Any] = model.build_document([busy], Selection())["traces"][0]
    return found


def sums(entry: dict[str, Any], name: str, first: int, end: int, group: str = "series") -> dict[int, int]:
    """Sums of a series over the bins first to end, by key."""
    found: dict[int, int] = {}
    for key, time, value in rows_of(entry[group][name]):
        if first <= time < end:
            found[key] = found.get(key, 0) + value
    return found


def owners(entry: dict[str, Any]) -> list[tuple[str, int] | None]:
    """The line that each node is charged to: the innermost of a user's file on the way from it to the outermost call."""
    steps, places = unpacked(entry["nodes"]["parents"]), unpacked(entry["nodes"]["locations"])
    found: list[tuple[str, int] | None] = []
    for node, (step, place) in enumerate(zip(steps, places, strict=True)):
        inherited = found[node - step] if step else None
        file = entry["files"][entry["locations"]["file"][place - 1]] if place else ""
        own = (file, entry["locations"]["line"][place - 1]) if file in entry["user_files"] else None
        found.append(own or inherited)
    return found


WINDOWS = [(None, None), (1.5, 4.0), (0.0, 2.0), (3.0, 3.01), (5.5, 10.0)]


def window_of(entry: dict[str, Any], from_s: float | None, to_s: float | None) -> tuple[int, int]:
    width_s = entry["bins"]["width_s"]
    return round((from_s or 0) / width_s), entry["bins"]["count"] if to_s is None else round(to_s / width_s)


@pytest.mark.parametrize(("from_s", "to_s"), WINDOWS)
def test_each_line_of_a_window_has_the_figures_of_the_query(
    busy: Path, entry: dict[str, Any], from_s: float | None, to_s: float | None
) -> None:
    report = build_report([busy], Selection(from_s, to_s))
    first, end = window_of(entry, from_s, to_s)
    own = owners(entry)
    columns = {"growth_bytes": 1, "copy_bytes": 1}
    columns |= dict.fromkeys(("python_us", "native_us", "unclassified_us", "system_us"), 1e-6)
    for name, unit in columns.items():
        found: dict[tuple[str, int] | None, float] = {}
        for node, value in sums(entry, name, first, end).items():
            found[own[node]] = found.get(own[node], 0) + value * unit
        field = name.replace("_us", "_s")
        wanted = {(each.file, each.line): getattr(each, field) for each in report.lines}
        wanted[None] = getattr(report.unattributed, field)
        for key in found.keys() | wanted.keys():
            assert found.get(key, 0) == pytest.approx(wanted.get(key, 0), abs=1e-5), (name, key)


@pytest.mark.parametrize(("from_s", "to_s"), WINDOWS)
def test_waits_and_allocations_of_a_window_are_those_of_the_query(
    busy: Path, entry: dict[str, Any], from_s: float | None, to_s: float | None
) -> None:
    totals = build_report([busy], Selection(from_s, to_s)).totals
    first, end = window_of(entry, from_s, to_s)
    waited = {name: sum(sums(entry, f"{name}_us", first, end).values()) / 1e6 for name in ("sleep", "disk", "gil")}
    assert waited["sleep"] == pytest.approx(totals.waits.sleep_s, abs=2e-5)
    assert sum(waited.values()) == pytest.approx(totals.wait_s, abs=2e-5)
    assert sum(sums(entry, "sleep_us", first, end, "thread_series").values()) / 1e6 == pytest.approx(
        totals.waits.sleep_s, abs=2e-3
    )
    allocated = sum(sums(entry, "alloc_bytes", 2 * first, 2 * end, "halves").values())
    assert allocated == pytest.approx(totals.alloc_bytes, abs=20)
    assert max(entry["memory"]["footprint"][first:end]) == totals.peak_bytes


def alive(path: Path, peak_ns: int) -> float:
    """Bytes that were alive at a moment, of processes that were there."""
    sql = """SELECT coalesce(sum(live_bytes), 0) FROM allocations JOIN processes p USING (trace, process)
        WHERE allocations.t_ns <= $1 AND coalesce(end_t_ns > $1, true) AND coalesce(p.end_ns >= $1, true)"""
    with open_traces([path]) as traces:
        return float(traces.connection.execute(sql, [peak_ns]).fetchall()[0][0])


@pytest.mark.parametrize(("from_s", "to_s"), WINDOWS)
def test_blocks_alive_at_the_peak_of_a_window_are_exact_to_the_allocation(
    busy: Path, entry: dict[str, Any], from_s: float | None, to_s: float | None
) -> None:
    first, end = window_of(entry, from_s, to_s)
    levels = entry["memory"]["footprint"]
    peak = max(range(first, end), key=lambda each: levels[each])
    halves = {name: sums(entry, f"{name}_bytes", 0, 2 * peak + 1, "halves") for name in ("alloc", "unlived", "gone")}
    total = {name: sum(each.values()) for name, each in halves.items()}
    with open_traces([busy], Selection(from_s, to_s)) as traces:
        (peak_ns,) = traces.connection.execute("SELECT t_ns FROM memory_peaks").fetchall()[0]
    assert total["alloc"] - total["unlived"] - total["gone"] == pytest.approx(alive(busy, peak_ns), abs=20)


@pytest.fixture(scope="module")
def devices_busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device_trace(tmp_path_factory.mktemp("devices") / "t.parquet")


@pytest.fixture(scope="module")
def devices_entry(devices_busy: Path) -> dict[str, Any]:
    found: dict[str, Any] = model.build_document([devices_busy], Selection())["traces"][0]
    return found


@pytest.mark.parametrize(("from_s", "to_s"), [(None, None), (2.5, 3.2), (5.5, 10.0)])
def test_gpus_and_calls_of_a_window_are_those_of_the_query(
    devices_busy: Path, devices_entry: dict[str, Any], from_s: float | None, to_s: float | None
) -> None:
    report, entry = build_report([devices_busy], Selection(from_s, to_s)), devices_entry
    first, end = window_of(entry, from_s, to_s)
    own = owners(entry)
    fields = {
        "gpu_us": ("gpu_s", 1e6),
        "device_sync_us": ("device_sync_s", 1e6),
        "device_copy_us": ("device_copy_s", 1e6),
    }
    for name, (field, unit) in fields.items():
        found: dict[tuple[str, int] | None, float] = {}
        for node, value in sums(entry, name, first, end).items():
            found[own[node]] = found.get(own[node], 0) + value / unit
        wanted = {(each.file, each.line): getattr(each, field) for each in report.lines}
        wanted[None] = getattr(report.unattributed, field)
        for key in found.keys() | wanted.keys():
            assert found.get(key, 0) == pytest.approx(wanted.get(key, 0), abs=1e-5), (name, key)
    for name in ("h2d_bytes", "d2h_bytes", "d2d_bytes", "unified_bytes"):
        whole = sum(sums(entry, name, first, end).values())
        assert whole == getattr(report.totals.device_copies, name), name
    peaks: dict[tuple[str, int] | None, int] = {}
    for node, time, size in rows_of(entry["peaks"]["gpu_peak_bytes"]):
        if first <= time < end:
            peaks[own[node]] = max(peaks.get(own[node], 0), size)
    assert {key: size for key, size in peaks.items() if key} == {
        (each.file, each.line): each.gpu_peak_bytes for each in report.lines if each.gpu_peak_bytes
    }
    memory = [size for size in entry["gpu"]["memory"][first:end] if size is not None]
    assert max(memory, default=0) == report.totals.gpu_peak_bytes


def test_the_track_and_the_mark_of_short_lines_are_in_the_document(
    devices_busy: Path, devices_entry: dict[str, Any]
) -> None:
    """5 ms a piece: all of a device from 2 s to 3.2 s, half of one from 3.2 s to 3.4 s."""
    gpu = devices_entry["gpu"]
    assert {gpu["percent"][at] for at in range(400, 640)} == {100.0} and {
        gpu["percent"][at] for at in range(640, 680)
    } == {50.0}
    assert gpu["memory"][405] == 400_000_014 and gpu["memory"][659] == 200_000_003 and gpu["memory"][300] is None
    short = [each for each in build_report([devices_busy], Selection()).lines if each.gpu_short]
    assert [APP, 41] in gpu["short"]["lines"] and len(short) == 2
    assert gpu["short"] == {
        "lines": sorted([each.file, each.line] for each in short),
        "functions": sorted([each.file, each.function, each.first_line] for each in short),
    }


def test_a_page_without_a_gpu_holds_nothing_about_one(entry: dict[str, Any], tmp_path: Path) -> None:
    assert not {"gpu", "peaks"} & set(entry)
    assert set(entry["series"]) == {*series.CPU, *series.WAITS, *series.MEMORY}
    unused = gpu_trace(busy_ms=0)
    unused.rows["gpu"].pop()  # its memory
    idle = model.build_document([unused.write(tmp_path / "t.parquet")], Selection())["traces"][0]
    assert set(idle) == set(entry) and set(idle["series"]) == set(entry["series"])


def test_without_a_window_what_is_alive_at_the_peak_is_what_the_report_says(busy: Path, entry: dict[str, Any]) -> None:
    report = build_report([busy], Selection())
    levels = entry["memory"]["footprint"]
    peak = levels.index(max(levels))
    own, found = owners(entry), dict[tuple[str, int] | None, float]()
    for name, sign in (("alloc_bytes", 1), ("unlived_bytes", -1), ("gone_bytes", -1)):
        for node, value in sums(entry, name, 0, 2 * peak + 1, "halves").items():
            found[own[node]] = found.get(own[node], 0) + sign * value
    for line in report.lines:
        assert line.file is not None and line.line is not None
        assert found.get((line.file, line.line), 0) == pytest.approx(line.live_at_peak_bytes, abs=20)


def test_the_page_says_what_lines_without_a_figure_may_have_allocated(busy: Path, entry: dict[str, Any]) -> None:
    unattributed = build_report([busy], Selection()).unattributed
    assert entry["unseen_bytes"] == unattributed.alloc_unseen_bytes is not None


def test_a_selection_narrows_the_document(busy: Path) -> None:
    entry = model.build_document([busy], Selection(2.0, 4.0, processes=(2,)))["traces"][0]
    totals = build_report([busy], Selection(2.0, 4.0, processes=(2,))).totals
    assert entry["bins"]["origin_s"] == 2.0 and entry["bins"]["width_s"] * entry["bins"]["count"] == pytest.approx(2.0)
    assert sum(sums(entry, "python_us", 0, 9999).values()) / 1e6 == pytest.approx(totals.python_s, abs=1e-4)


def test_the_most_costly_stacks_keep_their_callers_and_not_those_with_most_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, 10 * SECOND)
    caller = (APP, "caller", 1, 2)
    often, costly = (builder.stack((APP, name, line, line), caller) for name, line in (("often", 3), ("costly", 5)))
    for second in range(6):
        builder.wait(second * SECOND, process, thread, often, MS)
    builder.wait(7 * SECOND, process, thread, costly, SECOND)
    monkeypatch.setattr(series, "MAX_STACKS", 1)
    made = model.build_document([builder.write(tmp_path / "t.parquet")], Selection())["traces"][0]
    places = unpacked(made["nodes"]["locations"])
    steps = unpacked(made["nodes"]["parents"])
    names = [made["function_names"][made["locations"]["function"][place - 1]] if place else None for place in places]
    callers = {
        name: names[node - step] if step else None for node, (name, step) in enumerate(zip(names, steps, strict=True))
    }
    assert callers["costly"] == "caller" and callers["often"] is None


def test_rare_stacks_and_threads_beyond_the_limit_are_put_together(
    busy: Path, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "MAX_STACKS", 1)
    monkeypatch.setattr(series, "MAX_THREADS", 1)
    fewer = model.build_document([busy], Selection())["traces"][0]
    called, fewer_called = (sum(map(bool, unpacked(each["nodes"]["parents"]))) for each in (entry, fewer))
    assert fewer["short_stacks"] == 4 and fewer_called < called
    assert [each["name"] for each in fewer["threads"]] == [fewer["threads"][0]["name"], "1 other"]
    for name in ("python_us", "sleep_us"):
        assert sum(sums(fewer, name, 0, 9999).values()) == sum(sums(entry, name, 0, 9999).values())
        by_thread = sums(fewer, name, 0, 9999, "thread_series")
        assert sorted(by_thread.values()) == sorted(sums(entry, name, 0, 9999, "thread_series").values())


def test_a_page_that_would_be_too_large_has_longer_pieces(busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_FIGURES", 8_000)
    coarse = model.build_document([busy], Selection())["traces"][0]
    assert coarse["bins"]["count"] <= 1_000
    assert len(json.dumps([coarse[name] for name in ("series", "halves", "thread_series")])) < 9_000


def test_sources_that_do_not_fit_are_there_around_sampled_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_CHARACTERS", 12)
    sources = {"a.py": ["1", "2", "3"], "b.py": [str(number) for number in range(1, 31)]}
    pieces = texts.source_pieces(sources, {"a.py": {1, 2, 3}, "b.py": {1, 20}})
    assert pieces == {"a.py": [[1, "1\n2\n3"]], "b.py": [[1, "1\n2\n3\n4"], [17, "17\n18\n19\n20\n21\n22\n23"]]}
    assert texts.source_pieces({"a.py": ["x" * 5_000]}, {}) == {"a.py": []}


def versions_in_lock() -> dict[str, str]:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    return {path.removeprefix("node_modules/"): each["version"] for path, each in packages.items() if path}


def test_the_bundle_is_made_of_the_versions_of_the_lock_file_and_says_so() -> None:
    listed = re.findall(
        r"^(\S+) (\d\S+) \((.+)\)$", (ASSETS / "report.js").read_text().partition("\n\n")[0], re.MULTILINE
    )
    asked = json.loads((WEB / "package.json").read_text())["dependencies"]
    assert {name: version for name, version, _ in listed} == {name: versions_in_lock()[name] for name, _, _ in listed}
    assert {name: version for name, version, _ in listed if name in asked} == asked
    assert {licence for _, _, licence in listed} <= {"MIT", "ISC", "BSD-3-Clause", "Apache-2.0"}


def test_the_bundle_is_made_of_the_sources_beside_it() -> None:
    sources = [path for path in WEB.glob("src/**/*") if path.is_file()]
    paths = {str(path.relative_to(WEB)): path for path in (*sources, WEB / "package-lock.json", WEB / "build.mjs")}
    digest = hashlib.sha256(b"".join(paths[name].read_bytes() for name in sorted(paths))).hexdigest()
    assert f"Made from {digest}\n" in (ASSETS / "report.js").read_text(), "the bundle is stale: run `make html`"


def test_the_bundle_is_small_and_the_lock_file_names_no_address() -> None:
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) < 380_000, "a quarter of it is the grammar of Python"
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", (WEB / "package-lock.json").read_text())


def test_the_page_allows_its_own_script_and_nothing_else() -> None:
    page = assemble(safe_json({"traces": []}))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'" and re.fullmatch(r"'sha256-\S+'", rules["script-src"])
    assert not re.search(r"unsafe|https?:|data:|\*", policy[1])
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b|@import|url\(", page.partition("<script>")[0])


def test_hostile_text_stays_inside_the_data(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(command=["</script><script>alert(1)</script>", "<!-- <script>"])
    thread = builder.thread(process, SECOND, name="]]><img src=x>")
    file = "/app/</script><b>&\"'\u2028.py"
    builder.tick(5 * MS, process, thread, builder.stack((file, "<script>\x1b[31m\n" + "f" * 10_000, 1, 1)))
    builder.source(file, "x = '</SCRIPT><!--'\n")
    page = build_page([builder.write(tmp_path / "t.parquet")], Selection())
    assert page.isascii() and page.lower().count("</script") == 2 and page.count("<!--") == 1
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None and json.loads(data[1])["traces"][0]["files"] == [file]


def test_traces_with_next_to_nothing_make_a_document(tmp_path: Path) -> None:
    for path in empty_traces(tmp_path):
        document = model.build_document([path], Selection())
        assert json.loads(safe_json(document)) == document
