"""Programs whose native stacks are unwound: ``unwound.py PROGRAM STACKS``.

Each runs one kind of native code until the preloaded library has compared that many stacks.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import random
import re
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable


def use_numpy() -> Callable[[], object]:
    import numpy as np

    a = np.random.default_rng(1).random((120, 120))

    def turn() -> object:
        np.sort(a.ravel().copy())
        np.linalg.eigvals(a[:40, :40])
        np.fft.fft(a)
        return (a @ a).sum() + np.exp(a).mean() + sum(a[0].tolist())

    return turn


def use_pandas() -> Callable[[], object]:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"key": np.arange(3000) % 17, "value": np.arange(3000.0), "text": ["x", "y", "z"] * 1000})

    def turn() -> object:
        text = frame.head(200).to_csv()
        pd.read_csv(io.StringIO(text))
        return frame.groupby("key").value.mean(), frame.merge(frame.head(50), on="key"), frame.sort_values("text")

    return turn


def use_hashlib() -> Callable[[], object]:
    data = bytes(range(256)) * 40

    def turn() -> object:
        for name in ("sha1", "sha256", "sha512", "md5", "sha3_256", "blake2b"):
            hashlib.new(name, data).digest()
        return hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 50), hashlib.scrypt(b"word", salt=b"s", n=16, r=8, p=1)

    return turn


def use_ssl() -> Callable[[], object]:
    import ssl

    def turn() -> object:
        ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(ours, theirs, server_hostname="localhost")
        try:
            client.do_handshake()
        except ssl.SSLError:
            pass
        return theirs.read()

    return turn


def use_sqlite() -> Callable[[], object]:
    base = sqlite3.connect(":memory:")
    base.create_function("twice", 1, lambda x: 2 * x)
    base.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    base.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"text {i % 91}") for i in range(2000)])

    def turn() -> object:
        return base.execute("SELECT b, sum(twice(a)) FROM t WHERE b LIKE '%1%' GROUP BY b ORDER BY 2").fetchall()

    return turn


def use_json() -> Callable[[], object]:
    data = {str(i): [i, i / 3, None, {"a": "text é" * 3}] for i in range(200)}
    return lambda: json.loads(json.dumps(data))


def use_re() -> Callable[[], object]:
    text = "The quick brown fox 123-456 jumps over the lazy dog; " * 40
    pattern = re.compile(r"(?:(\w+)\s+)*?(\d{3})-(\d{3})|(?<=l)a(z+)y")
    return lambda: (pattern.findall(text), re.sub(r"[aeiou]+", lambda found: found[0].upper(), text))


def use_sort() -> Callable[[], object]:
    values = [random.random() for _ in range(3000)]
    return lambda: (sorted(values, key=lambda value: -value), sorted(map(str, values), key=str.lower))


def use_zlib() -> Callable[[], object]:
    data = bytes(random.choices(range(40), k=20_000))
    return lambda: zlib.decompress(zlib.compress(data, 6))


def use_exceptions() -> Callable[[], object]:
    def deep(depth: int) -> int:
        return max(deep(each - 1) for each in (depth,)) if depth else int("no number")

    def turn() -> object:
        for _ in range(20):
            try:
                deep(6)
            except ValueError:
                pass
        return [type("C", (), {"__eq__": lambda a, b: True})() == 1 for _ in range(20)]

    return turn


def use_imports() -> Callable[[], object]:
    def turn() -> object:
        for name in ("decimal", "_decimal", "unicodedata", "_lsprof", "array", "audioop", "_bisect"):
            sys.modules.pop(name, None)
            try:
                __import__(name)
            except ImportError:
                pass
        return ctypes.CDLL(None).strlen(b"text")

    return turn


def use_threads() -> Callable[[], object]:
    def turn() -> object:
        turns = [use_json(), use_zlib(), use_sort(), use_hashlib()]
        threads = [threading.Thread(target=lambda each=each: [each() for _ in range(20)]) for each in turns]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return None

    return turn


def use_greenlets() -> Callable[[], object]:
    import greenlet

    def child(values: list[int]) -> None:
        while True:
            values.sort(key=lambda value: (greenlet.getcurrent().parent.switch(value), -value)[1])

    children = [greenlet.greenlet(child) for _ in range(5)]

    def turn() -> object:
        return [each.switch(list(range(30))) for each in children for _ in range(20)]

    return turn


PROGRAMS = {
    "numpy": use_numpy,
    "pandas": use_pandas,
    "hashlib": use_hashlib,
    "ssl": use_ssl,
    "sqlite": use_sqlite,
    "json": use_json,
    "re": use_re,
    "sort": use_sort,
    "zlib": use_zlib,
    "exceptions": use_exceptions,
    "imports": use_imports,
    "threads": use_threads,
    "greenlets": use_greenlets,
}


def main() -> None:
    """Runs the program."""
    compared = ctypes.CDLL(None).unwinding_compared
    compared.restype = ctypes.c_long
    turn = PROGRAMS[sys.argv[1]]()
    while compared() < int(sys.argv[2]):
        turn()


if __name__ == "__main__":
    main()
