"""Allocations of sizes that nothing else asks for. ``exact.py LIBRARY [SCENARIO...]``: the library is blocks.c.

Prints, for each scenario, what a recording of every allocation must contain: ``rows`` of [bytes, allocator, through
Python's allocators, bytes of the whole mapping or null, count, how many of them are alive at the end, usable bytes of
all of them or null], the sizes to look for, and the largest sum of sizes that were alive at once.
"""

import ctypes
import gc
import json
import mmap
import sys
import tempfile

PAGE = 4096
GIB = 1 << 30
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
FIXED, NORESERVE, MAYMOVE, NO_ACCESS = 0x10, 0x4000, 1, 0

size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
libc = ctypes.CDLL(None)
for name, result, arguments in (
    ("malloc", pointer, [size_t]),
    ("calloc", pointer, [size_t, size_t]),
    ("realloc", pointer, [pointer, size_t]),
    ("reallocarray", pointer, [pointer, size_t, size_t]),
    ("memalign", pointer, [size_t, size_t]),
    ("posix_memalign", ctypes.c_int, [pointer, size_t, size_t]),
    ("aligned_alloc", pointer, [size_t, size_t]),
    ("valloc", pointer, [size_t]),
    ("pvalloc", pointer, [size_t]),
    ("free", None, [pointer]),
    ("malloc_usable_size", size_t, [pointer]),
    ("mmap", pointer, [pointer, size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]),
    ("mmap64", pointer, [pointer, size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]),
    ("munmap", ctypes.c_int, [pointer, size_t]),
    ("mremap", pointer, [pointer, size_t, size_t, ctypes.c_int]),
    ("mprotect", ctypes.c_int, [pointer, size_t, ctypes.c_int]),
):
    function = getattr(libc, name)
    function.restype, function.argtypes = result, arguments


class Truth:
    """What a scenario did: counts of rows, and the bytes alive now and at most."""

    def __init__(self):
        self.rows, self.watch, self.blocks = {}, set(), {}
        self.live = self.peak = 0

    def count(self, size, allocator, count=1, alive=0, python=False, whole=None, usable=None):
        row = self.rows.setdefault((size, allocator, python, whole), [0, 0, 0])
        row[0] += count
        row[1] += alive
        row[2] = None if usable is None or row[2] is None else row[2] + usable
        self.watch.add(whole or size)

    def moved(self, bytes_more):
        self.live += bytes_more
        self.peak = max(self.peak, self.live)

    def made(self, block, size, allocator):
        """Notes a block of the malloc family."""
        assert block, allocator
        self.blocks[block] = (size, allocator)
        self.count(size, allocator, alive=1, usable=libc.malloc_usable_size(block))
        self.moved(size)
        return block

    def gone(self, block):
        """Notes that a block was given back."""
        size, allocator = self.blocks.pop(block)
        self.count(size, allocator, count=0, alive=-1, usable=0)
        self.moved(-size)

    def resized(self, old, block, size, allocator):
        self.gone(old)
        return self.made(block, size, allocator)

    def told(self):
        rows = [[*key, *row] for key, row in self.rows.items()]
        return {"rows": rows, "watch": sorted(self.watch), "peak": self.peak}


def family(truth):
    """Each function once; every other block is freed."""
    aligned = pointer()
    assert libc.posix_memalign(ctypes.byref(aligned), 256, 1_999_979) == 0  # LINE: posix_memalign
    made = [
        truth.made(libc.malloc(1_999_993), 1_999_993, "malloc"),  # LINE: malloc
        truth.made(libc.calloc(7, 285_713), 1_999_991, "calloc"),  # LINE: calloc
        truth.made(libc.realloc(None, 1_999_969), 1_999_969, "realloc"),  # LINE: realloc
        truth.made(libc.reallocarray(None, 13, 153_841), 1_999_933, "reallocarray"),  # LINE: reallocarray
        truth.made(libc.memalign(64, 1_999_957), 1_999_957, "memalign"),  # LINE: memalign
        truth.made(aligned.value, 1_999_979, "posix_memalign"),
        truth.made(libc.aligned_alloc(64, 1_999_936), 1_999_936, "aligned_alloc"),  # LINE: aligned_alloc
        truth.made(libc.valloc(1_999_891), 1_999_891, "valloc"),  # LINE: valloc
        truth.made(libc.pvalloc(1_999_871), 1_999_871, "pvalloc"),  # LINE: pvalloc
    ]
    for block in made[::2]:
        libc.free(block)
        truth.gone(block)


