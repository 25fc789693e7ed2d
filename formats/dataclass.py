"""Data classes for modules that the recorder imports: the parts of :mod:`dataclasses` that are used here, with the same meaning.

The standard module compiles six methods of each class from text, 0.5 ms for each, and imports :mod:`inspect` (10 ms). The
user waits for that after a short program (docs/design/startup.md). Here the classes share methods.
"""

from __future__ import annotations

import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")
else:

    def dataclass_transform(**_):
        return lambda decorator: decorator


_MISSING = object()


class _Field:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """A default that is made for each instance."""
    return _Field(default_factory)  # type: ignore[return-value]


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[type[T]], type[T]]:
    """A decorator that adds a constructor, a text and comparison by value to a class, as :func:`dataclasses.dataclass` does.

    ``frozen``: attributes cannot be assigned, and instances are hashable; ``eq``: False = compared by identity; ``slots``:
    instances have no dictionary. Neither class variables nor the fields of a base class are supported.
    """

    def decorated(cls: type[T]) -> type[T]:
        names = tuple(cls.__annotations__)
        if not names or hasattr(cls, "__post_init__"):
            raise TypeError(f"{cls.__name__} has no fields, or __post_init__: use dataclasses")
        defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
        made = _with_slots(cls, names) if slots else cls
        for name, value in defaults.items():
            if isinstance(value, _Field) and not slots:  # with slots, the name is that of a slot
                delattr(made, name)
        methods = _methods(made, names, defaults) | (_comparison(made, names, frozen) if eq else {})
        for name, method in (methods | (_REFUSALS if frozen else {})).items():
            if vars(made).get(name) is None:  # a class that defines __eq__ alone has None as __hash__
                setattr(made, name, method)
        return made

    return decorated


def replace(record: T, /, **changes: Any) -> T:
    """A copy with other values. Raises TypeError for a name that is no field."""
    return type(record)(**(_values(record) | changes))


def asdict(record: Any) -> dict[str, Any]:
    """The fields by name, those of data classes inside of them too. Lists, tuples and dicts are copied."""
    return {name: _plain(value) for name, value in _values(record).items()}


def _plain(value: Any) -> Any:
    if hasattr(type(value), "_fields_here"):
        return asdict(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return {_plain(key): _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _values(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record)._fields_here}


def _with_slots(cls: type[T], names: tuple[str, ...]) -> type[T]:
    """The class again, since slots can only be given to a new one."""
    kept = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    return type(cls)(cls.__name__, cls.__bases__, kept | {"__slots__": names})  # type: ignore[no-any-return, misc]


def _methods(cls: type, names: tuple[str, ...], defaults: dict[str, Any]) -> dict[str, Any]:
    set_value = object.__setattr__

    def construct(self: Any, /, *values: Any, **named: Any) -> None:
        for name, value in zip(names, values, strict=False):
            set_value(self, name, value)
        if len(values) == len(names) and not named:
            return
        for name in names[len(values) :]:
            value = named.pop(name, _MISSING)
            if value is _MISSING:
                value = defaults.get(name, _MISSING)
                if value is _MISSING:
                    raise TypeError(f"{cls.__name__} needs {name}")
                if isinstance(value, _Field):
                    value = value.make()
            set_value(self, name, value)
        if named or len(values) > len(names):
            raise TypeError(f"{cls.__name__} got values that are no fields, or got them twice: {values}, {named}")

    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in _values(self).items())})"

    return {"__init__": construct, "__repr__": text, "_fields_here": names, "__match_args__": names}


def _comparison(cls: type, names: tuple[str, ...], frozen: bool) -> dict[str, Any]:
    get_values = operator.attrgetter(*names)

    def is_equal(self: Any, other: object) -> Any:
        return get_values(self) == get_values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(get_values(self))

    return {"__eq__": is_equal, "__hash__": hashed if frozen else None}


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{name} of {type(self).__name__} cannot be assigned: it is frozen")


_REFUSALS = {"__setattr__": _refuse, "__delattr__": _refuse}
