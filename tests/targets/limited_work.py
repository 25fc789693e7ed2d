"""Does a little of everything, in a process that may lack rights, and reports what came of each: a value, or the error.

The report is JSON, written to the descriptor that WORK_RESULTS names: every other place may be closed.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIMITS = ("AS", "CORE", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK", "SIGPENDING")
CHILD = "echo one; echo two >&2; exit 3"
BIG_FILE = "head -c 200000 /dev/zero >big; echo $?; rm -f big"
NONBLOCKING = os.O_NONBLOCK | os.O_RDONLY


def limits():
    return {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in LIMITS}


def mask():
    before = os.umask(0o22)
    os.umask(before)
    return before


def descriptors():
    """The lowest ones, as ever."""
    found = [os.open("/dev/null", NONBLOCKING) for _ in range(5)]
    for number in found:
        os.close(number)
    return found


def computed():
    """Ticks, allocations and copies."""
    end, kept, total = time.process_time() + 0.03, [], 0
    while time.process_time() < end:
        kept.append(bytes(bytearray(5000)))
        total = (total * 31 + len(kept)) & 0xFFFF
        del kept[:-50]
    return "done"


def in_thread():
    found = []
    threads = [threading.Thread(target=lambda: found.append(computed())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(4 if computed() == "done" else 5)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def child():
    done = subprocess.run(["/bin/sh", "-c", CHILD], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def child_of_libc():
    return os.waitstatus_to_exitcode(os.system("exit 6"))


def spawned():
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def python_child():
    done = subprocess.run([sys.executable, "-c", "print(sum(range(10)))"], capture_output=True, timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def written():
    with open("written", "wb") as file:
        return file.write(bytes(100_000))


def written_by_child():
    done = subprocess.run(["/bin/sh", "-c", BIG_FILE], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def temporary():
    with tempfile.TemporaryFile() as file:
        return file.write(b"x")


def mapped():
    with mmap.mmap(-1, 1 << 20, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        return len(memory)


def large():
    return len(bytearray(50 << 20))


def too_large():
    with mmap.mmap(-1, 2 << 30) as memory:
        return len(memory)


def locked():
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(100_000)
    return libc.mlock(memory, 100_000), ctypes.get_errno()


def signalled():
    found = []
    signal.signal(signal.SIGUSR1, lambda number, frame: found.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    return found == [signal.SIGUSR1]


def queued():
    """A signal of the program's own timer."""
    found = []
    signal.signal(signal.SIGALRM, lambda number, frame: found.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    end = time.monotonic() + 600
    while not found and time.monotonic() < end:
        time.sleep(0.001)
    return len(found)


def place():
    return os.path.basename(os.getcwd()), os.environ.get("HOME"), os.getuid(), os.geteuid(), os.getgroups()


def printed():
    print("words for stdout", flush=True)
    print("words for stderr", file=sys.stderr, flush=True)


STEPS = (
    limits, mask, descriptors, computed, in_thread, forked, child, child_of_libc, spawned, python_child, written,
    written_by_child, temporary, mapped, large, too_large, locked, signalled, queued, place, printed,
)  # fmt: skip


def result_of(step):
    try:
        return step()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        return repr(error)


def main():
    results = {step.__name__: result_of(step) for step in STEPS}
    os.write(int(os.environ["WORK_RESULTS"]), json.dumps(results).encode() + b"\n")


if __name__ == "__main__":
    main()
