"""A recording that is paused, changed, marked and queried while its program runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.recorder.option_values import duration_ns
from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    analyze,
    figure,
    line_of,
    lines_of,
    losses,
    record,
    report,
    rows,
    run,
    target,
    tool,
)
from tests.support.steered_recording import Steered, control, steered

FILE = target("steered")


def function(found: Json, name: str) -> Json:
    """The row of a function of the program; zeros where it has none."""
    named = [row for row in found["functions"] if (row["file"], row["function"]) == (str(FILE), name)]
    return named[0] if named else {"cpu_s": 0.0, "ticks": 0}


def cpu_s(found: Json, name: str) -> float:
    return float(function(found, name)["cpu_s"])


def settings(trace: Path) -> dict[str, str]:
    check_trace(trace)
    return {row["name"]: row["value"] for row in rows(trace, "setting")}


@pytest.mark.measures
@pytest.mark.parametrize("engine", ["auto", "posix"])
def test_cpu_time_of_a_pause_is_not_recorded_and_what_is_around_it_is(
    engine: str, python: Interpreter, tmp_path: Path
) -> None:
    with steered(tmp_path / "t.parquet", python, "--cpu-engine", engine) as live:
        live.tell("work")
        live.control("pause")
        paused_s = live.tell("paused")["cpu_s"]
        live.control("resume")
        live.tell("work")
        assert live.quit() == 0
    found = report(live.trace)
    assert paused_s >= 0.5
    assert cpu_s(found, "paused") <= 0.03, "ticks of the pause"
    figure("CPU time around a pause", python, 100 * (cpu_s(found, "work") / 1.0 - 1), 8, "percent")
    assert cpu_s(found, "work") == pytest.approx(1.0, abs=0.08)
    (thread,) = rows(live.trace, "thread")
    (process,) = rows(live.trace, "process")
    assert thread["cpu_ns"] == pytest.approx(process["user_ns"] + process["system_ns"] - paused_s * 1e9, abs=60e6)
    (pause,) = rows(live.trace, "mark")
    assert pause["what"] == "pause" and pause["end_ns"] - pause["t_ns"] >= 0.5e9
    assert losses(found)["paused"] == 1


@pytest.mark.measures
def test_waits_of_a_pause_are_not_recorded(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python) as live:
        time.sleep(0.4)
        live.control("pause")
        time.sleep(0.8)
        live.control("resume")
        time.sleep(0.4)
        assert live.quit() == 0
    (pause,), (thread,) = rows(live.trace, "mark"), rows(live.trace, "thread")
    watched_ns = thread["end_ns"] - thread["t_ns"] - (pause["end_ns"] - pause["t_ns"]) - thread["cpu_ns"]
    assert pause["end_ns"] - pause["t_ns"] >= 0.8e9
    assert report(live.trace)["totals"]["wait_s"] == pytest.approx(watched_ns / 1e9, abs=0.08)


def test_the_windows_of_a_cycle_have_their_waits(tmp_path: Path) -> None:
    """The watcher sleeps in pauses for a second, unless it is told that one has ended."""
    done = record(tmp_path / "t.parquet", ["-c", "import time; time.sleep(3)"], options=["--sample", "100ms/500ms"])
    found = report(done.trace)
    paused_s = sum((row["end_ns"] or 3e9) - row["t_ns"] for row in rows(done.trace, "mark")) / 1e9
    recorded_s = found["traces"][0]["wall_s"] - paused_s
    assert 0.5 * recorded_s <= found["totals"]["wait_s"] <= 1.1 * recorded_s + 0.1


def test_the_footprint_is_right_after_a_pause(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python) as live:
        live.tell("hold")
        live.control("pause")
        live.tell("keep", "drop")
        live.control("resume")
        live.tell("extra")
        assert live.quit() == 0
    found = lines_of(report(live.trace), FILE)
    samples = {}
    for mark, size in (("hold", 30_000_000), ("extra", 20_000_000)):
        net = found[line_of("steered", mark)]["growth_bytes"]
        assert net == pytest.approx(size, abs=10_000), mark
        (samples[mark],) = [row for row in rows(live.trace, "memory") if row["net_bytes"] == net]
    grown = samples["extra"]["footprint_bytes"] - samples["hold"]["footprint_bytes"]
    assert grown == pytest.approx(50_000_000 - 30_000_000 + 20_000_000, abs=500_000)
    kept = found.get(line_of("steered", "keep"), {})  # on a busy machine, a look that began before the pause ends in it
    moved = {name: kept.get(name) for name in ("growth_bytes", "alloc_bytes", "copy_bytes", "ticks") if kept.get(name)}
    assert moved == {}, "what grew in the pause belongs to no line"
    between = [
        row["net_bytes"]
        for row in rows(live.trace, "memory")
        if samples["hold"]["t_ns"] < row["t_ns"] <= samples["extra"]["t_ns"] and row != samples["extra"]
    ]
    # What a thread had moved that was held up while the pause ended is a sample of its own: here, of nothing that stayed.
    (of_pause,) = [each for each in between if abs(each) > 500_000]
    assert of_pause == pytest.approx(20_000_000, abs=500_000) and sum(between) == pytest.approx(20_000_000, abs=500_000)


def test_a_sampled_block_that_is_freed_in_a_pause_is_not_alive(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python) as live:
        live.tell("hold")
        live.control("pause")
        live.tell("drop")
        live.control("resume")
        assert live.quit() == 0
    (block,) = [row for row in rows(live.trace, "alloc") if row["size_bytes"] >= 30_000_000]
    assert block["lifetime_ns"] is not None and not block["at_exit"]


def test_all_intervals_can_be_set(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python, "--cpu-interval", "50ms", "--alloc-interval", "0") as live:
        live.tell("work")
        said = live.control("set", "cpu-interval=1ms", "alloc-interval=1MB", "memory-threshold=1MB").stdout.decode()
        assert "cpu-interval 1ms" in said and "alloc-interval 1000000" in said
        set_ns = live.tell("paused")["at_ns"]
        live.tell("hold", "extra")
        assert live.quit() == 0
    assert set_ns
    found = report(live.trace)
    ticks = {mark: function(found, mark)["ticks"] for mark in ("work", "paused")}
    assert ticks["paused"] > ticks["work"], "0.5 s of CPU time each: 500 ticks (125 of a timer of the system) and 10"
    # Blocks of at least the threshold are always recorded, once there is an interval.
    blocks = [row["size_bytes"] for row in rows(live.trace, "alloc") if row["interval_bytes"] == 1]
    assert sum(size >= 20_000_000 for size in blocks) == 2
    assert [(row["what"], row["text"]) for row in rows(live.trace, "mark")] == [
        ("set", "cpu-interval=1ms"),
        ("set", "alloc-interval=1MB"),
        ("set", "memory-threshold=1MB"),
    ]
    kept = settings(live.trace)
    assert (kept["cpu_interval_ns"], kept["alloc_interval"]) == ("50000000", "0"), "what was in force first"


@pytest.mark.measures
def test_an_interval_that_shrinks_is_not_a_loss(python: Interpreter, tmp_path: Path) -> None:
    """What counts as silence follows the interval: 0.5 s without a tick is none where one a second is asked for."""
    with steered(tmp_path / "t.parquet", python, "--cpu-interval", "1s") as live:
        for _ in range(3):
            live.tell("work")
            live.control("set", "cpu-interval=1ms")
            live.tell("paused")
            live.control("set", "cpu-interval=1s")
        assert live.quit() == 0
    found = report(live.trace)
    assert not {"perf_silent", "perf_closed"} & losses(found).keys()
    assert function(found, "paused")["ticks"] > 700


@pytest.mark.measures
def test_threads_that_live_in_a_pause_are_nowhere(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python) as live:
        live.tell("work")
        live.control("pause")
        live.tell("threads")
        live.control("resume")
        live.tell("work")
        assert live.quit() == 0
    found = report(live.trace)
    assert cpu_s(found, "short") <= 0.02
    assert cpu_s(found, "work") == pytest.approx(1.0, abs=0.08)
    assert found["totals"]["cpu_s"] == pytest.approx(1.08, abs=0.12)
    assert sum(row["cpu_ns"] for row in rows(live.trace, "thread")) == pytest.approx(1.08e9, abs=0.12e9)


def test_copies_stand_still_and_their_threshold_can_be_set(any_python: Interpreter, tmp_path: Path) -> None:
    def copied() -> int:
        live.control("snapshot")
        return sum(row["bytes"] for row in rows(live.trace, "copy"))

    with steered(tmp_path / "t.parquet", any_python) as live:
        live.tell("copy")
        first = copied()
        live.control("pause")
        live.tell("copy")
        assert copied() - first <= 32_000_000, "at most what was copied before and not yet told"
        live.control("resume")
        live.control("set", "copy-threshold=300KB")
        before = copied()
        live.tell("copy")
        assert copied() - before == pytest.approx(200_000_000, abs=32_000_000)
        assert live.quit() == 0
    sizes = [row["bytes"] for row in rows(live.trace, "copy")]
    assert sum(1_000_000 <= size < 1_100_000 for size in sizes) >= 150, "each copy a sample of its own"


@pytest.mark.measures
def test_a_pause_takes_the_cost_away(any_python: Interpreter, tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "for word in sys.stdin:\n"
        "    turns, end = 0, time.thread_time() + 0.5\n"
        "    while time.thread_time() < end: sum(range(100)); turns += 1\n"
        "    print(turns, flush=True)\n"
    )
    with steered(tmp_path / "t.parquet", any_python, "--cpu-interval", "20us", program=["-c", code]) as live:

        def turns() -> int:
            assert live.process.stdin is not None and live.process.stdout is not None
            live.process.stdin.write(b"go\n")
            live.process.stdin.flush()
            return int(live.process.stdout.readline())

        recorded = turns()
        live.control("pause")
        paused = turns()
        live.control("resume")
        again = turns()
        live.process.communicate(timeout=PATIENCE_S)
    figure("turns in a pause over turns recorded at 20 us", any_python, paused / recorded, 1.5, "times")
    assert paused > 1.5 * recorded and paused > 1.5 * again


def test_a_program_that_stays_paused_has_a_sensible_trace(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python, "--pause-at-start") as live:
        live.tell("work", "hold")
        assert live.quit() == 0
    found = report(live.trace)
    assert found["totals"]["cpu_s"] < 0.5, "not what was worked in the pause"
    assert rows(live.trace, "cpu") == [] and rows(live.trace, "alloc") == [] and rows(live.trace, "memory") == []
    (process,) = rows(live.trace, "process")
    assert 0 < process["end_footprint_bytes"] < 3_000_000, "what came and went in the pause was counted"
    assert process["exit_status"] == 0
    (pause,) = rows(live.trace, "mark")
    assert (pause["what"], pause["t_ns"], pause["end_ns"]) == ("pause", 0, None)
    for command in ("report", "functions", "leaks", "memory", "timeline", "info"):
        assert analyze(command, live.trace).status == 0


def test_a_recording_paused_at_start_begins_when_it_is_resumed(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python, "--pause-at-start") as live:
        live.tell("paused", "keep")
        live.control("resume")
        live.tell("work", "hold")
        assert live.quit() == 0
    found = report(live.trace)
    assert cpu_s(found, "paused") == 0
    assert cpu_s(found, "work") > 0
    assert lines_of(found, FILE)[line_of("steered", "hold")]["growth_bytes"] == pytest.approx(30_000_000, abs=10_000)
    assert found["totals"]["peak_bytes"] >= 80_000_000


def test_a_snapshot_is_the_later_trace_up_to_its_moment(any_python: Interpreter, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.parquet"
    with steered(tmp_path / "t.parquet", any_python, "--cpu-interval", "1ms", "--alloc-interval", "64KB") as live:
        assert live.process.stdin is not None
        live.tell("work", "hold")
        live.process.stdin.write(b"work\nkeep\nwork\n")
        live.process.stdin.flush()
        said = live.control("snapshot").stdout.decode()
        live.trace.rename(snapshot)
        assert live.process.stdout is not None
        for _ in range(3):
            live.process.stdout.readline()
        assert live.quit() == 0
    kept = settings(snapshot)
    wall_ns = int(kept["wall_ns"])
    assert kept["ended_by"] == "snapshot" and "exit_status" not in kept
    assert settings(live.trace)["ended_by"] == "program"
    assert f"{sum(len(rows(snapshot, kind)) for kind in ('cpu', 'wait', 'memory', 'alloc', 'copy')):,} events" in said
    for kind, columns in {"cpu": ("t_ns", "pc_offset", "user_ns"), "memory": ("t_ns", "net_bytes")}.items():
        early, late = (
            [tuple(row[name] for name in columns) for row in rows(trace, kind) if row["t_ns"] <= wall_ns]
            for trace in (snapshot, live.trace)
        )
        assert early == late and len(early) == len(rows(snapshot, kind)) > 0, kind
    ends = [(row["t_ns"], row["size_bytes"], row["lifetime_ns"]) for row in rows(live.trace, "alloc")]
    expected = [
        (t_ns, size, life if life is not None and t_ns + life <= wall_ns else None)
        for t_ns, size, life in ends
        if t_ns <= wall_ns
    ]
    found = [(row["t_ns"], row["size_bytes"], row["lifetime_ns"]) for row in rows(snapshot, "alloc")]
    # A longer recording is converted in batches, and an allocation without an end is written with a later batch.
    assert Counter(found) == Counter(expected)
    (process,) = rows(snapshot, "process")
    assert process["end_ns"] is None and process["exit_status"] is None
    assert check_trace(snapshot).trace_id == check_trace(live.trace).trace_id


def wait_until(is_so: Callable[[], bool]) -> None:
    """Returns when something has become true; fails after two minutes."""
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_for_file(path: Path) -> None:
    wait_until(path.exists)


def test_snapshots_replace_each_other_and_an_earlier_trace_is_kept_once(
    any_python: Interpreter, tmp_path: Path
) -> None:
    trace = tmp_path / "t.parquet"
    assert record(trace, ["-c", "pass"], any_python).status == 0
    earlier = check_trace(trace).trace_id
    with steered(trace, any_python, "--snapshot-every", "200ms") as live:
        wait_for_file(tmp_path / "t.old.parquet")
        first = int(settings(trace)["wall_ns"])
        wait_until(lambda: int(settings(trace)["wall_ns"]) > first)
        assert live.quit() == 0
    assert check_trace(tmp_path / "t.old.parquet").trace_id == earlier
    assert settings(trace)["ended_by"] == "program"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.old.parquet", "t.parquet"]


def test_a_killed_recorder_leaves_its_last_snapshot_and_a_folder_to_recover(
    any_python: Interpreter, tmp_path: Path
) -> None:
    with steered(tmp_path / "t.parquet", any_python, "--snapshot-every", "200ms") as live:
        live.tell("work")
        wait_for_file(live.trace)
        live.process.kill()
        live.process.wait(timeout=PATIENCE_S)
        last = settings(live.trace)
        assert last["ended_by"] == "snapshot" and report(live.trace)["totals"]["cpu_s"] >= 0
        gone = control(live.trace, "status")
        assert gone.status == 125 and b"--recover" in gone.stderr and b"Traceback" not in gone.stderr
        live.tell("work")
        assert live.process.stdin is not None
        live.process.stdin.write(b"quit\n")
        live.process.stdin.flush()
        folder = tmp_path / "t.parquet.spool"
        assert (folder / "control").is_socket()
        done = run([*tool("scalene-record"), "--recover", folder])
        assert done.status == 0, done.stderr.decode()
    assert settings(live.trace)["ended_by"] == "recovery"
    assert not (tmp_path / "t.old.parquet").exists(), "the snapshot was of this very recording"


def test_after_the_duration_the_program_runs_on_and_its_status_is_passed_on(
    python: Interpreter, tmp_path: Path
) -> None:
    code = tmp_path / "app.py"
    code.write_text(
        "import sys, time\n"
        "def burn(s):\n    end = time.thread_time() + s\n    while time.thread_time() < end: sum(range(500))\n"
        "burn(0.3)\nprint('one', flush=True)\nsys.stdin.readline()\nburn(0.6)\nprint('two', flush=True)\nsys.exit(7)\n"
    )
    with steered(tmp_path / "t.parquet", python, "--duration", "2s", program=[code]) as live:
        assert live.process.stdout is not None
        assert live.process.stdout.readline() == b"one\n"
        wait_for_file(live.trace)
        assert live.process.poll() is None
        before = live.trace.read_bytes()
        assert control(live.trace, "status").status == 125
        output, _ = live.process.communicate(b"go\n", timeout=PATIENCE_S)
        assert output == b"two\n" and live.process.returncode == 7
    assert live.trace.read_bytes() == before
    kept = settings(live.trace)
    assert kept["ended_by"] == "duration" and "exit_status" not in kept
    assert int(kept["wall_ns"]) >= 2e9
    assert report(live.trace)["totals"]["cpu_s"] < 0.9, "not what came after"
    assert rows(live.trace, "process")[0]["end_ns"] is None
    assert not (tmp_path / "t.parquet.spool").exists()


def test_a_program_that_ends_before_the_duration_is_recorded_to_its_end(
    any_python: Interpreter, tmp_path: Path
) -> None:
    done = record(tmp_path / "t.parquet", ["-c", "raise SystemExit(3)"], any_python, ["--duration", "1h"])
    assert done.status == 3
    assert settings(done.trace)["exit_status"] == "3" and settings(done.trace)["ended_by"] == "program"


def test_long_paths_and_pids_in_names_are_found(any_python: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / ("a-folder-with-a-long-name" * 5)
    folder.mkdir()
    with steered(folder / "t.parquet", any_python) as live:
        live.tell("hold")
        assert b"state recording" in live.control("status").stdout
        assert control(folder / "t.parquet.spool", "pause").status == 0
        assert live.quit() == 0
    with steered(tmp_path / "run-%p.parquet", any_python) as live:
        live.tell("hold")
        spool = next(tmp_path.glob("run-*.spool"))
        output = control(spool, "status").stdout.decode().split("output ")[1].split("\n")[0]
        assert control(Path(output), "mark", "found").stdout == b"Marked.\n"
        assert live.quit() == 0
    assert [row["text"] for row in rows(Path(output), "mark")] == ["found"]


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("set", value)
            for value in ("cpu-interval=1y", "cpu-interval=2s", "cpu-interval", "speed=1", "copy-threshold=1")
        ),
        *((word,) for word in ("mark", "set", "stop", "")),
        *(("pause", "now"), ()),
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words: tuple[str, ...], shared: Steered, tmp_path: Path) -> None:
    done = control(shared.trace, *words)
    said = done.stderr.decode()
    assert done.status == 125 and done.stdout == b""
    assert said.startswith("scalene-record: ") and len(said.splitlines()) == 1 and "Traceback" not in said
    assert control(shared.trace, "status").stdout.count(b"cpu-interval 10ms") == 1


@pytest.fixture(scope="module")
def shared(any_python: Interpreter, tmp_path_factory: pytest.TempPathFactory):
    """One recording without memory and copies for tests that change nothing."""
    folder = tmp_path_factory.mktemp("shared")
    with steered(folder / "t.parquet", any_python, "--no-copy", "--no-memory") as live:
        live.tell("hold")
        yield live
        live.quit()


def test_settings_of_a_sampler_that_is_off_cannot_be_changed(shared: Steered) -> None:
    for name, option in (
        ("memory-threshold", "--no-memory"),
        ("alloc-interval", "--no-memory"),
        ("copy-threshold", "--no-copy"),
    ):
        done = control(shared.trace, "set", f"{name}=1MB")
        assert done.status == 125 and option in done.stderr.decode()


def test_no_such_recording_is_said_in_a_sentence(tmp_path: Path) -> None:
    for target_ in (tmp_path / "none.parquet", tmp_path / "no" / "folder.parquet", tmp_path):
        done = control(target_, "pause")
        assert done.status == 125 and done.stderr.startswith(b"scalene-record: No recording to")


def connection(folder: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(folder, os.O_RDONLY)
    made.connect(f"/proc/self/fd/{descriptor}/control")
    os.close(descriptor)
    made.settimeout(120)
    return made


HOSTILE = [
    b"\n",
    b"garbage\n",
    b"[]\n",
    b"null\n",
    b"[" * 60_000 + b"\n",
    b"9" * 60_000 + b"\n",
    b"x" * 200_000,
    b'{"command": ["a"]}\n',
    b'{"command": "set", "values": {"cpu-interval": {"a": 1}}}\n',
    b'{"command": "set", "values": 7}\n',
    b'{"command": "mark", "text": {"deep": [1, 2]}, "t_ns": 1e400, "id": true}\n',
    b'{"command": "end", "id": "x"}\n',
    b"\xff\xfe\x00\n",
]


def test_hostile_words_are_answered_or_dropped_and_nothing_else(shared: Steered) -> None:
    folder = shared.trace.with_name("t.parquet.spool")
    for words in HOSTILE:
        with connection(folder) as client:
            try:
                client.sendall(words)
                client.shutdown(socket.SHUT_WR)
                answer = client.recv(100_000)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            assert answer == b"" or json.loads(answer.splitlines()[0]), words[:40]
    assert b"state recording" in shared.control("status").stdout


def test_thousands_of_connections_and_a_client_that_never_reads_are_survived(shared: Steered) -> None:
    folder = shared.trace.with_name("t.parquet.spool")
    many = []
    for _ in range(500):
        many.append(connection(folder))
    with connection(folder) as deaf:
        deaf.setblocking(False)
        request = b'{"command": "status"}\n' * 1000
        try:
            for _ in range(2000):
                deaf.send(request)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        assert b"state recording" in shared.control("status").stdout
    for _ in range(3000):
        connection(folder).close()
    assert b"state recording" in shared.control("status").stdout
    for each in many:
        each.close()
    assert shared.tell("work")["done"] == "work"
    recorder = Path(f"/proc/{shared.process.pid}/fd")
    assert len(list(recorder.iterdir())) < 100


def test_a_stranger_is_not_served(any_python: Interpreter, tmp_path: Path) -> None:
    from scalene_trace.recorder.control.server import is_trusted

    assert is_trusted(os.geteuid()) and is_trusted(0) and not is_trusted(os.geteuid() + 4711)
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    tmp_path.chmod(0o755)
    with steered(tmp_path / "t.parquet", any_python) as live:
        live.tell("hold")
        code = (
            f"import os, socket; d = os.open({str(tmp_path / 't.parquet.spool')!r}, os.O_RDONLY)\n"
            "s = socket.socket(socket.AF_UNIX)\n"
            "os.chmod(d, 0o777); os.chmod(f'/proc/self/fd/{d}/control', 0o777); os.fchmod(d, 0o777)\n"
            "os.setgid(4711); os.setuid(4711)\n"
            "s.connect(f'/proc/self/fd/{d}/control')\n"
            "try: s.sendall(b'{\"command\": \"pause\"}\\n'); print(s.recv(1000))\nexcept ConnectionError: print(b'')\n"
        )
        done = run([sys.executable, "-c", code])
        assert done.stdout == b"b''\n" or b"PermissionError" in done.stderr, (done.stdout, done.stderr)
        (tmp_path / "t.parquet.spool").chmod(0o700)
        assert b"state recording" in live.control("status").stdout
        assert live.quit() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_during_snapshots_reaches_the_program_and_its_status_is_kept(
    number: signal.Signals, any_python: Interpreter, tmp_path: Path
) -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\nprint(1, flush=True)\nwhile True: sum(range(500))\n"
    options = ("--snapshot-every", "100ms", "--cpu-interval", "100us")
    with steered(tmp_path / "t.parquet", any_python, *options, program=["-c", code]) as live:
        assert live.process.stdout is not None
        live.process.stdout.readline()
        wait_for_file(live.trace)
        asking = subprocess.Popen(
            [*tool("scalene-record"), "--control", str(live.trace), "snapshot"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(0.3)
        if number == signal.SIGINT:
            os.killpg(live.process.pid, number)
        else:
            live.process.send_signal(number)
        live.process.communicate(timeout=PATIENCE_S)
        said = asking.communicate(timeout=PATIENCE_S)
    assert live.process.returncode == 128 + number
    assert asking.returncode in (0, 125) and b"Traceback" not in said[1]
    assert settings(live.trace)["ended_by"] == "program"
    assert not (tmp_path / "t.old.parquet").exists()


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("1.5", 1.5), ("500ms", 0.5), ("10s", 10), ("5min", 300), ("2 h", 7200)]
)
def test_durations_are_written_as_people_do(text: str, seconds: float) -> None:
    assert duration_ns("--duration", text) == seconds * 1e9


@pytest.mark.parametrize("text", ["", "0", "50ms", "x", "10 minutes", "-3", "10001h", "5m"])
def test_other_durations_are_refused_by_the_name_of_their_option(text: str, tmp_path: Path) -> None:
    done = run([*tool("scalene-record"), f"--snapshot-every={text}", "-c", "print(1)"], cwd=tmp_path)
    assert done.status == 125 and done.stdout == b"" and b"--snapshot-every" in done.stderr
