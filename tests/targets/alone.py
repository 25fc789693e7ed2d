"""A program with one thread: what it may do because of that."""

import ctypes
import os
import warnings

warnings.simplefilter("always")

CLONE_NEWUSER = 0x10000000
libc = ctypes.CDLL(None, use_errno=True)

child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
os.setuid(os.getuid())
child = os.fork()
if child == 0:
    failed = libc.unshare(CLONE_NEWUSER)
    os._exit(ctypes.get_errno() if failed else 0)
print("unshare:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("threads:", len(os.listdir("/proc/self/task")))
