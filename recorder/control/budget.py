"""What a recording may cost (``--cpu-budget``): how long its windows are, and how far apart its samples.

The cost is estimated from what is measured while the program runs: the recorder's own CPU time, the CPU time of the program
and the number of records that it has written. docs/design/budget.md says why the figures are sums since the start.
"""

from __future__ import annotations

from collections.abc import Callable

from ...formats.dataclass import dataclass, replace
from ...formats.trace.text import BUDGET_NOTE

#: What one event costs the program, with the signal, the caches that it leaves behind and the kernel's part, in seconds. They
#: are of a slow virtual machine; elsewhere they cost less, and so does the recording.
TICK_S, POLL_S, RECORD_S = 100e-6, 20e-6, 30e-6
#: The kernel timer polls at each scheduler tick, and in a pause every 10 ms of CPU time.
_POLL_INTERVAL_S = 0.004
#: The part of its CPU time that the library costs a program in a pause, polls of whether to go on included.
HOOKS = 0.002
#: The share of a budget that ticks, and other records, may have before their intervals are widened.
_SHARE = 1 / 3
LONGEST_INTERVAL_NS = 100_000_000
#: Between two observations of waiting threads.
WATCH_PERIOD_NS = 50_000_000
#: Between allocation samples, where they would adapt to the program: at first, and at most.
FIRST_ALLOC_INTERVAL_BYTES, _LARGEST_ALLOC_INTERVAL_BYTES = 4 << 20, 64 << 20
#: A budget below this leaves Python's allocators and copies alone, which cost some programs 3 %, in pauses too.
WHOLE_MEMORY = 0.05
#: The first periods are short, so that short programs are recorded too. Later ones grow with the recording, so that there are
#: a few thousand at most, whatever its length.
_FIRST_PERIOD_S, _USUAL_PERIOD_S, _OF_FIRST, _OF_ALL = 1.0, 10.0, 0.1, 0.001
#: A recording that costs too much in pauses still has windows: as long as the shortest, and at most so far apart.
_LEAST = 0.0005
#: What each window costs once (all tasks of asyncio are observed at its beginning and its end) would be most of what shorter ones
#: cost. So where less can be afforded in a period, the period is longer, up to a part of the length of the recording.
_LEAST_WINDOW_S = 0.025
_LONGER = 0.2
#: What is thought of the recorder's CPU time in windows and in pauses before it was measured: its share of a processor, and
#: how long that counts.
_PRIOR, _PRIOR_S = 0.015, 0.05
_PRIOR_OFF, _PRIOR_OFF_S = 0.001, 20.0
#: What is known of the cost of records counts from so much CPU time in windows on; it is as if none had been written for as long
#: before.
_KNOWN_S, _FIRST_RECORDS_S = 0.3, 1.0
#: An overdraft is paid back over this time, or the length of the recording if that is more.
_PAY_BACK_S = 60.0
#: The budget counts as exceeded if it is by this part, and by so many seconds.
_TOLERANCE, _LEAST_EXCESS_S = 0.1, 0.1


@dataclass(frozen=True)
class Spent:
    """Sums since the recording began, in seconds. ``program_s``: CPU time of the program; ``own_s``: of the recorder;
    ``records``: written by the program; ``interval_s``: between two CPU ticks now, which a person may have set."""

    now_s: float
    program_s: float
    own_s: float
    records: int
    interval_s: float


def tick_interval_ns(share: float, given_ns: int) -> int:
    """The interval of CPU ticks with this budget: as given, or so long that ticks cost their part of it."""
    return max(given_ns, min(round(TICK_S / (_SHARE * share) * 1e9), LONGEST_INTERVAL_NS))


@dataclass()
class _Sums:
    """Of all windows, or of all pauses. ``ticks``: as many as the interval makes."""

    wall_s: float = 0.0
    program_s: float = 0.0
    own_s: float = 0.0
    records: int = 0
    ticks: float = 0.0


