"""``scalene-record``: messages and exit codes. The work is done by :mod:`scalene_trace.recorder`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ...formats.dataclass import replace
from ...formats.units import counted, file_size_text
from ...recorder.errors import RecordError, SetupError, UsageError
from ...recorder.run.load import leave_out
from ..render.text import clean
from .options import NAME, Given, Split, read_options, settings_of, split_command_line
from .start import INTERRUPTED

if TYPE_CHECKING:
    from ...recorder.convert.finish import Finished
    from ...recorder.run.session import Recorded
    from ...recorder.settings import Settings
    from ...recorder.upload.place import Destination

FAILED = 125
DOCTOR = "--doctor"
#: Of --doctor, as of scalene-analyze: it exits with no program's status.
WRONG_USAGE = 2
_LONGEST_PID = 9
#: Options of --pid that would change nothing: they set what only the library inside a program does.
_NEEDS_THE_SHIM = (
    *("--python", "--cpu-engine", "--native-alloc", "--copy-threshold"),
    *("--no-memory", "--no-copy", "--no-wait", "--rotate", "--keep", "--spool", "--spool-limit", "--cpu-budget"),
)
_OF_MEMORY = ("--memory-threshold", "--alloc-interval")


def main() -> NoReturn:
    """Runs scalene-record on ``sys.argv`` and exits: with the program's status, or 125, 126, 127 (see --help)."""
    if "_SCALENE_RECORD_COMPLETE" in os.environ:
        _run_typer()
    _open_closed_streams()
    leave_out()
    try:
        status = run(sys.argv[1:])
    except RecordError as error:
        print_message(str(error))
        status = error.exit_status
    except OSError as error:
        reason = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        print_message(f"Operating system error: {reason}.")
        status = FAILED
    except KeyboardInterrupt:
        status = INTERRUPTED
    _leave(status)


def _leave(status: int) -> NoReturn:
    """Exits without freeing what was imported (numpy, pyarrow): the user would wait 40 ms for it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the stream may be closed
            stream.flush()
    os._exit(status)


def run(words: Sequence[str]) -> int:
    """Records, recovers or controls as ``words`` say, and returns the exit status. Raises RecordError."""
    split = split_command_line(words)
    if DOCTOR in split.own:
        return _examine(split)
    given = read_options(split.own)
    if given is None:
        _run_typer(split.own)
    if "json" in given:
        raise UsageError(f"--json belongs to {DOCTOR}: {NAME} {DOCTOR} --json")
    if "recover" in given:
        return _recover(given, split.program)
    if "control" in given:
        from .control import carry_out

        return carry_out(str(given["control"]), split.program)
    if "pid" in given:
        return _attach(given, split.program)
    if "memory" in given:
        raise UsageError("--memory belongs to --pid: a program that is started is recorded with its memory anyway.")
    if not split.program:
        raise UsageError(f"There is nothing to record. Name a script, -m MODULE, -c CODE or a command: {NAME} app.py")
    return _record(given, settings_of(given, split.program), bool(given.get("verbose")))


def print_message(message: str) -> None:
    """Prints one message to the user on stderr. Names in it may be a stranger's, so nothing in it moves the cursor."""
    print(f"{NAME}: {clean(message)}", file=sys.stderr)


