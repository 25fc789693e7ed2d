"""Allocates what it is told to on standard input, and answers each word when it is done. It knows nothing of a recorder."""

import ctypes
import hashlib
import json
import os
import select
import signal
import struct
import sys
import threading
import time
import tracemalloc

KEPT = []
OLD = [bytearray(1000) for _ in range(20_000)] + [bytearray(30_000_000)]  # 50 MB from before
WORK = [0]
ALLOW = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 8)
SIGNALS, HOLDERS, SMALL, RELEASED = [], [], [], threading.Event()


def wait():
    """A function of its own: in 3.13, the jump back in a loop is in no `try` around the loop, and signals are handled there."""
    while not select.select([0], [], [], 0.01)[0]:
        pass


def words():
    """The words on standard input. The main thread runs Python code now and then while it waits for them."""
    while True:
        try:
            wait()
        except SignalError:
            SIGNALS[1] += 1
            continue
        yield sys.stdin.readline().strip()


def leak(count, size):
    for _ in range(count):
        KEPT.append(bytes(size))  # LINE: leak


def small(count):
    for number in range(count):
        KEPT.append((number, -number))  # LINE: small


def leak_slowly(seconds):
    """Returns the bytes that were kept, and the seconds that it took."""
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        for _ in range(25):
            KEPT.append(bytes(9_973))  # LINE: slow
        [bytes(50_000) for _ in range(20)]
        count += 25
        time.sleep(0.005)
    return {"bytes": count * 9_973, "seconds": time.monotonic() - began}


def array(size):
    KEPT.append(bytearray(size))  # LINE: array


def churn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        [str(number) for number in range(1000)]
        bytes(100_000)
        WORK[0] += 1
    return WORK[0]


def in_threads(seconds):
    """Threads that allocate and raise, a fork and libraries that are loaded meanwhile; returns a checksum of what they did."""
    sums = []

    def work(seed):
        digest = hashlib.sha256()
        end = time.monotonic() + seconds
        for number in range(200):
            data = [bytes([seed, number % 256]) * 50 for _ in range(100)]
            try:
                raise ValueError(len(data))
            except ValueError as error:
                digest.update(repr(error).encode() + data[-1])
        while time.monotonic() < end:
            [bytes(700) for _ in range(100)]
        sums.append(digest.hexdigest())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    status = fork()
    __import__("decimal"), __import__("sqlite3"), ctypes.CDLL("libm.so.6")
    for each in threads:
        each.join()
    return {"sum": hashlib.sha256("".join(sorted(sums)).encode()).hexdigest(), "status": status}


def fork():
    child = os.fork()
    if not child:
        data = [bytes(5000) for _ in range(2000)]
        os._exit(3 if len(data) == 2000 else 4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class SignalError(Exception):
    """Raised by the handler of a signal."""


def interrupt(*_):
    SIGNALS[0] += 1
    raise SignalError


def interrupted():
    """From now on, a signal arrives soon after a library for recorders is imported. How many have arrived and were caught?"""
    if not SIGNALS:
        SIGNALS.extend((0, 0))
        signal.signal(signal.SIGALRM, interrupt)
        sys.addaudithook(lambda event, got: arrives(got) if event == "import" else None)
    return {"arrived": SIGNALS[0], "caught": SIGNALS[1]}


def arrives(got):
    if got[0] == "scalene_attached":
        signal.setitimer(signal.ITIMER_REAL, 0.0004)


def refuse(event, got):
    if event == "import" and got[0] == "scalene_attached":
        raise RuntimeError("no")


def set_filter():
    """A thread sets a seccomp filter that allows everything, and lives on."""
    done = threading.Event()
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(ALLOW))

    def run():
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, ctypes.c_long(1), ctypes.c_long(0), ctypes.c_long(0), ctypes.c_long(0))
        KEPT.append(libc.prctl(22, ctypes.c_long(2), ctypes.c_char_p(program)))
        done.set()
        RELEASED.wait()

    threading.Thread(target=run, daemon=True).start()
    done.wait()
    return KEPT.pop()


