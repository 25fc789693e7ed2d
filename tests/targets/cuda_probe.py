"""Asks, in every way that a program has, whether CUDA is there, and prints the answers. argv[1]: a library that asks in C."""

import ctypes
import sys

NAMES = ("cudaMalloc", "cudaMemcpy", "cudaFree", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cudaDeviceSynchronize")
asking = ctypes.CDLL(sys.argv[1])
asking.client_probe.restype = asking.client_probe_next.restype = ctypes.c_void_p
for name in NAMES:
    print(name, asking.client_probe(name.encode()), asking.client_probe_next(name.encode()))
    for library in (None, "libc.so.6"):
        try:
            print(getattr(ctypes.CDLL(library), name))
        except AttributeError as error:
            print(error)
print(asking.client_has_cuda())
libc = ctypes.CDLL(None)
libc.dlerror.restype = ctypes.c_char_p
libc.dlsym.restype = ctypes.c_void_p
libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
print(libc.dlsym(None, b"cudaMalloc"), libc.dlerror(), libc.dlerror())
print(libc.dlsym(None, b"getpid") is not None, libc.dlerror())
