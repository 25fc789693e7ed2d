"""Lines of one version of a program are found in another after they were moved, renamed, edited or copied."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.diff.code_blocks import blocks_of
from scalene_trace.analyze.diff.match import match_files, match_lines
from tests.support.paths import SUPPORT

#: A real module of middling size, of functions and classes, as it once was: its length and its names are part of the test.
MODULE = (SUPPORT / "module_to_edit.txt").read_text().split("\n")
APP = "/home/me/app.py"


def functions_of(lines: list[str]) -> list[tuple[int, int]]:
    """(first, end) of the blocks at the margin, by index; what is between them belongs to the one before."""
    starts = [i for i, line in enumerate(lines) if line.startswith(("def ", "class ", "@"))]
    starts = [i for i in starts if not lines[i - 1].startswith("@")]
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))


def edited(lines: list[str], seed: int) -> tuple[list[str], dict[int, int]]:
    """The module with its functions shuffled, 30 lines inserted in places and two functions renamed everywhere; and where
    each unchanged or renamed line (from 1) went."""
    draw = random.Random(seed)
    pieces = [list(range(*span)) for span in functions_of(lines)]
    draw.shuffle(pieces)
    order: list[int | str] = [*range(functions_of(lines)[0][0]), *(i for piece in pieces for i in piece)]
    for number in range(30):
        order.insert(draw.randrange(len(order)), f"    inserted_{number} = {draw.random()}")
    texts = [(lines[each] if isinstance(each, int) else each) for each in order]
    texts = [text.replace("_suspects", "find_suspicious").replace("_falls_back", "gives_back") for text in texts]
    return texts, {each + 1: index for index, each in enumerate(order, start=1) if isinstance(each, int)}


@pytest.mark.parametrize("seed", range(10))
def test_after_moves_insertions_and_renames_95_percent_of_the_lines_are_matched(seed: int) -> None:
    texts, truth = edited(MODULE, seed)
    pairs = match_lines({APP: MODULE}, {APP: texts})
    lines = [number for number in truth if MODULE[number - 1].strip()]
    same = [number for number in lines if MODULE[number - 1] == texts[truth[number] - 1]]
    renamed = [number for number in lines if number not in same]
    for wanted, least in ((same, 0.95), (renamed, 0.95)):
        right = sum(pairs.get((APP, number)) == (APP, truth[number]) for number in wanted)
        assert right >= least * len(wanted), f"{right} of {len(wanted)}"
    assert len(same) > 150 and len(renamed) > 5


def test_what_is_matched_is_never_matched_twice_and_keeps_its_text() -> None:
    texts, _ = edited(MODULE, 99)
    pairs = match_lines({APP: MODULE}, {APP: texts})
    assert len(set(pairs.values())) == len(pairs)
    exact = sum(MODULE[old - 1].strip() == texts[new - 1].strip() for (_, old), (_, new) in pairs.items())
    assert exact >= 0.9 * len(pairs)


def test_a_function_that_moved_to_another_file_is_followed() -> None:
    helper = [
        "def total(rows):",
        "    found = 0",
        "    for row in rows:",
        "        found += row.price * row.count",
        "    return found",
    ]
    before = {
        "/a/app.py": ["import tool", "", *helper, "", "print(total(tool.rows()))"],
        "/a/tool.py": ["def rows():", "    return [1]"],
    }
    after = {
        "/a/app.py": ["import tool", "", "print(tool.total(tool.rows()))"],
        "/a/tool.py": ["def rows():", "    return [1]", "", *helper],
    }
    pairs = match_lines(before, after)
    assert [pairs["/a/app.py", line] for line in range(3, 8)] == [("/a/tool.py", line) for line in range(4, 9)]
    assert pairs["/a/app.py", 9] == ("/a/app.py", 3), "an edited line is the same line"


def test_an_indented_block_is_the_same_block() -> None:
    body = ["total = compute(first)", "save(total, 'somewhere')"]
    after = ["if ready:", *(f"    {line}" for line in body)]
    assert match_lines({APP: body}, {APP: after}) == {(APP, 1): (APP, 2), (APP, 2): (APP, 3)}


def test_of_two_functions_that_exchange_their_names_each_is_found_by_what_is_in_it() -> None:
    one = ["    first = read(path)", "    second = parse(first)", "    return second"]
    two = ["    handle = connect(host)", "    handle.send(message)", "    return handle.answer"]
    before = ["def load(path):", *one, "def ask(path):", *two]
    after = ["def ask(path):", *one, "def load(path):", *two]
    pairs = match_lines({APP: before}, {APP: after})
    assert [pairs[APP, line][1] for line in (2, 3, 4, 6, 7, 8)] == [2, 3, 4, 6, 7, 8]


def test_a_removed_line_has_no_partner_and_neither_has_a_new_one() -> None:
    pairs = match_lines(
        {APP: ["a = first()", "b = second()", "c = third()"]}, {APP: ["a = first()", "c = third()", "zz[0] ^= 77"]}
    )
    assert pairs == {(APP, 1): (APP, 1), (APP, 3): (APP, 2)}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["/x/app.py"], ["/x/app.py"], {"/x/app.py": "/x/app.py"}),
        (["/v1/pkg/app.py", "/v1/pkg/b.py"], ["/v2/pkg/b.py", "/v2/pkg/app.py"], {"/v1/pkg/app.py": "/v2/pkg/app.py", "/v1/pkg/b.py": "/v2/pkg/b.py"}),
        (["/v1/a/__init__.py", "/v1/b/__init__.py"], ["/v2/b/__init__.py", "/v2/a/__init__.py"], {"/v1/a/__init__.py": "/v2/a/__init__.py", "/v1/b/__init__.py": "/v2/b/__init__.py"}),
        (["app.py"], ["/home/app.py"], {"app.py": "/home/app.py"}),
        (["/x/a.py"], ["/x/b.py"], {}),
    ],
)  # fmt: skip
def test_files_are_matched_by_the_ends_of_their_paths(
    before: list[str], after: list[str], expected: dict[str, str]
) -> None:
    sources = ({file: [f"of {file}"] for file in before}, {file: [f"in {file}"] for file in after})
    assert match_files(before, after, sources) == expected


def test_a_renamed_file_is_found_by_its_lines() -> None:
    assert match_files(["/x/a.py"], ["/x/b.py"], ({"/x/a.py": MODULE}, {"/x/b.py": edited(MODULE, 1)[0]})) == {
        "/x/a.py": "/x/b.py"
    }


def test_blocks_are_cut_at_functions_and_classes_wherever_brackets_and_strings_stand() -> None:
    text = '''import os
class Shop:
    """Sells
