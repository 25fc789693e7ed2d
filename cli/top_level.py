"""The package itself: it is installed as ``scalene_trace/__init__.py``.

A program uses :mod:`scalene_trace.recorder`, an analysis :mod:`scalene_trace.analyze`. In IPython and Jupyter,
``%load_ext scalene_trace`` brings the magic commands ``%scalene`` and ``%%scalene``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by ``%load_ext scalene_trace``."""
    from importlib import import_module

    import_module(f"{__name__}.cli.notebook.magics").load(shell)
