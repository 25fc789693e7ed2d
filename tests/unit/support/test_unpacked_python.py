"""Where the tests get a CPython from that the machine lacks."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from tests.support import target_environments, unpacked_python
from tests.support.interpreters import Interpreter
from tests.support.unpacked_python import is_wanted, mirror, unpack, unpacked

DEB822 = """\
Types: deb
# URIs: http://unused.example/debian
URIs: {address}
Suites: bookworm bookworm-updates
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("debian.sources", DEB822.format(address="http://deb.debian.org/debian"), "http://deb.debian.org/debian"),
        ("sources.list", "deb https://mirror.example/debian/ sid main\n", "https://mirror.example/debian/"),
        ("own.list", "deb [arch=amd64 trusted=yes] http://a.example/debian sid main\n", "http://a.example/debian"),
        ("off.list", "# deb http://a.example/debian sid main\n", None),
        ("security.list", "deb http://a.example/debian-security bookworm-security main\n", None),
        ("ubuntu.list", "deb http://archive.ubuntu.com/ubuntu noble main\n", None),
        ("sources.bak", "deb http://a.example/debian sid main\n", None),
    ],
)
def test_a_debian_package_source_is_found(name: str, text: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert mirror([tmp_path / "missing.list", tmp_path]) == expected


def test_without_a_package_source_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacked_python, "mirror", lambda: None)
    assert unpack("3.14", tmp_path) == "no Debian package source is set up here"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has what is needed, with a package source that does not answer."""
    monkeypatch.setattr(unpacked_python, "mirror", lambda: "http://127.0.0.1:9/debian")
    monkeypatch.setattr(unpacked_python, "KEYRING", Path(__file__))
    monkeypatch.setattr(unpacked_python.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(unpacked_python.os, "uname", lambda: type("Uname", (), {"machine": "x86_64"}))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            subprocess.CalledProcessError(100, ["/usr/bin/apt-get"], stderr="E: reading\nE: The network is down\n"),
            "apt-get failed: E: The network is down",
        ),
        (subprocess.TimeoutExpired(["/usr/bin/apt-get"], 9), "apt-get had not ended after 90 s in all"),
        (OSError(28, "No space left on device"), "it cannot be unpacked: [Errno 28] No space left on device"),
    ],
)
@pytest.mark.usefixtures("debian")
def test_a_download_that_fails_leaves_nothing_behind(
    error: Exception, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(end_s: float, *command: str | Path, cwd: Path | None = None) -> str:
        raise error

    monkeypatch.setattr(unpacked_python, "_run", run)
    assert unpack("3.14", tmp_path) == reason
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("debian")
def test_all_commands_together_are_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("apt-get", "apt-cache"):
        (commands / name).write_text("#!/bin/sh\nexec sleep 0.4\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setattr(unpacked_python, "PATIENCE_S", 1.0)
    assert unpack("3.14", tmp_path / "pythons") == "apt-get had not ended after 1 s in all"
    assert not list((tmp_path / "pythons").iterdir())


@pytest.mark.usefixtures("debian")
def test_all_versions_together_are_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second version gets the time that the first one has left, which is none."""
    ends: dict[str, float] = {}

    def unpack_late(version: str, folder: Path, end_s: float) -> str | None:
        ends[version] = end_s
        return unpack(version, tmp_path, time.monotonic())

    monkeypatch.delenv("SCALENE_TEST_PYTHONS", raising=False)
    monkeypatch.setattr(target_environments, "interpreters", cache(lambda: ()))
    monkeypatch.setattr(target_environments, "unpack", unpack_late)
    started_s = time.monotonic()
    target_environments.unpack_missing()
    assert list(ends) == ["3.14", "3.15"]
    assert len(set(ends.values())) == 1
    assert started_s <= ends["3.14"] - unpacked_python.PATIENCE_S <= time.monotonic()
    assert not list(tmp_path.iterdir())


def test_what_runs_is_not_unpacked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = unpacked("3.14", tmp_path)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.setattr(unpacked_python, "mirror", lambda: pytest.fail("it is there"))
    assert unpack("3.14", tmp_path) is None


def test_only_what_the_interpreter_needs_is_downloaded() -> None:
    wanted = ["libc6", "libpython3.14-stdlib", "python3.14", "python3.14-minimal", "zlib1g", "libpython3.14-dev"]
    assert all(is_wanted(each, "3.14") for each in wanted)
    assert not any(
        is_wanted(each, "3.14") for each in ("libc6-dev", "media-types", "tzdata", "python3.13", "zlib1g-dev")
    )


def test_programs_of_this_machine_do_not_load_its_library() -> None:
    assert not Interpreter(unpacked("3.14"), (3, 14, 10)).can_be_embedded
    assert Interpreter(Path(sys.executable), (3, 11, 7)).can_be_embedded
