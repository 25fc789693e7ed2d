"""Programs and libraries of Debian packages that some tests need, and what to do where they are missing.

``system_packages.sh`` installs the packages where it may. Elsewhere the tests that need them are skipped, and the end of the
test run lists what was skipped and how to install it (tests/conftest.py).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

#: Names of packages (keys of ``PACKAGES``), separated by commas, that the tests take for missing.
WITHOUT = "SCALENE_TEST_WITHOUT"
#: How the reason of a test that is skipped for a missing package starts.
REASON = "needs the package "


@dataclass(frozen=True)
class Package:
    """A Debian package, by the programs (any of them) or by the library that it brings."""

    debian: str
    programs: tuple[str, ...] = ()
    library: str = ""

    def found(self) -> str | None:
        """Path of the program or of the library."""
        if self.programs:
            return next(filter(None, map(shutil.which, self.programs)), None)
        return _installed(self.library)


PACKAGES = {
    "chromium": Package("chromium", ("chromium", "chromium-browser", "google-chrome")),
    "libc32": Package("libc6-i386", library="ld-linux.so.2"),
    "musl": Package("musl-tools", ("musl-gcc",)),
    "jemalloc": Package("libjemalloc2", library="libjemalloc.so.2"),
    "tcmalloc": Package("libtcmalloc-minimal4", library="libtcmalloc_minimal.so.4"),
    "btrfs": Package("btrfs-progs", ("mkfs.btrfs", "/sbin/mkfs.btrfs")),
    "valgrind": Package("valgrind", ("valgrind",)),
}


def _installed(library: str) -> str | None:
    """The path of a shared library in the system's folders."""
    found = (path for folder in ("/usr/lib", "/usr/lib64") for path in Path(folder).glob(f"**/{library}"))
    return str(next(found, "")) or None


def is_hidden(name: str) -> bool:
    """Whether ``SCALENE_TEST_WITHOUT`` names the package."""
    return name in os.environ.get(WITHOUT, "").split(",")


def needed(name: str) -> str:
    """The path of what the package of that name brings; skips the test if it is not installed."""
    package = PACKAGES[name]
    found = None if is_hidden(name) else package.found()
    return found or _skip(package)


def chromium() -> str:
    """The path of Chromium; skips the test if it is not installed."""
    return needed("chromium")


def _skip(package: Package) -> NoReturn:
    message = f"{REASON}{package.debian}"
    if os.environ.get("CI") == "true" and shutil.which("apt-get") and not os.environ.get(WITHOUT):
        pytest.fail(f"{message}: continuous integration must skip nothing that apt-get can install")
    pytest.skip(message)


def advice(reasons: list[str]) -> list[str]:
    """What a run says about tests that were skipped for these reasons: a line for each package, and one on all of them."""
    missing: dict[str, int] = {}
    for reason in reasons:
        _, found, package = reason.partition(REASON)
        if found:
            missing[package] = missing.get(package, 0) + 1
    if not missing:
        return []
    lines = [
        f"{count} {'test was' if count == 1 else 'tests were'} skipped because {package} is not installed"
        for package, count in sorted(missing.items())
    ]
    return [*lines, f"to run them on Debian or Ubuntu: apt-get install {' '.join(sorted(missing))}"]
