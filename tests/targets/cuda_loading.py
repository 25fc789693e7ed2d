"""Copies a megabyte to a device in the ways in which libraries reach CUDA: argv[1] names the way, argv[2] the folder of the
libraries. Prints what the copy returned and what arrived."""

import ctypes
import json
import os
import sys

SIZE = 1_000_003
H2D = 1

way, folder = sys.argv[1:]
size = ctypes.c_size_t(SIZE)
host, device = ctypes.create_string_buffer(b"x" * SIZE, SIZE), ctypes.create_string_buffer(SIZE)
runtime = os.path.join(folder, "libcudart.so.12")


def client(name):
    return ctypes.CDLL(os.path.join(folder, name))


def copier():
    if way == "ctypes":
        return lambda: ctypes.CDLL(runtime).cudaMemcpy(device, host, size, H2D)
    if way == "global":
        ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
        return lambda: ctypes.CDLL(None).cudaMemcpy(device, host, size, H2D)
    if way == "driver":
        return lambda: ctypes.CDLL(os.path.join(folder, "libcuda.so.1")).cuMemcpyHtoD_v2(device, host, size)
    if way in ("dlsym", "dlvsym"):
        by = {"dlsym": "client_copy_by_dlsym", "dlvsym": "client_copy_by_version"}[way]
        library = client("libclient_weak.so")
        return lambda: getattr(library, by)(runtime.encode(), device, host, size, H2D)
    if way == "linked_lazily":
        library, lazy = client("libclient_weak.so"), os.path.join(folder, "libclient_lazy.so").encode()
        return lambda: library.client_copy_by_another(lazy, device, host, size, H2D)
    if way == "constructor":
        os.environ |= {"COPY_TO": hex(ctypes.addressof(device)), "COPY_FROM": hex(ctypes.addressof(host))}
        return lambda: client("libclient_constructed.so") and 0
    name = "client_copy_by_table" if way == "table" else "client_copy"
    library = client("libclient_inside.so" if way == "inside" else "libclient_linked.so")
    return lambda: getattr(library, name)(device, host, size, H2D)


result = copier()()
print(json.dumps({"result": result, "arrived": device.raw == host.raw}))
