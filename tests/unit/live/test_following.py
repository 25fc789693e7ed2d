"""What a recording's answers mean to ``scalene-analyze live``: refusals, strangers, silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.cli.live import following
from scalene_trace.cli.live.following import ENDED, RECORDING, WAITING, Following
from scalene_trace.recorder.errors import CommandRefused, ControlError

STATUS: dict[str, Any] = {"recorded_s": 1.5, "pid": 7, "paused": False}


class Recorder:
    """Answers in the place of a recorder. ``says``: to the command snapshot; ``lives``: holds the lock of its spool."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lives = folder / "recording", True
        self.trace = folder / "t.parquet"
        self.trace.touch()
        self.folder.mkdir()
        self.status: Any = STATUS
        self.says: Any = {"output": str(self.trace)}

    def ask(self, folder: Path, request: dict[str, object], timeout_s: float = 10.0) -> Any:
        assert folder == self.folder and timeout_s < 1000
        answer = self.status if request["command"] == "status" else self.says
        if isinstance(answer, Exception):
            raise answer
        return answer

    def find(self, target: Path) -> Path:
        assert target in (Path("t.parquet"), self.folder)
        if not self.lives:
            raise ControlError(f"The recorder of {target} has died.")
        return self.folder


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder(tmp_path)
    monkeypatch.setattr(following, "ask", made.ask)
    monkeypatch.setattr(following, "find_recording", made.find)
    monkeypatch.setattr(following, "is_live", lambda _: made.lives)
    return made


@pytest.mark.parametrize(
    ("says", "note"),
    [(CommandRefused("No space."), "No space."), (ControlError("It cannot be reached."), ""), ({}, "")],
    ids=["refused", "silent", "strange"],
)
def test_a_recorder_that_lives_and_gives_no_snapshot_is_waited_for(says: Any, note: str, recorder: Recorder) -> None:
    followed = Following("t.parquet")
    first = followed.take()
    assert (first.state, first.recorded_s, first.note) == (RECORDING, 1.5, "")
    recorder.says = says
    second = followed.take()
    assert (second.state, second.note, second.version) == (WAITING, note, first.version)
    recorder.says = {"output": str(recorder.trace)}
    assert followed.take() == first


def test_a_process_is_looked_up_once_and_then_its_folder(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    of_process = {4711: recorder.folder}
    monkeypatch.setattr(following, "recording_of", of_process.pop)
    followed = Following("4711")
    followed.take()
    recorder.lives = False
    assert followed.take().note == f"The recorder of {recorder.folder} has died."


@pytest.mark.parametrize("leaves_folder", [True, False])
def test_a_dead_recorder_has_left_its_folder(leaves_folder: bool, recorder: Recorder) -> None:
    followed = Following("t.parquet")
    followed.take()
    recorder.lives = False
    if not leaves_folder:
        recorder.folder.rmdir()
    found = followed.take()
    assert (found.state, found.recorded_s, "has died" in found.note) == (ENDED, None, leaves_folder)


@pytest.mark.parametrize(
    "status",
    [
        {}, {"recorded_s": float("nan")}, {"recorded_s": float("inf")}, {"recorded_s": -1}, {"recorded_s": [1]},
        {"pid": float("inf")}, {"pid": -4}, {"pid": 1 << 40}, {"pid": None},
    ],
    ids=str,
)  # fmt: skip
def test_strange_answers_are_no_recorders(status: dict[str, Any], recorder: Recorder) -> None:
    recorder.status = STATUS | status if status else {}
    with pytest.raises(ControlError, match="not that of a recorder"):
        Following("t.parquet").take()


@pytest.mark.parametrize("output", [None, "/nowhere/t.parquet", "a\0b"], ids=repr)
def test_a_snapshot_that_is_not_there_is_said(output: Any, recorder: Recorder) -> None:
    recorder.says = {"output": output}
    with pytest.raises(ControlError, match="cannot be found"):
        Following("t.parquet").take()
