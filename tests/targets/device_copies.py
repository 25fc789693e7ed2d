"""Calls the CUDA runtime at argv[1] through ctypes: copies in every direction, blocks of device memory, waits. Prints the
bytes that each marked line asked for."""

import ctypes
import json
import sys
import threading

SIZE = 1_999_993
H2H, H2D, D2H, D2D, DEFAULT = range(5)

cuda = ctypes.CDLL(sys.argv[1])
host = ctypes.create_string_buffer(SIZE)
pointer = ctypes.c_void_p
size_t = ctypes.c_size_t


def allocate(size):
    block = pointer()
    assert cuda.cudaMalloc(ctypes.byref(block), size_t(size)) == 0  # LINE: malloc
    return block


def copy(to, source, size, kind, turns):
    for _ in range(turns):
        cuda.cudaMemcpy(to, source, size_t(size), kind)
    return turns * size


def from_a_thread(device):
    for _ in range(31):
        cuda.cudaMemcpy(device, host, size_t(70_001), H2D)  # LINE: thread


def main():
    device, other = allocate(SIZE), allocate(1_000_003)
    asked = {"malloc": SIZE + 1_000_003}
    for _ in range(3):
        cuda.cudaMemcpy(device, host, size_t(SIZE), H2D)  # LINE: h2d
    for _ in range(1_000):
        cuda.cudaMemcpy(host, device, size_t(1_003), D2H)  # LINE: d2h
    cuda.cudaMemcpy(other, device, size_t(999_983), D2D)  # LINE: d2d
    cuda.cudaMemcpy(host, device, size_t(5_003), DEFAULT)  # LINE: unified
    for _ in range(7):
        cuda.cudaMemcpyAsync(device, host, size_t(10_007), H2D, None)  # LINE: async
    cuda.cudaMemcpy2D(host, size_t(512), device, size_t(1_024), size_t(301), size_t(17), D2H)  # LINE: 2d
    cuda.cudaMemcpy2DAsync(device, size_t(512), host, size_t(512), size_t(301), size_t(19), H2D, None)  # LINE: 2d_async
    worker = threading.Thread(target=from_a_thread, args=(device,))
    worker.start()
    worker.join()
    for _ in range(5):
        cuda.cudaDeviceSynchronize()  # LINE: sync
    assert cuda.cudaFree(other) == 0
    asked |= {"h2d": 3 * SIZE, "d2h": 1_000 * 1_003, "d2d": 999_983, "unified": 5_003, "async": 7 * 10_007}
    return asked | {"2d": 301 * 17, "2d_async": 301 * 19, "thread": 31 * 70_001}


print(json.dumps(main()))
