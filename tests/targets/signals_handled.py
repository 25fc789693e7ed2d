"""Handles every signal, works, then sends itself each of them once, by os.kill, raise_signal and pthread_kill."""

import asyncio
import faulthandler
import signal
import threading
from collections import Counter

from signals_common import CATCHABLE, REAL_TIME, burn, facts, handlers, send, tell

heard = Counter()


def note(number, frame):
    heard[number] += 1


async def by_event_loop():
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in REAL_TIME:
        came.clear()
        loop.add_signal_handler(number, came.set)
        send(number)
        await asyncio.wait_for(came.wait(), 20)
        facts["event_loop"] = facts.get("event_loop", 0) + loop.remove_signal_handler(number)


for signal_number in CATCHABLE:
    signal.signal(signal_number, note)
burn()
facts["unasked"] = sorted(heard.items())
for signal_number in CATCHABLE:
    send(signal_number)
    signal.raise_signal(signal_number)
    signal.pthread_kill(threading.get_ident(), signal_number)
burn(0.1)
facts["heard"] = sorted(heard.items())
facts["handlers"] = handlers()
asyncio.run(by_event_loop())
for signal_number in REAL_TIME:
    signal.siginterrupt(signal_number, False)
with open("/dev/null", "w") as file:
    facts["registered"] = [faulthandler.register(number, file) for number in REAL_TIME]
    for signal_number in REAL_TIME:
        send(signal_number)
    facts["unregistered"] = [faulthandler.unregister(number) for number in REAL_TIME]
facts["at_end"] = handlers()
tell()
