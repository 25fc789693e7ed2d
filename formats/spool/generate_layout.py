"""Writes ``layout_ffi.py``: the declarations of ``spool.h``, parsed, in cffi's own compact form.

``python -m scalene_trace.formats.spool.generate_layout`` replaces the file. Parsing C takes 35 ms, which every recording would
pay before its program starts.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from cffi import FFI

from .layout import declarations

GENERATED_PATH = Path(__file__).with_name("layout_ffi.py")
_NOTE = "# Made of spool.h by generate_layout.py: change the header and run `make generate`.\n"


def render() -> str:
    """The text of ``layout_ffi.py``."""
    parsed = FFI()
    parsed.cdef("\n".join(declarations()))
    parsed.set_source(f"{__package__}.layout_ffi", None)
    with TemporaryDirectory() as folder:
        written = Path(folder, "layout_ffi.py")
        parsed.emit_python_code(str(written))
        return _NOTE + written.read_text("utf-8")


def main() -> None:
    """Rewrites ``layout_ffi.py``."""
    GENERATED_PATH.write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
