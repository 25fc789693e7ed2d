"""What daemons do to the process that they run in. ``daemon.py WAY [FOLDER]``: WAY names a function below.

Prints what it got from the system: descriptor numbers, outputs of its children.
"""

import os
import subprocess
import sys
import threading
import time

FOLDER = sys.argv[2] if len(sys.argv) > 2 else "/"
NOBODY = 65534


def work(seconds):
    """CPU time, on a line of its own."""
    x, end = 0, time.process_time() + seconds
    while time.process_time() < end:
        x = (x * 31 + sum(len(str(number)) for number in range(200))) & 0xFFFF  # LINE: work


def opened():
    """Numbers of three new descriptors."""
    return [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]


def in_thread(what):
    found = []
    thread = threading.Thread(target=lambda: found.append(what()))
    thread.start()
    thread.join()
    while len(os.listdir("/proc/self/task")) > 1:  # joined, and not quite gone
        time.sleep(0.001)
    return found[0]


def in_fork(what):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        print("child", what(), flush=True)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def closes_all():
    """Again and again, by range and one by one; the numbers that it opens are the lowest ones, as ever."""
    work(0.1)
    os.closerange(3, 70_000)
    print(opened())
    work(0.3)
    print(opened(), in_thread(opened), in_fork(opened))
    for number in range(3, 5000):
        try:
            os.close(number)
        except OSError:
            pass
    work(0.3)
    print(opened(), in_thread(opened), in_fork(opened))
    os.close(0)
    print(opened())
    try:
        os.dup2(1, 1023)
        print(os.open("/dev/null", os.O_RDONLY))
    finally:
        work(0.1)


def moves():
    """Into another folder, which then disappears."""
    os.mkdir(FOLDER + "/here")
    os.chdir(FOLDER + "/here")
    os.rmdir(FOLDER + "/here")
    os.umask(0o777)
    work(0.15)
    print(in_fork(opened), subprocess.run(["/bin/sh", "-c", "echo child"], cwd="/").returncode)
    os.chdir("/")


def children():
    """Children of the kinds that there are; they say what they see on stderr, too."""
    command = ["/bin/sh", "-c", "echo one; echo two >&2"]
    sys.stdout.flush()
    print(subprocess.run(command).returncode, subprocess.run(command, env={"A": "1"}).returncode, flush=True)
    with os.popen("echo opened") as shell:
        print(os.system("echo system"), shell.read(), flush=True)
    print(in_fork(opened), os.waitpid(os.posix_spawn(command[0], command, os.environ), 0)[1])


def drops_rights():
    work(0.15)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    print(opened(), in_thread(opened))
    work(0.15)
    children()


def changes_root():
    """Into a folder that holds a shell and its libraries."""
    work(0.15)
    os.chroot(FOLDER)
    os.chdir("/")
    print(sorted(os.listdir("/")))
    work(0.15)
    children()


globals()[sys.argv[1]]()
