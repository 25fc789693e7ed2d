"""Code that no file holds. Python calls the file of each program that ``-c`` gives ``<string>``, so that lines of different
programs would be added up: where a recording has several, each gets a name of its own. A program may also have told the
texts of code that it compiled, with names for people: cells of notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....formats.cpython.command_line import given_code
from ....formats.dataclass import dataclass, replace
from ....formats.spool.codes import CodeObject
from ....formats.trace.text import storable
from ...folder.marks import ToldSource
from ..keyed.by_key import ByKey

#: File name of the code that ``-c`` runs.
COMMAND_FILE = "<string>"
#: The longest part of a program that its name repeats.
_LONGEST = 40

Commands = Mapping[int, list[str] | None]


@dataclass(frozen=True)
class GivenPrograms:
    """``codes``: all code objects by hash, those of given programs with the names of these; ``texts``: the program of each
    name, where it is known; None = no file holds it, and it was not told."""

    codes: dict[int, CodeObject]
    texts: Mapping[str, str | None]


def name_programs(
    codes: dict[int, CodeObject],
    writers: Mapping[int, Iterable[int]],
    commands: Commands,
    forked_from: ByKey,
    own: str | None,
) -> GivenPrograms:
    """``writers``: the processes that have written each code object of COMMAND_FILE; ``commands``: the command line of each
    process that was not forked; ``own``: the code that was given to the recorded program, which keeps the name. Code objects
    that programs have in common keep it too, and those of processes without ``-c``: libraries have made these. Writers
    without a start say nothing: the watcher writes what it observes in any process."""
    given = {process: given_code(command or []) for process, command in commands.items()}
    started = {each: _started(each, commands, forked_from) for found in writers.values() for each in found}
    texts_of = {
        code: {given[process] for each in found if (process := started[each]) is not None}
        for code, found in writers.items()
    }
    texts = {text for found in texts_of.values() for text in found} | ({own} if own is not None else set())
    if len(texts) <= 1:
        only = texts.pop() if texts else None
        return GivenPrograms(codes, {} if only is None else {COMMAND_FILE: only})
    single = {code: next(iter(found)) for code, found in texts_of.items() if len(found) == 1}
    others = {code: text for code, text in single.items() if text is not None and text != own}
    names = _names(sorted(set(others.values())))
    named = {code: replace(codes[code], file=names[text]) for code, text in others.items()}
    known = {name: text for text, name in names.items()} | ({COMMAND_FILE: own} if own is not None else {})
    return GivenPrograms(codes | named, known)


def with_told(given: GivenPrograms, told: Mapping[str, ToldSource]) -> GivenPrograms:
    """``given``, and the code whose text the program has ``told``, by the name that it was compiled with."""
    found = {code: told[each.file].title for code, each in given.codes.items() if each.file in told} if told else {}
    named = {code: replace(given.codes[code], file=title) for code, title in found.items()}
    texts = {each.title: each.text or None for each in told.values()}
    return GivenPrograms(given.codes | named, {**given.texts, **texts})


def _started(process: int, commands: Commands, forked_from: ByKey) -> int | None:
    """The process that ``process`` was forked from, through any number of forks; None if its start is not recorded."""
    seen: set[int] = set()
    while process not in commands and process not in seen:
        seen.add(process)
        process = forked_from.one(process, -1)
    return process if process in commands else None


def _names(texts: Iterable[str]) -> dict[str, str]:
    """A file name for each text: its first words, without what follows a slash, since names of files are cut there."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text in texts:
        line = next((line for each in text.splitlines() if (line := each.strip())), "")
        start = line.partition("/")[0][:_LONGEST].rstrip()
        label = storable(start + "…" * (start != text.strip()))
        counts[label] = number = counts.get(label, 0) + 1
        names[text] = f"{COMMAND_FILE} -c '{label}'" + (f" ({number})" if number > 1 else "")
    return names
