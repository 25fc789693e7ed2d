"""Records that are read while the program runs: those of chunks that will not change any more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from .chunks import Chunk, Offers, View, finished_chunk, part_chunks
from .events import records_in
from .reader import ReadBefore, Records, merged

#: Of all records together: they are in memory for as long as the program runs.
_MOST_BYTES = 8 << 20
#: Of chunks that are closed and have a record that was not published. Hardly any program has more.
_MOST_UNFINISHED = 64


class EarlyRecords(ReadBefore):
    """The records of finished chunks, about 8 MiB of them; what comes later can be surveyed.

    The chunks of a process are read in their order, but for one with a record that is not published. Where one was left
    out because of a limit, so are all later ones: the records of all that were kept are older than those of the others
    (nearly, as those of batches are).
    """

    def __init__(self) -> None:
        super().__init__()
        self._read_up_to: dict[Path, int] = {}  # of each part file
        self._left_bytes = _MOST_BYTES
        self._given: tuple[list[Chunk], dict[Path, int]] = [], {}

    @property
    def is_full(self) -> bool:
        """No further records are kept."""
        return self._left_bytes <= 0

    def taken(self) -> Offers:
        """The offers of the chunks that are kept or surveyed, as a set of their own."""
        return self.offers | (self.surveyed or Offers())

    def new_chunks(self, view: View, most: int) -> list[Chunk]:
        """The finished chunks of ``view`` that are neither kept nor surveyed, ``most`` of them at most. Raises OSError."""
        read_up_to = dict(self._read_up_to)
        found = list(itertools.islice(_finished(view, self.taken(), read_up_to), most))
        self._given = found, read_up_to
        return found

    def keep(self, records: Records) -> None:
        """Keeps the records of the chunks that :meth:`new_chunks` has given. Those that are not kept are read at the end."""
        chunks = self._take(self.offers)
        slots = sum(records_in(each.slots) for each in chunks)
        if slots:
            size, parts = records.nbytes, list(self.parts)
            while parts and parts[-1][0] <= 2 * slots:  # so a long recording has few parts, each of which takes 8 KB
                slots, records = slots + parts[-1][0], merged([parts.pop()[1], records])
            self.parts = [*parts, (slots, records)]
            self._left_bytes -= size

    def begin_survey(self) -> None:
        """Call when all that was kept is in a survey."""
        self.surveyed = Offers()

    def have_surveyed(self) -> None:
        """Call when the chunks that :meth:`new_chunks` has given are in the survey instead."""
        assert self.surveyed is not None
        self._take(self.surveyed)

    def end_survey(self) -> None:
        """Call when there is no survey any more. Chunks that were given are read at the end."""
        self.surveyed = None
        self._given = [], self._read_up_to

    def _take(self, offers: Offers) -> list[Chunk]:
        """Adds the given chunks to ``offers``, and returns them."""
        chunks, self._read_up_to = self._given
        self._given = [], self._read_up_to
        for each in chunks:
            offers.add(each.offer)
        return chunks


def _finished(view: View, offers: Offers, read_up_to: dict[Path, int]) -> Iterator[Chunk]:
    """The finished chunks of ``view`` whose offers are not in ``offers``, to which they are added. ``read_up_to``: the bytes
    of each part file that were read, which is kept up to date."""
    for path, size in view.parts:
        for chunk, end in part_chunks(path, read_up_to.get(path, 0), size, offers):
            read_up_to[path] = end
            yield chunk
    with view.spool.open("rb", buffering=0) as file:
        unfinished = 0
        for each in view.live:
            if each.offer in offers or not each.is_closed:
                continue
            finished = finished_chunk(file.fileno(), each.place)
            if finished is not None and finished.offer == each.offer:
                offers.add(each.offer)
                yield finished
            elif (unfinished := unfinished + 1) > _MOST_UNFINISHED:
                return
