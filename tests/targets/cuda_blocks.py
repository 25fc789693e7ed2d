"""Blocks of device memory, of the runtime in argv[1]: some freed, some kept, one whose free is refused, one of a child.
Prints the bytes that each marked line took, and those that it had when all together had most."""

import ctypes
import json
import os
import sys

cuda = ctypes.CDLL(sys.argv[1])
size_t, byref = ctypes.c_size_t, ctypes.byref
kept = [ctypes.c_void_p() for _ in range(3)]
churned, managed, peak, pitched, childs = (ctypes.c_void_p() for _ in range(5))
pitch = size_t()


def main():
    for block in kept:
        cuda.cudaMalloc(byref(block), size_t(1_999_993))  # LINE: kept
    for _ in range(500):
        cuda.cudaMalloc(byref(churned), size_t(7_001))  # LINE: churn
        cuda.cudaFree(churned)
    cuda.cudaMallocManaged(byref(managed), size_t(300_007), 1)  # LINE: managed
    assert cuda.cudaFree(ctypes.c_void_p(managed.value + 1)) == 1
    cuda.cudaMallocAsync(byref(peak), size_t(5_000_011), None)  # LINE: peak
    assert cuda.cudaFreeAsync(peak, None) == 0
    assert cuda.cudaFreeAsync(peak, None) == 1
    cuda.cudaMallocPitch(byref(pitched), byref(pitch), size_t(700), size_t(3))  # LINE: pitched
    if os.fork() == 0:
        for block in kept:
            cuda.cudaFree(block)  # the parent's go on living
        cuda.cudaMalloc(byref(childs), size_t(11_003))  # LINE: child
        os._exit(0)
    os.wait()
    for block in kept:
        assert cuda.cudaFree(block) == 0
    at_peak = {"kept": 3 * 1_999_993, "managed": 300_007, "peak": 5_000_011}
    rest = {"churn": 500 * 7_001, "pitched": 3 * pitch.value, "child": 11_003}
    return {"made": at_peak | rest, "at_peak": at_peak}


print(json.dumps(main()))
