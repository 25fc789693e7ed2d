"""Puts document, script and style sheet into one page, which can reach nothing outside of itself."""

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
#: In the first lines of every page, so that one page may take the place of another.
MARK = "<!-- scalene-trace report:"

_SLOT = re.compile(r"\{(script_hash|style_hash|style|script|data)\}")


def build_page(paths: Sequence[Path], selection: Selection) -> str:
    """The page about the traces at ``paths``, in ASCII. Raises the errors of :func:`open_traces`."""
    return assemble(safe_json(build_document(paths, selection)))


def assemble(data: str) -> str:
    """The page around a document (as :func:`safe_json` writes it). Its policy allows this script and this style alone."""
    script, style = _asset("report.js"), _asset("report.css")
    parts = {"data": data, "script": script, "style": style}
    parts |= {"script_hash": _hash(script), "style_hash": _hash(style)}
    return _SLOT.sub(lambda slot: parts[slot[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """``text`` as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
