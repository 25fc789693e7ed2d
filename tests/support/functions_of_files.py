"""Which functions a file with native code has, by the rules for its frames: also where symbols were stripped."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections import Counter
from functools import cache
from pathlib import Path

RULE = re.compile(r" FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$")
CODE = re.compile(r"^\s+LOAD\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+R E")


def lines_of(*command: str) -> list[str]:
    """The output of a tool. Its status does not count: readelf fails if a file names a file of symbols that is not there."""
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


class NativeCode:
    """The functions of a file, each by the offset in the file at which it starts. A part that the compiler has put elsewhere
    (``.cold``) counts as its function, if the file has symbols."""

    def __init__(self, file: str) -> None:
        segments = [found for line in lines_of("readelf", "-lW", file) if (found := CODE.match(line))]
        self._bias = int(segments[0][2], 16) - int(segments[0][1], 16)
        rules = {
            (int(found[1], 16), int(found[2], 16))
            for line in lines_of("readelf", "--debug-dump=frames", file)
            if (found := RULE.search(line))
        }
        ordered = sorted((start - self._bias, end - self._bias) for start, end in rules)
        self._starts = [start for start, _ in ordered]
        self._ends = [end for _, end in ordered]
        self._whole = self._parts(file)
        self._bytes = Path(file).read_bytes()

    def _parts(self, file: str) -> dict[int, int]:
        """Start of a part to start of its function, of which there must be one by that name."""
        symbols = [line.split() for line in lines_of("nm", file) if line[:1] != " "]
        named = [(int(words[0], 16) - self._bias, words[2]) for words in symbols if len(words) == 3]
        counts = Counter(name for _, name in named)
        starts = {name: start for start, name in named if counts[name] == 1}
        parts = {start: starts.get(name.removesuffix(".cold"), start) for start, name in named if ".cold" in name}
        return {start: whole for start, whole in parts.items() if start != whole}

    def start_of(self, offset: int) -> int | None:
        """Where the function starts that contains the instruction; None = no function does."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset >= self._ends[index]:
            return None
        start = self._starts[index]
        return self._whole.get(start, start)

    def has_direct_call(self, after: int) -> bool:
        """Whether the call instruction before ``after`` names its function, rather than calling through a pointer."""
        if self._bytes[after - 5] != 0xE8:
            return False
        distance = int.from_bytes(self._bytes[after - 4 : after], "little", signed=True)
        return self.start_of(after + distance) is not None


@cache
def native_code(file: str) -> NativeCode:
    """The functions of a file, read once."""
    return NativeCode(file)