def hold(seconds):
    """A thread holds the loader's lock from now on, and runs Python code meanwhile."""
    started, end = threading.Event(), time.monotonic() + seconds

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    def visit(*_):
        started.set()
        while not RELEASED.wait(0.001) and time.monotonic() < end:
            bytes(3000)
        return 1

    RELEASED.clear()
    HOLDERS.append(threading.Thread(target=lambda: ctypes.CDLL(None).dl_iterate_phdr(visit, None)))
    HOLDERS[-1].start()
    started.wait()


def release():
    RELEASED.set()
    while HOLDERS:
        HOLDERS.pop().join()


def other_calls(seconds):
    """A thread adds calls to the interpreter's queue; how many were added, and how many were made?"""
    made, added, end = [0], 0, time.monotonic() + seconds

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def call(_):
        made[0] += 1
        return 0

    def add():
        nonlocal added
        while time.monotonic() < end:
            added += ctypes.pythonapi.Py_AddPendingCall(call, None) == 0
            time.sleep(0.04)

    thread = threading.Thread(target=add)
    thread.start()
    while thread.is_alive() or (made[0] < added and time.monotonic() < end + 2):
        bytes(3000)
    return {"added": added, "made": made[0]}


def replace_arenas():
    """Arenas are given back, and large blocks lie where they were."""
    SMALL.clear()
    for size in (1_000_000, 1_040_000, 2_000_000, 5_000_000):
        [bytearray(size) for _ in range(10)]


def become_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def change_root():
    KEPT.append(os.open("/", os.O_RDONLY))
    os.chroot("/dev")


def change_root_back():
    os.fchdir(KEPT[-1])
    os.chroot(".")
    os.close(KEPT.pop())


def threads_now():
    """The kernel still has a thread for a moment after it was joined."""
    time.sleep(0.01)
    return len(os.listdir("/proc/self/task"))


def state():
    """What a recorder might leave behind."""
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    return {
        "threads": min(threads_now() for _ in range(5)),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "files": sorted({line.split(None, 5)[5] for line in lines if "/" in line}),
        "shared": sum(" rw-s " in line or " -w-s " in line for line in lines),
        "mappings": len(lines),
        "modules": sorted(name for name in sys.modules if "scalene" in name or name in ("ctypes", "_ctypes")),
        "attributes": [name for name in vars(sys) if "scalene" in name],
        "signals": [line for line in open("/proc/self/status") if line.startswith(("SigCgt", "SigBlk", "Tracer"))],
    }


WORDS = {
    "leak": lambda: leak(2000, 9_973),
    "small": lambda: small(50_000),
    "array": lambda: array(100_000_007),
    "leak slowly": lambda: leak_slowly(1.5),
    "large array": lambda: array(512_000_000),
    "free": OLD.clear,
    "churn": lambda: churn(0.4),
    "churn for long": lambda: churn(1.5),
    "threads": lambda: in_threads(0.6),
    "sleep": lambda: time.sleep(0.8),
    "calls": lambda: other_calls(0.5),
    "fork": fork,
    "filter": set_filter,
    "hold": lambda: hold(1e9),
    "hold for a second": lambda: hold(1),
    "release": release,
    "interrupted": interrupted,
    "nobody": become_nobody,
    "root": change_root,
    "root again": change_root_back,
    "refuse": lambda: sys.addaudithook(refuse),
    "trace": tracemalloc.start,
    "trace no more": tracemalloc.stop,
    "arenas": lambda: SMALL.extend(bytes(400) for _ in range(50_000)),
    "replace arenas": replace_arenas,
    "exec": lambda: os.execv(sys.executable, [sys.executable, __file__, "exec"]),
    "state": state,
    "pid": os.getpid,
}

if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps({"done": sys.argv[1], "said": None}), flush=True)
    for word in words():
        if word == "quit":
            break
        said = WORDS[word]()
        print(json.dumps({"done": word, "said": said if isinstance(said, (int, dict)) else None}), flush=True)
    print("as ever")
    sys.exit(7)
