"""Splits a source text into functions and classes by indentation.

No parser is used: the text may be written for another Python version or not be Python at all, and hostile text can crash a
parser. A block that is split wrongly only costs a few matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_HEAD = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")
_QUOTES = re.compile(r'"""|\'\'\'')
#: Lines that may be indented less than the block that they belong to.
_NO_END = ("#", ")", "]", "}")


@dataclass(frozen=True)
class Block:
    """A function, a class, or the code outside of them (name ""), without the lines of inner blocks.

    ``numbers``: line numbers from 1. ``texts``: the lines without leading and trailing blanks. Both omit empty lines.
    """

    file: str
    name: str
    numbers: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, number: int, text: str) -> None:
        """Adds a line by its number and its text without surrounding blanks."""
        self.numbers.append(number)
        self.texts.append(text)


def blocks_of(file: str, lines: Sequence[str]) -> list[Block]:
    """The blocks of a text in the order of their first lines; the first block is the code outside of all others."""
    found = [Block(file, "")]
    opened: list[tuple[int, Block]] = [(-1, found[0])]
    is_text = False  # inside a string of several lines
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        indent = _indent(line)
        if not is_text and not text.startswith(_NO_END):
            while indent <= opened[-1][0]:
                opened.pop()
            if head := _HEAD.match(text):
                outer = opened[-1][1].name
                opened.append((indent, Block(file, f"{outer}.{head[1]}" if outer else head[1])))
                found.append(opened[-1][1])
        opened[-1][1].add(number, text)
        is_text ^= len(_QUOTES.findall(text)) % 2 == 1
    return found


def _indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())
