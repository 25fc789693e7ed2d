"""What ``--recover`` does with the user's own files beside a recording, and with files that a stranger has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.recorder.folder.facts import Facts, write_facts
from scalene_trace.recorder.folder.output import remove_recording
from scalene_trace.recorder.rotate.publish import recover_any
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
