"""Programs of the operating system: recorded, they end and print as they do bare. ``make stress`` takes all of them
(tests/long/executables.py), this test a few: scripts, programs that gain privileges, links to one program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.long.executables import CHILDREN, Runner, compare, executables, is_dangerous
from tests.support.interpreters import newest

NAMES = """
awk bash bzip2 cat cc date dash env file find gawk git gpasswd grep gzip ldd less ls lzma make man mount openssl passwd
perl ps python3 sed sh sort ssh ssh-agent su tar vi xargs zgrep
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make the file systems read-only")
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_programs_of_the_system_do_what_they_do_bare(user: str) -> None:
    found = [path for path in map(shutil.which, NAMES.split()) if path]
    commands = {str(number): [path, "--help"] for number, path in enumerate(found)}
    runner = Runner(newest(), user, 2)
    compared = compare(commands, runner, user, CHILDREN, runner.recorded)
    assert compared.differences == []
    assert compared.compared > len(found) / 2


def test_programs_that_stop_the_machine_are_left_out(tmp_path: Path) -> None:
    for name in ("reboot", "systemctl", "harmless"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "renamed").symlink_to(tmp_path / "systemctl")
    assert [is_dangerous(path) for path in sorted(tmp_path.iterdir())] == [False, True, True, True]
    assert executables([str(tmp_path)]) == [tmp_path / "harmless"]
