"""The labels that a program gives to its requests (:mod:`scalene_trace.recorder.labelled`): what the recorder finds in a
context."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from scalene_trace.recorder import label, labelled


def now() -> list[str]:
    """The labels of the current context, as the shim reads them."""
    value = labelled._variable.get()
    if not value:
        return []
    assert value.startswith(b"\x93label1:") and len(value) <= 8 + 1024
    return value[8:].decode().split("\0")


def test_labels_are_merged_and_taken_back() -> None:
    assert now() == []
    with label(endpoint="/cart", user=7):
        assert now() == ["endpoint=/cart", "user=7"]
        with label(user=8, step="pay"):
            assert now() == ["endpoint=/cart", "step=pay", "user=8"]
        with label():
            assert now() == ["endpoint=/cart", "user=7"]
        assert now() == ["endpoint=/cart", "user=7"]
    assert now() == []
    with pytest.raises(ZeroDivisionError), label(a=1):
        raise ZeroDivisionError
    assert now() == []


def test_values_that_are_equal_but_differ_as_texts_are_different_labels() -> None:
    for value, text in ((1, "1"), (True, "True"), (1.0, "1.0"), ("1", "1"), (0, "0"), (False, "False")):
        with label(a=value):
            assert now() == [f"a={text}"]


class Odd:
    """A value whose text cannot be made."""

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"a": "x" * 300}, ["a=" + "x" * 255 + "…"]),
        ({"a": "a\nb\0c\x1b[31m\ud800"}, ["a=a?b?c?[31m?"]),
        ({"a": "a=b,c"}, ["a=a=b,c"]),
        ({"a": [1, None]}, ["a=[1, None]"]),
        ({"a": None, "b": b"\0"}, ["a=None", "b=b'\\x00'"]),
        ({"a b": 1, "1": 2, "": 3, "ü=": 4}, ["_1=2", "_=3", "__=4", "a_b=1"]),
        ({"left_out": 5}, ["_left_out=5"]),
        ({"self": 1}, ["self=1"]),
        ({"n" * 100: 1}, ["n" * 64 + "=1"]),
    ],
)
def test_what_cannot_be_a_label_is_changed_so_that_it_can(labels: dict[str, Any], expected: list[str]) -> None:
    with label(**labels):
        assert sorted(now()) == sorted(expected)


def test_a_value_without_a_text_is_stored_as_an_object() -> None:
    with label(a=Odd(), b=10**6000):
        found = now()
        assert "Odd object at" in found[0] and found[1].startswith("b=")


def test_labels_that_find_no_room_are_counted() -> None:
    with label(**{f"n{number:02}": number for number in range(20)}):
        assert len(now()) == 17 and now()[0] == "left_out=4"
        with label(more=1, n00="other"):
            assert now()[0] == "left_out=5" and "n00=other" in now()
    with label(**{f"n{number}": "ü" * 250 for number in range(4)}):
        assert [each[:11] for each in now()] == ["left_out=3", "n0=" + "ü" * 8]


def test_a_context_keeps_its_labels() -> None:
    async def task(number: int) -> list[str]:
        with label(task=number):
            await asyncio.sleep(0.001)
            return now()

    async def run() -> None:
        with label(all=1):
            found = await asyncio.gather(*map(task, range(3)))
            assert found == [["all=1", f"task={number}"] for number in range(3)]
            assert await asyncio.to_thread(now) == ["all=1"]
            assert await asyncio.get_running_loop().run_in_executor(None, now) == []

    asyncio.run(run())
    with label(a=1):
        context = contextvars.copy_context()
    assert now() == [] and context.run(now) == ["a=1"]


def test_one_object_may_be_entered_by_several_tasks() -> None:
    both = label(a=1)

    async def task(first: float) -> list[str]:
        with both:
            await asyncio.sleep(first)
            assert now() == ["a=1"]
        return now()

    async def run() -> list[list[str]]:
        return await asyncio.gather(task(0.01), task(0.002), task(0.02))

    assert asyncio.run(run()) == [[], [], []]


def test_a_block_that_ends_in_another_context_raises_nothing() -> None:
    block = label(a=1)
    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)
    block.__exit__(None, None, None)
    assert now() == []


def test_functions_and_coroutines_are_decorated() -> None:
    @label(a=1)
    def function(value: int) -> tuple[int, list[str]]:
        """Says."""
        return value, now()

    @label(b=1)
    async def coroutine() -> list[str]:
        await asyncio.sleep(0)
        return now()

    assert function(3) == (3, ["a=1"]) and function.__doc__ == "Says." and now() == []
    assert asyncio.run(coroutine()) == ["b=1"]


def test_the_shim_is_shown_a_label_and_not_an_empty_block(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[str]] = []
    monkeypatch.setattr(labelled, "_is_told", False)
    monkeypatch.setattr(labelled, "_tell", lambda: told.append(now()))
    with label():
        assert told == []
        with label(a=1):
            assert told == [["a=1"]]


def test_large_values_are_not_kept() -> None:
    labelled._known.clear()
    for value in ("x" * 257, 1 << 63, -(1 << 20_000)):
        with label(a=value):
            assert len(now()[0]) <= 258
    assert now() == [] and not labelled._known


def test_memory_for_labels_is_bounded() -> None:
    for number in range(3 * labelled._MOST_KNOWN):
        with label(user=number):
            pass
    assert len(labelled._known) <= labelled._MOST_KNOWN


def test_threads_begin_without_labels_or_with_a_copy() -> None:
    found: list[list[str]] = []
    with label(a=1):
        thread = threading.Thread(target=lambda: found.append(now()))
        thread.start()
        thread.join()
        copied = threading.Thread(target=contextvars.copy_context().run, args=(lambda: found.append(now()),))
        copied.start()
        copied.join()
    assert found[1] == ["a=1"]
