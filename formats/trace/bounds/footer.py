"""Reads what the footer of a Parquet file says of the file: its columns, and where the rows of each row group are.

DuckDB reads the same bytes later and believes them. So everything that a footer can claim is bounded here first
(:mod:`.limits`): the number of columns, of row groups and of elements of every list.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dataclass import dataclass, field
from ..parquet.thrift import BINARY, I32, I64, LIST, STRUCT, NotThrift, ThriftReader

#: Types of columns, as Parquet numbers them.
BYTE_ARRAY, FIXED_BYTES = 6, 7
_REPEATED = 2
#: A trace has at most four levels: the table, a struct, a list, its elements.
_DEEPEST = 8
#: Bytes of the name of a column that a message shows.
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Leaf:
    """A column that holds values. ``name``: with the names of the structs around it, joined by dots; ``width``: bytes of a
    value of fixed size, 0 for others; ``is_list``: a row may have any number of values."""

    name: str
    type: int
    width: int
    is_list: bool


@dataclass(frozen=True)
class Chunk:
    """The values of a column in a row group. ``codec``: how its pages are compressed; ``start``, ``stored_bytes``: where its
    pages are in the file."""

    codec: int
    values: int
    start: int
    stored_bytes: int


@dataclass(frozen=True)
class RowGroup:
    rows: int
    chunks: list[Chunk]


@dataclass()
class Footer:
    """The leaves in the order of the chunks of each row group; ``groups`` reads row groups one at a time. ``key_values``: how
    many pairs of key and value follow the row groups (known once these were read)."""

    leaves: list[Leaf] = field(default_factory=list)
    group_count: int = 0
    key_values: int = 0


class FooterReader:
    """Reads a footer once, front to back; ``footer`` fills while :meth:`groups` is read. Raises NotThrift.

    ``most_columns``, ``most_groups``: how many there may be; :class:`TooMany` is raised for more.
    """

    def __init__(self, data: bytes, most_columns: int, most_groups: int, most_key_values: int) -> None:
        self._reader = ThriftReader(data)
        self._most = {2: most_columns, 4: most_groups, 5: most_key_values, 7: most_columns}
        self.footer = Footer()

    @property
    def read_bytes(self) -> int:
        """How many bytes of the footer have been read."""
        return self._reader.at

    def groups(self) -> Iterator[RowGroup]:
        """The row groups in their order."""
        reader, seen = self._reader, set[int]()
        for number, kind in reader.fields():
            if number in seen:
                raise NotThrift("a field of the footer is there twice")
            seen.add(number)
            if kind != LIST:
                reader.skip(kind)
                continue
            size, inner = reader.elements()
            _check_count(number, size, self._most.get(number, 0))
            if number == 2 and inner == STRUCT:
                self.footer.leaves = _leaves(_schema_elements(reader, size))
            elif number == 4 and inner == STRUCT:
                self.footer.group_count = size
                yield from (self._group() for _ in range(size))
            else:
                self.footer.key_values = size if number == 5 else self.footer.key_values
                for _ in range(size):
                    reader.skip(inner)

    def _group(self) -> RowGroup:
        reader, rows, chunks = self._reader, -1, list[Chunk]()
        for number, kind in reader.fields():
            if number == 1 and kind == LIST and not chunks:
                size, _ = reader.elements()
                if size != len(self.footer.leaves):
                    raise NotThrift("a row group has not as many columns as the table")
                chunks = [_chunk(reader) for _ in range(size)]
            elif number == 3 and kind == I64:
                rows = reader.integer()
            else:
                reader.skip(kind)
        if len(chunks) != len(self.footer.leaves) or rows < 0:
            raise NotThrift("a row group has no columns or no number of rows")
        return RowGroup(rows, chunks)


class TooMany(ValueError):  # noqa: N818 (says what is wrong)
    """A footer has more of something than any trace. ``what``, ``count``, ``most`` for a message."""

    def __init__(self, what: str, count: int, most: int) -> None:
        super().__init__(what)
        self.what, self.count, self.most = what, count, most


_LISTS = {2: "columns", 4: "row groups", 5: "pairs of key and value", 7: "columns"}


def _check_count(number: int, count: int, most: int) -> None:
    if count > most:
        raise TooMany(_LISTS.get(number, "unknown elements"), count, most)


@dataclass(frozen=True)
class _Element:
    """An element of the schema: a column, or a struct or list with so many children."""

    name: str
    type: int
    width: int
    repetition: int
    children: int


def _schema_elements(reader: ThriftReader, size: int) -> list[_Element]:
    return [_element(reader) for _ in range(size)]


def _element(reader: ThriftReader) -> _Element:
    numbers, name = {1: -1, 2: 0, 3: 0, 5: 0}, ""
    for number, kind in reader.fields():
        if kind == I32 and number in numbers:
            numbers[number] = reader.integer()
        elif number == 4 and kind == BINARY:
            name = reader.binary()[:_LONGEST_NAME].decode("utf-8", "replace")
        else:
            reader.skip(kind)
    return _Element(name, numbers[1], numbers[2], numbers[3], numbers[5])


def _leaves(elements: list[_Element]) -> list[Leaf]:
    """The leaves of the schema, which lists each struct before its children."""
    found: list[Leaf] = []
    if not elements or _add_leaves(elements, 0, (), False, found) != len(elements):
        raise NotThrift("the columns do not form a tree")
    return found


def _add_leaves(elements: list[_Element], at: int, above: tuple[str, ...], is_list: bool, found: list[Leaf]) -> int:
    """Adds the leaves of the element at ``at``; the place after it and its children."""
    if at >= len(elements) or len(above) > _DEEPEST:
        raise NotThrift("the columns do not form a tree")
    each = elements[at]
    is_list = is_list or each.repetition == _REPEATED
    names = (*above, each.name) if at else ()
    if not each.children and at:
        found.append(Leaf(".".join(names), each.type, each.width, is_list))
        return at + 1
    at += 1
    for _ in range(each.children):
        at = _add_leaves(elements, at, names, is_list, found)
    return at


#: Fields of a chunk's metadata: codec, values, bytes in the file, first data page, dictionary page.
_CODEC, _VALUES, _STORED, _DATA, _DICTIONARY = 4, 5, 7, 9, 11


def _chunk(reader: ThriftReader) -> Chunk:
    found: dict[int, int] = {}
    for number, kind in reader.fields():
        if number == 3 and kind == STRUCT:
            found = _chunk_numbers(reader)
        else:
            reader.skip(kind)
    try:
        data, dictionary = found[_DATA], found.get(_DICTIONARY, 0)
        start = dictionary if dictionary > 0 else data
        return Chunk(found[_CODEC], found[_VALUES], start, found[_STORED])
    except KeyError:
        raise NotThrift("a column lacks its metadata") from None


def _chunk_numbers(reader: ThriftReader) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, kind in reader.fields():
        if kind in (I32, I64):
            found[number] = reader.integer()
        else:
            reader.skip(kind)
    return found
