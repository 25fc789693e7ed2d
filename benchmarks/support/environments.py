"""The environments that benchmarks run programs in, and what else they share: commands, medians, result files."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BUILD = ROOT / "build" / "bench"
#: The versions that pyperformance pins for the two programs that need packages.
PACKAGES = ("pyperformance", "docutils==0.18.1", "mpmath==1.2.1", "sympy==1.8", "numpy", "setuptools")


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of some measurements."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def tool(name: str) -> str:
    """The path of one of our two commands, beside the interpreter that runs this."""
    return str(Path(sys.executable).parent / name)


def version_of(python: str) -> str:
    """Its version, as results name an interpreter: "3.12.1"."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def environment(python: str | None = None) -> Path:
    """The interpreter of the benchmark environment of ``python`` (default: the one running), made when missing."""
    base = python or sys.executable
    folder = BUILD / version_of(base)
    found = folder / "bin" / "python"
    marker = folder / "complete"
    if not marker.exists():
        print(f"creating {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)  # Debian's have none to give
        subprocess.run([*_pip(found), *PACKAGES], check=True)
        marker.write_text("\n".join(PACKAGES))
    return found


def _pip(python: Path) -> list[str | Path]:
    return [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]


def add_peers(python: Path, packages: Sequence[str]) -> list[str]:
    """Installs other profilers into the environment; the names of those that could be had."""
    found = []
    for peer in dict.fromkeys(packages):
        if subprocess.run([*_pip(python), "--only-binary", ":all:", peer], capture_output=True).returncode == 0:
            found.append(peer)
    return found


def host() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {"kernel": platform.release(), "machine": platform.machine(), "cpu": cpu, "cpu_count": os.cpu_count()}


def save(name: str, result: dict[str, Any], table: str) -> Path:
    """Writes a dated result (JSON, and the table beside it as text); the path of the JSON."""
    now = datetime.now(UTC)
    path = RESULTS / f"{name}-{now:%Y-%m-%d}.json"
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"date": now.isoformat(timespec="seconds"), "host": host()} | result, indent=1) + "\n")
    path.with_suffix(".txt").write_text(table + "\n")
    print(f"\n{table}\n\nwritten: {path.relative_to(ROOT)}")
    return path