def resizing(truth):
    """realloc to nothing, in place, to another place, over the size from which libc maps blocks, and of an array."""
    zero = truth.made(libc.malloc(777_781), 777_781, "malloc")
    assert libc.realloc(zero, 0) is None
    truth.gone(zero)
    place = truth.made(libc.malloc(100_003), 100_003, "malloc")
    stayed = truth.resized(place, libc.realloc(place, 90_001), 90_001, "realloc")
    low = truth.made(libc.malloc(50_021), 50_021, "malloc")
    truth.made(libc.malloc(50_023), 50_023, "malloc")  # in the way
    moved = truth.resized(low, libc.realloc(low, 750_019), 750_019, "realloc")
    small = truth.made(libc.malloc(100_019), 100_019, "malloc")
    truth.resized(small, libc.realloc(small, 40_000_003), 40_000_003, "realloc")
    array = truth.made(libc.calloc(3, 33_347), 100_041, "calloc")
    truth.resized(array, libc.reallocarray(array, 3, 50_051), 150_153, "reallocarray")
    return {"in_place": stayed == place, "moved": moved != low}


def vector(truth):
    """Room for 4, 8, ... 2048 elements of 1,009 bytes."""
    block, count = truth.made(libc.realloc(None, 4 * 1009), 4 * 1009, "realloc"), 4
    while count < 2048:
        count *= 2
        block = truth.resized(block, libc.realloc(block, 1009 * count), 1009 * count, "realloc")


def nest(depth):
    block = bytes(30_011)
    if depth > 1:
        nest(depth - 1)
    return len(block)


DEPTHS = (10, 30, 20, 5, 25)


def python_recursion(truth):
    """Spikes of bytes objects; a bytes object has 33 bytes more than its length."""
    for depth in DEPTHS:
        nest(depth)
    truth.count(30_044, "calloc", sum(DEPTHS), python=True)
    truth.peak = max(DEPTHS) * 30_044


def c_recursion(truth):
    """Spikes of blocks."""
    library.recurse.argtypes = [ctypes.c_int, size_t]
    for depth in DEPTHS:
        library.recurse(depth, 20_011)
    truth.count(20_011, "malloc", sum(DEPTHS))
    truth.peak = max(DEPTHS) * 20_011


def c_threads(truth):
    """100 threads with 100 blocks each; a quarter of them stays."""
    library.crowd.argtypes = [ctypes.c_int, ctypes.c_int, size_t, pointer]
    library.crowd(100, 100, 13_003, (pointer * 10_000)())
    truth.count(13_003, "malloc", 10_000, alive=2_500)
    truth.peak = 10_000 * 13_003


def thread_destructors(truth):
    """Ten threads, each with a destructor that allocates."""
    library.thread_values.argtypes = [ctypes.c_int, size_t]
    library.thread_values(10, 77_003)
    truth.count(77_003, "malloc", 10)
    truth.count(77_005, "malloc", 10, alive=10)
    truth.count(77_007, "malloc", 10)
    truth.peak = 9 * 77_005 + 77_003 + 77_005 + 77_007


def map_pages(pages, flags=0, where=None, access=READ_WRITE, call=libc.mmap):
    address = call(where, pages * PAGE, access, ANONYMOUS | flags, -1, 0)
    assert address != pointer(-1).value and where in (None, address)
    return address


def mapped(truth, pages, alive, parts=()):
    """Notes a mapping: ``alive`` of its pages stay, the others go at once or in ``parts`` (pages of each)."""
    if alive in (0, pages) and not parts:
        truth.count(pages * PAGE, "mmap", alive=int(alive > 0), usable=pages * PAGE)
        return
    for part in parts:
        truth.count(part * PAGE, "mmap", whole=pages * PAGE, usable=part * PAGE)
    if alive:
        truth.count(alive * PAGE, "mmap", alive=1, whole=pages * PAGE, usable=alive * PAGE)


def holes(truth):
    """A mapping that loses single pages and stays, and one that goes page by page."""
    sieve, pages = map_pages(1237), map_pages(17)
    for page in (1, 3, 5):
        libc.munmap(sieve + page * PAGE, PAGE)
    for page in range(17):
        libc.munmap(pages + page * PAGE, PAGE)
    mapped(truth, 1237, 1234, [1, 1, 1])
    mapped(truth, 17, 0, [1] * 17)
    truth.peak = (1237 + 17) * PAGE


