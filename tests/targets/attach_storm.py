"""Threads that allocate, raise, load and list libraries, and fork until standard input says "quit". Each round of a thread has a
checksum; it prints one line for each different set of checksums that there was, which must be one, and how many rounds."""

import ctypes
import hashlib
import json
import os
import select
import threading
import time

SEEN, ROUNDS, STOP, LISTING = set(), [0] * 5, threading.Event(), threading.Lock()


def work(seed):
    """A fixed amount of work with temporaries of many sizes, exceptions and generators."""
    digest, kept = hashlib.sha256(), {}
    for number in range(60):
        data = [bytes([seed, number]) * size for size in (1, 20, 300, 5_000, 70_000)]
        kept[number % 7] = data
        try:
            raise KeyError(number)
        except KeyError as error:
            digest.update(repr(error).encode())
        digest.update(b"".join(each[:50] for each in data) + str(sum(i * i for i in range(200))).encode())
        text = json.dumps({str(i): [i] * 3 for i in range(50)})
        digest.update(text.encode())
        big = bytearray(3_000_000)
        big[number] = seed
        digest.update(bytes(big[:100]))
        "".join(reversed(text)).encode("utf-16")
    return digest.hexdigest()


def forever(seed):
    while not STOP.is_set():
        SEEN.add(f"{seed}:{work(seed)}")
        ROUNDS[seed] += 1
        time.sleep(0.001)


def load():
    """A library that is loaded and unloaded."""
    with LISTING:  # ctypes loads with the GIL, and a thread that lists waits for the GIL
        return load_now()


def load_now():
    handle = ctypes.CDLL("libm.so.6")
    handle.cos.restype = ctypes.c_double
    other = ctypes.CDLL("libutil.so.1")
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(other._handle))
    return handle.cos(ctypes.c_double(0.0))


def children():
    while not STOP.is_set():
        with LISTING:  # a child would never get the loader's lock of a thread that lists
            child = os.fork()
        if not child:
            data = [bytes(3000) for _ in range(300)]
            ctypes.CDLL("libutil.so.1")  # waits for the loader's locks
            os._exit(len(data) // 100)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        SEEN.add(f"child:{status}:{load()}")
        short = threading.Thread(target=lambda: SEEN.add(f"short:{len([bytes(200) for _ in range(2000)])}"))
        short.start()
        short.join()
        ROUNDS[4] += 1
        time.sleep(0.02)


def images():
    """Callbacks that hold the loader's lock and need the GIL."""
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    def visit(*_):
        seen.append(bytes(2000))
        return 0

    iterate = ctypes.CDLL(None).dl_iterate_phdr
    while not STOP.is_set():
        with LISTING:
            iterate(visit, None)
        SEEN.add(f"images:{len(seen) > 3}")
        ROUNDS[3] += 1
        seen.clear()
        time.sleep(0.005)


def said():
    return " ".join(sorted(SEEN))


if __name__ == "__main__":
    threads = [threading.Thread(target=forever, args=(seed,)) for seed in range(3)] + [
        threading.Thread(target=children),
        threading.Thread(target=images),
    ]
    for each in threads:
        each.start()
    while not all(ROUNDS):
        time.sleep(0.01)
    print(said(), flush=True)
    while not select.select([0], [], [], 0.01)[0]:
        pass
    STOP.set()
    for each in threads:
        each.join()
    print(said())
    print(f"rounds {ROUNDS}")
