"""``--rotate``: many traces of one recording, which add up to what one trace would have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.trace.info import trace_infos
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.recorder.rotate.layout import unfinished
from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, record, rows, run, target, tool

SIZE, COPIED = 50_021, 300_007
OPTIONS = ["--rotate", "1s", "--alloc-interval", "1", "--copy-threshold", "4KB"]
#: Runs the recorder, and kills it at the second call of a function: before it, or after it.
KILLED = """
import os, signal, sys
from importlib import import_module
module, name, when, *sys.argv[1:] = sys.argv[1:]
module = import_module("scalene_trace.recorder." + module)
function, calls = getattr(module, name), []
def killed(*arguments, **more):
    calls.append(name)
    if len(calls) == 2 and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    found = function(*arguments, **more)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
setattr(module, name, killed)
from scalene_trace.cli.record.command import main
main()
"""
#: With the number of traces then.
POINTS = {
    "before the first cut is known": ("run.rotation", "write_state", "before", 1),
    "before the second trace": ("rotate.publish", "write_trace_of", "before", 3),
    "when it is in its place": ("rotate.publish", "write_trace_of", "after", 3),
}


def traces(folder: Path) -> list[Path]:
    """The closed traces, in their order; fails if one is damaged."""
    found = sorted(folder.rglob("*.parquet"))
    for each in found:
        check_trace(each)
    return found


def setting(trace: Path) -> dict[str, str]:
    return {row["name"]: row["value"] for row in rows(trace, "setting")}


def lost(trace: Path) -> set[str]:
    return {row["name"] for row in rows(trace, "loss")}


def hold_truth(found: list[Path], facts: dict[str, dict[str, Any]]) -> None:
    """Holds sums over all traces against what the program says that it did."""
    done = sum(each["done"] for each in facts.values())
    sizes = Counter(row["size_bytes"] for trace in found for row in rows(trace, "alloc"))
    assert sizes[SIZE] + sizes[SIZE + 1] == done
    copied = sum(row["bytes"] for trace in found for row in rows(trace, "copy"))
    assert done * COPIED <= copied < 1.02 * done * COPIED + 4_000_000
    cpu_ns: Counter[str] = Counter()
    for trace in found:
        for row in rows(trace, "thread"):
            cpu_ns[row["python_name"]] += row["cpu_ns"]
    for name, each in facts.items():
        assert 0 <= cpu_ns[name] / 1e9 - each["cpu_s"] < 0.02, name  # what it uses after it has looked


def hold_chain(found: list[Path]) -> None:
    """Each trace begins where the one before ends, and the footprint too."""
    known = [setting(each) for each in found]
    ids = [check_trace(each).trace_id for each in found]
    assert [each.get("follows") for each in known] == [None, *ids[:-1]]
    assert ["rotated" in lost(each) for each in found] == [False] + [True] * (len(found) - 1)
    for before, after in pairwise(found):
        told = [row for kind in ("heap", "memory") for row in rows(before, kind)]
        last = max(told, key=lambda row: row["t_ns"])
        begun = [row for kind in ("heap", "memory") for row in rows(after, kind) if row["t_ns"] == 0]
        assert last["footprint_bytes"] in {row["footprint_bytes"] for row in begun}


def test_rotated_traces_add_up(any_python: Interpreter, tmp_path: Path) -> None:
    program = ["--label", "service=a b", "--label=version=1/2", target("steady_work"), "2.5"]
    done = record(tmp_path, program, any_python, OPTIONS)
    assert done.status == 0, done.stderr.decode()
    found = traces(tmp_path)
    length_s = sum(int(setting(each)["wall_ns"]) for each in found) / 1e9
    assert (
        2 <= len(found) <= 1 + length_s
    )  # on a busy machine, the program takes longer, and a cut waits for the trace before
    for each in found:
        label, version, day, name = each.relative_to(tmp_path).parts
        assert (label, version) == ("service=a%20b", "version=1%2F2")
        assert day == f"date={setting(each)['started_at'][:10]}" and name.count("-") >= 2
    assert [each.name for each in tmp_path.iterdir()] == ["service=a%20b"]
    hold_truth(found, done.facts)
    hold_chain(found)
    assert [setting(each)["ended_by"] for each in found] == ["rotation"] * (len(found) - 1) + ["program"]
    assert [setting(each).get("exit_status") for each in found] == [None] * (len(found) - 1) + ["0"]
    assert [row["name"] for each in found for row in rows(each, "loss") if row["severity"] != "info"] == []
    starts = [datetime.fromisoformat(setting(each)["started_at"]).timestamp() for each in found]
    lengths = [int(setting(each)["wall_ns"]) / 1e9 for each in found]
    assert [b - a for a, b in pairwise(starts)] == pytest.approx(lengths[:-1], abs=0.01)


def test_a_sampled_recording_says_in_each_trace_how_much_of_it_was_recorded(tmp_path: Path) -> None:
    options = ["--rotate", "1s", "--sample", "200ms/500ms"]
    done = record(tmp_path, [target("steady_work"), "4"], options=options)
    assert done.status == 0, done.stderr.decode()
    with open_traces(traces(tmp_path)) as opened:
        infos = trace_infos(opened)
    assert {setting(Path(each.path))["sample"] for each in infos} == {"200ms/500ms"}
    texts = {row["text"] for each in infos for row in rows(Path(each.path), "mark")}
    assert texts == {"sample 200ms/500ms"}
    assert not any("never_resumed" in lost(Path(each.path)) for each in infos)
    length_s, recorded_s = (sum(getattr(each, name) or 0.0 for each in infos) for name in ("wall_s", "recorded_s"))
    assert 0.2 < recorded_s / length_s < 0.6  # at least eight windows, of two fifths of the time
    cpu_s = sum(row["cpu_ns"] for each in infos for row in rows(Path(each.path), "thread")) / 1e9
    used_s = sum(each["cpu_s"] for each in done.facts.values())
    assert cpu_s < 0.8 * used_s


def test_processes_of_earlier_traces_do_not_run_on_in_the_last(any_python: Interpreter, tmp_path: Path) -> None:
    """Their ids are higher than all in the last trace."""
    code = (
        "import subprocess, sys, time\n"
        "for _ in range(3): subprocess.run([sys.executable, '-c', 'pass'])\n"
        "begun = time.time()\n"
        "while time.time() - begun < 3: sum(range(1000))\n"
    )
    done = record(tmp_path, ["-c", code], any_python, ["--rotate", "1s"])
    assert done.status == 0, done.stderr.decode()
    assert len(found := traces(tmp_path)) > 2
    assert not [row["name"] for each in found for row in rows(each, "loss") if row["name"] == "processes_running"]


def test_a_killed_recorder_loses_and_doubles_nothing(tmp_path: Path) -> None:
    running: dict[str, subprocess.Popen[bytes]] = {}
    for number, (what, point) in enumerate(POINTS.items()):
        (folder := tmp_path / str(number)).mkdir()
        command = [sys.executable, "-c", KILLED, *point[:3], "-o", folder, *OPTIONS]
        with (tmp_path / f"{number}.out").open("wb") as out:
            words = [*map(str, command), "--python", sys.executable, str(target("steady_work")), "orphaned"]
            running[what] = subprocess.Popen(words, stdout=out, env=environment(None), start_new_session=True)
    for number, (what, process) in enumerate(running.items()):
        assert process.wait(PATIENCE_S) == -9, what
        until = time.monotonic() + PATIENCE_S
        while not (text := (tmp_path / f"{number}.out").read_text()).endswith("\n") and time.monotonic() < until:
            time.sleep(0.05)
        folder = tmp_path / str(number)
        (spool,) = folder.glob("*.spool")
        assert unfinished(folder) == [spool]
        recovered = run([*tool("scalene-record"), "--recover", spool])
        assert recovered.status == 0, (what, recovered.stderr.decode())
        assert not spool.exists(), what
        found = traces(folder)
        assert len(found) == POINTS[what][3], what
        hold_truth(found, json.loads(text))
        hold_chain(found)


def test_links_in_a_folder_that_is_recovered_are_not_followed(tmp_path: Path) -> None:
    """A stranger's folder: its files that recovery writes are links to the user's own."""
    command = [
        *tool("scalene-record"),
        "-o",
        tmp_path,
        *OPTIONS,
        "--python",
        sys.executable,
        "-c",
        "import sys; sys.stdin.read()",
    ]
    process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, env=environment(None))
    until = time.monotonic() + PATIENCE_S
    while not (found := [*tmp_path.glob("*.spool/carry00002.json")]) and time.monotonic() < until:
        time.sleep(0.02)
    folder = found[0].parent
    assert unfinished(tmp_path) == []
    process.kill()
    process.communicate()
    state = json.loads((folder / "rotation.json").read_text())
    if state["closed"] is None:  # its trace was made before the kill: what is open is said to be closed
        state["closed"], state["open"] = state["open"], state["open"] | {"number": 3, "trace_id": "ab" * 16}
        (folder / "cut00002").write_bytes(b"")
        (folder / "rotation.json").write_text(json.dumps(state))
    number = state["open"]["number"]
    (own := tmp_path / "own").mkdir()
    for name in ("spool", "rss", "marks", "victim"):
        (own / name).write_text("mine")
    shutil.rmtree(folder / "segment", ignore_errors=True)
    (folder / "segment").symlink_to(own)
    for name in (f"carry{number:05}", f"carry{number:05}.json", "rotation.json.new"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(own / "victim")
    recovered = run([*tool("scalene-record"), "--recover", folder])
    assert recovered.status == 0, recovered.stderr.decode()
    assert {each.name: each.read_text() for each in own.iterdir()} == dict.fromkeys(
        ("spool", "rss", "marks", "victim"), "mine"
    )
    assert not folder.exists()
