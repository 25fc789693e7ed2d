"""Blocks every signal in two threads, works in both, and takes what was sent when it unblocks."""

import signal
import threading

from signals_common import REAL_TIME, blocked, burn, facts, pending, send, tell

heard = []


def in_thread():
    facts["inherited"] = blocked()
    facts["thread_pending"] = pending()
    burn()
    facts["unblocked"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGRTMAX - 3])))
    facts["thread_after"] = blocked()


for number in REAL_TIME:
    signal.signal(number, lambda number, frame: heard.append(number))
facts["before"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())))
facts["full"] = blocked()
thread = threading.Thread(target=in_thread)
thread.start()
burn()
thread.join()
facts["quiet"] = [pending(), list(heard)]
for number in REAL_TIME:
    signal.pthread_kill(threading.get_ident(), number)
    signal.pthread_kill(threading.get_ident(), number)
facts["sent"] = [pending(), list(heard)]
facts["one_open"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGRTMAX - 3])))
facts["one_left"] = [pending(), blocked(), sorted(heard)]
signal.pthread_sigmask(signal.SIG_SETMASK, [])
facts["end"] = [pending(), blocked(), sorted(heard)]
send(signal.SIGRTMAX - 3)
facts["handled"] = len(heard)
tell()