def one_unmap_for_many(truth):
    """One munmap over half of a mapping, a whole one, and half of a third."""
    start = map_pages(109)
    libc.munmap(start, 109 * PAGE)
    for pages, offset in ((31, 0), (37, 31), (41, 68)):
        map_pages(pages, FIXED, start + offset * PAGE, call=libc.mmap64)
    libc.munmap(start + 10 * PAGE, 78 * PAGE)
    mapped(truth, 109, 0)
    mapped(truth, 31, 10, [21])
    mapped(truth, 37, 0)
    mapped(truth, 41, 21, [20])
    truth.peak = 109 * PAGE


def fixed_over_a_mapping(truth):
    """A mapping in the middle of another replaces a part of it; one over two others replaces both."""
    below = map_pages(53)
    map_pages(29, FIXED, below + 10 * PAGE)
    both = map_pages(61)
    libc.munmap(both, 61 * PAGE)
    map_pages(23, FIXED, both)
    map_pages(38, FIXED, both + 23 * PAGE)
    map_pages(61, FIXED, both)
    mapped(truth, 53, 24, [29])
    mapped(truth, 29, 29)
    mapped(truth, 61, 0)
    mapped(truth, 23, 0)
    mapped(truth, 38, 0)
    mapped(truth, 61, 61)
    truth.peak = (53 + 61) * PAGE


def remapped(truth):
    """From about 1 to 64 MiB; to a quarter, in place; and to another place, where a mapping was."""
    grown = map_pages(259)
    grown = libc.mremap(grown, 259 * PAGE, 16_389 * PAGE, MAYMOVE)
    shrunk = map_pages(401)
    assert libc.mremap(shrunk, 401 * PAGE, 101 * PAGE, 0) == shrunk and grown
    mapped(truth, 259, 0)
    mapped(truth, 401, 0)
    for pages in (16_389, 101):
        truth.count(pages * PAGE, "mremap", alive=1, usable=pages * PAGE)
    truth.peak = (16_389 + 401) * PAGE


def reserved(truth):
    """Address space that is no memory, until it is made accessible or mapped over."""
    total = GIB // PAGE + 7
    start = map_pages(total, access=NO_ACCESS)
    map_pages(19_717, NORESERVE)
    for _ in range(2):
        assert libc.mprotect(start + 100 * PAGE, 311 * PAGE, READ_WRITE) == 0
    map_pages(203, FIXED, start + 5000 * PAGE)
    libc.munmap(start + (total - 5) * PAGE, 5 * PAGE)
    truth.count(311 * PAGE, "mprotect", alive=1, usable=311 * PAGE)
    mapped(truth, 203, 203)
    truth.watch |= {total * PAGE, 19_717 * PAGE}
    truth.peak = (311 + 203) * PAGE
    return {"bytes": (total + 19_717 - 311 - 203 - 5) * PAGE}


def files(truth):
    """A file that is mapped is no heap."""
    with tempfile.TemporaryFile() as file:
        file.truncate(1013 * PAGE)
        for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            assert libc.mmap(None, 1013 * PAGE, READ_WRITE, flags, file.fileno(), 0) != pointer(-1).value
    truth.watch.add(1013 * PAGE)


def loaded(truth):
    """A library that allocates in its constructor, loaded while the program runs."""
    assert ctypes.CDLL(sys.argv[1].replace("blocks", "constructed")).constructed() == 1
    truth.count(1_234_577, "malloc", alive=1)
    truth.count(1_234_579, "malloc")
    truth.peak = 1_234_577 + 1_234_579


KEPT = []


def objects(truth):
    """Objects of Python, small and large, kept until the interpreter ends; and five that nobody keeps."""
    KEPT.append(bytes(100))  # LINE: bytes_100
    KEPT.append(bytes(5000))  # LINE: bytes_5000
    KEPT.append(bytearray(3_000_029))  # LINE: bytearray
    for _ in range(5):
        len(bytes(200_003))  # LINE: died_young
    truth.count(200_036, "calloc", 5, python=True)
    truth.peak = 200_036


SCENARIOS = (
    family,
    resizing,
    vector,
    python_recursion,
    c_recursion,
    c_threads,
    thread_destructors,
    holes,
    one_unmap_for_many,
    fixed_over_a_mapping,
    remapped,
    reserved,
    files,
    loaded,
    objects,
)
library = ctypes.CDLL(sys.argv[1])


def run(scenario):
    truth = Truth()
    more = scenario(truth)
    return {**truth.told(), "more": more}


gc.disable()
wanted = sys.argv[2:] or [scenario.__name__ for scenario in SCENARIOS]
print(json.dumps({scenario.__name__: run(scenario) for scenario in SCENARIOS if scenario.__name__ in wanted}))
