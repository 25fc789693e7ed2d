"""Threads that load a library, copy through it and unload it again, all at once, with forks in between. argv[1]: the runtime,
then a library for each thread. Prints the bytes by direction, and of device memory."""

import _ctypes
import ctypes
import json
import os
import sys
import threading

TURNS = 150
FORK_EVERY = 50
copy = ctypes.CDLL(sys.argv[1]).cudaMemcpy
libraries = sys.argv[2:]
to, source = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
results = []


def turn(path):
    library = ctypes.CDLL(path)
    library.client_allocate.restype = pointer
    results.append(library.client_copy(to, source, size_t(3), 1))
    results.append(library.client_copy_by_table(to, source, size_t(5), 2))
    results.append(library.client_free(pointer(library.client_allocate(size_t(11)))))
    _ctypes.dlclose(library._handle)


def fork():
    child = os.fork()
    if child == 0:
        copy(to, source, size_t(7), 3)
        os._exit(0)
    os.waitpid(child, 0)


def work(number):
    for each in range(TURNS):
        turn(libraries[number])
        if each % FORK_EVERY == 0:
            fork()


threads = [threading.Thread(target=work, args=(number,)) for number in range(len(libraries))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not any(results)
turns, forks = TURNS * len(threads), TURNS // FORK_EVERY * len(threads)
print(json.dumps({"h2d_bytes": 3 * turns, "d2h_bytes": 5 * turns, "d2d_bytes": 7 * forks, "blocks": 11 * turns}))
