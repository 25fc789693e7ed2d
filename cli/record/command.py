"""``scalene-record``: options, messages and exit codes. The work is done by :mod:`scalene_trace.recorder`.

The command line is split by hand, before typer sees it: everything from the first positional, ``-m``, ``-c`` or ``--``
on is the program's (typer would take ``-o`` out of ``-m pytest -o log_cli=true``). Typer, which takes 0.1 s to
import, is asked only for help, completion and words about an unknown option (:mod:`record_help`); a test holds the
options there against the ones here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ...recorder.errors import RecordError, UsageError
from ...recorder.run.settings import DEFAULT_OUTPUT, Settings
from ...recorder.units import (
    alloc_interval_bytes,
    duration_ns,
    gpu_interval_ns,
    human_bytes,
    interval_ns,
    threshold_bytes,
)

if TYPE_CHECKING:
    from ...recorder.convert.finish import Finished

NAME = "scalene-record"
FAILED = 125
INTERRUPTED = 130

#: Option → the name of its value in Options. The short form and the negative form of an option are options too.
WITH_VALUE = {
    "-o": "output",
    "--output": "output",
    "--python": "python",
    "--cpu-interval": "cpu_interval",
    "--cpu-engine": "cpu_engine",
    "--memory-threshold": "memory_threshold",
    "--alloc-interval": "alloc_interval",
    "--copy-threshold": "copy_threshold",
    "--gpu-interval": "gpu_interval",
    "--duration": "duration",
    "--snapshot-every": "snapshot_every",
    "--recover": "recover",
    "--control": "control",
}
FLAGS = {
    "--no-memory": ("memory", False),
    "--no-copy": ("copy", False),
    "--no-wait": ("wait", False),
    "--no-gpu": ("gpu", False),
    "--children": ("children", True),
    "--no-children": ("children", False),
    "--no-source": ("sources", False),
    "--no-argv": ("argv", False),
    "--pause-at-start": ("pause_at_start", True),
}
PROGRAM_OPTIONS = ("-m", "-c")
ENGINES = ("auto", "posix")


@dataclass
class Options:
    """The options as words."""

    output: str | None = None
    python: str | None = None
    cpu_interval: str = "10ms"
    cpu_engine: str = "auto"
    memory_threshold: str = "10MB"
    alloc_interval: str = "auto"
    copy_threshold: str | None = None
    duration: str | None = None
    snapshot_every: str | None = None
    recover: str | None = None
    control: str | None = None
    memory: bool = True
    copy: bool = True
    wait: bool = True
    children: bool = True
    sources: bool = True
    argv: bool = True
    pause_at_start: bool = False
    gpu_interval: str = "50ms"
    gpu: bool = True


@dataclass(frozen=True)
class Split:
    """``own``: the recorder's words; ``program``: the program's, without a leading ``--``."""

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
            return Split(list(words[:at]), _apart(list(words[at:])))
        if not word.startswith("-") or word == "-":
            break
        at += 2 if word in WITH_VALUE else 1
    return Split(list(words[:at]), list(words[at:]))


def _apart(words: list[str]) -> list[str]:
    """``-mpytest`` as ``-m pytest``, the way Python itself reads it."""
    first = words[0]
    return [first[:2], first[2:], *words[1:]] if len(first) > 2 else words


def read_options(words: Sequence[str]) -> Options | None:
    """The options in ``words``; None when typer has to look at them. Raises UsageError."""
    options, rest = Options(), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word.startswith("-o") and len(word) > 2:
            name, equals, value = "-o", "=", word[2:]
        if word in FLAGS:
            setattr(options, *FLAGS[word])
        elif name in WITH_VALUE and (equals or rest):
            setattr(options, WITH_VALUE[name], value if equals else rest.pop(0))
        elif name in WITH_VALUE:
            raise UsageError(f"{name} needs a value. See {NAME} --help.")
        else:
            return None
    return options


def settings_of(options: Options, program: list[str]) -> Settings:
    """The settings that the options mean. Raises UsageError."""
    if options.cpu_engine not in ENGINES:
        raise UsageError(f"--cpu-engine {options.cpu_engine} is not known. It can be {' or '.join(ENGINES)}.")
    if options.output == "":
        raise UsageError("-o needs the name of a file.")
    return Settings(
        command=program,
        output=Path(options.output or DEFAULT_OUTPUT),
        python=options.python,
        memory=options.memory,
        copy=options.copy,
        wait=options.wait,
        children=options.children,
        cpu_interval_ns=interval_ns("--cpu-interval", options.cpu_interval),
        memory_threshold_bytes=threshold_bytes("--memory-threshold", options.memory_threshold),
        alloc_interval_bytes=alloc_interval_bytes("--alloc-interval", options.alloc_interval),
        copy_threshold_bytes=_copy_threshold_bytes(options),
        cpu_engine=options.cpu_engine,
        sources=options.sources,
        argv=options.argv,
        duration_ns=_duration_ns("--duration", options.duration),
        snapshot_every_ns=_duration_ns("--snapshot-every", options.snapshot_every),
        pause_at_start=options.pause_at_start,
        gpu_interval_ns=gpu_interval_ns("--gpu-interval", options.gpu_interval) if options.gpu else 0,
    )


def _duration_ns(option: str, text: str | None) -> int | None:
    return None if text is None else duration_ns(option, text)


def _copy_threshold_bytes(options: Options) -> int:
    """As given, else twice the memory threshold. Raises UsageError."""
    if options.copy_threshold is None:
        return threshold_bytes("--memory-threshold", options.memory_threshold, times=2)
    return threshold_bytes("--copy-threshold", options.copy_threshold)


def main() -> NoReturn:
    """Runs scalene-record on ``sys.argv`` and exits: with the program's status, or 125, 126, 127 (see --help)."""
    if "_SCALENE_RECORD_COMPLETE" in os.environ:
        _run_typer()
    try:
        status = run(sys.argv[1:])
    except RecordError as error:
        tell(str(error))
        status = error.exit_status
    except OSError as error:
        tell(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.")
        status = FAILED
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


def run(words: Sequence[str]) -> int:
    """Records, recovers or controls as ``words`` say, and returns the exit status. Raises RecordError."""
    split = split_command_line(words)
    options = read_options(split.own)
    if options is None:
        _run_typer(split.own)
    if options.recover is not None:
        return _recover(options, split.program)
    if options.control is not None:
        from .control import carry_out

        return carry_out(options.control, split.program)
    if not split.program:
        raise UsageError(f"There is nothing to record. Name a script, -m MODULE, -c CODE or a command: {NAME} app.py")
    return _record(settings_of(options, split.program))


def tell(sentence: str) -> None:
    """One message to the user on stderr."""
    print(f"{NAME}: {sentence}", file=sys.stderr)


def _record(settings: Settings) -> int:
    from ...recorder.run.record import record

    recorded = record(settings, tell, _tell_finished if sys.stderr.isatty() else lambda _: None)
    if recorded.finished is None:
        tell(recorded.failure)
    return recorded.exit_status


def _recover(options: Options, program: list[str]) -> int:
    from ...formats.errors import TraceError
    from ...recorder.run.load import load_converter, prepare_converter

    if program:
        raise UsageError("--recover takes the folder of a recording and runs no program.")
    prepare_converter()
    load_converter()
    from ...recorder.convert.finish import recover  # imports numpy, so it follows prepare_converter()

    try:
        finished = recover(Path(options.recover or ""), Path(options.output).absolute() if options.output else None)
    except TraceError as error:
        tell(str(error))
        return FAILED
    _tell_finished(finished)
    return 0


def _tell_finished(finished: Finished) -> None:
    path = os.path.relpath(finished.output)
    shown = path if len(path) < len(str(finished.output)) else str(finished.output)
    for text in finished.errors:
        tell(f"{text}.")
    tell(f"{finished.events:,} events in {shown} ({human_bytes(finished.size_bytes)}); next: scalene-analyze {shown}")


def _run_typer(words: list[str] | None = None) -> NoReturn:
    """Help, version, completion, or typer's own words about an option that does not exist."""
    from typer.main import get_command

    from .help import application

    try:
        status = get_command(application()).main(args=words, prog_name=NAME, standalone_mode=False)
    except Exception as error:
        # typer carries its own copy of click in some versions, so the class has more than one name
        if not hasattr(error, "format_message"):
            raise
        tell(f"{error.format_message().rstrip('.')}. See {NAME} --help.")
        sys.exit(FAILED)
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
