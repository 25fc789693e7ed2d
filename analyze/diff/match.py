"""Pairs the lines of two versions of a program, including lines that moved.

difflib alone does not follow a block that moved. So functions are paired first (by name, then by content), then the lines
within each pair, then remaining lines with unique text; last, edited lines are paired with the lines in their place
(docs/design/diff.md).
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..trace.sources import Sources
from .code_blocks import Block, blocks_of

Place = tuple[str, int]  #: (file, line from 1)
Pairs = dict[Place, Place]

#: Least share of equal lines of two functions that are taken for one: with the same name, and with different names.
_SAME_NAME, _OTHER_NAME = 0.3, 0.5
#: Least similarity (difflib's ratio) of an edited line to the original, and the longest line that is compared this way.
_EDITED, _LONGEST_EDITED = 0.6, 400
#: Shorter texts are too common to identify a line.
_SHORTEST_UNIQUE = 8
#: Limits of the work: comparisons of equal lines within a pair of blocks, pairs of files, and comparisons of characters to
#: find edited lines.
_MOST_EQUAL, _MOST_PAIRS, _MOST_CHARACTERS = 2_000_000, 200_000, 5_000_000


def match_files(before: Iterable[str], after: Iterable[str], sources: tuple[Sources, Sources]) -> dict[str, str]:
    """File before -> the same file after: by path, by the end of the path (at least the file name), then by equal lines."""
    left, right = sorted(before), sorted(after)
    same = set(left) & set(right)
    found = {file: file for file in same}
    left, right = [file for file in left if file not in same], [file for file in right if file not in same]
    scores = [(_common_end(a, b), a, b) for a in left for b in right]
    _take_best(found, [score for score in scores if score[0]])
    left, right = [a for a in left if a not in found], [b for b in right if b not in set(found.values())]
    if len(left) * len(right) <= _MOST_PAIRS:
        counts = {file: Counter(map(str.strip, source.get(file, []))) for source in sources for file in source}
        alike = [(_dice(counts.get(a, Counter()), counts.get(b, Counter())), a, b) for a in left for b in right]
        _take_best(found, [score for score in alike if score[0] >= _OTHER_NAME])
    return found


def _common_end(a: str, b: str) -> int:
    """The number of equal parts at the ends of two paths."""
    pairs = zip(reversed(a.split("/")), reversed(b.split("/")), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _take_best(found: dict[str, str], scores: list[tuple[float, str, str]]) -> None:
    """Adds the pairs with the highest scores; each file is used once."""
    taken = set(found.values())
    for _, a, b in sorted(scores, key=lambda score: (-score[0], score[1:])):
        if a not in found and b not in taken:
            found[a] = b
            taken.add(b)


def match_lines(before: Sources, after: Sources) -> Pairs:
    """Line of ``before`` -> the same line in ``after``, unchanged, moved or edited; removed lines are absent."""
    files = match_files(before, after, (before, after))
    same = {file: other for file, other in files.items() if before[file] == after[other]}
    pairs = {(file, n): (other, n) for file, other in same.items() for n in range(1, len(before[file]) + 1)}
    left = [block for file in before if file not in same for block in blocks_of(file, before[file])]
    right = [block for file in after if file not in same.values() for block in blocks_of(file, after[file])]
    _Matcher(files, left, right, pairs).run()
    return pairs


class _Matcher:
    """Pairs the lines of blocks and adds them to ``pairs``."""

    def __init__(self, files: dict[str, str], left: list[Block], right: list[Block], pairs: Pairs) -> None:
        self._files, self._left, self._right, self._pairs = files, left, right, pairs
        self._taken: set[Place] = set()
        self._characters = 0
        self._edited: list[tuple[list[tuple[Place, str]], list[tuple[Place, str]]]] = []

    def run(self) -> None:
        """Pairs the lines: within paired blocks, by unique text, next to paired lines, then edited lines."""
        for one, other in match_blocks(self._files, self._left, self._right):
            self._within(one, other)
        for key in (self._file_and_text, self._text):
            self._unique(key)
        self._adjacent(str.__eq__)
        for old, new in self._edited:
            self._similar(old, new)
        self._adjacent(self._is_edited)

    def _add(self, one: Place, other: Place) -> None:
        self._pairs[one] = other
        self._taken.add(other)

    def _within(self, one: Block, other: Block) -> None:
        """Pairs lines in the same order within two blocks that are the same function."""
        for kind, i, i_end, j, j_end in _compared(one.texts, other.texts):
            if kind == "equal":
                for number, new in zip(one.numbers[i:i_end], other.numbers[j:j_end], strict=True):
                    self._add((one.file, number), (other.file, new))
            elif kind == "replace":
                old = [((one.file, number), text) for number, text in _numbered(one, i, i_end)]
                self._edited.append((old, [((other.file, n), text) for n, text in _numbered(other, j, j_end)]))

    def _remaining(self) -> tuple[list[tuple[Place, str]], list[tuple[Place, str]]]:
        old = [((b.file, n), text) for b in self._left for n, text in zip(b.numbers, b.texts, strict=True)]
        new = [((b.file, n), text) for b in self._right for n, text in zip(b.numbers, b.texts, strict=True)]
        return [each for each in old if each[0] not in self._pairs], [e for e in new if e[0] not in self._taken]

    def _file_and_text(self, place: Place, text: str, is_old: bool) -> tuple[str, str]:
        return (self._files.get(place[0], "") if is_old else place[0]), text

    def _text(self, place: Place, text: str, is_old: bool) -> tuple[str, str]:
        return "", text

    def _unique(self, key: Callable[[Place, str, bool], tuple[str, str]]) -> None:
        """Pairs remaining lines whose text occurs exactly once on each side."""
        old, new = (
            _by_key((key(place, text, is_old), place) for place, text in lines if len(text) >= _SHORTEST_UNIQUE)
            for lines, is_old in zip(self._remaining(), (True, False), strict=True)
        )
        for name, places in old.items():
            if len(places) == 1 and len(new.get(name, [])) == 1:
                self._add(places[0], new[name][0])

    def _adjacent(self, is_same: Callable[[str, str], bool]) -> None:
        """Pairs lines above and below paired lines for as long as they are the same."""
        old, new = self._neighbours(self._left), self._neighbours(self._right)
        for step in (1, -1):
            waiting = list(self._pairs.items())
            while waiting:
                one, other = (
                    places.get((place, step)) for places, place in zip((old, new), waiting.pop(), strict=True)
                )
                if not one or not other or one[0] in self._pairs or other[0] in self._taken:
                    continue
                if is_same(one[1], other[1]):
                    self._add(one[0], other[0])
                    waiting.append((one[0], other[0]))

    @staticmethod
    def _neighbours(blocks: list[Block]) -> dict[tuple[Place, int], tuple[Place, str]]:
        """Place and text of the line after (1) and before (-1) each line of the blocks; empty lines are ignored."""
        lines = sorted(((b.file, n), text) for b in blocks for n, text in zip(b.numbers, b.texts, strict=True))
        found = {}
        for first, second in itertools.pairwise(lines):
            if first[0][0] == second[0][0]:
                found[first[0], 1], found[second[0], -1] = second, first
        return found

    def _similar(self, old: list[tuple[Place, str]], new: list[tuple[Place, str]]) -> None:
        """Pairs lines that one edit replaced by similar lines, in their order."""
        waiting = [each for each in new if each[0] not in self._taken]
        for place, text in old:
            if place in self._pairs or len(text) > _LONGEST_EDITED:
                continue
            found = next((i for i, (_, other) in enumerate(waiting[:20]) if self._is_edited(text, other)), None)
            if found is not None:
                self._add(place, waiting[found][0])
                del waiting[: found + 1]

    def _is_edited(self, old: str, new: str) -> bool:
        self._characters += len(old) * len(new)
        if len(new) > _LONGEST_EDITED or self._characters > _MOST_CHARACTERS:
            return old == new
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return matcher.quick_ratio() >= _EDITED and matcher.ratio() >= _EDITED


def _numbered(block: Block, start: int, end: int) -> Iterator[tuple[int, str]]:
    return zip(block.numbers[start:end], block.texts[start:end], strict=True)


def _by_key(items: Iterable[tuple[tuple[str, str], Place]]) -> dict[tuple[str, str], list[Place]]:
    groups: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for key, place in items:
        groups[key].append(place)
    return groups


def _compared(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """difflib's opcodes. If comparing repeated lines would cost too much, difflib ignores those lines (autojunk)."""
    counts = Counter(new)
    is_costly = sum(counts[text] for text in old) > _MOST_EQUAL
    return difflib.SequenceMatcher(None, old, new, autojunk=is_costly).get_opcodes()


