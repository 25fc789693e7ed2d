"""Reads the heads of the pages of a Parquet file: how many values each page has, and how many bytes it unfolds to.

A reader of Parquet allocates what the head of a page says, whatever the footer says of its column. So the heads of all
pages are read here before anything is unfolded; their contents are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...dataclass import dataclass
from ..parquet.thrift import I32, STRUCT, NotThrift, ThriftReader

Read = Callable[[int, int], bytes]  #: the bytes of the file from an offset on, at most so many

#: Encodings of values, as Parquet numbers them.
PLAIN, PLAIN_DICTIONARY, RLE, DELTA_NUMBERS, RLE_DICTIONARY = 0, 2, 3, 5, 8
#: What a trace may contain. Another encoding, in which each text repeats the start of the one before, could unfold a page to
#: any size; no trace has it.
ENCODINGS = frozenset({PLAIN, PLAIN_DICTIONARY, RLE, DELTA_NUMBERS, RLE_DICTIONARY})
_DATA, _DICTIONARY = 0, 2
#: Field of the head that describes the page, by its type; in it, the fields for the number of values and the encoding.
_DESCRIPTIONS = {_DATA: (5, 1, 2), _DICTIONARY: (7, 1, 2)}

#: The heads are read in blocks of the file. A head takes some 20 bytes, with statistics hardly more than 100.
_BLOCK_BYTES, _LONGEST_HEAD_BYTES = 1 << 16, 1 << 12
#: A head of at most so many bytes is recognized when it is there again: most columns of a row group are empty, and alike.
_SHORT_HEAD_BYTES = 24
_MOST_KNOWN = 4096


@dataclass(frozen=True)
class Page:
    """A page. ``head_bytes``: size of its head; ``stored_bytes``, ``unfolded_bytes``: of its contents, in the file and in
    memory."""

    is_dictionary: bool
    values: int
    encoding: int
    head_bytes: int
    stored_bytes: int
    unfolded_bytes: int


class PageReader:
    """Reads the heads of pages. ``read`` reads the file."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self._block, self._block_at = b"", 0
        self._known: dict[bytes, Page] = {}

    def pages(self, start: int, end: int) -> Iterator[Page]:
        """The pages between two offsets of the file. Raises NotThrift where they do not fill that range."""
        at = start
        while at < end:
            page = self._page(at)
            at += page.head_bytes + page.stored_bytes
            yield page
        if at != end:
            raise NotThrift("the pages of a column do not end where its metadata says")

    def _page(self, at: int) -> Page:
        offset = at - self._block_at
        if offset < 0 or offset + _LONGEST_HEAD_BYTES > len(self._block):
            self._block, self._block_at, offset = self.read(at, _BLOCK_BYTES), at, 0
        key = self._block[offset : offset + _SHORT_HEAD_BYTES]
        page = self._known.get(key)
        if page is None:
            page = read_head(self._block[offset : offset + _LONGEST_HEAD_BYTES])
            if page.head_bytes <= len(key) and len(self._known) < _MOST_KNOWN:
                self._known[key] = page
        return page


def read_head(data: bytes) -> Page:
    """The page whose head ``data`` begins with."""
    reader, numbers, described = ThriftReader(data), dict[int, int](), dict[int, dict[int, int]]()
    for number, kind in reader.fields():
        if kind == I32:
            numbers[number] = reader.integer()
        elif kind == STRUCT:
            described[number] = _integers(reader)
        else:
            reader.skip(kind)
    kind, unfolded, stored = (numbers.get(number, -1) for number in (1, 2, 3))
    place, values, encoding = _DESCRIPTIONS.get(kind, (-1, 0, 0))
    found = described.get(place, {})
    if min(unfolded, stored, found.get(values, -1), found.get(encoding, -1)) < 0:
        raise NotThrift("the head of a page is incomplete")
    return Page(kind == _DICTIONARY, found[values], found[encoding], reader.at, stored, unfolded)


def _integers(reader: ThriftReader) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, kind in reader.fields():
        if kind == I32:
            found[number] = reader.integer()
        else:
            reader.skip(kind)
    return found
