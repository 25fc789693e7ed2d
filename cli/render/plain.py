"""Results as plain text, for agents, programs and pipes: the figures of ``--json`` under their names, with their errors.

A record is its place and its source, if it has them, and then its figures: ``cpu_s=1.063±0.052``. What is zero or was not
recorded is left out, as are curves. Nothing is cut, aligned or coloured. Text of the trace is cleaned and stays in its line,
and is quoted where it could be taken for a figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...analyze.results.base import to_json
from .text import clean, not_shown

if TYPE_CHECKING:
    from ...analyze.results.report import Line, Report

#: Curves, and what only programs need. The command `timeline` has records under that name.
_CURVES, _LEFT_OUT = ("timeline", "trend"), ("schema",)
#: What is read first, in this order; the rest follows in the document's own order.
_FIRST = ("traces", "findings", "query", "totals")
#: Parts of a record that are not among its figures.
_PLACE = ("file", "line", "function", "first_line", "source", "losses")
#: Figures whose zero says something.
_ZERO = ("exit_status", "before", "after", "ratio", "p", "failed")
#: Figures of sampled memory: what bounds one that is zero.
_UNSEEN = {
    "alloc_bytes": "alloc_unseen_bytes",
    "live_at_peak_bytes": "live_unseen_bytes",
    "live_at_end_bytes": "live_unseen_bytes",
}
#: Of a trace, where it is not what is asked for.
_OF_TRACES = ("path", "wall_s", "python", "processes", "losses")
#: Lists that are whole in any case.
_WHOLE = ("traces", "findings", "advice")
#: What names a record that has no place; None among them says what it is not, and is said.
_NAMES = ("name", "type")
#: Items of a list within a record: of those that are long, the first ones matter.
_MOST_ITEMS, _LONG_ITEMS, _LONG = 12, 3, ("native_libraries", "symbols", "callees")
#: Text that cannot be taken for figures, or for several words; the words of our own are none.
_SIMPLE = re.compile(
    r"(?!(?:none|yes|no)$)(?:[\w./-]|<(?:module|lambda|locals|listcomp|genexpr|dictcomp|setcomp)>)+", re.ASCII
)
_UNIT = re.compile(r"_(s|bytes|percent|bytes_per_s)$")


def plain_text(document: Mapping[str, Any], most_rows: int | None = None) -> Iterator[str]:
    """The lines of the JSON document of a command. ``most_rows``: records of each list, after which a line says how many
    are missing; None = all."""
    lines = list(_sections(document, most_rows))
    yield from lines
    if any("±" in line for line in lines):
        yield "note: ± is one standard error."
    if any("_bytes<" in line for line in lines):
        yield "note: <N: no sample, so less than N in 95 % of the cases."


def _sections(document: Mapping[str, Any], most_rows: int | None) -> Iterator[str]:
    names = sorted(document, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    for name in names:
        value = document[name]
        if value is None or _is_left_out(name, value):
            continue
        if name == "traces" and isinstance(value, list) and "fleet" not in document:
            value = _traces(value, is_whole=len(document.get("settings", ())) > 0 or "processes" in document)
        if isinstance(value, list):
            yield from _list(name, value, most_rows)
        elif isinstance(value, Mapping):
            yield from _titled(name, _record(value))
        else:
            yield f"{name}: {_cell(value)}"


def _traces(traces: Sequence[Any], is_whole: bool) -> list[Any]:
    """The traces with their numbers, and with what was not recorded. ``is_whole``: they are what is asked for."""
    found = []
    for number_of_trace, trace in enumerate(traces, 1):
        kept = {key: value for key, value in trace.items() if is_whole or key in _OF_TRACES}
        off = [key for key, count in (trace.get("events") or {}).items() if count is None]
        found.append({"trace": trace.get("trace", number_of_trace)} | kept | ({"not_recorded": off} if off else {}))
    return found


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
    """A record as lines: place, source, figures, and losses. A finding is its sentence, which holds names of the trace."""
    if "text" in record and "kind" in record:
        return [_in_quotes(str(record["text"]))]
    lines = [place] if (place := _place(record)) else []
    if record.get("source"):
        lines.append("| " + clean(record["source"].strip()))
    if figures := ", ".join(_figures(record)):
        lines.append(figures)
    if "losses" in record:
        lines += [_loss(loss) for loss in record["losses"]] or ["losses: none"]
    return lines


def _loss(loss: Mapping[str, Any]) -> str:
    return f"loss {_quoted(loss['name'])} ({_quoted(loss['severity'])}, {loss['count']}): {_in_quotes(loss['text'])}"


def _place(record: Mapping[str, Any]) -> str:
    if record.get("file") is None:
        return ""
    where = _quoted(record["file"]) + (f":{record['line']}" if record.get("line") is not None else "")
    return f"{where} in {_quoted(record['function'])}" if record.get("function") else where


def _figures(record: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names, then figures, then lists, which are the longest."""
    if record.get("file") is None and not any(isinstance(value, str) for value in record.values()):
        yield from (f"{prefix}{name}=none" for name in _NAMES if name in record)
    record = dict(sorted(record.items(), key=lambda item: isinstance(item[1], list)))
    errors = {name: _error_of(name, record) for name in record}
    spent = {error for error in errors.values() if error}
    is_empty = not any(value for name, value in record.items() if not _is_about_another(name, spent))
    for name, value in record.items():
        if _is_left_out(name, value) or name in _PLACE or _is_about_another(name, spent):
            continue
        shown = f"{prefix}{_quoted(name)}"
        if isinstance(value, Mapping):
            yield from _figures(value, f"{shown}.")
        elif value or (name in _ZERO and value is not None):
            error = record[errors[name]] if errors[name] else None
            most = _LONG_ITEMS if name in _LONG else _MOST_ITEMS
            yield f"{shown}={_cell(value, most)}" + (f"±{_cell(error)}" if error else "")
        elif value == 0 and value is not False and not is_empty:
            yield from _zero(shown, record.get(_UNSEEN.get(name, "")), record[errors[name]] if errors[name] else None)


