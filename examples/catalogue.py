"""Builds a searchable catalogue of made-up documents, in about five seconds: what `make demo` records.

Three threads compress and hash the documents (native code without the GIL), the main thread indexes their words
(Python) and keeps the index (memory), and numpy ranks the documents by how alike they are (native code).
"""

from __future__ import annotations

import hashlib
import queue
import random
import threading
import zlib
from collections import defaultdict

import numpy as np

DOCUMENTS = 4_000
WORDS = [
    f"{first}{second}{third}" for first in "bdfgklm" for second in "aeiou" for third in ("n", "rt", "st", "lo", "mi")
]


def write_document(chance: random.Random) -> list[str]:
    return chance.choices(WORDS, k=800)


def fingerprint(text: bytes) -> bytes:
    digest = text
    for _ in range(30):
        digest = hashlib.sha256(digest + text).digest()
    return digest


def compress_documents(waiting: queue.Queue[bytes | None], store: dict[bytes, bytes]) -> None:
    while (text := waiting.get()) is not None:
        store[fingerprint(text)] = zlib.compress(text, 6)


def index_words(words: list[str], number: int, index: dict[str, list[tuple[int, int]]]) -> None:
    for position, word in enumerate(words):
        index[word].append((number, position))


def rank(index: dict[str, list[tuple[int, int]]]) -> np.ndarray:
    counts = np.zeros((DOCUMENTS, len(index)))
    for column, places in enumerate(index.values()):
        np.add.at(counts[:, column], [number for number, _ in places], 1.0)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    alike = counts @ counts.T
    np.fill_diagonal(alike, 0.0)
    return alike.argmax(axis=1)


def main() -> None:
    chance = random.Random(11)
    waiting: queue.Queue[bytes | None] = queue.Queue(100)
    store: dict[bytes, bytes] = {}
    index: dict[str, list[tuple[int, int]]] = defaultdict(list)
    threads = [threading.Thread(target=compress_documents, args=(waiting, store)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(DOCUMENTS):
        words = write_document(chance)
        index_words(words, number, index)
        waiting.put(" ".join(words).encode())
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    nearest = rank(index)
    print(f"{len(store)} documents, {len(index)} words, document 0 is most like document {nearest[0]}")


if __name__ == "__main__":
    main()
