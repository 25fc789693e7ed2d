"""How many bytes the texts in lists (command lines) unfold to.

Columns of single texts are added up by DuckDB, which refers to the texts of a dictionary. Texts in lists it copies, each as
often as it is referred to. So they are added up here, from the lengths in the dictionary and the numbers of references.
Only for columns that could unfold to much: this loads pyarrow, to decompress their pages.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..parquet.thrift import NotThrift, ThriftReader
from .footer import Chunk
from .pages import PLAIN, Page, Read

_UNCOMPRESSED, _ZSTD = 0, 6
#: Bits of an index. A dictionary of MOST_PAGE_BYTES has at most 2 ** 24 texts.
_WIDEST = 24


def text_bytes(chunk: Chunk, pages: Iterable[Page], read: Read) -> int:
    """The bytes of all texts of a column chunk of lists, at most seven texts too many for each page. Raises NotThrift."""
    lengths, total, at = list[int](), 0, chunk.start
    for page in pages:
        contents_at = at + page.head_bytes
        at = contents_at + page.stored_bytes
        if page.encoding == PLAIN and not page.is_dictionary:
            total += page.unfolded_bytes
            continue
        data = _unfolded(read(contents_at, page.stored_bytes), page, chunk.codec)
        if page.is_dictionary:
            lengths = _lengths(data)
        else:
            total += _referred(data, lengths)
    return total


def _unfolded(data: bytes, page: Page, codec: int) -> bytes:
    if codec == _UNCOMPRESSED:
        return data
    if codec != _ZSTD:
        raise NotThrift(f"the compression {codec} is that of no trace")
    import pyarrow as pa

    try:
        return bytes(pa.Codec("zstd").decompress(data, page.unfolded_bytes, asbytes=True))
    except (OSError, pa.ArrowException) as error:
        raise NotThrift("a page cannot be decompressed") from error


def _lengths(data: bytes) -> list[int]:
    """The lengths of the texts of a dictionary, each of which stands before its text."""
    found, at = list[int](), 0
    while at < len(data):
        found.append(int.from_bytes(data[at : at + 4], "little"))
        at += 4 + found[-1]
    return found


def _referred(data: bytes, lengths: list[int]) -> int:
    """The bytes of the texts that a page refers to: two blocks of levels, each after its length, then runs of indices."""
    at = 0
    for _ in range(2):
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return _runs(data, at + 1, data[at], lengths) if at < len(data) else 0


def _runs(data: bytes, at: int, width: int, lengths: list[int]) -> int:
    """The lengths at the indices of ``width`` bits from ``at`` on, added up. A run repeats one index, or packs groups of eight
    indices one after the other, the lowest bits first."""
    if width > _WIDEST:
        raise NotThrift("an index is too wide")
    table, total, reader = np.array(lengths, np.int64), 0, ThriftReader(data, at)
    try:
        while reader.at < len(data):
            head, at = reader.varint(), reader.at
            size = (head >> 1) * width if head & 1 else (width + 7) // 8
            part = data[at : at + size]
            if head & 1:
                total += int(table[_unpacked(part, width)].sum()) if width else (head >> 1) * 8 * int(table[0])
            else:
                total += (head >> 1) * int(table[int.from_bytes(part, "little")])
            reader.at = at + size
    except IndexError:
        raise NotThrift("an index is not in the dictionary") from None
    return total


def _unpacked(data: bytes, width: int) -> npt.NDArray[np.int64]:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    whole = bits[: len(bits) // width * width].reshape(-1, width).astype(np.int64)
    return whole @ (np.int64(1) << np.arange(width, dtype=np.int64))
