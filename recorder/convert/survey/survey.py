"""The first pass over a recording: everything that is small, or needed before the first sample can be converted."""

from __future__ import annotations

from collections.abc import Mapping

from ....formats.spool.codes import CodeObject
from ....formats.spool.memory import release_unused
from ....formats.spool.reader import Spool
from .collector import Collector


class Survey:
    """The survey of the recording in ``spool``. ``known_codes``: code objects that were read before, by hash; ``begun``: what
    was gathered of the chunks that the spool knows as surveyed. It is used up.

    ``lives``: what is known of each process and thread; ``nodes``, ``natives``: distinct node and native records, by hash;
    ``codes``: code objects by hash; ``command_writers``: the processes that have written each code object of ``-c``, by hash;
    ``stacks``, ``tick_stacks``, ``native_stacks``: distinct hashes of the stacks of all samples, of ticks, and of native
    stacks; ``lineage``: where processes come from; ``modules``: images that they have loaded; ``clocks``: each thread's CPU
    clock when its recording began; ``collections``: last count of garbage collections of each process; ``chunks``: how many
    each process has; ``gc_history``: counters of collections over time; ``types``: names by hash; ``last_ns``: time of the
    last record; ``damaged``: records that were unfinished or invalid. Times are those of the spool: CLOCK_MONOTONIC in
    nanoseconds.
    """

    def __init__(
        self, spool: Spool, known_codes: Mapping[int, CodeObject] | None = None, begun: Collector | None = None
    ) -> None:
        self.header = spool.header
        found = begun or Collector(self.start_ns, known_codes)
        del begun
        for batch in spool.batches(briefly=True):
            found.add(batch)
            del batch  # before the next one is read
        self.nodes, self.natives, self.types = found.nodes.all(), found.natives.all(), found.types
        stacks = found.stacks.all()
        self.stacks = stacks[stacks != 0]
        self.tick_stacks, self.native_stacks = found.tick_stacks.all(), found.native_stacks.all()
        self.codes, incomplete = found.codes.all()
        self.command_writers, self.gc_history = found.codes.writers, found.gc_history
        self.last_ns, self.damaged = found.last_ns, found.damaged + incomplete
        self.lives = found.lives()
        self.lineage, self.clocks = self.lives.starts.lineage(), self.lives.clocks()
        self.modules = found.modules.all(self.lineage.forked_from)
        self.collections, self.chunks = found.collections.all(), found.chunks.all()
        del found  # it holds everything a second time
        release_unused()

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording, in nanoseconds."""
        return int(self.header["start_mono_ns"])