def _zero(shown: str, bound: float | None, error: float | None) -> Iterator[str]:
    """A figure that is zero, if it may be more."""
    if bound:
        yield f"{shown}<{_cell(bound)}"
    elif error:
        yield f"{shown}=0±{_cell(error)}"


def _is_about_another(name: str, spent: Collection[str]) -> bool:
    """Is the field the error or the bound of another one?"""
    return name in spent or "_unseen_" in name


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
    """Text of the trace: in quotation marks unless it is one simple word."""
    return text if _SIMPLE.fullmatch(text) else _in_quotes(text)


def _in_quotes(text: str) -> str:
    """Text of the trace in quotation marks, within which a quotation mark is escaped."""
    return json.dumps(clean(text), ensure_ascii=False)


def number(value: float) -> str:
    """A figure with four significant digits; with one decimal from 1000 on, without an exponent up to 1e15."""
    return f"{value:.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def source_text(report: Report, file: str, first: int, last: int) -> Iterator[str]:
    """Lines of a stored file with their numbers, each with its figures under it, if it has any; then those of lines beyond
    the text, which has changed then."""
    lines = report.sources[file]
    own = [line for line in report.lines if line.file == file and line.line is not None]
    yield f"{_quoted(file)}, lines {first} to {last} of {len(lines)}. ± is one standard error."
    if len(report.traces) > 1:
        yield "note: the text is that of the first of these traces that has it; the figures are those of all of them."
    for place in range(first, last + 1):
        yield f"{place:6} | {clean(lines[place - 1])}"
        yield from (_under(line) for line in own if line.line == place)
    for line in own:
        if line.line is not None and line.line > len(lines):
            yield f"{line.line:6} is not in the text, which must have changed"
            yield _under(line)


def _under(line: Line) -> str:
    return f"       = in {_quoted(line.function or '')}: " + ", ".join(_figures(to_json(line)))
