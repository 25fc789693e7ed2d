"""What a trace may unfold to. A file of some kilobytes can claim any number of rows, and pages of gigabytes.

Each limit has the reason for its figure; the margins to large recordings are measured in docs/design/analysis.md. What a
file holds of a kind of row, and the sum of its texts, cannot be seen here: ``analyze/trace/contents.py`` checks it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dataclass import dataclass, field
from ..parquet.thrift import NotThrift
from .footer import BYTE_ARRAY, FIXED_BYTES, Chunk, FooterReader, Leaf, RowGroup, TooMany
from .largest import (
    FOOTER_BYTES,
    GROUP_FOOTER_BYTES,
    MIB,
    MOST_GROUPS,
    TooLarge,
    check_footer_size,
    limit,
)
from .pages import ENCODINGS, PageReader

#: Columns, structs and lists included. The format has 190.
MOST_COLUMNS = 1_000
#: Pairs of key and value in the footer. A trace has four.
MOST_KEY_VALUES = 100
#: Rows. The densest kinds take more than a byte for each, compressed, since their times differ. Small files may have more,
#: because rows that are all alike compress to almost nothing.
FREE_ROWS, ROWS_PER_BYTE = 2_000_000, 8
#: Values in lists, which are frames of stacks and words of command lines. A recording of 100,000 stacks of 1,000 frames has
#: 100 million.
MOST_LIST_VALUES = 300_000_000
#: The same by the size of the file: each stack takes at least 24 bytes, for its hash and a sample, and has at most 512
#: frames (MAX_FRAMES of the shim). A small file may have more.
FREE_LIST_VALUES, LIST_VALUES_PER_BYTE = 20_000_000, 64
#: Texts in lists, which are words of command lines: at most 2 MiB for each process, hardly ever more than a kilobyte.
MOST_LIST_TEXT_BYTES = 256 * MIB
#: A page, or a dictionary. Both are written at 1 MB, but at most 1,024 values later: these may be long.
MOST_PAGE_BYTES = 64 * MIB
#: Pages. A trace has one for each two kilobytes; a small one, whose columns are mostly empty, for each 60 bytes.
FREE_PAGES, BYTES_PER_PAGE = 100_000, 256
#: The pages that a reader holds at once: the largest ones of each column of a row group, with their dictionaries.
MOST_HELD_BYTES = 256 * MIB
#: All pages of a file, by its size. Numbers are stored so that zstd makes them a third to a fifth of their size, and texts a
#: tenth at best; small files may unfold to more.
FREE_BYTES, UNFOLDED_PER_BYTE = 256 * MIB, 64

_MOST_WIDTH = 64


@dataclass()
class Sizes:
    """What a file claims, summed over its row groups."""

    rows: int = 0
    pages: int = 0
    list_values: int = 0
    list_text_bytes: int = 0
    #: Columns of lists in row groups whose part of ``list_text_bytes`` is only a bound.
    bounded: list[tuple[Chunk, int]] = field(default_factory=list)
    unfolded_bytes: int = 0


def check_sizes(footer: bytes, footer_at: int, read: Callable[[int, int], bytes]) -> Sizes:
    """Checks all that the footer and the heads of all pages claim; ``footer_at``: offset of the footer, where the pages end.

    ``read(at, count)``: bytes of the file. Raises TooLarge, and NotThrift if footer or pages cannot be read.
    """
    reader = FooterReader(footer, MOST_COLUMNS, MOST_GROUPS, MOST_KEY_VALUES)
    sizes, pages, file_bytes, groups = Sizes(), PageReader(read), footer_at + len(footer), 0
    try:
        for group in reader.groups():
            groups += 1
            limit("its metadata has", reader.read_bytes, FOOTER_BYTES + groups * GROUP_FOOTER_BYTES, "bytes")
            _check_group(group, reader.footer.leaves, footer_at, pages, sizes)
            limit("it has", sizes.rows, FREE_ROWS + ROWS_PER_BYTE * file_bytes, "rows")
            most = min(FREE_LIST_VALUES + LIST_VALUES_PER_BYTE * file_bytes, MOST_LIST_VALUES)
            limit("its lists have", sizes.list_values, most, "elements")
            limit("the texts in its lists unfold to", sizes.list_text_bytes, MOST_LIST_TEXT_BYTES, "bytes")
            limit("it has", sizes.pages, FREE_PAGES + file_bytes // BYTES_PER_PAGE, "pages")
            most = FREE_BYTES + UNFOLDED_PER_BYTE * file_bytes
            limit("its columns unfold to", sizes.unfolded_bytes, most, "bytes")
    except TooMany as error:
        raise TooLarge(f"it has {error.count:,} {error.what}, and the limit is {error.most:,}") from None
    except IndexError:
        raise NotThrift("the bytes end too early") from None
    limit("its metadata has", len(footer), FOOTER_BYTES + groups * GROUP_FOOTER_BYTES, "bytes")
    return sizes


def _check_group(group: RowGroup, leaves: list[Leaf], end: int, pages: PageReader, sizes: Sizes) -> None:
    held = 0
    for leaf, chunk in zip(leaves, group.chunks, strict=True):
        if leaf.type == FIXED_BYTES and leaf.width > _MOST_WIDTH:
            raise TooLarge(f"a value of its column {leaf.name} has {leaf.width:,} bytes")
        if not leaf.is_list and chunk.values != group.rows:
            raise NotThrift(f"the column {leaf.name} has not as many values as rows")
        held += _check_chunk(leaf, chunk, end, pages, sizes)
        sizes.list_values += chunk.values if leaf.is_list else 0
    limit("the pages of a row group unfold to", held, MOST_HELD_BYTES, "bytes")
    sizes.rows += group.rows


def _check_chunk(leaf: Leaf, chunk: Chunk, end: int, pages: PageReader, sizes: Sizes) -> int:
    """Checks the pages of a column in a row group. Returns how many bytes a reader of it holds at once."""
    if chunk.stored_bytes == chunk.values == 0:  # no rows, no pages
        return 0
    if not 4 <= chunk.start <= chunk.start + chunk.stored_bytes <= end:
        raise NotThrift(f"the pages of the column {leaf.name} are not in the file")
    values, largest, dictionary = 0, 0, 0
    for page in pages.pages(chunk.start, chunk.start + chunk.stored_bytes):
        if page.encoding not in ENCODINGS:
            raise NotThrift(f"the column {leaf.name} has the encoding {page.encoding}, which no trace has")
        what = "a dictionary" if page.is_dictionary else "a page"
        limit(f"{what} of its column {leaf.name} unfolds to", page.unfolded_bytes, MOST_PAGE_BYTES, "bytes")
        sizes.unfolded_bytes += page.unfolded_bytes
        sizes.pages += 1
        if page.is_dictionary:
            dictionary = max(dictionary, page.unfolded_bytes)
        else:
            values += page.values
            largest = max(largest, page.unfolded_bytes)
    if values != chunk.values:
        raise NotThrift(f"the pages of the column {leaf.name} have not as many values as its metadata says")
    if leaf.is_list and leaf.type == BYTE_ARRAY:
        _count_list_texts(chunk, values * dictionary, pages, sizes)
    return largest + dictionary


def _count_list_texts(chunk: Chunk, most: int, pages: PageReader, sizes: Sizes) -> None:
    """Adds the bytes of the texts of lists: the bound ``most``, which they would have if all were as long as the whole
    dictionary, or, where all bounds together exceed the limit, the exact sums."""
    sizes.bounded.append((chunk, most))
    sizes.list_text_bytes += most
    if sizes.list_text_bytes <= MOST_LIST_TEXT_BYTES:
        return
    from .list_texts import text_bytes

    for each, bound in sizes.bounded:
        exact = text_bytes(each, pages.pages(each.start, each.start + each.stored_bytes), pages.read)
        sizes.list_text_bytes += exact - bound
    sizes.bounded.clear()


__all__ = ["NotThrift", "TooLarge", "check_footer_size", "check_sizes"]