def match_blocks(files: dict[str, str], left: list[Block], right: list[Block]) -> list[tuple[Block, Block]]:
    """Pairs of blocks that are the same function, class or file.

    First come blocks of the same name with common lines; then, regardless of place and name, blocks with the same lines, and
    those with half of their lines in common; last, blocks of the same name that were rewritten.
    """
    finder = _Finder(files, left, right)
    finder.by_key(lambda block, file: (file, block.name), _SAME_NAME)
    finder.by_key(lambda block, file: tuple(block.texts[1:]) if len(block.texts) > 2 else None)
    finder.by_likeness()
    finder.by_key(lambda block, file: (file, block.name))
    return finder.pairs


class _Finder:
    """Pairs blocks; each block is used once."""

    def __init__(self, files: dict[str, str], left: list[Block], right: list[Block]) -> None:
        self._files, self._left, self._right = files, list(left), list(right)
        self._counts = {id(block): Counter(block.texts) for block in (*left, *right)}
        self.pairs: list[tuple[Block, Block]] = []

    def by_key(self, key: Callable[[Block, str], object], least: float = 0.0) -> None:
        """Pairs blocks with the same key in their order. ``key`` takes the block and the name of its file in ``after``; None = no key."""
        waiting: dict[object, list[Block]] = defaultdict(list)
        for block in self._right:
            waiting[key(block, block.file)].append(block)
        waiting.pop(None, None)
        found = []
        for block in self._left:
            same = waiting.get(key(block, self._files.get(block.file, "")), [])
            if same and (self._likeness(block, same[0]) >= least or len(block.texts) < 3):
                found.append((block, same.pop(0)))
        self._pair(found)

    def by_likeness(self) -> None:
        """Pairs the most similar blocks first; among equals those of the same name."""
        holding: dict[str, list[Block]] = defaultdict(list)
        for block in self._right:
            for text in self._counts[id(block)]:
                holding[text].append(block)
        scores = []
        for index, block in enumerate(self._left):
            near = {id(b): b for text in self._counts[id(block)] for b in holding.get(text, [])[:50] if len(text) > 7}
            scores += [(self._score(block, other), -index, block, other) for other in near.values()]
        taken: set[int] = set()
        found = []
        for score, _, block, other in sorted(scores, key=lambda each: each[:2], reverse=True):
            if score >= _OTHER_NAME and not {id(block), id(other)} & taken:
                taken |= {id(block), id(other)}
                found.append((block, other))
        self._pair(found)

    def _score(self, block: Block, other: Block) -> float:
        is_same = block.name.rpartition(".")[2] == other.name.rpartition(".")[2]
        return self._likeness(block, other) + 0.1 * is_same

    def _likeness(self, block: Block, other: Block) -> float:
        return _dice(self._counts[id(block)], self._counts[id(other)])

    def _pair(self, found: list[tuple[Block, Block]]) -> None:
        gone = {id(block) for pair in found for block in pair}
        self.pairs += found
        self._left = [block for block in self._left if id(block) not in gone]
        self._right = [block for block in self._right if id(block) not in gone]


def _dice(one: Counter[str], other: Counter[str]) -> float:
    """Share of lines that two texts have in common, 0 to 1 (the coefficient of Dice 1945)."""
    whole = one.total() + other.total()
    return 2 * (one & other).total() / whole if whole else 0.0
