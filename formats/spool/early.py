"""Records that are read while the program runs: those of chunks that will not change any more."""

from __future__ import annotations

from pathlib import Path

from .chunks import Chunk, View, finished_chunk, part_chunks, use_of
from .reader import ReadBefore, Records

#: Of all records together: they are in memory for as long as the program runs.
_MOST_BYTES = 8 << 20


class EarlyRecords(ReadBefore):
    """The records of finished chunks, about 8 MiB of them.

    The chunks of a process are read in their order. Where one was left out, because of a limit, so are all later ones: the
    records of all that were kept are older than those of the others (nearly, as those of batches are).
    """

    def __init__(self) -> None:
        super().__init__()
        self._positions: dict[Path, int] = {}
        self._left_bytes = _MOST_BYTES

    def new_chunks(self, view: View, most: int) -> list[Chunk]:
        """The finished chunks of ``view`` that were not given before, about ``most`` of them. Raises OSError."""
        found: list[Chunk] = []
        if self._left_bytes <= 0:
            return found
        for path, size in view.parts:
            for chunk, end in part_chunks(path, self._positions.get(path, 0), size, self.offers):
                found.append(chunk)
                self._positions[path] = end
                if len(found) >= most:
                    return found
        with view.spool.open("rb", buffering=0) as file:
            for offer, index in view.live:
                if len(found) >= most:
                    break
                if offer in self.offers or not use_of(file.fileno(), index)[1]:
                    continue
                chunk_in_spool = finished_chunk(file.fileno(), index)
                if chunk_in_spool is not None and chunk_in_spool.offer == offer:
                    self.offers.add(offer)
                    found.append(chunk_in_spool)
        return found

    def keep(self, chunks: list[Chunk], records: Records) -> None:
        """Keeps the records of ``chunks``, which :meth:`new_chunks` has given."""
        if chunks:
            self.parts.append((sum(len(each.slots) for each in chunks), records))
            self._left_bytes -= records.nbytes
