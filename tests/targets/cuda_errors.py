"""Calls the runtime in argv[1] rightly and wrongly, and prints every result, errno and block's content."""

import ctypes
import sys

cuda = ctypes.CDLL(sys.argv[1], use_errno=True)
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
block, pitch = pointer(), size_t()
text = ctypes.create_string_buffer(b"0123456789abcdef")


def told(name, *arguments):
    ctypes.set_errno(5)
    result = getattr(cuda, name)(*arguments)
    print(name, result, ctypes.get_errno(), text.raw, pitch.value)


told("cudaMalloc", ctypes.byref(block), size_t(1 << 41))
told("cudaMalloc", ctypes.byref(block), size_t(0))
told("cudaMalloc", None, size_t(10))
told("cudaMalloc", ctypes.byref(block), size_t(100))
told("cudaMemcpy", block, text, size_t(10), 1)
told("cudaMemcpy", block, text, size_t(10), 7)
told("cudaMemcpy", None, text, size_t(10), 1)
told("cudaMemcpy", ctypes.byref(text, 6), block, size_t(3), 2)
told("cudaMemcpy2D", text, size_t(1), block, size_t(5), size_t(2), size_t(2), 2)
told("cudaFree", pointer(12345))
told("cudaFree", block)
told("cudaFree", block)
told("cudaFree", None)
told("cudaMallocPitch", ctypes.byref(block), ctypes.byref(pitch), size_t(700), size_t(3))
told("cudaFree", block)
told("cudaDeviceSynchronize")
told("cudaStreamSynchronize", None)
