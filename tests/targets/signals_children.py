"""Children started in every way, by a process that blocks, ignores or handles signals, say what they inherited."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys

from signals_common import REAL_TIME, blocked, burn, facts, handlers, tell

OURS = signal.SIGRTMAX - 3
SAY = [
    sys.executable,
    "-S",
    "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from signals_common import *; "
    "print(json.dumps([blocked(), handlers(), pending()]))",
    os.path.dirname(os.path.abspath(__file__)),
]


def said(**options):
    done = subprocess.run(SAY, stdout=subprocess.PIPE, check=True, **options)
    return json.loads(done.stdout)


def reset_all():
    for number in REAL_TIME:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [OURS])


def spawned(**options):
    reader, writer = os.pipe()
    pid = os.posix_spawn(SAY[0], SAY, {}, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)], **options)
    os.close(writer)
    with open(reader) as file:
        result = json.load(file)
    os.waitpid(pid, 0)
    return result


def forked():
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        burn(0.05)
        os.write(writer, json.dumps([blocked(), handlers()]).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        result = json.load(file)
    return [result, os.waitpid(pid, 0)[1]]


def pooled():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(blocked)


def shelled():
    with os.popen(" ".join(f"'{word}'" for word in SAY)) as file:
        return json.load(file)


def children():
    return {
        "subprocess": said(),
        "no_env": said(env={}),
        "kept": said(restore_signals=False, close_fds=False),
        "preexec": said(preexec_fn=reset_all),
        "spawned": spawned(),
        "forked": forked(),
        "shelled": shelled(),
    }


def main():
    facts["plain"] = said()
    signal.pthread_sigmask(signal.SIG_BLOCK, [OURS, signal.SIGUSR1])
    facts["blocked"] = children()
    facts["masked"] = [spawned(setsigmask=[]), spawned(setsigmask=[OURS])]
    facts["pool"] = pooled()
    signal.signal(OURS, signal.SIG_IGN)
    facts["ignored"] = [children(), spawned(setsigdef=[OURS])]
    signal.signal(OURS, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    facts["handled"] = [said(), spawned(), shelled()]
    facts["own"] = [blocked(), handlers()[OURS]]
    burn()
    tell()


if __name__ == "__main__":
    main()
