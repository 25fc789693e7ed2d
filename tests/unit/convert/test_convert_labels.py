"""From stacks with labels in a spool to the column ``labels`` of the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conversion import locations, rows, tables_of, with_stack
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder


def test_stacks_that_differ_in_labels_are_different_and_have_the_same_lines(tmp_path: Path) -> None:
    builder = with_stack(SpoolBuilder().start()).type(77, b"endpoint=/cart\0user=7").type(78, "endpoint=/ü".encode())
    builder.add("node", hash=21, parent=10, code=2, instruction=6, label=77)
    builder.add("node", hash=22, parent=10, code=2, instruction=6, label=78)
    builder.add("node", hash=23, parent=10, code=2, instruction=7, label=77)  # on the same line
    for stack in (20, 21, 22, 23):
        builder.add("tick", thread=3, t_ns=START_MONO_NS + stack, stack=stack)
    tables = tables_of(builder, tmp_path)
    stacks = {row["stack"]: row for row in rows(tables["stack"])}
    ids = [row["stack"] for row in rows(tables["cpu"])]
    assert [stacks[each]["labels"] for each in ids] == [
        None,
        ["endpoint=/cart", "user=7"],
        ["endpoint=/ü"],
        ["endpoint=/cart", "user=7"],
    ]
    assert ids[1] == ids[3] and len(set(ids)) == len(stacks) == 3
    assert len({tuple(locations(tables, each)) for each in ids}) == 1
    assert len({row["hash"] for row in stacks.values()}) == 1


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (b"", []),
        (b"b=1\0a=2", ["a=2", "b=1"]),
        (b"a=1\0a=1\0no value\0=\0c=\x1b[31m\0d=\xff", ["a=1", "c=?[31m", "d=\\xff"]),
        (b"a=" + b"x" * 5000, ["a=" + "x" * 1022]),
        (b"\0" * 1000, []),
        (b"\0".join(b"n%d=1" % number for number in range(500)), sorted(f"n{number}=1" for number in range(64))),
        (None, ["not_recorded=1"]),
    ],
)
def test_what_the_recorder_does_not_write_is_left_out(text: bytes | None, labels: list[str], tmp_path: Path) -> None:
    builder = with_stack(SpoolBuilder().start())
    if text is not None:
        builder.type(77, text)
    builder.add("node", hash=21, parent=10, code=2, instruction=6, label=77)
    builder.add("tick", thread=3, t_ns=START_MONO_NS + 1, stack=21)
    (row,) = rows(tables_of(builder, tmp_path)["stack"])
    assert row["labels"] == labels
