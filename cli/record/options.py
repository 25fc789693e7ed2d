"""The options of ``scalene-record``, each declared once.

The splitter, the settings, the help and shell completion all derive from :data:`OPTIONS`. The command line is split by
hand before typer sees it: everything from the first positional, ``-m``, ``-c`` or ``--`` on belongs to the program, and
typer would take ``-o`` out of ``-m pytest -o log_cli=true``. This module does not import typer, which takes 0.1 s: the
program would start that much later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...formats.dataclass import dataclass
from ...recorder.errors import UsageError
from ...recorder.labels import labels_of
from ...recorder.option_values import (
    alloc_interval_bytes,
    budget_share,
    duration_ns,
    gpu_interval_ns,
    interval_ns,
    rotation_ns,
    sample_ns,
    spool_limit_bytes,
    threshold_bytes,
)
from ...recorder.settings import DEFAULT_OUTPUT, Settings

NAME = "scalene-record"
PROGRAM_OPTIONS = ("-m", "-c")
ENGINES = ("auto", "posix")


def _output(option: str, text: str) -> Path:
    if not text:
        raise UsageError(f"{option} needs the name of a file, like {option} {DEFAULT_OUTPUT}.")
    return Path(text)


def _folder(option: str, text: str) -> Path:
    if not text:
        raise UsageError(f"{option} needs the name of a folder.")
    return Path(text)


def _engine(option: str, text: str) -> str:
    if text not in ENGINES:
        raise UsageError(f"{option} {text} is not known. It can be {' or '.join(ENGINES)}.")
    return text


@dataclass(frozen=True)
class Option:
    """One option with a value, or one flag.

    ``names``: its spellings, the one for messages last. ``metavar``: the value's name in the help; None = a flag.
    ``off_name``: the spelling that turns a flag off. ``setting``: the field of Settings that it gives, None = it is not
    a setting. ``read``: makes the field's value from the option's name and its text. ``flag_value``: the field's value
    where the flag is given. ``read_all``: instead of ``read``, of an option that may be repeated: makes the field's value
    from all of its texts. ``default``: the text that stands for an option that is not given, None = there is none.
    ``shown_default``: what the help shows where that is not ``default``. ``choices``: all values that there are.
    """

    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    setting: str | None = None
    read: Callable[[str, str], Any] = lambda _, text: text
    default: str | None = None
    shown_default: str | None = None
    choices: tuple[str, ...] = ()
    off_name: str | None = None
    flag_value: Any = True
    read_all: Callable[[str, Sequence[str]], Any] | None = None

    @property
    def name(self) -> str:
        """The long spelling."""
        return self.names[-1]

    @property
    def key(self) -> str:
        """The name in what :func:`read_options` returns, and of typer's parameter."""
        return self.name.removeprefix("--").replace("-", "_")


