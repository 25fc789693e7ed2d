"""Results as plain text, for agents, programs and pipes: the figures of ``--json`` under their names, with their errors.

A record is its place and its source, if it has them, and then its figures: ``cpu_s=1.063±0.052``. What is zero or was not
recorded is left out, as are curves. Nothing is cut, aligned or coloured. Text of the trace is cleaned and stays in its line,
and is quoted where it could be taken for a figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...analyze.results.base import to_json
from .text import clean, not_shown

if TYPE_CHECKING:
    from ...analyze.results.report import Report

#: Curves, and what only programs need. The command `timeline` has records under that name.
_CURVES, _LEFT_OUT = ("timeline", "trend"), ("schema",)
#: What is read first, in this order; the rest follows in the document's own order.
_FIRST = ("traces", "findings", "query", "totals")
#: Parts of a record that are not among its figures.
_PLACE = ("file", "line", "function", "first_line", "source", "text", "losses")
#: Lists that are whole in any case.
_WHOLE = ("findings", "advice")
#: What names a record that has no place; None among them says what it is not, and is said.
_NAMES = ("name", "type")
#: Items of a list within a record: of those that are long, the first ones matter.
_MOST_ITEMS, _LONG_ITEMS, _LONG = 12, 3, ("native_libraries", "symbols", "callees")
#: Text that cannot be taken for figures, or for several words.
_SIMPLE = re.compile(r"[\w./:<>()\[\]-]+", re.ASCII)
_UNIT = re.compile(r"_(s|bytes|percent|bytes_per_s)$")


def plain_text(document: Mapping[str, Any], most_rows: int | None = None) -> Iterator[str]:
    """The lines of the JSON document of a command. ``most_rows``: records of each list, after which a line says how many
    are missing; None = all."""
    names = sorted(document, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    for name in names:
        value = document[name]
        if value is None or _is_left_out(name, value):
            continue
        if isinstance(value, list):
            yield from _list(name, value, most_rows)
        elif isinstance(value, Mapping):
            yield from _titled(name, _record(value))
        else:
            yield f"{name}: {_cell(value)}"
    yield "note: ± is one standard error; alloc_bytes<N: no sample, so less than N in 95 % of the cases."


def _is_left_out(name: str, value: Any) -> bool:
    is_curve = name in _CURVES and not (isinstance(value, list) and any(isinstance(each, Mapping) for each in value))
    return name in _LEFT_OUT or is_curve


def _list(name: str, records: Sequence[Any], most_rows: int | None) -> Iterator[str]:
    if not records:
        yield f"{name}: none"
        return
    yield f"{name}:"
    shown = records if name in _WHOLE else records[:most_rows]
    for record in shown:
        yield from _item(_record(record) if isinstance(record, Mapping) else [_words(record)])
    if len(shown) < len(records):
        yield f"  {not_shown(len(records) - len(shown), 'row', 'rows')}."


def _words(item: Any) -> str:
    """A sentence, or figures without names of their own (docs/json.md names them)."""
    return clean(item) if isinstance(item, str) else _cell(item)


def _titled(name: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{name}: {lines[0]}"
        yield from (f"  {line}" for line in lines[1:])


def _item(lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield f"  {'  ' if index else '- '}{line}"


def _record(record: Mapping[str, Any]) -> list[str]:
    """A record as lines: place, source, figures, and what was lost. A finding is its sentence."""
    if "text" in record and "kind" in record:
        return [clean(str(record["text"]))]
    lines = [place] if (place := _place(record)) else []
    if record.get("source"):
        lines.append("| " + clean(record["source"].strip()))
    if figures := ", ".join(_figures(record)):
        lines.append(figures)
    if "losses" in record:
        lines += [_loss(loss) for loss in record["losses"]] or ["losses: none"]
    return lines


def _loss(loss: Mapping[str, Any]) -> str:
    return f"loss {_quoted(loss['name'])} ({_quoted(loss['severity'])}, {loss['count']}): {clean(loss['text'])}"


def _place(record: Mapping[str, Any]) -> str:
    if record.get("file") is None:
        return ""
    where = _quoted(record["file"]) + (f":{record['line']}" if record.get("line") is not None else "")
    return f"{where} in {_quoted(record['function'])}" if record.get("function") else where


def _figures(record: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names, then figures, then lists, which are the longest."""
    if "file" not in record and not any(isinstance(value, str) for value in record.values()):
        yield from (f"{prefix}{name}=none" for name in _NAMES if name in record)
    record = dict(sorted(record.items(), key=lambda item: isinstance(item[1], list)))
    errors = {name: _error_of(name, record) for name in record}
    spent = {error for error in errors.values() if error}
    for name, value in record.items():
        if _is_left_out(name, value) or name in _PLACE or name in spent or "_unseen_" in name:
            continue
        if name == "alloc_bytes" and value == 0 and record.get("alloc_unseen_bytes"):
            yield f"{prefix}{name}<{record['alloc_unseen_bytes']}"
        if not value:
            continue
        if isinstance(value, Mapping):
            yield from _figures(value, f"{prefix}{_quoted(name)}.")
        else:
            error = record[errors[name]] if errors[name] else None
            yield f"{prefix}{_quoted(name)}={_cell(value, _LONG_ITEMS if name in _LONG else _MOST_ITEMS)}" + (
                f"±{_cell(error)}" if error else ""
            )


def _error_of(name: str, record: Mapping[str, Any]) -> str:
    """The field with the standard error of a figure; "" if there is none."""
    unit = _UNIT.search(name)
    names = [f"{name}_error", f"error_{name}"]
    if unit:
        names.append(f"{name[: unit.start()]}_error{unit.group()}")
    return next((each for each in names if each in record), "")


def _cell(value: Any, most_items: int = _MOST_ITEMS) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return _items(value, most_items)
    if isinstance(value, Mapping):
        return "(" + ", ".join([*_names(value), *_figures(value)]) + ")"
    return _quoted(str(value))


def _names(record: Mapping[str, Any]) -> list[str]:
    return [place] if (place := _place(record)) else []


def _items(values: Sequence[Any], most: int) -> str:
    """All words of a command; the first few of other lists."""
    if values and all(isinstance(each, str) for each in values):
        return _quoted(" ".join(values))
    shown, left = [_cell(each) for each in values[:most]], len(values) - most
    return " ".join([*shown, *([f"and {left} more"] if left > 0 else [])])


def _quoted(text: str) -> str:
    """Text of the trace: in quotation marks, in which none can occur, unless it is one simple word."""
    cleaned = clean(text)
    return cleaned if _SIMPLE.fullmatch(cleaned) else json.dumps(cleaned, ensure_ascii=False)


def number(value: float) -> str:
    """A figure with four significant digits; whole from 1000 on, without an exponent up to 1e15."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def source_text(report: Report, file: str, first: int, last: int) -> Iterator[str]:
    """Lines of a stored file with their numbers, each with its figures under it, if it has any."""
    figures: dict[int, list[str]] = {}
    for line in report.lines:
        if line.file == file and line.line is not None:
            figures.setdefault(line.line, []).append(", ".join(_figures(to_json(line))))
    lines = report.sources[file]
    yield f"{clean(file)}, lines {first} to {last} of {len(lines)}. ± is one standard error."
    for number_of_line in range(first, last + 1):
        yield f"{number_of_line:6} | {clean(lines[number_of_line - 1])}"
        yield from (f"       = {each}" for each in figures.get(number_of_line, []))
