"""What only a program of one thread may do, and what it may do once: forks, namespaces, other users."""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_NS = 0x10000000, 0x00020000
NOBODY = 65534


def in_child(what):
    """Runs it in a forked child; prints how that ended."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            print(what.__name__, what())
        except BaseException as error:
            print(what.__name__, repr(error))
        sys.stdout.flush()
        os._exit(9)
    print(what.__name__, "status", os.waitpid(pid, 0)[1])


def unshare_user():
    if hasattr(os, "unshare"):
        return os.unshare(os.CLONE_NEWUSER)
    return libc.unshare(NEW_USER) or None


def unshare_mounts():
    return libc.unshare(NEW_NS), ctypes.get_errno()


def another_user():
    os.setgroups([NOBODY])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return os.getresuid(), os.getresgid(), os.getgroups()


def effective_user():
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    os.seteuid(0)
    return os.getresuid(), os.getresgid()


def pseudo_terminal():
    pid, fd = os.forkpty()
    if pid == 0:
        os._exit(3)
    status = os.waitpid(pid, 0)[1]
    os.close(fd)  # not before: the child has to open its end
    return status


def grandchild():
    in_child(threads)
    return "done"


def threads():
    return [line for line in open("/proc/self/status").read().splitlines() if line.startswith("Threads")]


for each in (threads, unshare_user, unshare_mounts, another_user, effective_user, pseudo_terminal, grandchild):
    in_child(each)
print(sum(len(str(number)) for number in range(300_000)))
for each in (threads, unshare_user, another_user):
    print(each.__name__, each())
