"""Where closed traces lie, which of them --keep removes, and what a stranger's rotation.json can do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.cli.record.command import run
from scalene_trace.formats.dataclass import asdict
from scalene_trace.formats.labels import labels_in
from scalene_trace.formats.spool.chunks import slots_until
from scalene_trace.formats.spool.layout import constants
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.folder.facts import Facts, write_facts
from scalene_trace.recorder.folder.output import remove_recording
from scalene_trace.recorder.folder.place import memory_path
from scalene_trace.recorder.rotate.carry import Counted, read_counted
from scalene_trace.recorder.rotate.layout import label_folder, remove_older, trace_path, unfinished
from scalene_trace.recorder.rotate.pieces import carried_marks
from scalene_trace.recorder.rotate.segments import Segment, State, read_state, write_state
from tests.support.trace_builder import TraceBuilder

#: 2026-11-28T22:15:03.123Z
START_NS = 1_795_904_103_123_000_000


def test_the_path_names_labels_day_host_and_start() -> None:
    labels = {"service": "a b/../é=", "version": "1.4.2"}
    found = trace_path(Path("/traces"), labels, "web 1/..", 4711, START_NS)
    assert str(found) == (
        "/traces/service=a%20b%2F..%2F%C3%A9%3D/version=1.4.2/date=2026-11-28/web%201%2F..-4711-20261128T221503.123Z.parquet"
    )


@pytest.mark.parametrize("labels", [{"date": "2026-11-28"}, {"a": "é" * 128}])
def test_labels_that_no_folder_can_have_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        label_folder(Path("/traces"), labels)


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 1}', "[" * 100_000])
def test_damaged_labels_are_none(text: str) -> None:
    assert labels_in(text) == {}


def test_only_old_traces_of_the_same_labels_are_removed(tmp_path: Path) -> None:
    own = {"service": "shop"}
    day_s = 86_400
    paths = [trace_path(tmp_path, own, "h", number, START_NS - number * day_s * 10**9) for number in range(4)]
    others = [
        trace_path(tmp_path, {"service": "other"}, "h", 1, START_NS - 10 * day_s * 10**9),
        trace_path(tmp_path, {}, "h", 1, START_NS - 10 * day_s * 10**9),
        paths[3].with_name("mine.parquet"),
        paths[2].with_name(paths[2].name.replace("-2-", "-x-")),
        paths[2].parent / "sub" / paths[2].name,
    ]
    for each in (*paths, *others):
        each.parent.mkdir(parents=True, exist_ok=True)
        TraceBuilder().write(each)
    no_trace = paths[3].with_name(paths[3].name.replace("-3-", "-33-"))
    no_trace.write_bytes(b"PAR1 but no trace")
    link = paths[2].with_name(paths[2].name.replace("-2-", "-22-"))
    link.symlink_to(others[0])
    (elsewhere := tmp_path / "elsewhere").mkdir()
    paths[1].rename(elsewhere / paths[1].name)
    paths[1].parent.rmdir()
    paths[1].parent.symlink_to(elsewhere)  # a link to a folder is not followed
    assert remove_older(label_folder(tmp_path, own), START_NS - day_s * 10**9) == 2
    assert [each.exists() for each in paths] == [True, True, False, False]
    assert all(each.exists() for each in (*others, no_trace, link))


def test_a_day_without_traces_is_removed(tmp_path: Path) -> None:
    path = trace_path(tmp_path, {}, "h", 1, START_NS)
    path.parent.mkdir(parents=True)
    TraceBuilder().write(path)
    assert remove_older(tmp_path, START_NS + 1, spared=path) == 0
    assert remove_older(tmp_path, START_NS + 1) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_empty_day_that_another_recorder_has_just_made_stays(tmp_path: Path) -> None:
    days = [trace_path(tmp_path, {}, "h", 1, START_NS - number * 86_400 * 10**9).parent for number in range(-3, 4)]
    for each in days:
        each.mkdir()
    old = trace_path(tmp_path, {}, "h", 1, START_NS)
    TraceBuilder().write(old)
    assert remove_older(tmp_path, START_NS + 1) == 1
    assert sorted(tmp_path.iterdir()) == sorted({*days} - {old.parent})


@pytest.mark.parametrize(
    ("host", "is_in_memory", "is_named"), [("", False, True), ("", True, False), ("other-pod", False, False)]
)
def test_recordings_that_other_pods_may_still_write_are_not_called_dead(
    host: str, is_in_memory: bool, is_named: bool, tmp_path: Path
) -> None:
    (folder := tmp_path / "t.parquet.spool").mkdir()
    (folder / "rotation.json").write_text("{}")
    (folder / "spool").symlink_to(memory_path()) if is_in_memory else (folder / "spool").write_bytes(b"")
    settings = {"hostname": host or os.uname().nodename}
    write_facts(folder, Facts("ab" * 16, "/t", [], None, "/", False, False, settings, rotates=True))
    assert unfinished(tmp_path) == [folder] * is_named
    remove_recording(folder, rotates=True)


def test_the_removal_that_a_killed_recorder_has_begun_is_finished(tmp_path: Path) -> None:
    (folder := tmp_path / "t.parquet.spool").mkdir()
    for name in ("rotation.json", "recording.json", "rss", "tried"):  # the spool was removed first
        (folder / name).write_text("")
    assert unfinished(tmp_path) == [] and not folder.exists()


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    closed = Segment(1, "ab" * 16)
    state = State(7, Segment(2, "cd" * 16, "ab" * 16, 5, 6, 3, {9: 4}, losses=[1], settings={"a": "b"}), closed)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rotation.json"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_ns", -1),
        ("start_ns", 2**63),
        ("start_real_ns", 1.5),
        ("first_part", None),
        ("skipped", {"x": 1}),
        ("skipped", []),
        ("offsets", {}),
        ("losses", 5),
        ("losses", ["1"]),
        ("trace_id", "\0"),
        ("settings", {"a": 1}),
    ],
)
def test_a_damaged_state_is_none(name: str, value: Any, tmp_path: Path) -> None:
    stored = asdict(State(7, Segment(1, "ab" * 16)))
    stored["open"][name] = value
    (tmp_path / "rotation.json").write_text(json.dumps(stored))
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[", "[]", '{"threads": {"1": [1, 2, 1e300]}}', "[" * 100_000])
def test_damaged_figures_of_earlier_traces_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "carry.json").write_text(text)
    assert read_counted(tmp_path / "carry.json") == Counted()


def test_a_cut_ends_before_what_is_unpublished_or_younger() -> None:
    numbers = constants()
    slots = np.zeros((6, 64), np.uint8)
    heads, times = slots[:, :4].view("<u4"), slots[:, 8:16].view("<i8")
    heads[:, 0] = numbers["RECORD_TICK"] | 1 << 16
    heads[1, 0] = numbers["RECORD_NODE"] | 1 << 16
    times[:, 0] = [10, 2**60, 20, 30, 40, 0]  # a node has no time
    assert slots_until(slots, 30) == 4
    heads[2, 0] = 1 << 16
    assert slots_until(slots, 30) == 2
    assert slots_until(slots, 30, is_over=True) == 4
    assert slots_until(slots, 60, is_over=True) == 6
    heads[0, 0] = numbers["RECORD_CODE"] | 7 << 16
    assert slots_until(slots, 30) == 0


def test_open_marks_a_pause_and_texts_are_carried_over() -> None:
    lines = [
        {"what": "mark", "t_ns": 1, "id": 1, "pid": 5, "text": "ended"},
        {"what": "mark", "t_ns": 2, "id": 2, "pid": 5, "text": "open"},
        {"what": "mark", "t_ns": 3, "end_ns": 4, "text": "block", "pid": 5},
        {"what": "end", "t_ns": 5, "id": 1, "pid": 5},
        {"what": "source", "t_ns": 6, "file": "f", "title": "t", "text": "old"},
        {"what": "source", "t_ns": 7, "file": "f", "title": "t", "text": "new"},
        {"what": "pause", "t_ns": 8},
    ]
    assert carried_marks(lines) == [lines[1] | {"t_ns": 0}, lines[6] | {"t_ns": 1}, lines[5] | {"t_ns": 0}]
    assert carried_marks([*lines, {"what": "resume", "t_ns": 9}])[1:] == [lines[5] | {"t_ns": 0}]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--keep 1h x.py", "--keep belongs to --rotate"),
        ("--rotate 1h x.py", "-o names the folder of all traces"),
        ("-o . --rotate 1h --keep 60min x.py", "--keep must be longer than --rotate"),
        ("-o missing --rotate 1h x.py", "-o names the folder of all traces"),
        ("-o . --rotate 0.5s x.py", "--rotate 0.5s is out of range. It can be 1s to 10000h."),
        ("-o . --rotate 1h --snapshot-every 1h x.py", "cannot be given together"),
        ("-o . --rotate 1h --label date=1 x.py", "no label can be called date"),
        ("-o . --rotate 1h --pid 1", "--rotate has no effect with --pid"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: str, sentence: str) -> None:
    assert not os.path.lexists("missing")
    with pytest.raises(UsageError, match=sentence):
        run(words.split())
