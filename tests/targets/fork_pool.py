"""A pool of three forked workers. Each allocates five blocks, frees two of them, and frees its copy of the parent's."""

import ctypes
import json
import multiprocessing
import os

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
parents = [libc.malloc(800_011) for _ in range(2)]  # LINE: parent


def allocate(pids):
    mine = [libc.malloc(1_200_007) for _ in range(5)]  # LINE: child
    libc.free(mine[0])
    libc.free(mine[3])
    libc.free(parents[0])
    pids.put(os.getpid())


def main():
    context = multiprocessing.get_context("fork")
    pids = context.SimpleQueue()
    pool = context.Pool(3, allocate, [pids])
    children = [pids.get() for _ in range(3)]
    pool.close()
    pool.join()
    libc.free(parents[1])
    print(json.dumps({"parent": os.getpid(), "children": children}))


main()
