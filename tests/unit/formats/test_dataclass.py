"""Our data classes behave as those of the standard library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from scalene_trace.formats import dataclass as ours

MODULES = pytest.mark.parametrize("module", [ours, dataclasses], ids=["ours", "standard"])


def classes(module: Any) -> tuple[Any, Any, Any]:
    """A frozen class, one that can be changed and holds one of the first, and one with slots."""

    @module.dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2

        def sum(self) -> int:
            return self.x + self.y

    @module.dataclass()
    class Line:
        points: list[Any] = module.field(default_factory=list)
        names: dict[str, Any] = module.field(default_factory=dict)
        width: int = 1

    @module.dataclass(slots=True)
    class Small:
        x: int
        y: int | None = None

    return Point, Line, Small


@MODULES
def test_values_are_given_by_place_or_by_name_or_come_from_the_defaults(module: Any) -> None:
    point, line, small = classes(module)
    for each in (point(1), point(1, 2), point(x=1), point(1, y=2), point(y=2, x=1)):
        assert (each.x, each.y, each.sum()) == (1, 2, 3)
    assert (line().points, line(width=3).width) == ([], 3)
    assert line().points is not line().points
    assert (small(4).x, small(4).y) == (4, None)


@MODULES
@pytest.mark.parametrize(
    "wrong", [lambda make: make(), lambda make: make(1, 2, 3), lambda make: make(1, z=3), lambda make: make(1, x=1)]
)
def test_values_that_are_missing_or_too_many_are_refused(module: Any, wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        wrong(classes(module)[0])


@MODULES
def test_equal_values_are_equal(module: Any) -> None:
    point, line, _ = classes(module)
    assert point(1) == point(1, 2) != point(1, 3)
    assert point(1) != (1, 2) and classes(module)[0](1) != point(1)  # of another class
    assert len({point(1), point(1, 2), point(1, 3)}) == 2
    with pytest.raises(TypeError):
        hash(line())

    @module.dataclass(eq=False)
    class Thing:
        x: int

    assert Thing(1) != Thing(1) and len({Thing(1), Thing(1)}) == 2


@MODULES
def test_a_frozen_one_cannot_be_changed_and_slots_hold_nothing_else(module: Any) -> None:
    point, line, small = classes(module)
    with pytest.raises(AttributeError):
        point(1).x = 2
    with pytest.raises(AttributeError):
        del point(1).x
    changed, slotted = line(), small(1)
    changed.width, slotted.x = 5, 6
    assert (changed.width, slotted.x, hasattr(slotted, "__dict__")) == (5, 6, False)
    with pytest.raises(AttributeError):
        slotted.z = 1


@MODULES
def test_copies_dictionaries_and_texts(module: Any) -> None:
    point, line, _ = classes(module)
    held = line([point(1)], {"a": (point(3, 4),)})
    assert module.asdict(held) == {"points": [{"x": 1, "y": 2}], "names": {"a": ({"x": 3, "y": 4},)}, "width": 1}
    assert module.replace(point(1), y=7) == point(1, 7)
    with pytest.raises(TypeError):
        module.replace(point(1), z=7)
    assert repr(point(1)).endswith("Point(x=1, y=2)")
    match point(5):
        case point(x, y):
            assert (x, y) == (5, 2)


@MODULES
def test_slots_may_be_made_for_each_instance_and_a_hash_of_ones_own_is_kept(module: Any) -> None:
    @module.dataclass(slots=True)
    class Many:
        name: str
        rows: list[Any] = module.field(default_factory=list)

    @module.dataclass(frozen=True)
    class Own:
        x: int

        def __hash__(self) -> int:
            return 7

    first, second = Many("a"), Many("a")
    first.rows.append(1)
    assert (first.rows, second.rows, hash(Own(3))) == ([1], [], 7)


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(TypeError, match="use dataclasses"):

        @ours.dataclass()
        class WithoutFields:
            pass

    with pytest.raises(TypeError, match="use dataclasses"):

        @ours.dataclass()
        class Late:
            x: int

            def __post_init__(self) -> None: ...
