"""Waits for every signal: with time limits while nothing comes, then for each that it sends itself, in two threads."""

import os
import signal
import threading
import time

from signals_common import CATCHABLE, burn, facts, pending, send, tell

EVERY = signal.valid_signals()


def sender(number):
    time.sleep(0.05)
    send(number)


def in_thread():
    facts["thread_waited"] = [int(signal.sigwait(EVERY)) for _ in range(3)]
    burn(0.1)


signal.pthread_sigmask(signal.SIG_BLOCK, EVERY)
facts["nothing"] = [repr(signal.sigtimedwait(EVERY, seconds)) for seconds in (0, 0.05, 0.15)]
burn()
facts["still_nothing"] = repr(signal.sigtimedwait(EVERY, 0.01))
waited = []
for number in CATCHABLE:
    send(number)
    info = signal.sigwaitinfo(EVERY)
    waited.append((info.si_signo, info.si_code, info.si_pid == os.getpid(), info.si_uid == os.getuid()))
facts["waited"] = waited
for number in (signal.SIGUSR1, signal.SIGRTMAX - 3, signal.SIGRTMIN):
    signal.pthread_kill(threading.get_ident(), number)
facts["in_order"] = [int(signal.sigwait(EVERY)) for _ in range(3)]
facts["pending"] = pending()
threads = [threading.Thread(target=sender, args=(signal.SIGRTMAX - 3,))]
threads[0].start()
facts["while_waiting"] = int(signal.sigwait([signal.SIGRTMAX - 3, signal.SIGRTMIN]))
threads.append(threading.Thread(target=in_thread))
threads[1].start()
for number in (signal.SIGRTMAX - 3, signal.SIGUSR2, signal.SIGRTMAX - 3):
    time.sleep(0.2)  # else two may be pending, of which the lower one comes first
    send(number)
for thread in threads:
    thread.join()
tell()
