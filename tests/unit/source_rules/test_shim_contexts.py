"""The contexts that functions of the shim run in (a signal handler, inside malloc), as their comments name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

C_SOURCES = sorted((ROOT / "shim" / "src").glob("*.[ch]"))

PHRASE = re.compile(r"Context: (\w+)")


@pytest.mark.parametrize("path", C_SOURCES, ids=lambda path: path.name)
def test_contexts_are_named_in_the_fixed_phrase(path: Path) -> None:
    unknown = set(PHRASE.findall(path.read_text())) - {"signal", "malloc", "normal"}
    assert not unknown
    assert not re.search(r"\b[Cc]ontext:[^ ]|\bcontext: (signal|malloc|normal)\b", path.read_text())


#: What must not be called where a signal handler or malloc may be running: it allocates, locks or formats.
FORBIDDEN = re.compile(
    r"\b(malloc|calloc|realloc|free|printf|fprintf|snprintf|fopen|dlsym|dlopen|pthread_mutex_lock|syslog)\s*\("
)
DEFINITION = re.compile(
    r"/\*(?P<comment>(?:[^*]|\*(?!/))*?)\*/\n(?P<head>[^\n;{}#/][^\n;{}]*\([^;{}]*\)\s*)\{", re.MULTILINE
)


def marked_bodies(text: str) -> Iterator[tuple[str, str]]:
    """Head and body of the functions whose comment says that they run in a signal handler or inside malloc."""
    for found in DEFINITION.finditer(text):
        if re.search(r"Context: (signal|malloc)", found["comment"]):
            end = text.find("\n}", found.end())
            yield found["head"].strip(), text[found.end() : end]


@pytest.mark.parametrize("path", [path for path in C_SOURCES if path.suffix == ".c"], ids=lambda path: path.name)
def test_functions_of_signal_context_call_nothing_that_allocates_or_locks(path: Path) -> None:
    for head, body in marked_bodies(path.read_text()):
        code = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        calls = [
            call.group(1) for call in FORBIDDEN.finditer(code) if not code[: call.start()].endswith(("next.", "->"))
        ]
        assert not calls, f"{head}: {calls}"
