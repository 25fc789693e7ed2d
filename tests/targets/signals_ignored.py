"""Ignores every signal, works, sends itself each of them, and lives."""

import signal

from signals_common import CATCHABLE, burn, facts, handlers, send, tell

for number in CATCHABLE:
    signal.signal(number, signal.SIG_IGN)
burn()
for number in CATCHABLE:
    send(number)
facts["after"] = handlers()
tell()
