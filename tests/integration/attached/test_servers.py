"""Servers that are attached to under load: no request fails, and workers that are restarted are followed."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from tests.support.gunicorn_load import WORKERS, clients, free_port, gunicorn, serving
from tests.support.interpreters import Interpreter, interpreters
from tests.support.observed_program import attached
from tests.support.recording import line_of, lines_of, losses, report, rows, target
from tests.support.target_environments import environment_python

#: The environments with servers.
SERVERS = [Interpreter(environment_python(each, "servers"), each.version) for each in interpreters()]


@pytest.mark.parametrize("server", [SERVERS[0], SERVERS[-1]], ids=lambda each: each.name)
def test_gunicorn_is_followed_through_a_reload_and_fails_no_request(server: Interpreter, tmp_path: Path) -> None:
    trace, port = tmp_path / "t.parquet", free_port()
    with serving([server.path, *gunicorn(port)], port) as master:
        before = clients(port, 20)
        with attached(trace, master.pid, "--cpu-interval", "1ms") as recorder:
            during = [clients(port, 300)]
            threading.Timer(0.1, lambda: master.send_signal(signal.SIGHUP)).start()
            while before.answered.keys() & during[-1].answered.keys() and len(during) < 60:
                during.append(clients(port, 60))
                time.sleep(0.1)
            done = recorder.stop()
        after = clients(port, 20)
    assert done.status == 0 and master.returncode == 0
    assert [each for load in (before, *during, after) for each in load.failures] == []
    seen = {pid for load in during for pid in load.answered}
    processes = {row["pid"]: row for row in rows(trace, "process")}
    assert seen <= processes.keys() and len(processes) >= 1 + 2 * WORKERS
    assert processes[master.pid]["cause"] == "root"
    assert {processes[pid]["cause"] for pid in seen} == {"fork"}
    found = report(trace)
    assert lines_of(found, target("web"))[line_of("web", "compute")]["cpu_s"] > 0
    assert set(losses(found)) <= {"attached_lost", "attached_unseen", "torn_stack", "waits_rare"}
