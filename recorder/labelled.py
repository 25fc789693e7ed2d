"""Labels of a request or job: which one the samples of a recording belong to.

::

    from scalene_trace.recorder import label

    with label(endpoint="/cart"):
        serve()

A label is in the context (:mod:`contextvars`) of the code: tasks of asyncio that are created in the block have it, and so
has what ``asyncio.to_thread`` or ``copy_context().run`` calls. The recorder reads it from outside of Python, so that nothing
is sent when a block begins or ends. This module runs in the program's interpreter, as :mod:`.api` does.
"""

from __future__ import annotations

from contextvars import ContextVar

from .api import recording_folder

TYPE_CHECKING = False  # typing is not imported: the program would pay for it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token
    from typing import Any

#: What a value begins with (shim/shared/objects/labels.h), and the most bytes of the text that follows.
_MAGIC = b"\x93label1:"
_MOST_BYTES = 1024
_MOST_LABELS = 16
_LONGEST_NAME = 64
_LONGEST_VALUE = 256
_LEFT_OUT = "left_out"
#: A program that has a label for each user is not to fill memory with them.
_MOST_KNOWN = 1000


class _Labels(bytes):
    """The labels of a context, as the shim and the watcher read them: the magic, then NAME=VALUE by name, separated by NUL.
    ``pairs``: texts by name."""

    pairs: dict[str, str]


_NONE = _Labels()
_NONE.pairs = {}
#: Its address is where the shim and the watcher begin, so it lives as long as this module.
_variable: ContextVar[_Labels] = ContextVar("scalene_trace.label", default=_NONE)
#: Values by those of the context around them and the labels that were given: most are needed again.
_known: dict[tuple[object, ...], _Labels] = {}
_MOST_INT = 1 << 63
#: A program may clear its environment before the first block.
_folder_at_start = recording_folder()
_is_told = False


class label:  # noqa: N801 (used as a function)
    """``with label(endpoint="/cart", user=7):`` labels what the block does. It can also decorate a function, also one that is a
    coroutine: then the label holds while the function runs.

    Labels of inner blocks are added to those of outer ones, and replace those of the same name. Values: str and int; others
    are stored as ``str(value)``. A name has at most 64 characters (a letter or ``_``, then letters, digits and ``_``), a value
    at most 256, and a block at most 16 labels and about 1,000 bytes of them: longer values end in ``…``, and the label
    ``left_out`` counts those that found no room. Raises nothing of its own.
    """

    def __init__(self, /, **labels: object) -> None:
        self._labels = labels
        self._tokens: list[Token[_Labels]] = []

    def __enter__(self) -> None:
        value = _merged(_variable.get(), self._labels)
        self._tokens.append(_variable.set(value))
        if value and not _is_told:
            _tell()

    def __exit__(self, *error: object) -> None:
        for token in self._tokens[::-1]:  # tasks and threads may have entered the same object
            try:
                _variable.reset(token)
            except (ValueError, RuntimeError):  # it is of another context
                continue
            self._tokens.remove(token)
            return

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        from functools import wraps
        from inspect import iscoroutinefunction

        labels = self._labels

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with label(**labels):
                return function(*args, **kwargs)

        @wraps(function)
        async def run_coroutine(*args: Any, **kwargs: Any) -> Any:
            with label(**labels):
                return await function(*args, **kwargs)

        return run_coroutine if iscoroutinefunction(function) else run


def _merged(outer: _Labels, labels: Mapping[str, object]) -> _Labels:
    """The value for ``labels`` inside of ``outer``."""
    # 1, 1.0 and True are equal, and their texts are not; a list has no hash; a value may be a program's own object, or large.
    plain = all(map(_is_plain, labels.values()))
    key = (outer, *labels.items())
    found = _known.get(key) if plain else None
    if found is None:
        found = _made({**outer.pairs, **{_name(name): _text(value) for name, value in labels.items()}})
        if plain:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
    return found


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) <= _LONGEST_VALUE  # type: ignore[arg-type]
    return kind is int and -_MOST_INT < value < _MOST_INT  # type: ignore[operator]


def _made(pairs: dict[str, str]) -> _Labels:
    left_out = int(pairs.pop(_LEFT_OUT, 0))
    room = _MOST_BYTES - len(_LEFT_OUT) - 20
    kept: dict[str, str] = {}
    for name, value in pairs.items():
        size = len(f"{name}={value}".encode()) + 1
        if len(kept) < _MOST_LABELS and size <= room:
            kept[name] = value
            room -= size
        else:
            left_out += 1
    if left_out:
        kept[_LEFT_OUT] = str(left_out)
    made = _Labels(_MAGIC + "\0".join(f"{name}={kept[name]}" for name in sorted(kept)).encode() if kept else b"")
    made.pairs = kept
    return made


def _name(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        name = "".join(each if each == "_" or (each.isascii() and each.isalnum()) else "_" for each in name) or "_"
        name = f"_{name}" if name[0].isdigit() else name
    return f"_{name}" if name == _LEFT_OUT else name[:_LONGEST_NAME]


def _text(value: object) -> str:
    try:
        text = value if type(value) is str else str(value)
    except Exception:  # the program's own class
        text = "…" if type(value) is int else object.__repr__(value)  # an int of thousands of digits has no text
    if len(text) > _LONGEST_VALUE:
        text = text[: _LONGEST_VALUE - 1] + "…"
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def _tell() -> None:
    """Tells the shim where labels are, once in a process: a forked one has them at the same place."""
    global _is_told
    _is_told = True
    if not (
        _folder_at_start or recording_folder()
    ):  # a recorder that attaches later finds the variable by the name of its module
        return
    try:
        import ctypes

        tell = ctypes.CDLL(None).scalene_program_label
        tell.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
        tell(id(_variable), hash(_variable) & 0xFFFFFFFFFFFFFFFF, id(_variable.get()))
    except Exception:  # the recorder attached, so its library is not preloaded here, or there is no ctypes
        return