class Budget:
    """Keeps the cost of a recording below ``share``. ``interval_s``: between two CPU ticks at first;
    ``alloc_bytes``: mean interval between allocation samples."""

    def __init__(self, share: float, interval_s: float, alloc_bytes: int = 0) -> None:
        self.share = share
        self._on, self._off, self._last = _Sums(), _Sums(), Spent(0.0, 0.0, 0.0, 0, interval_s)
        self._begun_s, self._alloc_bytes, self._widened = 0.0, alloc_bytes, _Sums()
        self._look: Callable[[], Spent] | None = None
        self._widen: Callable[[int], bool] = lambda _: False

    def begin(self, look: Callable[[], Spent], widen: Callable[[int], bool]) -> None:
        """Counts from now on: what the recorder has done until now, it does once. ``look``: measures; ``widen``: makes the mean
        interval between allocation samples so many bytes long, if nobody else has set it."""
        self._look, self._widen, self._last = look, widen, look()
        self._begun_s = self._last.now_s

    def observe(self, is_on: bool) -> None:
        """Call at the end of each window and each pause, and from time to time. ``is_on``: was it a window?"""
        if not self._look:
            return
        now, last = self._look(), self._last
        sums = self._on if is_on else self._off
        sums.wall_s += now.now_s - last.now_s
        sums.program_s += now.program_s - last.program_s
        sums.own_s += now.own_s - last.own_s
        sums.records += max(now.records - last.records, 0)
        sums.ticks += (now.program_s - last.program_s) / now.interval_s
        self._last = now

    def next_period(self) -> tuple[float, float]:
        """The lengths of the next period and its window, in seconds."""
        age_s = self._last.now_s - self._begun_s
        period_s = max(_FIRST_PERIOD_S, min(age_s * _OF_FIRST, _USUAL_PERIOD_S), age_s * _OF_ALL)
        self._widen_if_due()
        share = min(max(self._affordable(), _LEAST), 1.0)
        longest_s = max(_USUAL_PERIOD_S, age_s * _LONGER, period_s)
        period_s = min(max(period_s, _LEAST_WINDOW_S / share), longest_s)
        return period_s, max(share * period_s, _LEAST_WINDOW_S)

    def cost_s(self) -> tuple[float, float]:
        """What the recording has cost: in the program (estimated) and in the recorder (measured)."""
        on, program_s = self._on, self._on.program_s + self._off.program_s
        records_s = RECORD_S * max(on.records - on.ticks, 0.0)
        ticks_s = TICK_S * on.ticks + POLL_S * on.program_s / _POLL_INTERVAL_S
        return ticks_s + records_s + HOOKS * program_s, on.own_s + self._off.own_s

    def allowed_s(self) -> float:
        """What it may have cost: the share of the program's CPU time, or of one processor if that is more."""
        return self.share * max(self._on.program_s + self._off.program_s, self._on.wall_s + self._off.wall_s)

    def is_exceeded(self) -> bool:
        """Has it cost more than it may?"""
        cost_s, allowed_s = sum(self.cost_s()), self.allowed_s()
        return cost_s - allowed_s > max(_TOLERANCE * allowed_s, _LEAST_EXCESS_S)

    def text(self) -> str:
        """What the budget did so far, as words for the trace."""
        on, off = self._on, self._off
        wall_s, program_s = on.wall_s + off.wall_s, on.program_s + off.program_s
        in_program_s, own_s = self.cost_s()
        whole_s = max(program_s, wall_s) or 1.0
        of_program = in_program_s / program_s if program_s else 0.0
        return (
            f"{BUDGET_NOTE}{100 * self.share:g}%: since the recording began, cost {100 * (in_program_s + own_s) / whole_s:.2f} % "
            f"(in the program {100 * of_program:.2f} % of its CPU time, the recorder {own_s:.2f} s), "
            f"recorded {100 * on.wall_s / (wall_s or 1.0):.1f} % of the time"
        )

    def _records_rate(self) -> float:
        """What records other than ticks will cost in windows, as a part of the program's CPU time, by those since the interval
        was changed. The first ones, of stacks that are new, do not come again."""
        on, since = self._on, self._widened
        program_s = on.program_s - since.program_s
        records = on.records - since.records - (on.ticks - since.ticks)
        return max(records, 0.0) * RECORD_S / (program_s + _FIRST_RECORDS_S)

    def _ticks_rate(self) -> float:
        return TICK_S / self._last.interval_s + POLL_S / _POLL_INTERVAL_S

    def _rate(self) -> float:
        """What windows will cost the program, as a part of its CPU time."""
        return self._ticks_rate() + self._records_rate()

    def _widen_if_due(self) -> None:
        """Samples of allocations are taken less often as long as they cost more than their part."""
        is_known = self._on.program_s - self._widened.program_s >= _KNOWN_S
        is_due = is_known and self._records_rate() > _SHARE * self.share
        if is_due and self._alloc_bytes < _LARGEST_ALLOC_INTERVAL_BYTES:
            wider = min(max(4 * self._alloc_bytes, FIRST_ALLOC_INTERVAL_BYTES), _LARGEST_ALLOC_INTERVAL_BYTES)
            if self._widen(wider):
                self._alloc_bytes, self._widened = wider, replace(self._on)

    def _affordable(self) -> float:
        """The share of the time that may be recorded."""
        on, off = self._on, self._off
        wall_s, program_s = on.wall_s + off.wall_s, on.program_s + off.program_s
        used = program_s / wall_s if wall_s else 1.0  # processors
        own_on = (on.own_s + _PRIOR * _PRIOR_S) / (on.wall_s + _PRIOR_S)
        own_off = (off.own_s + _PRIOR_OFF * _PRIOR_OFF_S) / (off.wall_s + _PRIOR_OFF_S)
        overdraft_s = max(sum(self.cost_s()) - self.allowed_s(), 0.0)
        left = self.share * max(used, 1.0) - HOOKS * used - own_off - overdraft_s / max(wall_s, _PAY_BACK_S)
        of_host = left / max(self._rate() * used + own_on - own_off, 1e-9)
        return min(of_host, max(self.share - HOOKS, 0.0) / self._rate())
