"""Which files are the user's code: samples are charged to their lines.

Everything that Python and installers have put there is not: the standard library, installed packages, launchers in
``bin``, and code that libraries generate.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...formats.cpython.command_line import called_package, given_code, names_interpreter
from .connection import Connection
from .selection import Selection

#: Files of a Python installation: the standard library and installed packages.
_INSTALLED = re.compile(
    r"(^|/)lib(64)?/python3(\.\d+)?t?/"
    r"|(^|/)(site|dist)-packages/"
    r"|(^|/)python3\d+\.zip(/|$)"
    r"|^<(frozen |attrs generated |__array_function__ internals)"
)
#: The name that Python gives to the code of ``-c``, but also to code that libraries run with exec: methods of dataclasses
#: and named tuples, lines of .pth files, the start of workers that libraries spawn.
_EXECUTED = "<string>"
#: What the recorder calls the code of ``-c`` where processes run different programs: with the first words of the program.
_NAMED_PROGRAM = re.compile(r"<string> -c '(.*?)…?'(?: \(\d+\))?", re.DOTALL)
#: Code without a file that the user has typed or written: sessions of interpreters and notebooks, doctests, ``timeit``.
#: What the recorder calls ``<not recorded>`` may be anybody's. ``<dynamic-code>`` is what cloudpickle calls the file of a
#: function that it has sent to another process: the user's, since those of installed packages are sent by name.
_TYPED = (
    r"stdin>|string>|console>|input>|ipython-input-|python-input-|bpython-input-|interactive input>|pyshell#|"
    r"timed (?:exec|eval)>|magic-timeit>|command-\d|doctest |timeit-src>|not recorded>|dynamic-code>"
)
#: All other code without a file is made at run time, such as templates and wrappers of functions. networkx appends a
#: number.
_GENERATED = re.compile(rf"<(?!{_TYPED}).*>", re.DOTALL)
#: The folder of a package with its name, or the file of a module that is no package.
_PACKAGE = re.compile(r"^.*/(?:site|dist)-packages/([^/]+?)(?:/|\.py$)")
#: The top folder or module of a file of a Python installation.
_TOP = re.compile(r"(?:^|/)(?:lib(?:64)?/python3(?:\.\d+)?t?|(?:site|dist)-packages|python3\d+\.zip)/(\w+)(?:/|\.py$)")
#: What a launcher imports: the package of its program.
_IMPORTS = re.compile(r"^\s*from (\w+)[\w.]* import ", re.MULTILINE)
#: What runs the module of ``-m``: two frames.
_RUNPY = r"^<frozen runpy>$|/lib(64)?/python3\.[0-9]+t?/runpy\.py$"
_IN_BIN = re.compile(r"(^|/)bin/[^/.]+$")
#: Files of which the sources say whether others have written them.
_MAY_BE_OF_OTHERS = r"(^|/)bin/[^/.]+$|^<"
_CORRECTS_NAME = re.compile(r"sys\.argv\[0\]\s*=(?!=)")
#: The longest script that pip, uv or setuptools writes to start an installed program has 33 lines.
_MOST_LINES_OF_A_LAUNCHER = 40


def select_user_files(connection: Connection, selection: Selection) -> None:
    """Fills the table ``user_files`` with the files of the opened traces that are the user's code."""
    rows = connection.execute("SELECT DISTINCT file FROM locations WHERE file IS NOT NULL").fetchall()
    chosen = _chosen(_Facts(connection), [file for (file,) in rows], selection)
    set_user_files(connection, chosen)


def set_user_files(connection: Connection, files: Sequence[str]) -> None:
    """Lets these files, and no others, be the user's code. Views that are tables already do not change."""
    connection.execute("DELETE FROM user_files")
    connection.execute("INSERT INTO user_files SELECT unnest(?::VARCHAR[])", (files,))


def user_files_by_trace(connection: Connection) -> dict[int, tuple[str, ...]]:
    """The files that :func:`select_user_files` would choose for each of the opened traces alone, in order; traces without
    files are absent. What one trace is taken for must not depend on those that are opened beside it."""
    rows = connection.execute(
        "SELECT trace, list(DISTINCT file ORDER BY file) FROM locations WHERE file IS NOT NULL GROUP BY trace ORDER BY trace"
    ).fetchall()
    facts = _Facts(connection, by_trace=True)
    return {trace: tuple(_chosen(facts, files, Selection(), trace)) for trace, files in rows}


