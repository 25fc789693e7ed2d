"""Writes ``layout_ffi.py``: the parsed declarations of ``spool.h`` and ``records.h`` in cffi's compact form, and their
constants.

``python -m scalene_trace.formats.spool.generate_layout`` replaces the file. It exists because parsing C takes 35 ms, which
would delay the start of every recorded program.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from cffi import FFI

from .layout import declarations

_DEFINE = re.compile(r"#\s*define\s+(\w+)\s+(0[xX][0-9a-fA-F]+|\d+)")
GENERATED_PATH = Path(__file__).with_name("layout_ffi.py")
_NOTE = "# Generated from spool.h and records.h by generate_layout.py. To change it, edit a header and run `make generate`.\n"


def render() -> str:
    """The text of ``layout_ffi.py``."""
    parsed = FFI()
    parsed.cdef("\n".join(declarations()))
    parsed.set_source(f"{__package__}.layout_ffi", None)
    with TemporaryDirectory() as folder:
        written = Path(folder, "layout_ffi.py")
        parsed.emit_python_code(str(written))
        return f"{_NOTE}{written.read_text('utf-8')}\nCONSTANTS = {_constants()!r}\n"


def _constants() -> dict[str, int]:
    found = map(_DEFINE.match, declarations())
    return {match[1]: int(match[2], 0) for match in found if match}


def main() -> None:
    """Rewrites ``layout_ffi.py``."""
    GENERATED_PATH.write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