def _open_closed_streams() -> None:
    """Opens /dev/null in place of standard streams that were closed before this program started.

    Otherwise the recorder's own files would get their numbers, and messages would be written into them. The program finds
    the streams closed, because these descriptors are closed when it is executed.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115


def _record(given: Given, settings: Settings, is_verbose: bool) -> int:
    destination = None
    if _is_sent(given):
        from .sent import destination_of  # here, because few recordings need it

        destination = destination_of(given, settings)
        settings = replace(settings, output=destination.folder)
    _check_rotation(given, settings, is_sent=destination is not None)
    if settings.sample and settings.cpu_budget:
        raise UsageError("--sample and --cpu-budget cannot be given together: each of them decides when to record.")
    from ...recorder.run.record import record

    return _result(record(settings, print_message, _on_trace(is_verbose, destination), destination))


def _is_sent(given: Given) -> bool:
    return "://" in str(given.get("output")) or "spool" in given or "spool_limit" in given


def _check_rotation(given: Given, settings: Settings, is_sent: bool) -> None:
    """Creates the folder of the traces. ``is_sent``: they go to a URL from there. Raises UsageError, SetupError."""
    if not settings.rotate_ns:
        if settings.keep_ns:
            raise UsageError("--keep belongs to --rotate, which closes the traces that are kept. Give both.")
        return
    if settings.keep_ns and settings.keep_ns <= settings.rotate_ns:
        raise UsageError("--keep must be longer than --rotate: each trace would be removed as soon as it is made.")
    if "snapshot_every" in given:
        raise UsageError("--rotate and --snapshot-every cannot be given together: each closed trace is a snapshot.")
    if "output" not in given or not settings.output.is_dir():
        raise UsageError(
            "With --rotate, -o names the folder of all traces. Create it, and give it: -o DIR --rotate 10min."
        )
    from ...recorder.rotate.layout import label_folder, unfinished  # here, because few recordings need it

    folder = label_folder(settings.output, settings.labels)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise SetupError(f"Traces cannot be written in {folder}: {reason}. Name another folder with -o.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SetupError(f"Traces cannot be written in {folder}: permission denied. Name another folder with -o.")
    for each in [] if is_sent else unfinished(settings.output):
        print_message(f"{each} has traces to be made: its recorder has died. Make them with: {NAME} --recover {each}")


def _on_trace(is_verbose: bool, destination: Destination | None = None) -> Callable[[Finished], None]:
    shown = partial(_print_finished, destination=destination)
    return shown if is_verbose or sys.stderr.isatty() else lambda _: None


def _result(recorded: Recorded) -> int:
    if recorded.finished is None:
        print_message(recorded.failure)
    return recorded.exit_status


def _attach(given: Given, program: list[str]) -> int:
    """Carries out --pid. Raises RecordError."""
    pid = str(given["pid"])
    if program:
        raise UsageError(f"--pid starts no program, but {program[0]} was given. Name one or the other.")
    if not pid.isascii() or not pid.isdigit() or len(pid) > _LONGEST_PID or int(pid) == 0:
        raise UsageError(f"--pid needs the number of a process, like --pid 4711, but {pid!r} was given.")
    if "://" in str(given.get("output")):
        raise UsageError("--pid writes one trace, to a file, but -o is a URL. Name a file.")
    if without := next((name for name in _NEEDS_THE_SHIM if name.removeprefix("--").replace("-", "_") in given), None):
        raise UsageError(f"{without} has no effect with --pid, which observes from outside. Leave it out.")
    memory = bool(given.get("memory"))
    of_memory = (name for name in _OF_MEMORY if not memory and name.removeprefix("--").replace("-", "_") in given)
    if without := next(of_memory, None):
        raise UsageError(
            f"{without} has no effect with --pid, unless memory is recorded. Give --memory, or leave it out."
        )
    from ...recorder.run.attach import attach

    settings = replace(settings_of(given, []), memory=memory)
    return _result(attach(settings, int(pid), print_message, _on_trace(bool(given.get("verbose")))))


def _examine(split: Split) -> int:
    """Carries out --doctor."""
    from ...recorder.run.load import prepare_converter

    prepare_converter()  # before numpy is imported
    from .doctor import examine

    try:
        given = read_options(split.own)
        if given is None:
            _run_typer(split.own, WRONG_USAGE)
        if other := next((each for each in ("recover", "control") if each in given), None):
            raise UsageError(f"{DOCTOR} and --{other} cannot be given together.")
        settings = settings_of(given, split.program)
        if _is_sent(given):
            from ...recorder.upload.place import folder_for

            settings = replace(settings, output=folder_for(settings.spool))
        return examine(split.program, settings, bool(given.get("json")))
    except UsageError as error:
        print_message(str(error))
        return WRONG_USAGE


def _recover(given: Given, program: list[str]) -> int:
    from ...formats.errors import TraceError
    from ...recorder.run.load import load_converter, prepare_converter

    if program:
        raise UsageError(
            f"--recover runs no program, but {program[0]} was given. Name only the folder: {NAME} --recover DIR"
        )
    prepare_converter()
    load_converter()
    from ...recorder.rotate.publish import recover_any
    from .sent import recover_and_send

    output = given.get("output")
    try:
        if (sent := recover_and_send(given)) is not None:
            print_message(sent[1])
            return 0 if sent[0] else FAILED
        target = Path(str(output)).absolute() if output else None
        finished = recover_any(Path(str(given["recover"])), target, bool(given.get("with_sources")))
    except TraceError as error:
        print_message(str(error))
        return FAILED
    _print_finished(finished)
    return 0


def _print_finished(finished: Finished, destination: Destination | None = None) -> None:
    path = os.path.relpath(finished.output)
    shown = path if len(path) < len(str(finished.output)) else str(finished.output)
    for text in finished.errors:
        print_message(f"{text}.")
    size = file_size_text(finished.size_bytes)
    following = f"scalene-analyze {shown}"
    if destination:
        shown = f"{destination.shown}/{finished.output.relative_to(destination.folder)}"
        following = f"scalene-analyze fleet index {destination.shown}"
    print_message(f"{counted(finished.events, 'event', 'events')} in {shown} ({size}); next: {following}")


def _run_typer(words: list[str] | None = None, failed: int = FAILED) -> NoReturn:
    """Prints the help, the version, a completion, or typer's message about an option that does not exist; exits with
    ``failed`` then."""
    from typer.main import get_command

    from .help import application

    try:
        status = get_command(application()).main(args=words, prog_name=NAME, standalone_mode=False)
    except Exception as error:
        # Some versions of typer bring their own copy of click, so this class has more than one name.
        if not hasattr(error, "format_message"):
            raise
        print_message(f"{error.format_message().rstrip('.')}. See {NAME} --help.")
        sys.exit(failed)
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
