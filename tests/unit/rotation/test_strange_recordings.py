"""What ``--recover`` does with the user's own files beside a recording, and with files that a stranger has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.formats.dataclass import asdict, replace
from scalene_trace.formats.errors import TraceError
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.recorder.folder.facts import Facts, write_facts
from scalene_trace.recorder.folder.output import remove_recording
from scalene_trace.recorder.rotate.publish import recover_any
from scalene_trace.recorder.rotate.segments import Segment, State
from tests.support.spool_builder import SpoolBuilder

OWN = ("cut1.mp4", "cut00001.mp4", "carry2023.csv", "carry00001.json.gz", "spool.part1.txt")
ROTATED = ("cut00001", "carry123456", "carry00002.json", "rotation.json.new", "segment/rss")


def recording(folder: Path, **host: str) -> Path:
    """A folder with a recording that has ended."""
    folder.mkdir()
    SpoolBuilder().start().write(folder / "spool")
    write_facts(
        folder, Facts("ab" * 16, str(folder / "t.parquet"), [], None, "/", False, False, host, rotates=bool(host))
    )
    return folder


def names(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("rotates", [False, True])
def test_files_of_others_beside_a_recording_are_not_removed(rotates: bool, tmp_path: Path) -> None:
    (tmp_path / "segment").mkdir()
    for name in (*OWN, *ROTATED, "rotation.json", "spool", "spool.part00001", "rss"):
        (tmp_path / name).write_text("")
    remove_recording(tmp_path, rotates)
    assert names(tmp_path) == {*OWN} | (set() if rotates else {*ROTATED, "rotation.json"})


def test_a_plain_recording_is_recovered_beside_a_rotation_json(tmp_path: Path) -> None:
    folder = recording(tmp_path / "own")
    (folder / "rotation.json").write_text('{"rotation": 90}')
    finished = recover_any(folder, tmp_path / "t.parquet")
    check_trace(finished.output)
    assert names(tmp_path) == {"t.parquet", "own/rotation.json"}


CLOSED = Segment(1, "ab" * 16)
OPEN = Segment(2, "cd" * 16, "ab" * 16)


def rotating(folder: Path, state: dict[str, Any], **host: str) -> Path:
    recording(folder, **{"hostname": "h"} | host)
    (folder / "cut00001").write_bytes(b"")
    (folder / "rotation.json").write_text(json.dumps(state))
    return folder


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (None, "pid", float("inf")),
        (None, "pid", -1),
        (None, "closed", 0),
        (None, "closed", []),
        ("open", "number", 3),
        ("open", "counts", {"no_such_loss": 1}),
        ("closed", "start_ns", 5),
        ("closed", "first_part", 5),
    ],
)
def test_a_state_that_no_recorder_writes_is_called_damaged(
    where: str | None, name: str, value: Any, tmp_path: Path
) -> None:
    state = asdict(State(7, OPEN, CLOSED))
    (state[where] if where else state)[name] = value
    folder = rotating(tmp_path / "own", state)
    before = names(folder)
    with pytest.raises(TraceError, match=r"rotation\.json is damaged"):
        recover_any(folder, tmp_path)
    assert names(folder) == before


def test_labels_that_no_recorder_takes_are_called_damage(tmp_path: Path) -> None:
    folder = rotating(tmp_path / "own", asdict(State(7, OPEN)), labels='{"date": "x"}')
    with pytest.raises(TraceError, match=r"rotation\.json is damaged"):
        recover_any(folder, tmp_path)


def test_odd_names_and_numbers_end_in_traces(tmp_path: Path) -> None:
    open_ = replace(OPEN, first_part=2**60, offsets=dict.fromkeys(OPEN.offsets, 2**40))
    labels = json.dumps({"service": "\ud800"})
    folder = rotating(tmp_path / "own", asdict(State(7, open_, CLOSED)), hostname="\udcff", labels=labels)
    lines = [{"what": "mark", "t_ns": 1, "id": [1], "text": "a"}, {"what": "end", "t_ns": 2, "id": {}}]
    (folder / "marks").write_text("".join(json.dumps(line) + "\n" for line in lines))
    finished = recover_any(folder, tmp_path)
    assert finished.output.parent.parent == tmp_path, "a label that the recorder refuses is none"
    assert sorted(check_trace(each).trace_id for each in tmp_path.rglob("*.parquet")) == ["ab" * 16, "cd" * 16]
    assert not folder.exists()
