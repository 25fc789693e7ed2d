"""Builds the stand-ins for the CUDA libraries, and what calls them. Nothing found with them is a measurement of a GPU."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import STANDINS, TARGETS

_SOURCE = STANDINS / "scripted_cuda.c"
_CLIENT = TARGETS / "cuda_client.c"
_OPTIONS = ("-O1", "-fno-builtin", "-fPIC")


@dataclass(frozen=True)
class Scripted:
    """The libraries in ``folder``: the driver, the runtime, and clients that call them in their own ways."""

    folder: Path
    driver: Path
    runtime: Path

    @property
    def env(self) -> dict[str, str]:
        """What lets the loader find them by their names, as after an installation."""
        return {"LD_LIBRARY_PATH": str(self.folder)}

    def client(self, name: str, *options: str | Path) -> Path:
        """A library made of ``cuda_client.c``."""
        return _build(self.folder / name, _CLIENT, "-shared", *options)

    def linked(self, name: str, *options: str) -> Path:
        """One that is linked with the runtime."""
        return self.client(name, "-DLINKED", *options, self.runtime, f"-Wl,-rpath,{self.folder}")

    def program(self, name: str, *options: str) -> Path:
        """A program made of it, linked with the runtime."""
        return _build(self.folder / name, _CLIENT, "-pie", *options, self.runtime, f"-Wl,-rpath,{self.folder}")


def scripted_cuda(folder: Path, needs_driver: bool = True) -> Scripted:
    """The scripted driver and runtime, compiled in ``folder``, and every client. ``needs_driver``: the runtime does its
    work through the driver, as NVIDIA's does."""
    driver = _library(folder, "libcuda.so.1", "-DDRIVER")
    defines = ["-DRUNTIME"] if needs_driver else ["-DRUNTIME", "-DDRIVER"]
    made = Scripted(folder, driver, _library(folder, "libcudart.so.12", *defines))
    made.linked("libclient_linked.so")
    made.linked("libclient_lazy.so", "-Wl,-z,lazy")
    made.linked("libclient_constructed.so", "-DCONSTRUCTED")
    made.client("libclient_inside.so", "-DINSIDE", "-DHIDDEN", *defines, _SOURCE)
    made.client("libclient_weak.so", "-DWEAK")
    return made


def _library(folder: Path, name: str, *defines: str) -> Path:
    versions = folder / f"{name}.map"
    versions.write_text(f"{name} {{ global: *; }};\n")
    return _build(
        folder / name, _SOURCE, "-shared", *defines, f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}"
    )


def _build(made: Path, source: Path, *options: str | Path) -> Path:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    subprocess.run([compiler, *_OPTIONS, "-o", made, source, *options, "-ldl"], check=True)
    return made
