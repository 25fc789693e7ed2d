"""A sixth argument of a system call is passed on the stack, as the eight bytes that syscall(2) reads. For an int, compilers
need to write only four of them: process_vm_readv then fails with EINVAL for its flags, as with clang it did."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

SHIM = ROOT / "shim"
#: Eight bytes, whatever the compiler: literals, pointers, casts, and variables of type size_t or off_t.
LONG = re.compile(r"-?\d+L|NULL|\(long\).*|offset")


def arguments(text: str, start: int) -> list[str]:
    """The arguments of the call whose parenthesis opens just before ``start``."""
    found, depth, begun, at = [], 1, start, start
    while depth:
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth or (text[at] == "," and depth == 1):
            found.append(" ".join(text[begun:at].split()))
            begun = at + 1
        at += 1
    return found


def short_arguments(text: str) -> Iterator[str]:
    """The calls whose sixth argument is not known to have eight bytes."""
    for call in re.finditer(r"\bsyscall\(", text):
        found = arguments(text, call.end())
        if len(found) > 6 and not LONG.fullmatch(found[6]):
            yield f"syscall({', '.join(found)})"


def test_sixth_arguments_of_system_calls_are_long() -> None:
    texts = {path: path.read_text() for path in SHIM.rglob("*.[ch]")}
    assert (
        sum(
            len(arguments(text, call.end())) > 6
            for text in texts.values()
            for call in re.finditer(r"\bsyscall\(", text)
        )
        > 9
    )
    assert not [f"{path.relative_to(SHIM)}: {call}" for path, text in texts.items() for call in short_arguments(text)]


@pytest.mark.parametrize(
    ("call", "is_short"),
    [
        ("syscall(SYS_process_vm_readv, f(a, b), &to, 1,\n    &from, 1, 0)", True),
        ("syscall(SYS_process_vm_readv, target, &to, 1, &from, 1, 0L)", False),
        ("syscall(SYS_mmap, to, size, PROT_READ, MAP_SHARED, fd, offset)", False),
        ("syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, NULL)", False),
        ("syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, NULL, NULL, FUTEX_BITSET_MATCH_ANY)", True),
        ("syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, NULL, NULL, flags)", True),
        ("syscall(SYS_kill, pid, 0)", False),
    ],
)
def test_a_planted_int_is_found(call: str, is_short: bool) -> None:
    assert bool(list(short_arguments(f"return {call};"))) == is_short