class _Facts:
    """What the traces hold about the origin of files, together or (``by_trace``) for each alone; asked for once."""

    def __init__(self, connection: Connection, by_trace: bool = False) -> None:
        self.connection = connection
        self._trace = "trace" if by_trace else "1"

    @cached_property
    def _texts(self) -> dict[int, dict[str, str]]:
        """The sources of files that others may have written, by trace and file."""
        query = f"""SELECT {self._trace} AS one, file, first(text ORDER BY trace) FROM sources
            WHERE text IS NOT NULL AND file IS NOT NULL AND regexp_matches(file, ?) GROUP BY ALL"""
        found: dict[int, dict[str, str]] = {}
        for trace, file, text in self.connection.execute(query, (_MAY_BE_OF_OTHERS,)).fetchall():
            found.setdefault(trace, {})[file] = text
        return found

    @cached_property
    def _programs(self) -> dict[int, list[_Program]]:
        query = f"""SELECT DISTINCT {self._trace} AS one, command, cause = 'spawn' AND EXISTS (
                SELECT 1 FROM processes starter WHERE starter.trace = started.trace AND starter.pid = started.parent_pid
                AND starter.t_ns <= started.t_ns AND coalesce(starter.end_ns >= started.t_ns, true)
                AND starter.python_version IS NOT NULL)
            FROM processes started WHERE cause IS DISTINCT FROM 'fork' AND python_version IS NOT NULL"""
        found: dict[int, list[_Program]] = {}
        for trace, command, is_started in self.connection.execute(query).fetchall():
            found.setdefault(trace, []).append(_Program(command, bool(is_started)))
        return found

    def texts(self, trace: int | None) -> dict[str, str]:
        return self._texts.get(trace or 1, {})

    def programs(self, trace: int | None) -> list[_Program]:
        return self._programs.get(trace or 1, [])


@dataclass(frozen=True)
class _Program:
    """What a process runs that was not forked. ``is_started``: a process that runs Python started it."""

    command: Sequence[str | None] | None
    is_started: bool


def _chosen(facts: _Facts, files: Sequence[str], selection: Selection, trace: int | None = None) -> list[str]:
    """Those of ``files`` that are the user's code; ``trace``: the one trace that counts, None = all."""
    started_by, generated = _written_by_others(facts, files, trace)
    others, programs = [*started_by, *generated], list[str]()
    if not user_files(files, Selection(), others):
        programs = _installed_programs(facts.connection, files, started_by, trace)
    if not programs and not user_files(files, Selection(), others):
        others = [*started_by, *(file for file in generated if file.startswith("<string>"))]
    return user_files(files, selection, others, programs)


def user_files(
    files: Iterable[str], selection: Selection, others: Iterable[str] = (), programs: Iterable[str] = ()
) -> list[str]:
    """Those of ``files`` that are the user's code.

    By default these are all files outside of the standard library, installed packages and frozen modules, except
    ``others``, and the ``programs``. ``all_files`` adds every file, ``include`` adds matching files, and ``exclude`` takes
    precedence over both.
    """
    included, excluded, excepted = _matcher(selection.include), _matcher(selection.exclude), frozenset(others)
    run = frozenset(programs)

    def is_user(file: str) -> bool:
        return file not in excepted and (file in run or not _INSTALLED.search(file))

    return [file for file in files if not excluded(file) and (selection.all_files or is_user(file) or included(file))]


def _installed_programs(
    connection: Connection, files: Iterable[str], started_by: Mapping[str, str], trace: int | None
) -> list[str]:
    """The files of the installed programs that processes run: where nothing else is the user's, they are. For
    ``-m json.tool`` that is the module, for ``-m sphinx`` and for a launcher the whole package, whose first module only
    calls the rest."""
    sql = """
        WITH outermost AS (
            SELECT DISTINCT trace, list_slice(locations, -4, -1) AS locations FROM stacks
            WHERE $trace IS NULL OR trace = $trace
        ),
        frames AS (
            SELECT trace, locations, unnest(locations) AS id, generate_subscripts(locations, 1) AS depth FROM outermost
        )
        SELECT DISTINCT arg_max(file, depth) FILTER (NOT regexp_matches(file, $runpy)) AS file,
            arg_max(function, depth) FILTER (NOT regexp_matches(file, $runpy)) AS function
        FROM frames JOIN locations USING (trace, id) GROUP BY trace, locations
    """
    found = connection.execute(sql, {"runpy": _RUNPY, "trace": trace}).fetchall()
    # Only a program's code is outermost on a stack, or called by runpy alone, and is called <module>.
    programs = {file for file, function in found if function == "<module>" and not file.startswith("<")}
    folders = {match[0] for file in programs if (match := _PACKAGE.search(file))}
    started = {match[1] for file, text in started_by.items() if file in programs and (match := _IMPORTS.search(text))}

    def belongs(file: str) -> bool:
        folder = _PACKAGE.search(file)
        return file in programs or (folder is not None and (folder[0] in folders or folder[1] in started))

    return [file for file in files if belongs(file)]


