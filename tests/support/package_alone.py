"""Our package where a recorded program finds it, and nothing else of the tests' own environment."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT


def package_alone(folder: Path) -> dict[str, str]:
    """An environment in which any interpreter finds our package, and nothing else of this one's."""
    (folder / "tree" / "scalene_trace").mkdir(parents=True)
    for name in ("recorder", "formats"):
        (folder / "tree" / "scalene_trace" / name).symlink_to(ROOT / name)
    return {"PYTHONPATH": str(folder / "tree"), "PYTHONDONTWRITEBYTECODE": "1"}
