"""When a recording that is on for a part of the time is on, and who decides that it is paused."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalene_trace.recorder.control.cycle import Cycle
from scalene_trace.recorder.control.pauses import Pauses
from scalene_trace.recorder.folder import marks
from scalene_trace.recorder.folder.marks import MarkFile, read_marks

CAUSE = "sample 30s/10min"


def test_every_moment_is_recorded_as_often_as_every_other() -> None:
    draw = random.Random(7).random
    moments = [0.0, 0.4, 3.0, 9.9, 10.0, 27.5]
    seen = dict.fromkeys(moments, 0)
    for _ in range(8_000):
        cycle = Cycle(CAUSE, lambda: (10.0, 2.0), 0.0, draw)
        for moment in moments:
            seen[moment] += cycle.is_on(moment)
    # 8,000 draws with probability 0.2: a standard deviation of 36.
    assert all(abs(count - 1_600) < 6 * 36 for count in seen.values()), seen


def test_each_period_is_recorded_for_the_length_of_its_window() -> None:
    cycle = Cycle(CAUSE, lambda: (10.0, 2.0), 100.0, random.Random(1).random)
    starts: list[float] = []
    now_s, recorded_s = 100.0, [0.0] * 100
    while now_s < 1_100.0:
        is_on, left_s = cycle.is_on(now_s), cycle.left_s(now_s)
        if is_on:
            recorded_s[int((now_s - 100.0) / 10.0 + 1e-9)] += left_s
            starts.append(now_s % 10.0)
        now_s += left_s
    assert recorded_s == pytest.approx([2.0] * 100)
    assert statistics.pstdev(starts) > 2


def pauses(folder: Path, **more: object) -> tuple[Pauses, SimpleNamespace, Path]:
    path = folder / "marks"
    header = SimpleNamespace(paused=0, start_mono_ns=time.monotonic_ns())
    return Pauses(header, MarkFile(path), **more), header, path  # type: ignore[arg-type]


def test_a_persons_pause_outlasts_the_cycle_and_gives_it_back(tmp_path: Path) -> None:
    own, header, path = pauses(tmp_path, has_cycle=True)
    assert own.pause() and header.paused
    own.follow_cycle(CAUSE)
    own.follow_cycle(None)
    assert header.paused and own.cause() == ""
    own.follow_cycle(CAUSE)
    assert own.resume() and header.paused and own.cause() == CAUSE
    own.follow_cycle(None)
    assert not header.paused
    assert [(mark.what, mark.text, mark.end_ns is None) for mark in read_marks(path)] == [
        ("pause", "", False),
        ("pause", CAUSE, False),
    ]


@pytest.mark.parametrize("cause", [None, CAUSE])
@pytest.mark.parametrize("is_held", [False, True])
def test_a_person_who_resumes_records_until_they_pause(cause: str | None, is_held: bool, tmp_path: Path) -> None:
    own, header, _ = pauses(tmp_path, has_cycle=True, cycle=cause)
    if is_held:
        own.hold(os.getpid())
    assert own.resume() and own.is_kept() and not header.paused
    assert not own.resume() and own.is_kept()
    own.leave(os.getpid())
    own.follow_cycle(None)
    own.follow_cycle(CAUSE)
    assert not header.paused
    assert own.pause() and own.resume() and own.cause() == CAUSE


def test_pauses_have_lines_of_their_own_and_the_last_one_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "MOST_LINES", 20)
    path, header = tmp_path / "marks", SimpleNamespace(paused=0, start_mono_ns=time.monotonic_ns())
    file = MarkFile(path)
    own = Pauses(header, file, has_cycle=True)
    assert [file.add("mark", 0, text="") for _ in range(30)].count(True) == 18
    for cause in (CAUSE, None) * 3:
        own.follow_cycle(cause)
    found = [mark for mark in read_marks(path) if mark.what == "pause"]
    assert header.paused and own.cannot_resume() and [mark.end_ns for mark in found] == [None]
    own.turn()
    assert header.paused and file.left_out == 13
    file.begin_anew()
    own.turn()
    assert not header.paused and read_marks(path)[-1].end_ns is not None


def test_nothing_is_recorded_that_the_marks_call_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, header, path = pauses(tmp_path, has_cycle=True)
    with monkeypatch.context() as full:
        full.setattr(marks, "append_whole", lambda *_: False)
        assert own.pause() and header.paused
        begun_ns = time.monotonic_ns() - header.start_mono_ns
        own.resume()
        own.follow_cycle(CAUSE)
        own.follow_cycle(None)
        assert header.paused and not path.read_bytes()
    own.turn()
    (found,) = read_marks(path)
    assert not header.paused and found.t_ns <= begun_ns < (found.end_ns or 0)


def test_the_watcher_is_told_of_each_change(tmp_path: Path) -> None:
    own, header, _ = pauses(tmp_path, has_cycle=True)
    seen: list[bool] = []
    own.on_change = lambda: seen.append(bool(header.paused))
    own.pause()
    own.follow_cycle(CAUSE)
    own.resume()
    own.follow_cycle(None)
    own.hold(os.getpid())
    assert seen == [True, False]


def test_a_pause_ends_another_one(tmp_path: Path) -> None:
    file = MarkFile(tmp_path / "marks")
    for t_ns, what in ((1, "pause"), (5, "pause"), (7, "resume"), (9, "pause")):
        file.add(what, t_ns)
    assert [(mark.t_ns, mark.end_ns) for mark in read_marks(tmp_path / "marks")] == [(1, 5), (5, 7), (9, None)]


def test_a_process_that_holds_is_recorded_whatever_the_cycle_does(tmp_path: Path) -> None:
    own, header, _ = pauses(tmp_path, has_cycle=True)
    assert own.hold(os.getpid()) == (False, True)
    own.follow_cycle(CAUSE)
    assert not header.paused
    assert own.leave(os.getpid()) and header.paused


def test_pauses_are_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, header, _ = pauses(tmp_path, is_paused=True)
    now_ns, told = int(header.start_mono_ns), list[int]()
    monkeypatch.setattr("scalene_trace.recorder.control.pauses.time.monotonic_ns", lambda: now_ns)
    begin, end = partial(own.follow_cycle, CAUSE), partial(own.follow_cycle, None)
    changes: list[Callable[[], object]] = [begin, own.resume, end, own.pause, own.resume]
    for change in changes:
        now_ns += 1_000
        told.append(own.paused_ns())
        change()
    assert told == [1_000, 2_000, 3_000, 3_000, 4_000]


def test_a_recording_without_a_cycle_that_is_on_is_not_held(tmp_path: Path) -> None:
    own, header, _ = pauses(tmp_path)
    assert own.hold(os.getpid()) == (False, False)
    assert not own.leave(os.getpid()) and not header.paused
