"""Ends of processes as their parents tell them: to which process a wait belongs, and what it adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from scalene_trace.recorder.convert.convert import Conversion
from scalene_trace.recorder.convert.kinds.ends import RootEnd
from tests.support.conversion import conversion_of, rows
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder

KILLED = 9
CAUSES = {"fork": C["CAUSE_FORK"], "exec": C["CAUSE_EXEC"], "spawn": C["CAUSE_SPAWN"]}


class Tree(SpoolBuilder):
    """Process 1 has pid 10; times count from the start of the recording."""

    def __init__(self) -> None:
        super().__init__()
        self.start(1, pid=10, thread=1, t_ns=START_MONO_NS + 1, pid_namespace=7)

    def child(
        self, process: int, cause: str, pid: int, at: int, parent: int = 1, parent_pid: int = 10, space: int = 7
    ) -> Tree:
        places = {"pid": pid, "parent_pid": parent_pid, "parent": parent, "pid_namespace": space}
        self.start(process, thread=process, cause=CAUSES[cause], t_ns=START_MONO_NS + at, **places)
        return self

    def ends(self, process: int, how: str, at: int, user_ns: int = 0, system_ns: int = 0) -> Tree:
        usage = {"user_ns": user_ns, "system_ns": system_ns}
        self.add("process_end", process, thread=process, t_ns=START_MONO_NS + at, how=C[how], **usage)
        return self

    def reaped(self, process: int, pid: int, at: int, status: int = 0, user_ns: int = -1, system_ns: int = -1) -> Tree:
        """What ``process`` learns of the child ``pid``; pid 0: what it says of itself."""
        usage = {"user_ns": user_ns, "system_ns": system_ns, "peak_rss_bytes": 5000 if user_ns >= 0 else -1}
        self.add("reaped", process, t_ns=START_MONO_NS + at, pid=pid, status=status, **usage)
        return self

    def all(self, tmp_path: Path, root: RootEnd | None = None) -> dict[str, list[dict[str, Any]]]:
        """The rows of each kind; the times of ends are in a set of tables of their own."""
        found: dict[str, list[dict[str, Any]]] = {"process": [], "thread": [], "cpu": []}
        for tables in conversion_of(self, tmp_path, root).tables():
            for kind in tables.keys() & found.keys():
                found[kind].extend(rows(tables[kind]))
        return found

    def processes(self, tmp_path: Path, root: RootEnd | None = None) -> dict[int, dict[str, Any]]:
        return {row["process"]: row for row in self.all(tmp_path, root)["process"]}


def test_a_wait_ends_the_latest_process_with_its_pid(tmp_path):
    tree = Tree().child(2, "fork", 20, 5).child(3, "fork", 20, 30).child(4, "fork", 20, 50)
    found = tree.reaped(1, 20, 25, 3 << 8).reaped(1, 20, 40, KILLED).processes(tmp_path)
    assert (found[2]["end"], found[2]["exit_status"], found[2]["end_ns"]) == ("exit", 3, 25)
    assert (found[3]["end"], found[3]["exit_status"], found[3]["end_ns"]) == ("killed", 137, 40)
    assert (found[4]["end"], found[4]["exit_status"]) == (None, None)


def test_a_later_child_with_the_same_pid_that_was_not_recorded_changes_nothing(tmp_path):
    tree = Tree().child(2, "fork", 20, 5).ends(2, "END_QUICK", 8).reaped(1, 20, 9, 7 << 8, 61, 44)
    found = tree.reaped(1, 20, 4, 3 << 8).reaped(1, 20, 30, 0, 500, 500).processes(tmp_path)
    assert (found[2]["exit_status"], found[2]["user_ns"]) == (7, 0)


def test_a_wait_of_another_process_than_the_parent_tells_nothing(tmp_path):
    """Its pid may be one of another pid namespace."""
    tree = Tree().child(2, "fork", 20, 5).child(3, "spawn", 30, 6).child(4, "fork", 40, 7, parent=3, parent_pid=30)
    found = tree.reaped(2, 40, 60, KILLED).reaped(77, 20, 60, KILLED).reaped(1, 99, 60, KILLED).processes(tmp_path)
    assert [found[process]["end"] for process in (2, 3, 4)] == [None] * 3
    assert tree.reaped(3, 40, 70, KILLED).processes(tmp_path / "again")[4]["end"] == "killed"


def test_pids_of_other_namespaces_are_other_pids(tmp_path):
    tree = Tree().child(2, "spawn", 11, 5, space=8).child(3, "fork", 12, 6, parent=2, parent_pid=10, space=8)
    found = tree.reaped(1, 11, 60, KILLED).reaped(1, 12, 60, KILLED).processes(tmp_path, RootEnd(12, 5))
    assert [found[process]["end"] for process in (1, 2, 3)] == [None] * 3


def test_a_parent_may_have_another_pid_in_its_own_namespace(tmp_path):
    """The child of ``unshare --pid`` is forked there, and its children have parents there."""
    tree = Tree().child(2, "fork", 1, 5, parent=1, parent_pid=0, space=8)
    tree.child(3, "fork", 2, 6, parent=2, parent_pid=1, space=8)
    assert tree.reaped(2, 2, 60, KILLED).processes(tmp_path)[3]["end"] == "killed"


def test_the_status_is_that_of_the_last_image_and_the_waiter_may_have_another(tmp_path):
    tree = Tree().ends(1, "END_EXEC", 2).child(2, "exec", 10, 3, parent_pid=0).child(3, "fork", 20, 5, parent=2)
    tree.ends(3, "END_EXEC", 6).child(4, "exec", 20, 7, parent=3)
    found = tree.reaped(2, 20, 9, 6 << 8).processes(tmp_path)
    assert (found[3]["end"], found[3]["exit_status"], found[4]["end"], found[4]["exit_status"]) == (
        "exec",
        None,
        "exit",
        6,
    )
    unknown = Tree().child(3, "fork", 20, 5).ends(3, "END_EXEC", 6).reaped(1, 20, 9, KILLED).processes(tmp_path / "b")
    assert (unknown[3]["end"], unknown[3]["exit_status"]) == ("exec", None), "an image that was not recorded has ended"


def test_the_end_takes_cpu_time_on_no_line(tmp_path):
    tree = Tree().child(2, "fork", 20, 5).add("thread_end", 2, thread=2, t_ns=START_MONO_NS + 8, cpu_ns=90)
    tree.reaped(2, 0, 8, 0, 1060, 2030).ends(2, "END_QUICK", 8, 60, 30).reaped(1, 20, 99, 0, 1061, 2044)
    tables = tree.all(tmp_path)
    (end,) = tables["cpu"]
    assert (end["process"], end["thread"], end["stack"], end["user_ns"], end["system_ns"]) == (2, 2, None, 1, 14)
    assert end["t_ns"] == 8, "within its life, whenever the parent asks"
    assert {row["thread"]: row["cpu_ns"] for row in tables["thread"]}[2] == 105
    found = {row["process"]: row for row in tables["process"]}[2]
    assert (found["user_ns"], found["system_ns"], found["end"], found["exit_status"]) == (61, 44, "quick_exit", 0)


def test_the_program_is_reaped_by_the_recorder(tmp_path):
    tree = (
        Tree().child(2, "fork", 20, 5).ends(2, "END_QUICK", 8).reaped(1, 0, 9, 0, 100, 200).ends(1, "END_EXIT", 9, 5, 6)
    )
    found = tree.processes(tmp_path, RootEnd(10, 3, False, 107, 204))
    assert (found[1]["user_ns"], found[1]["system_ns"], found[1]["exit_status"]) == (12, 10, 3)
    assert (found[2]["user_ns"], found[2]["system_ns"], found[2]["exit_status"]) == (0, 0, 0)
    assert tree.processes(tmp_path / "b", RootEnd(10, 200))[1]["end"] == "exit"


@pytest.mark.parametrize("of_child", [(-1, -1), (1062, -1), (50, 20)])
@pytest.mark.parametrize("of_itself", [True, False])
def test_without_both_figures_the_end_takes_no_time(of_child, of_itself, tmp_path):
    tree = Tree().child(2, "fork", 20, 5)
    if of_itself:
        tree.reaped(2, 0, 8, 0, 60, 30)
    found = tree.ends(2, "END_QUICK", 10, 60, 30).reaped(1, 20, 11, 7 << 8, *of_child).all(tmp_path)
    (child,) = (row for row in found["process"] if row["process"] == 2)
    assert (child["user_ns"], child["system_ns"], child["exit_status"], found["cpu"]) == (60, 30, 7, [])


def test_a_killed_process_and_its_threads_have_an_end(tmp_path):
    """But no CPU time: what its parent learns may be that of children that it had waited for."""
    tree = Tree().child(2, "fork", 20, 5).add("thread_start", 2, thread=2, t_ns=START_MONO_NS + 5, tid=20)
    tree.child(3, "fork", 30, 6).child(4, "fork", 40, 7, parent=3, parent_pid=30).reaped(3, 40, 8, 0, 1, 1)
    tables = tree.reaped(1, 20, 50, KILLED, 300, 200).reaped(1, 30, 60, KILLED, 300, 200).all(tmp_path)
    found = {row["process"]: row for row in tables["process"]}
    assert (found[2]["user_ns"], found[2]["system_ns"], found[2]["peak_rss_bytes"]) == (None, None, 5000)
    assert (found[3]["end"], found[3]["peak_rss_bytes"]) == ("killed", None), "it may be that of its child"
    assert {row["thread"]: row["end_ns"] for row in tables["thread"]}[2] == 50


def test_ends_during_a_pause_add_no_time(tmp_path):
    tree = Tree().child(2, "fork", 20, 5).reaped(2, 0, 8, 0, 60, 30).ends(2, "END_QUICK", 8, 60, 30)
    tree.reaped(1, 20, 9, 0, 61, 44)
    with patch.object(Conversion, "_has_paused", return_value=True):
        assert tree.all(tmp_path)["cpu"] == []


def test_impossible_waits_are_harmless(tmp_path):
    tree, huge = Tree().child(2, "fork", 20, 5), 2**63 - 1
    for values in ((huge, huge), (-huge, 5), (5, -huge), (huge, 0)):
        tree.reaped(1, 20, 9, 2**32 - 1, *values).reaped(2, 20, huge - START_MONO_NS, 77, *values)
        tree.reaped(2**31 - 1, -5, -START_MONO_NS, 1 << 31, *values).reaped(2, 0, 9, 0, *values)
    tree.ends(2, "END_QUICK", 8, huge, huge)
    assert tree.processes(tmp_path, RootEnd(10, 0, False, 5, 5))[2]["exit_status"] in range(256)
