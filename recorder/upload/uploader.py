"""Sends closed traces to a URL while the program runs, in a thread of the recorder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ...formats.errors import FleetUnreachable
from ...formats.fleet.remote import RemoteFleet
from ..rotate.layout import closed_traces
from .place import Destination, unsent_text
from .waiting import give_up, recover_unfinished, send_traces

#: From a failure to the next attempt; it doubles with each failure in a row. The delay is half of that to all of it, by chance:
#: recorders that have lost their bucket at the same time should not come back at the same time.
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 60.0
#: At the end, between two attempts.
_LAST_DELAY_S = 1.0
#: How long the end of the program waits for traces to be sent.
LAST_WAIT_S = 10.0
#: What another recorder was sending, or has left, is looked at so often.
_PERIOD_S = 60.0


class Uploader:
    """Sends the traces that are closed in the folder of ``destination``, where at most ``limit_bytes`` of them wait. ``given_up``:
    how many were removed unsent; ``report`` gets sentences for the user."""

    def __init__(self, destination: Destination, limit_bytes: int, report: Callable[[str], None]) -> None:
        self.given_up = 0
        self._destination, self._limit_bytes, self._report = destination, limit_bytes, report
        self._failures, self._reason, self._has_failed, self._recovers = 0, "", False, False
        self._wake, self._ending, self._removes = threading.Event(), threading.Event(), threading.Lock()
        self._starts = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fleet: RemoteFleet | None = None

    def start(self) -> None:
        """Begins to send. Call it when the converter was imported, and the program was started."""
        with self._starts:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
                with suppress(RuntimeError):  # cannot start a thread: the traces wait for the next recorder
                    self._thread.start()

    def closed(self) -> None:
        """Call when a trace was closed. Lists the traces that wait, and removes those that are beyond the limit."""
        self._keep_limit()
        self._wake.set()

    def finish(self, wait_s: float = LAST_WAIT_S) -> None:
        """Call when the last trace was made. Waits at most ``wait_s`` until all are sent, and reports those that are not."""
        self.start()
        self._ending.set()
        self._wake.set()
        if self._thread and self._thread.ident:
            self._thread.join(wait_s)
        if left := len(closed_traces(self._destination.folder)):
            self._say(unsent_text(self._destination, left, self._reason or self._why_left(wait_s)))

    def _why_left(self, wait_s: float) -> str:
        """Why traces are left where no attempt has failed."""
        if not (self._thread and self._thread.ident):
            return "no thread could be started"
        if not self._thread.is_alive():
            return "another recorder is sending them"
        what = "making those of a recorder that has died" if self._recovers else "sending them"
        return f"{what} takes longer than {wait_s:g} s"

    def _run(self) -> None:
        self._send()  # what makes the traces of others may end this recorder
        self._recovers = True
        recover_unfinished(self._destination.folder, self._say)
        self._recovers = False
        while True:
            self._wake.clear()
            is_last = self._ending.is_set()
            is_done = self._send()
            if is_last and is_done:
                return
            if not is_done:  # the end comes at once
                self._ending.wait(self._delay_s())
                if is_last:
                    time.sleep(_LAST_DELAY_S)
            else:
                self._wake.wait(_PERIOD_S)

    def _send(self) -> bool:
        """Sends what waits; False if an attempt has failed."""
        self._keep_limit()
        try:
            self._fleet = self._fleet or RemoteFleet(self._destination.url)
            send_traces(self._destination.folder, self._fleet)
        except FleetUnreachable as error:
            self._failed(error.detail)
        except OSError as error:
            self._failed((error.strerror or "unknown error").lower())
        except Exception as error:  # a library that cannot be loaded; nothing may end this thread
            self._failed(type(error).__name__)
        else:
            self._failures, self._reason = 0, ""
        return self._failures == 0

    def _failed(self, reason: str) -> None:
        self._failures, self._reason, self._fleet = self._failures + 1, reason, None
        if not self._has_failed:
            self._has_failed = True
            where = f"{self._destination.shown}: {reason}"
            self._say(
                f"A trace cannot be sent to {where}. The recording goes on; traces wait in {self._destination.folder} until "
                "they can be sent."
            )

    def _delay_s(self) -> float:
        longest_s = min(FIRST_DELAY_S * 2 ** (self._failures - 1), LONGEST_DELAY_S)
        return float(longest_s * (1 + os.urandom(1)[0] / 255) / 2)

    def _keep_limit(self) -> None:
        with self._removes:
            before = self.given_up
            self.given_up += give_up(self._destination.folder, self._limit_bytes)
            is_first = self.given_up and not before
        if is_first:
            self._say(
                f"Traces that wait for {self._destination.shown} have more than --spool-limit: the oldest are given up. The "
                "next traces count them (traces_given_up)."
            )

    def _say(self, sentence: str) -> None:
        with suppress(Exception):  # stderr may be closed
            self._report(sentence)
