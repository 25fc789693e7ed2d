"""Which recording a process belongs to: nobody is believed about the processes of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.recorder.attached import recording
from scalene_trace.recorder.errors import ControlError

#: The process, its parent (a program of user 1000), a recorder's, and the first process.
LINE = (40, 30, 20, 1)
OWNERS = {40: 1000, 30: 1000, 20: 0, 1: 0}


def owner(path: Path) -> int | None:
    """Of a process; of the folders USER.spool."""
    return OWNERS.get(int(path.name)) if path.name.isdecimal() else int(path.stem)


@pytest.fixture(autouse=True)
def owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_owner", owner)


@pytest.mark.parametrize(
    ("recorder", "user", "said", "distance"),
    [
        (20, 0, {}, 2),  # a recorder that is an ancestor need not be asked
        (50, 1000, {"pid": 30}, 1),
        (50, 1000, {"pid": 40}, 0),
        (50, 0, {"pid": 40}, 0),  # root may record anybody
        (50, 1000, {"pid": 1}, None),  # everybody descends from it
        (50, 2000, {"pid": 30}, None),  # the process of another user
        (50, 1000, {"pid": 20}, None),
        (50, 1000, {"pid": 41}, None),
        (50, 1000, {"pid": "30"}, None),
        (50, 1000, {}, None),
        (50, 1000, None, None),
    ],
    ids=str,
)
def test_a_recorder_is_believed_of_its_own_user(
    recorder: int, user: int, said: dict[str, Any] | None, distance: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(folder: Path, request: dict[str, object], timeout_s: float) -> dict[str, Any]:
        assert timeout_s <= 5
        if said is None:
            raise ControlError("silent")
        return said

    monkeypatch.setattr(recording, "ask", ask)
    assert recording._distance(recorder, Path(f"/tmp/{user}.spool"), LINE) == distance


def test_the_nearest_recording_of_the_own_user_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(51, "a/2000.spool"), (20, "b/0.spool"), (50, "c/1000.spool")]
    monkeypatch.setattr(recording, "_ancestors", lambda pid: iter(LINE))
    monkeypatch.setattr(recording, "_recorders", lambda: iter([(recorder, Path(name)) for recorder, name in found]))
    monkeypatch.setattr(recording, "ask", lambda *_: {"pid": 30})
    for recorder, name in found:
        OWNERS[recorder] = int(Path(name).stem)
    assert recording.recording_of(40) == Path("c/1000.spool")
    monkeypatch.setattr(recording, "_ancestors", lambda pid: iter(()))
    with pytest.raises(ControlError, match="no process 40"):
        recording.recording_of(40)
