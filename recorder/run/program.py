"""Finds the program that the words of the command line mean, and starts it."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import dataclass
from ..errors import NotExecutable, NotFound, UsageError
from .interpreter import Choice, choose, is_runnable, path_folders

SCRIPT_SUFFIXES = (".py", ".pyw", ".pyc", ".pyz")
MAIN_MODULES = ("__main__.py", "__main__.pyc")


@dataclass(frozen=True)
class Program:
    """``executable``: path to run; ``argv``: its argument vector; ``code``: the code of ``-c``, else None; ``remark``: a
    sentence for the user about the interpreter, or ""."""

    executable: str
    argv: list[str]
    code: str | None = None
    remark: str = ""


def resolve_program(words: list[str], python: str | None) -> Program:
    """The program that ``words`` mean: ``app.py …``, ``-m MODULE …``, ``-c CODE …`` or any command.

    Scripts, modules and code run under ``python``, else under the interpreter that a shell would run
    (:mod:`.interpreter`). Raises UsageError, NotFound, NotExecutable.
    """
    if words[0] in ("-m", "-c"):
        if len(words) < 2:
            raise UsageError(f"{words[0]} needs {'a module name' if words[0] == '-m' else 'code'} after it.")
        return _python_program(words, python, words[1] if words[0] == "-c" else None)
    if _is_script(words[0]):
        return _python_program(words, python, None)
    return Program(_find(words[0]), words)


def start(program: Program, environment: dict[bytes, bytes], mask: set[int], defaults: list[int]) -> int:
    """Starts the program and returns its pid. ``mask``: signals that are blocked when it starts; ``defaults``: signals
    whose dispositions are reset. A script without a ``#!`` line runs under sh, as with the shell and env(1).

    Raises NotFound, NotExecutable.
    """
    try:
        return _fork_and_exec(program.executable, program.argv, environment, mask, defaults)
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(program.executable):
            raise _start_error(program.executable, error) from error
    argv = ["/bin/sh", program.executable, *program.argv[1:]]
    return _fork_and_exec(argv[0], argv, environment, mask, defaults)


def _fork_and_exec(
    path: str, argv: list[str], environment: dict[bytes, bytes], mask: set[int], defaults: list[int]
) -> int:
    """As a shell starts a program. posix_spawn would ignore a signal that glibc uses itself (32), in the program and in all
    that it starts. Raises OSError if exec fails."""
    try:
        reader, writer = os.pipe()
    except OSError:  # out of descriptors
        return os.posix_spawn(path, argv, environment, setsigmask=mask, setsigdef=defaults)
    pid = os.fork()
    if pid == 0:
        try:
            _prepare_signals(mask, defaults)
            os.execve(path, argv, environment)
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        except ValueError:  # a name in the environment that execve takes, but Python does not
            os.write(writer, str(errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        failure = pipe.read()
    if failure:
        with suppress(ChildProcessError):  # SIGCHLD is ignored: the kernel has reaped it
            os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)), path)
    return pid


def _prepare_signals(mask: set[int], defaults: list[int]) -> None:
    """Sets dispositions and mask as the program is to find them. Signals that a handler would take here act on the program."""
    handled = [each for each in signal.valid_signals() if callable(signal.getsignal(each))]
    for each in [*defaults, *handled]:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _is_binary(path: str) -> bool:
    """Is the file binary by the rule that shells use, a NUL in its first line?"""
    try:
        with Path(path).open("rb") as file:
            return b"\0" in file.read(128).partition(b"\n")[0]
    except OSError:
        return True


def _start_error(path: str, error: OSError) -> NotFound | NotExecutable:
    reason = (error.strerror or "unknown error").lower()
    if error.errno == errno.ENOENT:  # a script whose interpreter is missing: the file itself was found
        return NotFound(f"{path} cannot be started: it, or the interpreter that it names, does not exist.")
    return NotExecutable(f"{path} cannot be executed: {reason}.")


def _is_script(word: str) -> bool:
    """Does ``python word`` run it, and a shell not? Files of Python's suffixes, folders with a main module, and zip archives
    that are not executable."""
    path = Path(word)
    if path.is_dir():
        return any((path / name).is_file() for name in MAIN_MODULES)
    if not path.is_file() or path.suffix in SCRIPT_SUFFIXES:
        return path.is_file()
    return not os.access(path, os.X_OK) and _is_zip_archive(path)


def _is_zip_archive(path: Path) -> bool:
    from zipfile import is_zipfile  # imported for the files that need it: it would delay every start

    return is_zipfile(path)


def _python_program(words: list[str], python: str | None, code: str | None) -> Program:
    what = "the code" if words[0] == "-c" else words[1] if words[0] == "-m" else words[0]
    chosen = Choice(python) if python else choose(what)
    return Program(_find(chosen.path), [chosen.path, *words], code, chosen.remark)


def _find(word: str) -> str:
    """The path that a shell would run for ``word``. Raises NotFound, NotExecutable."""
    if not word:
        raise NotFound("The command is empty. Name a script, -m MODULE, -c CODE or a command.")
    candidates = [Path(word)] if "/" in word else [Path(folder, word) for folder in path_folders()]
    existing = [path for path in candidates if os.path.lexists(path) and not (path.is_dir() and "/" not in word)]
    for path in existing:
        if is_runnable(path):
            return word if "/" in word else str(path)
    if existing:
        raise _not_runnable(existing[0])
    raise NotFound(_not_found_text(word))


def _not_runnable(path: Path) -> NotExecutable | NotFound:
    if not path.exists():
        return NotFound(f"{path} points to a file that does not exist.")
    if path.is_dir():
        return NotExecutable(f"{path} is a directory without a __main__.py, so it cannot be run.")
    return NotExecutable(f"{path} is not executable. Make it so with chmod +x, or name a Python script ending in .py.")


def _not_found_text(word: str) -> str:
    if "/" in word or word.endswith(SCRIPT_SUFFIXES):
        return f"There is no file {word}. Check the path, or the current folder."
    return f"There is no command {word} on PATH, and no script of that name. Check the spelling."
