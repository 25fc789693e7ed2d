"""The recorder's end of the control socket."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalene_trace.recorder.api import exchange
from scalene_trace.recorder.control.server import ControlServer, Reply, listen

CLIENTS = 20


def test_what_was_sent_before_the_end_is_served(tmp_path: Path) -> None:
    begun, go_on, served = threading.Event(), threading.Event(), []

    def handle(request: Mapping[str, Any], pid: int, reply: Reply) -> None:
        if not served:
            begun.set()
            go_on.wait()
        served.append(request["number"])
        reply({"ok": True})

    listener = listen(tmp_path)
    assert listener
    server = ControlServer(listener, handle)
    server.start()
    exchange(str(tmp_path), {"number": 0}, 0, wants_answer=False)
    begun.wait()
    for number in range(1, CLIENTS):
        exchange(str(tmp_path), {"number": number}, 0, wants_answer=False)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    go_on.set()
    stopping.join()
    assert sorted(served) == list(range(CLIENTS))