#: In the order of the help. Where two options give the same setting, the later one wins.
OPTIONS = (
    Option(
        ("-o", "--output"),
        "Trace file to write. %p stands for the process id. If FILE is a folder, the trace is written into it. With --rotate, it "
        "may be a URL (s3://bucket/path, gs://, file://), which closed traces are sent to.",
        "FILE",
        "output",
        _output,
        DEFAULT_OUTPUT,
    ),
    Option(
        ("--python",),
        "Interpreter for scripts, -m and -c.",
        "PATH",
        "python",
        shown_default="python on PATH, else python3, as a shell finds them",
    ),
    Option(
        ("--cpu-interval",),
        "CPU time between two samples of a thread, 10us to 1s.",
        "TIME",
        "cpu_interval_ns",
        interval_ns,
        "10ms",
    ),
    Option(
        ("--cpu-engine",),
        "How threads are sampled. posix uses CPU timers even where perf_event_open works.",
        "|".join(ENGINES),
        "cpu_engine",
        _engine,
        "auto",
        choices=ENGINES,
    ),
    Option(
        ("--memory-threshold",),
        "Record a sample whenever the footprint has changed by SIZE. It is rounded up to a prime number of bytes.",
        "SIZE",
        "memory_threshold_bytes",
        threshold_bytes,
        "10MiB",
    ),
    Option(
        ("--alloc-interval",),
        "Mean number of bytes between two sampled allocations. auto starts at 256KiB and adapts to about 200 samples "
        "per second; 1 records every allocation, at 0.15 to 0.6 microseconds for each with its free, and writing the "
        "trace after the end takes 1 to 3 seconds for each million of them; 0 records none.",
        "auto|SIZE|1|0",
        "alloc_interval_bytes",
        alloc_interval_bytes,
        "auto",
    ),
    Option(
        ("--native-alloc",),
        "Record the native stack of each sampled allocation too, so that a leak in C code names its function.",
        setting="native_alloc",
    ),
    Option(
        ("--copy-threshold",),
        "Number of bytes that a thread copies between two samples. It is rounded up to a prime number of bytes.",
        "SIZE",
        "copy_threshold_bytes",
        threshold_bytes,
        shown_default="twice the memory threshold",
    ),
    Option(
        ("--gpu-interval",),
        "Time between two samples of the GPUs, 1ms to 10s; 0 records none.",
        "TIME",
        "gpu_interval_ns",
        gpu_interval_ns,
        "50ms",
    ),
    Option(
        ("--no-memory",),
        "Do not record the footprint and allocations.",
        setting="memory",
        flag_value=False,
    ),
    Option(("--no-copy",), "Do not record copies of memory.", setting="copy", flag_value=False),
    Option(("--no-wait",), "Do not record waiting threads and suspended tasks.", setting="wait", flag_value=False),
    Option(("--no-gpu",), "Do not sample GPUs.", setting="gpu_interval_ns", flag_value=0),
    Option(
        ("--children",),
        "Record child processes too.",
        setting="children",
        default="children",
        off_name="--no-children",
    ),
    Option(("--no-source",), "Do not store source text in the trace.", setting="sources", flag_value=False),
    Option(
        ("--with-sources",),
        "Read source files and libraries with the rights of scalene-record. Otherwise, as root, only files are read that "
        "all processes of the program may read, and with --recover none if the recording may be a stranger's.",
        setting="with_sources",
    ),
    Option(("--no-argv",), "Do not store command lines in the trace.", setting="argv", flag_value=False),
    Option(
        ("--label",),
        "Say in the trace what it is of, like --label service=shop --label version=1.4.2. May be repeated, with other names.",
        "NAME=VALUE",
        "labels",
        read_all=labels_of,
    ),
    Option(
        ("--duration",),
        "Record for TIME (30, 500ms, 5min, 2h), then write the trace. The program goes on without being recorded; "
        f"{NAME} waits for it and exits with its status.",
        "TIME",
        "duration_ns",
        duration_ns,
    ),
    Option(
        ("--rotate",),
        "Close a trace every TIME, and go on with the next one. -o names the folder of all traces: they lie in it by labels "
        "and days.",
        "TIME",
        "rotate_ns",
        rotation_ns,
    ),
    Option(
        ("--keep",),
        "With --rotate, remove closed traces with the same labels that began longer than TIME ago.",
        "TIME",
        "keep_ns",
        duration_ns,
    ),
    Option(
        ("--spool",),
        "With a URL: where the recording lies, and traces wait until they are sent.",
        "DIR",
        "spool",
        _folder,
        shown_default="~/.local/state/scalene-trace",
    ),
    Option(
        ("--spool-limit",),
        "With a URL: when unsent traces have more than SIZE, the oldest are given up.",
        "SIZE",
        "spool_limit_bytes",
        spool_limit_bytes,
        "1GiB",
    ),
    Option(
        ("-p", "--pid"),
        "Record a process that runs already, and its children, from outside: CPU time, waits and tasks. Until it "
        "ends, for --duration, or until Ctrl-C. The process goes on as before.",
        "PID",
    ),
    Option(
        ("--memory",),
        "With --pid: record memory too, from now on. For that, the process loads a library, which its interpreter does "
        "when it is asked, between two bytecodes of the main thread.",
    ),
    Option(
        ("--snapshot-every",),
        "While the program runs, write the trace of what is recorded so far at this interval.",
        "TIME",
        "snapshot_every_ns",
        duration_ns,
    ),
    Option(
        ("--pause-at-start",),
        "Start paused: record nothing until --control TRACE resume, or until the program calls resume().",
        setting="pause_at_start",
    ),
    Option(
        ("--sample",),
        "Record one window in each period, like 30s/10min for 30 seconds in 10 minutes, at a random place in it, and be paused "
        "otherwise.",
        "TIME/TIME",
        "sample",
        sample_ns,
    ),
    Option(
        ("--cpu-budget",),
        "Aim to keep what recording costs, as it estimates, below this share of the program's CPU time (0.3% to 50%), by samples "
        "that are further apart and by pauses. The trace says what it did.",
        "PERCENT",
        "cpu_budget",
        budget_share,
    ),
    Option(
        ("--recover",),
        "Write the trace of a recording whose recorder was killed. DIR is its .spool folder. If DIR is one in which traces wait "
        "for a URL, make those that are missing, and send all.",
        "DIR",
    ),
    Option(
        ("-v", "--verbose"),
        "Print the line that names the trace, its size and the next command also where stderr is not a terminal.",
    ),
    Option(
        ("--control",),
        "Send a command to the recording that writes TRACE: pause, resume, snapshot, mark TEXT, set NAME=VALUE..., "
        "or status.",
        "TRACE",
    ),
    Option(
        ("--doctor",),
        "Print what will be recorded on this host, of PROGRAM if it is given, and what to change. Nothing is started. The "
        "exit status is 0 if everything will be recorded, 1 if something will not be, 2 if the command line is wrong.",
    ),
    Option(("--json",), "With --doctor, print JSON."),
)

