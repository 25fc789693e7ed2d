"""Combines document, script and style sheet into one page that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from ..trace.selection import Selection
from .encode import safe_json
from .model import build_document

ASSETS = Path(__file__).parent / "assets"
#: Stands in the first lines of every page: only a file with it is overwritten by a new page.
MARK = "<!-- scalene-trace report:"

_SLOT = re.compile(r"\{(script_hash|style_hash|style|script|data)\}")


def build_page(paths: Sequence[Path], selection: Selection) -> str:
    """The page about the traces at ``paths``, as HTML in ASCII. Raises the errors of :func:`open_traces`."""
    return assemble(safe_json(build_document(paths, selection)))


def assemble(data: str) -> str:
    """The page with a document (written by :func:`safe_json`). Its policy allows only this script and this style sheet."""
    script, style = _asset("report.js"), _asset("report.css")
    parts = {"data": data, "script": script, "style": style}
    parts |= {"script_hash": _hash(script), "style_hash": _hash(style)}
    return _SLOT.sub(lambda slot: parts[slot[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """The source expression of ``text`` for a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