things.
"""
    def sell(
        self,
    ) -> int:
# a comment at the margin
        return 1

    async def close(self): pass
def main():
    Shop().sell()
print(main())'''
    found = {block.name: block.numbers for block in blocks_of(APP, text.split("\n"))}
    assert found == {
        "": [1, 15],
        "Shop": [2, 3, 4, 5],
        "Shop.sell": [6, 7, 8, 9, 10],
        "Shop.close": [12],
        "main": [13, 14],
    }


source_lines = st.lists(
    st.sampled_from(["", "def f():", "class A:", "    x = 1", "    def g():", "        return x", '"""', "else:", "y = f()", "😀 = '\ud800'", "\x0c"]),
    max_size=40,
)  # fmt: skip


@given(source_lines, source_lines)
def test_any_two_texts_are_matched_one_to_one(before: list[str], after: list[str]) -> None:
    pairs = match_lines({APP: before, "b.py": after}, {APP: after, "c.py": before})
    assert len(set(pairs.values())) == len(pairs)
    texts = {APP: after, "c.py": before}
    assert all(0 < line <= len(texts[file]) for file, line in pairs.values())


@given(source_lines)
def test_a_text_is_matched_with_itself_line_by_line(lines: list[str]) -> None:
    pairs = match_lines({APP: lines}, {APP: list(lines)})
    assert pairs == {(APP, number): (APP, number) for number in range(1, len(lines) + 1)}


@pytest.mark.measures
@pytest.mark.parametrize("line", ["x = 1", "", "}" * 300, "def f():", "    " * 2_000 + "pass"])
def test_a_text_of_one_line_over_and_over_takes_no_square_of_its_length(line: str) -> None:
    before = [line] * 10_000
    start = time.process_time()
    match_lines({APP: ["first", *before]}, {APP: [*before, "last"]})
    assert time.process_time() - start < 20  # a second or two; comparing all with all takes minutes
