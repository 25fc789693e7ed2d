"""Works in phases that it is told on stdin, one word a line, and says when each is done.

work: half a second of CPU time in a function of its own; paused: the same in another; hold: keeps 30,000,000 bytes;
keep: keeps 50,000,000 more; scan: 0.3 s of CPU time that allocate nothing; drop: lets the first go; threads: 40 threads,
one after the other, of 10 ms each; copy: copies 200 times 1,000,000 bytes; small: keeps half a million floats; many: keeps
one and a half million more; forget: lets those go; peaks: keeps 3,000 new blocks of 200,000 bytes; mapping: maps a gibibyte
without reserve; touch: a new thread touches 200 MiB of it; save, restore: remembers Python's allocators MEM and OBJ, and sets
them again; cover, uncover: an allocator of tracemalloc around Python's; allocators, copying: say in which files the functions
of Python's allocators MEM and OBJ are, and those that copy for the interpreter; quit.
"""

import ctypes
import json
import mmap
import sys
import threading
import time
import tracemalloc


def work():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(range(500))


def paused():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(range(500))


kept = {}


def hold():
    kept["hold"] = bytearray(30_000_000)  # LINE: hold


def keep():
    kept["keep"] = bytearray(50_000_000)  # LINE: keep


def scan():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        kept["hold"].count(1)


def drop():
    kept.pop("hold")  # LINE: drop


def extra():
    kept["extra"] = bytearray(20_000_000)  # LINE: extra


def short():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        sum(range(500))


def threads():
    for _ in range(40):
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()


def small():
    kept["small"] = [float(i) for i in range(500_000)]  # LINE: small


def many():
    kept["many"] = [float(i) for i in range(1_500_000)]


def forget():
    kept.pop("many")


def peaks():
    kept["peaks"] = [bytes(200_000) for _ in range(3000)]


def mapping():
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    kept["mapping"] = mmap.mmap(-1, 1 << 30, flags=flags)


def touch():
    def each_page():
        for at in range(0, 200 << 20, mmap.PAGESIZE):
            kept["mapping"][at] = 1

    thread = threading.Thread(target=each_page)
    thread.start()
    thread.join()


def save():
    for domain in (1, 2):
        kept[domain] = (ctypes.c_void_p * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, kept[domain])


def restore():
    for domain in (1, 2):
        ctypes.pythonapi.PyMem_SetAllocator(domain, kept[domain])


cover, uncover = tracemalloc.start, tracemalloc.stop


def file_at(address):
    for place, *_, file in [line.split() for line in open("/proc/self/maps")]:
        start, end = (int(each, 16) for each in place.split("-"))
        if start <= address < end:
            return file.rpartition("/")[2]
    return None


def allocators():
    for domain in (1, 2):
        allocator = (ctypes.c_void_p * 5)()
        ctypes.pythonapi.PyMem_GetAllocator(domain, allocator)
        yield file_at(allocator[1])


def long_at(address):
    return ctypes.c_uint64.from_address(address).value


def int_at(address):
    return ctypes.c_uint32.from_address(address).value


class Image(ctypes.Structure):
    _fields_ = [
        ("bias", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
    ]


def copying():
    """In which files the functions are to which the interpreter's calls of memcpy and memmove lead."""
    interpreter, found = file_at(ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value), []

    def look(image, size, data):
        image = image.contents
        segments = [image.segments + 56 * i for i in range(image.count)]
        loads = [image.bias + long_at(each + 16) for each in segments if int_at(each) == 1]
        if not loads or file_at(min(loads)) != interpreter:
            return 0
        at, table = next(image.bias + long_at(each + 16) for each in segments if int_at(each) == 2), {}
        while long_at(at):
            table[long_at(at)] = long_at(at + 8)
            at += 16
        for i in range(table[2] // 24):  # DT_PLTRELSZ: entries of offset, type and symbol, addend
            entry = table[23] + 24 * i
            name = ctypes.string_at(table[5] + int_at(table[6] + 24 * int_at(entry + 12)))
            if name in (b"memcpy", b"memmove"):
                found.append(file_at(long_at(image.bias + long_at(entry))))
        return 1

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Image), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(look), None)
    return found


def copy():
    block = bytearray(1_000_000)
    for _ in range(200):
        bytes(block)  # LINE: copy


for line in sys.stdin:
    word = line.strip()
    if word == "quit":
        break
    began = time.thread_time()
    found = globals()[word]()
    said = list(found) if word in ("allocators", "copying") else None
    print(
        json.dumps({"done": word, "said": said, "cpu_s": time.thread_time() - began, "at_ns": time.monotonic_ns()}),
        flush=True,
    )