#: Every spelling of an option with a value; of a flag, with whether it turns the flag on.
_WITH_VALUE = {name: option for option in OPTIONS if option.metavar for name in option.names}
_FLAGS = {name: (option, True) for option in OPTIONS if not option.metavar for name in option.names} | {
    option.off_name: (option, False) for option in OPTIONS if option.off_name
}

#: What was given, by the key of the option: the text of its value, all texts if it may be repeated, or whether its flag is
#: on.
Given = Mapping[str, str | bool | tuple[str, ...]]


@dataclass(frozen=True)
class Split:
    """``own``: the words for the recorder; ``program``: the words of the program, without a leading ``--``."""

    own: list[str]
    program: list[str]


def split_command_line(words: Sequence[str]) -> Split:
    """Splits at the first positional, ``-m``, ``-c`` or ``--``."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return Split(list(words[:at]), list(words[at + 1 :]))
        if word[:2] in PROGRAM_OPTIONS and not word.startswith("--"):
            return Split(list(words[:at]), _separated(list(words[at:])))
        if not word.startswith("-") or word == "-":
            break
        at += 2 if word in _WITH_VALUE else 1
    return Split(list(words[:at]), list(words[at:]))


def _separated(words: list[str]) -> list[str]:
    """``-mpytest`` as ``-m pytest``, the way Python itself reads it."""
    first = words[0]
    return [first[:2], first[2:], *words[1:]] if len(first) > 2 else words


def read_options(words: Sequence[str]) -> Given | None:
    """The options in ``words``; None when typer has to answer (help, version, an unknown option). Raises UsageError."""
    given: dict[str, str | bool] = {}
    repeated: dict[str, tuple[str, ...]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word.startswith("-o") and len(word) > 2:
            name, equals, value = "-o", "=", word[2:]
        if word in _FLAGS:
            flag, is_on = _FLAGS[word]
            given[flag.key] = is_on
        elif name not in _WITH_VALUE:
            return None
        elif equals or rest:
            option, text = _WITH_VALUE[name], value if equals else rest.pop(0)
            if option.read_all:
                repeated[option.key] = (*repeated.get(option.key, ()), text)
            else:
                given[option.key] = text
        else:
            raise UsageError(f"{name} needs a value. See {NAME} --help.")
    return given | repeated


def settings_of(given: Given, program: list[str]) -> Settings:
    """The settings that the options mean. Raises UsageError."""
    values: dict[str, Any] = {}
    for option in OPTIONS:
        found = given.get(option.key, option.default if option.metavar else None)
        if option.setting is None or found is None:
            continue
        if isinstance(found, tuple):
            values[option.setting] = option.read_all(option.name, found) if option.read_all else found
        elif isinstance(found, str):
            values[option.setting] = option.read(option.name, found)
        else:
            values[option.setting] = option.flag_value if found else not option.flag_value
    if "copy_threshold" not in given:
        name = "--memory-threshold"
        text = str(given.get("memory_threshold", _WITH_VALUE[name].default))
        values["copy_threshold_bytes"] = threshold_bytes(name, text, times=2)
    return Settings(command=program, **values)
