"""Recordings with a scripted device in place of a GPU (tests/support/standins): no figure that comes of them is a GPU's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.paths import STANDINS
from tests.support.recording import Recording, record, target

GIB = 1 << 30
SIXTH_US, SECOND_US = 166_667, 1_000_000
#: What a device can report: samples, utilisation by process (accounting), processes with their memory.
ALL = "sal"


@dataclass(frozen=True)
class ScriptedGpu:
    """A driver in ``folder`` that answers from ``script``."""

    folder: Path
    script: Path

    @property
    def env(self) -> dict[str, str]:
        """What the recorder and its program need to meet it."""
        return {"LD_LIBRARY_PATH": str(self.folder), "SCRIPTED_NVML": str(self.script)}

    def record(
        self, python: Interpreter, *words: str, options: Sequence[str] = (), env: dict[str, str] | None = None
    ) -> Recording:
        """Records a scenario of the target ``gpu_lines``."""
        trace = self.folder / "t.parquet"
        return record(trace, [target("gpu_lines"), *words], python, options, self.env | (env or {}))


def scripted_gpu(folder: Path, *devices: tuple[int, str]) -> ScriptedGpu:
    """A driver with devices of (period in microseconds, flags: what they report, see scripted_nvml.c)."""
    build(folder, str(STANDINS / "scripted_nvml.c"), "-shared", "-fPIC", name="libnvidia-ml.so.1")
    lines = [f"device Scripted-{place} {period} {16 * GIB} {flags}\n" for place, (period, flags) in enumerate(devices)]
    script = folder / "script"
    script.write_text("".join(lines))
    return ScriptedGpu(folder, script)


def spinning_cuda(folder: Path) -> Path:
    """A library called libcuda whose cuCtxSynchronize spins."""
    return build(folder, str(STANDINS / "spinning_cuda.c"), "-shared", "-fPIC", name="libcuda.so.1")
