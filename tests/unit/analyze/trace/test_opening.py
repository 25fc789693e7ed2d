"""Failures while traces are opened and queried: which one is damaged, what stays behind, and what is no damage."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from scalene_trace.analyze.trace import queries, traces
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.cli.analyze import command
from scalene_trace.formats.errors import TraceDamaged
from tests.support.trace_builder import TraceBuilder


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three traces, of which the second has bytes that cannot be read; its checksum is not looked at."""
    paths = []
    for name in "abc":
        builder = TraceBuilder()
        thread = builder.thread(process := builder.process(), cpu_ns=25_000_000)
        for index in range(2000):
            builder.tick(index, process, thread, builder.stack((f"{name}.py", "f", 1, index + 1)))
        paths.append(builder.write(tmp_path / f"{name}.parquet"))
    data = bytearray(paths[1].read_bytes())
    data[200 : len(data) // 2] = bytes(len(data) // 2 - 200)
    header = traces.check_trace(paths[1])
    paths[1].write_bytes(data)
    monkeypatch.setattr(traces, "check_trace", lambda path: header)
    return paths


def test_the_damaged_one_of_several_traces_is_named(three: list[Path]) -> None:
    with pytest.raises(TraceDamaged) as caught, open_traces(three) as opened:
        opened.connection.execute("SELECT * FROM cpu_ticks").fetchall()
    assert caught.value.path == three[1]


def test_a_failure_to_open_leaves_no_connection_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = TraceBuilder().write(tmp_path / "t.parquet")
    made: list[Any] = []
    folders: list[Path] = []
    connect = traces._connect

    def watched(files: Any, temporary: Path, is_sealed: bool) -> Any:
        folders.append(temporary)
        made.append(connect(files, temporary, is_sealed))
        return made[-1]

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(traces, "_connect", watched)
    monkeypatch.setattr(traces, "_lock", fail)
    with pytest.raises(KeyboardInterrupt):
        open_traces([path])
    with pytest.raises(duckdb.ConnectionException, match="closed"):
        made[0].execute("SELECT 1")
    assert len(made) == 1 and not folders[0].exists()


def test_a_statement_of_ours_that_cannot_be_bound_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = TraceBuilder().write(tmp_path / "t.parquet")
    with pytest.raises(duckdb.BinderException), open_traces([path]) as opened:
        opened.connection.execute("SELECT no_such_column FROM cpu_ticks")
    body = queries.body
    monkeypatch.setattr(queries, "body", lambda name: "SELECT 1 AS x WHERE y" if name == "thread_list" else body(name))
    assert command.run(["threads", str(path)]) == command.EXIT_BUG
    assert "damaged" not in capsys.readouterr().err


def test_an_interrupted_statement_is_no_damage_and_no_bug(three: list[Path]) -> None:
    long = "SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3"
    interrupt = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), open_traces(three[:1]) as opened:
        interrupt.start()
        opened.connection.execute(long)
    assert not opened.temporary.exists()
