"""Runs constructs that lead into C code, or that do not although they look like it, each on a line of a function of its own.

Those whose work is native (NATIVE) have a stopwatch around them; what they made is freed outside of it. Those whose work is
Python's by docs/design/attribution.md (PYTHON) run many times between two looks at the clock. Prints for each the percentage
of its CPU time that is native in truth, by the thread's clock. The case is the name of the function that the profile shows.
Arguments: CPU seconds for each; names (default: all). Cases whose modules cannot be imported are left out.
"""

import json
import sys
import time

#: Between two looks at the stopwatch at least, and so many costs of a look; a construct that is shorter stands there several
#: times. Looks are native work too, and a part of them is outside of what they measure.
SHORTEST_NS, LOOKS = 40_000, 200
#: CPU time between two looks at the clock in constructs that are Python's.
BETWEEN_NS = 3_000_000

NUMBERS = "import random; draw = random.Random(7).random; floats = [draw() for _ in range(5000)]"
WORDS = "words = [f'word {each}' for each in range(5000)]; text = ' '.join(words)"
NUMPY = "import numpy as np; a = np.random.default_rng(7).random(300_000); m = a[:62_500].reshape(250, 250)"
PANDAS = f"{NUMPY}; import pandas as pd; series = pd.Series(a); column = series.array"
#: Name: what is done once, the construct.
NATIVE = {
    "ctypes_function": (
        "import ctypes; f = ctypes.CDLL(None).strlen; f.argtypes = [ctypes.c_char_p]; data = b'a' * 2_000_000",
        "f(data)",
    ),
    "ctypes_memmove": (
        "import ctypes; data = b'a' * 2_000_000; to = ctypes.create_string_buffer(len(data)); move = ctypes.memmove",
        "move(to, data, len(data))",
    ),
    "ctypes_array_of_list": ("import ctypes; kind = ctypes.c_int * 5000; ints = tuple(range(5000))", "kind(*ints)"),
    "cffi_function": (
        "import cffi; ffi = cffi.FFI(); ffi.cdef('size_t strlen(const char *);'); lib = ffi.dlopen(None)"
        "; data = ffi.new('char[]', b'a' * 2_000_000)",
        "lib.strlen(data)",
    ),
    "cffi_new": ("import cffi; ffi = cffi.FFI(); ints = list(range(5000))", "ffi.new('int[]', ints)"),
    "cffi_unpack": ("import cffi; ffi = cffi.FFI(); data = ffi.new('int[5000]')", "ffi.unpack(data, 5000)"),
    "cython_function": ("import cython_ways", "cython_ways.total(50_000)"),
    "cython_cpdef": ("import cython_ways", "cython_ways.product(50_000)"),
    "cython_keywords": ("import cython_ways", "cython_ways.total(count=50_000)"),
    "cython_method": ("import cython_ways; sums = cython_ways.Sums(50_000)", "sums.total()"),
    "cython_constructor": ("import cython_ways", "cython_ways.Sums(50_000)"),
    "cython_property": ("import cython_ways; sums = cython_ways.Sums(50_000)", "sums.all"),
    "cython_index": ("import cython_ways; sums = cython_ways.Sums(50_000)", "sums[50_000]"),
    "cython_operator": ("import cython_ways; sums = cython_ways.Sums(50_000)", "sums + sums"),
    "cython_class_of_python": ("import cython_ways; sums = cython_ways.Plain()", "sums.total(50_000)"),
    "cython_generator": ("import cython_ways", "list(cython_ways.each(5_000))"),
    "cython_objects": ("import cython_ways; ints = list(range(5000))", "cython_ways.of_objects(ints)"),
    "pybind_function": ("import pybind_ways", "pybind_ways.total(50_000)"),
    "pybind_keywords": ("import pybind_ways", "pybind_ways.total(count=50_000)"),
    "pybind_list": ("import pybind_ways; ints = list(range(5000))", "pybind_ways.of_list(ints)"),
    "pybind_method": ("import pybind_ways; sums = pybind_ways.Sums(50_000)", "sums.total()"),
    "pybind_constructor": ("import pybind_ways", "pybind_ways.Sums(50_000)"),
    "pybind_property": ("import pybind_ways; sums = pybind_ways.Sums(50_000)", "sums.all"),
    "pybind_operator": ("import pybind_ways; sums = pybind_ways.Sums(50_000)", "sums + sums"),
    "pybind_call": ("import pybind_ways; sums = pybind_ways.Sums(50_000)", "sums(3)"),
    "numpy_method": (NUMPY, "a.sum()"),
    "numpy_sort": (NUMPY, "np.sort(a)"),
    "numpy_operator": (NUMPY, "a + a"),
    "numpy_in_place": (NUMPY, "a += 0.5"),
    "numpy_comparison": (NUMPY, "a < 0.5"),
    "numpy_matmul": (NUMPY, "m @ m"),
    "numpy_ufunc": (NUMPY, "np.sqrt(a)"),
    "numpy_reduce": (NUMPY, "np.maximum.reduce(a)"),
    "numpy_fancy_index": (f"{NUMPY}; index = np.arange(0, 200_000, 3)", "a[index]"),
    "numpy_mask": (f"{NUMPY}; mask = a < 0.5", "a[mask]"),
    "numpy_assignment": (NUMPY, "a[:] = 3.0"),
    "numpy_of_list": (f"{NUMPY}; {NUMBERS}", "np.array(floats)"),
    "numpy_to_list": (NUMPY, "a.tolist()"),
    "numpy_astype": (NUMPY, "a.astype('f4')"),
    "numpy_random": (f"{NUMPY}; generator = np.random.default_rng(7)", "generator.random(100_000)"),
    "numpy_dot": (NUMPY, "np.dot(m, m)"),
    "numpy_iteration": (NUMPY, "list(a)"),
    "numpy_copy": (NUMPY, "a[::2].copy()"),
    "pandas_factorize": (f"{PANDAS}; from pandas._libs import hashtable", "hashtable.Float64HashTable().factorize(a)"),
    "sqlite_query": (
        "import sqlite3; db = sqlite3.connect(':memory:'); db.execute('create table t (n)')"
        "; db.executemany('insert into t values (?)', [(n,) for n in range(5000)])",
        "db.execute('select sum(n * n) from t').fetchall()",
    ),
    "sqlite_many": (
        "import sqlite3; db = sqlite3.connect(':memory:'); db.execute('create table t (n)'); rows = [(1,)] * 500",
        "db.executemany('insert into t values (?)', rows)",
    ),
    "re_findall": (f"import re; {WORDS}; pattern = re.compile('[a-z]+ [0-9]+')", "pattern.findall(text)"),
    "re_sub": (f"import re; {WORDS}; pattern = re.compile('word')", "pattern.sub('x', text)"),
    "re_search": (f"import re; {WORDS}; pattern = re.compile('x$')", "pattern.search(text)"),
    "re_split": (f"import re; {WORDS}; pattern = re.compile(' +')", "pattern.split(text)"),
    "json_encoder": (
        f"import json; {WORDS}; encode = json.encoder.c_make_encoder"
        "(None, None, json.encoder.encode_basestring_ascii, None, ': ', ', ', False, False, True)",
        "encode(words, 0)",
    ),
    "json_scanner": (
        f"import json; {WORDS}; encoded = json.dumps(words); scan = json.JSONDecoder().scan_once",
        "scan(encoded, 0)",
    ),
    "pickle_dumps": (f"import pickle; {WORDS}", "pickle.dumps(words)"),
    "pickle_loads": (f"import pickle; {WORDS}; stored = pickle.dumps(words)", "pickle.loads(stored)"),
    "struct_pack": ("import struct; numbers = ('5000d', *(n / 7 for n in range(5000)))", "struct.pack(*numbers)"),
    "struct_unpack": ("import struct; data = bytes(40_000)", "struct.unpack('5000d', data)"),
    "hashlib_constructor": ("import hashlib; data = bytes(100_000)", "hashlib.sha256(data)"),
    "hashlib_update": ("import hashlib; data = bytes(100_000); h = hashlib.blake2b()", "h.update(data)"),
    "zlib_compress": (f"import zlib; {WORDS}; data = text.encode()", "zlib.compress(data)"),
    "bz2_compress": (f"import bz2; {WORDS}; data = text.encode(); kind = bz2.BZ2Compressor", "kind().compress(data)"),
    "random_bits": ("import random; get = random.Random(7).getrandbits", "get(500_000)"),
    "heapify": (f"import heapq; {NUMBERS}", "heapq.heapify(floats)"),
    "csv_reader": (f"import csv; {WORDS}", "list(csv.reader(words))"),
    "string_io": (f"import io; {WORDS}", "io.StringIO(text).readlines()"),
    "xml_expat": (
        "from xml.parsers import expat; data = '<a>' + '<b>c</b>' * 2000 + '</a>'",
        "expat.ParserCreate().Parse(data)",
    ),
    "zip_to_list": (f"{NUMBERS}; {WORDS}", "list(zip(floats, words))"),
    "map_of_c": (NUMBERS, "list(map(str, floats))"),
    "chain_sum": (f"import itertools; {NUMBERS}", "sum(itertools.chain(floats, floats))"),
    "deque_of_map": (f"import collections; {NUMBERS}", "collections.deque(map(repr, floats), maxlen=0)"),
    "join": (WORDS, "''.join(words)"),
    "list_sort": (NUMBERS, "floats[:].sort()"),
    "sorted_key_c": (f"{WORDS}", "sorted(words, key=len)"),
    "min_unspecialised": (f"{NUMBERS}; pair = [min, max]", "pair[draw() < 0.5](floats)"),
    "set_union": ("one, two = set(range(5000)), set(range(2500, 7500))", "one.union(two)"),
    "dict_update": ("one, two = {}, dict.fromkeys(range(5000))", "one.update(two)"),
    "str_encode": (WORDS, "text.encode('utf-16')"),
    "str_replace": (WORDS, "text.replace('word', 'x')"),
    "str_translate": (f"{WORDS}; table = str.maketrans('wod', 'xyz')", "text.translate(table)"),
    "str_format": (f"{WORDS}; some, form = tuple(words[:500]), '{{}} ' * 500", "form.format(*some)"),
    "int_of_str": ("digits = '7' * 4000", "int(digits)"),
    "pow_function": ("base = 7 ** 300", "pow(base, base, base + 2)"),
    "operator_mul": ("import operator; n = 7 ** 3000", "operator.mul(n, n)"),
    "slot_wrapper": ("n = 7 ** 3000", "n.__mul__(n)"),
    "partial_of_c": (f"import functools; {NUMBERS}; f = functools.partial(sorted, floats)", "f()"),
    "reduce_of_c": (f"import functools, operator; {NUMBERS}", "functools.reduce(operator.add, floats)"),
    "methodcaller": (f"import operator; {NUMBERS}; f = operator.methodcaller('count', 7)", "f(floats)"),
    "array_of_list": (f"import array; {NUMBERS}", "array.array('d', floats)"),
    "memoryview": ("data = memoryview(bytes(100_000))", "data.tolist()"),
    "unicode_normalize": (f"import unicodedata; {WORDS}", "unicodedata.normalize('NFD', text + 'ä')"),
    "compile": ("source = 'a = b + c\\n' * 300", "compile(source, 'x', 'exec')"),
}
ASSIGNMENTS = ("a += 0.5", "a[:] = 3.0")
CLASSES = """
import dataclasses
class Plain:
    def method(self): return self
    @property
    def value(self): return 3
    @classmethod
    def of(cls): return cls
    def __enter__(self): return self
    def __exit__(self, *exc): return None
    def __eq__(self, other): return True
    def __iter__(self): return self
    def __next__(self): return 3
    def __len__(self): return 3
    def __add__(self, other): return self
    def __getattr__(self, name): return name
class WithInit:
    def __init__(self, a, b=2): self.a = a
@dataclasses.dataclass
class Data:
    a: int
    b: int = 2
def function(a=1, *, b=2): return a
def recurse(n): return n and recurse(n - 1)
def generate():
    for each in ints: yield each
def delegate(): yield from generate()
async def answer(): return 3
async def awaits():
    for each in ints: await answer(); await answer(); await answer(); await answer(); await answer()
def run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration: pass
def raises(): raise KeyError
def closure(a): return lambda: a
plain, data, ints, table = Plain(), Data(1), list(range(50)), dict.fromkeys(range(50))
"""
BIG = "n, m = 7 ** 3000, 7 ** 1500"
#: Name: what is done once, the construct. What C code calls back is long, so that the C code's own work hardly counts.
PYTHON = {
    "big_multiplication": (BIG, "n * m"),
    "big_division": (BIG, "n // m"),
    "big_remainder": (BIG, "n % m"),
    "big_power": ("n = 7 ** 30", "n ** 30"),
    "big_shift": (BIG, "n << 3000"),
    "float_arithmetic": ("a, b = 0.5, 1.5", "a * b + a / b - a"),
    "in_list": (CLASSES, "-1 in ints"),
    "list_addition": (CLASSES, "ints + ints"),
    "list_comparison": ("a, b = list(range(500)), list(range(500))", "a == b"),
    "list_copy_by_slice": (CLASSES, "ints[:]"),
    "slice_assignment": (CLASSES, "ints[:] = ints"),
    "list_repetition": ("a = [0]", "a * 500"),
    "iteration": (CLASSES, "for each in ints: pass"),
    "iteration_of_dict": (CLASSES, "for each in table: pass"),
    "list_comprehension": (CLASSES, "[each for each in ints]"),
    "dict_comprehension": (CLASSES, "{each: each for each in ints}"),
    "set_comprehension": (CLASSES, "{each for each in ints}"),
    "unpacking": (CLASSES, "first, *rest = ints"),
    "list_display": (CLASSES, "[*ints, *ints]"),
    "set_display": (CLASSES, "{*ints}"),
    "dict_display": (CLASSES, "{**table, 3: 4}"),
    "set_operator": ("a, b = set(range(50)), set(range(25, 75))", "a | b"),
    "dict_operator": (CLASSES, "table | table"),
    "str_addition": ("a, b = 'a' * 500, 'b' * 500", "a + b"),
    "str_comparison": ("a, b = 'a' * 5000 + 'a', 'a' * 5000 + 'b'", "a < b"),
    "str_formatting": ("a = 3.5", "f'{a} {a:.3f} {a!r}'"),
    "str_percent": ("a = 3.5", "'%d %s' % (a, a)"),
    "subscription": (CLASSES, "table[3]; ints[3]"),
    "chained_comparison": ("a = 3", "0 < a < 4 and a != 5"),
    "function_call": (CLASSES, "function(1)"),
    "function_keywords": (CLASSES, "function(a=1, b=3)"),
    "function_unpacked": (f"{CLASSES}\narguments = (1,)", "function(*arguments)"),
    "function_mapping": (f"{CLASSES}\nkeywords = {{'a': 1}}", "function(**keywords)"),
    "method_call": (CLASSES, "plain.method()"),
    "class_method": (CLASSES, "Plain.of()"),
    "bound_method": (f"{CLASSES}\nbound = plain.method", "bound()"),
    "recursion": (CLASSES, "recurse(20)"),
    "closure": (CLASSES, "closure(3)()"),
    "property": (CLASSES, "plain.value"),
    "getattr_hook": (CLASSES, "plain.missing"),
    "operator_method": (CLASSES, "plain + plain"),
    "comparison_method": (CLASSES, "plain == plain"),
    "truth_by_method": (CLASSES, "not plain"),
    "with_statement": (CLASSES, "with plain: pass"),
    "instance_plain": (f"{CLASSES}\nclass Empty: pass", "Empty()"),
    "instance_with_init": (CLASSES, "WithInit(1)"),
    "instance_keywords": (CLASSES, "WithInit(1, b=3)"),
    "dataclass": (CLASSES, "Data(1, 2)"),
    "dataclass_comparison": (CLASSES, "data == data"),
    "generator": (CLASSES, "for each in generate(): pass"),
    "generator_delegating": (CLASSES, "for each in delegate(): pass"),
    "await": (CLASSES, "run(awaits())"),
    "exception": (CLASSES, "try: raises()\n{indent}except KeyError: pass"),
    "exception_index": (CLASSES, "try: ints[99]\n{indent}except IndexError: pass"),
    "try_finally": ("a = 3", "try: a\n{indent}finally: a"),
    "iterator_in_python": (CLASSES, "first, second, *_ = generate()"),
    "import_statement": ("import os.path", "import os.path"),
    "from_import": ("import os.path", "from os.path import join"),
    "match_statement": (CLASSES, "match ints[:3]:\n{indent} case [0, 1, 2]: pass"),
    "function_definition": (CLASSES, "def inner(a, b=2): return a"),
    "global_and_augmented": ("a = 3", "global a; a += 1; a -= 1"),
    "map_of_python": (f"{CLASSES}\ndef long(a): return recurse(300)", "for each in map(long, ints): pass"),
    "sort_by_python": (f"{CLASSES}\ndef long(a): return recurse(300)", "ints.sort(key=long)"),
    "re_sub_by_python": (
        f"import re\n{CLASSES}\ndef long(a):\n for each in range(10_000): pass\n return ''",
        "re.sub('a', long, 'a' * 50)",
    ),
    "ctypes_callback": (
        f"import ctypes\n{CLASSES}\ndef long(a, b):\n for each in range(10_000): pass\n return 0\n"
        "kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p); called = kind(long)\n"
        "items = (ctypes.c_int * 50)(); sort = ctypes.CDLL(None).qsort",
        "sort(items, 50, 4, called)",
    ),
}
NATIVE_CODE = """
def {name}(end_ns, clock):
    called_ns, begun = 0, clock()
    while clock() < end_ns:
        {names} = None
        start = clock()
        {statement}
        called_ns += clock() - start
    return called_ns / (clock() - begun)
"""
PYTHON_CODE = """
def {name}(end_ns, clock):
    looks, begun = 0, clock()
    while clock() < end_ns:
        looks += 1
        for _ in range({rounds}):
            {statement}
    return looks * clock_ns / (clock() - begun)
"""


