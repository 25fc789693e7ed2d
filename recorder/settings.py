"""The options of a recording, and their defaults."""

from __future__ import annotations

from pathlib import Path

from ..formats.dataclass import dataclass, field

DEFAULT_OUTPUT = "trace.parquet"
DEFAULT_INTERVAL_NS = 10_000_000
DEFAULT_THRESHOLD_BYTES = 10_485_767
DEFAULT_COPY_THRESHOLD_BYTES = 20_971_529
DEFAULT_GPU_INTERVAL_NS = 50_000_000
DEFAULT_SPOOL_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Settings:
    """Options of scalene-record.

    ``command``: the words that start the program; ``python``: interpreter for scripts, modules and code, None = the
    one that a shell would run; ``memory``, ``copy``, ``wait``, ``children``: what is recorded; ``native_alloc``:
    allocation samples have native stacks; ``sources``, ``argv``: whether source files and command lines are stored;
    ``with_sources``: source files and libraries are read with the recorder's own rights, whatever those of the
    program are; ``memory_threshold_bytes``, ``copy_threshold_bytes``: bytes between two samples;
    ``alloc_interval_bytes``: mean bytes between two allocation samples, 1 = every allocation, 0 = none, None = adapts
    to the program; ``cpu_engine``: auto or posix; ``duration_ns``: how long to record, None = to the program's end;
    ``snapshot_every_ns``: None = no snapshots; ``pause_at_start``: start paused, until a resume command;
    ``gpu_interval_ns``: time between two GPU samples, 0 = none; ``labels``: what the trace is of, by name, in the order
    given; ``rotate_ns``: a trace is closed so often, None = there is one trace; ``keep_ns``: closed traces are removed when they
    are older, None = never; ``sample``: the recording is on for the first time of each second one, None = all the time;
    ``cpu_budget``: what the recording may cost, as a part of the program's CPU time, None = no limit; ``arenas_only``: Python's
    allocators are left alone, its arenas are recorded as blocks; ``watch_period_ns``: mean time between two observations of
    waiting threads, at least, 0 = the usual one;
    ``spool``: the folder in which traces wait that are sent to a URL, None = a default one; ``spool_limit_bytes``: the most
    that these have together.
    """

    command: list[str] = field(default_factory=list)
    output: Path = Path(DEFAULT_OUTPUT)
    python: str | None = None
    memory: bool = True
    copy: bool = True
    native_alloc: bool = False
    wait: bool = True
    children: bool = True
    cpu_interval_ns: int = DEFAULT_INTERVAL_NS
    memory_threshold_bytes: int = DEFAULT_THRESHOLD_BYTES
    alloc_interval_bytes: int | None = None
    copy_threshold_bytes: int = DEFAULT_COPY_THRESHOLD_BYTES
    cpu_engine: str = "auto"
    sources: bool = True
    argv: bool = True
    with_sources: bool = False
    duration_ns: int | None = None
    snapshot_every_ns: int | None = None
    pause_at_start: bool = False
    gpu_interval_ns: int = DEFAULT_GPU_INTERVAL_NS
    labels: dict[str, str] = field(default_factory=dict)
    rotate_ns: int | None = None
    keep_ns: int | None = None
    sample: tuple[int, int] | None = None
    cpu_budget: float | None = None
    arenas_only: bool = False
    watch_period_ns: int = 0
    spool: Path | None = None
    spool_limit_bytes: int = DEFAULT_SPOOL_LIMIT_BYTES