def _may_be_generated(file: str) -> bool:
    return file == _EXECUTED or _GENERATED.match(file) is not None or _NAMED_PROGRAM.fullmatch(file) is not None


def _written_by_others(facts: _Facts, files: Sequence[str], trace: int | None) -> tuple[dict[str, str], list[str]]:
    """Of the files outside of the installation, those that the user has not written: launchers (name to text), and
    generated code whose text nobody has kept."""
    candidates = [file for file in files if _IN_BIN.search(file) or _may_be_generated(file)]
    if not candidates:
        return {}, []
    known = facts.texts(trace)
    texts = {file: known[file] for file in candidates if file in known}
    executed = _Executed(facts.programs(trace), files) if any(file.startswith("<string>") for file in files) else None

    def is_generated(file: str) -> bool:
        if executed is not None and file.startswith("<string>"):
            return executed.is_generated(file, texts.get(file))
        return file not in texts and _GENERATED.match(file) is not None

    return {file: texts[file] for file in launchers(texts)}, [file for file in candidates if is_generated(file)]


class _Executed:
    """Whose the code of ``-c`` is. The line by which a library starts a process of its own (``from
    joblib.externals.loky.backend.resource_tracker import main; main(4, False)``) is not the user's: a process that runs
    Python has started it, and the package is an installed one. What the user has typed was started by a shell, or by the
    recorder."""

    def __init__(self, programs: Sequence[_Program], files: Iterable[str]) -> None:
        given = [(given_code(each.command or []), each.is_started) for each in programs]
        called = {code: called_package(code) for code, is_started in given if code is not None and is_started}
        installed = {match[1] for file in files if (match := _TOP.search(file))} if any(called.values()) else set()
        by_hand = {code for code, is_started in given if not is_started}
        self._of_libraries = {code for code, package in called.items() if package in installed} - by_hand
        self._of_users = {code for code, _ in given if code is not None} - self._of_libraries
        self._may_be_users = not programs or any(
            not each.command or (runs_code(each.command) and given_code(each.command) not in self._of_libraries)
            for each in programs
        )

    def is_generated(self, file: str, text: str | None) -> bool:
        """Is this file of executed code not the user's? ``text``: its source, None = not in the trace."""
        if file == _EXECUTED:
            return not self._may_be_users and (text is None or text.strip() in map(str.strip, self._of_libraries))
        named = _NAMED_PROGRAM.fullmatch(file)
        return named is not None and _begins(named[1], self._of_libraries) and not _begins(named[1], self._of_users)


def _begins(words: str, programs: Iterable[str]) -> bool:
    """Does one of the programs begin with these words?"""
    return any(program.lstrip().startswith(words) for program in programs)


def runs_code(command: Sequence[str | None]) -> bool:
    """Does this command run code that was given with ``-c``, so that the user has written what is in ``<string>``? Commands
    by which libraries start workers do not."""
    if not names_interpreter(command):
        return "-c" in command  # an interpreter of another name
    return given_code(command) is not None


def launchers(texts: Mapping[str, str]) -> list[str]:
    """Those files in ``bin`` (name to text) that an installer has written only to start an installed program.

    All of them correct ``sys.argv[0]`` and pass what the program returns to ``sys.exit``.
    """
    return [
        file
        for file, text in texts.items()
        if _IN_BIN.search(file)
        and "sys.exit(" in text
        and _CORRECTS_NAME.search(text)
        and text.count("\n") <= _MOST_LINES_OF_A_LAUNCHER
    ]


class _matcher:  # noqa: N801 (used as a function)
    """Does a file match any of the globs? A glob without a slash is compared with the last part of the path."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._globs = [(re.compile(fnmatch.translate(glob)), "/" in glob) for glob in globs]

    def __call__(self, file: str) -> bool:
        name = file.rpartition("/")[2]
        return any(glob.match(file if is_path else name) for glob, is_path in self._globs)