def function_of(code, scope, name, statement, rounds=1):
    statement = statement.replace("{indent}", " " * 12)
    exec(compile(code.format(name=name, statement=statement, rounds=rounds), __file__, "exec"), scope)
    return scope[name]


def took_ns(statement, scope):
    """CPU time of a construct, the best of three."""
    code = compile(statement.replace("{indent}", ""), __file__, "exec")
    times = []
    for _ in range(3):
        start = time.thread_time_ns()
        exec(code, scope)
        times.append(time.thread_time_ns() - start)
    return min(times)


def clock_costs_ns(clock):
    begun = clock()
    for _ in range(10_000):
        clock()
    return (clock() - begun) / 10_000


def main():
    seconds_ns, clock, shares = int(float(sys.argv[1]) * 1e9), time.thread_time_ns, {}
    cases = [(f"c_{name}", *case) for name, case in NATIVE.items()]
    cases += [(f"py_{name}", *case) for name, case in PYTHON.items()]
    for name, setup, statement in cases:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        scope = {"clock_ns": clock_costs_ns(clock), "__name__": "ways"}
        try:
            exec(setup, scope)
        except ImportError:
            continue
        once_ns = took_ns(statement, scope)
        if name.startswith("py_"):
            function = function_of(PYTHON_CODE, scope, name, statement, max(1, BETWEEN_NS // max(once_ns, 50)))
        else:
            shortest_ns = max(SHORTEST_NS, int(LOOKS * scope["clock_ns"]))
            names = [f"result_{n}" for n in range(1 + shortest_ns // once_ns)]
            often = ["global a"] + [statement] * len(names)
            if statement not in ASSIGNMENTS:
                often = [f"{each} = {statement}" for each in names]
            code = NATIVE_CODE.replace("{names}", " = ".join(names))
            function = function_of(code, scope, name, "; ".join(often))
        shares[name] = 100 * function(clock() + seconds_ns, clock)
    print(json.dumps(shares))


main()
