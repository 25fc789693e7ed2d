"""By which name another process is led to the recording's folder: one that nobody can lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalene_trace.recorder.folder.held import HeldFolder, only_we_may_move

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldFolder]:
    above = tmp_path / "above"
    (above / "folder").mkdir(0o700, parents=True)
    above.chmod(0o755)
    folder = HeldFolder(above / "folder")
    yield folder
    folder.close()


@pytest.mark.parametrize(("mode", "is_safe"), [(0o755, True), (0o775, False), (0o757, False), (0o1777, True)])
def test_only_a_name_that_others_cannot_move_is_given_away(mode: int, is_safe: bool, held: HeldFolder) -> None:
    held.name.parent.chmod(mode)
    assert only_we_may_move(held.name) is is_safe
    assert (held.name_for_others() == held.name) is is_safe
    assert held.name_for_others().samefile(held.name)


@NEEDS_ROOT
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_the_owner_of_a_folder_above_may_rename_what_is_in_it(mode: int, held: HeldFolder) -> None:
    above = held.name.parent
    above.chmod(mode)
    os.chown(above, 1000, 1000)
    assert not only_we_may_move(held.name) and held.name_for_others().parts[:2] == ("/", "proc")


def test_after_a_folder_above_was_renamed(held: HeldFolder) -> None:
    moved = held.name.parent.rename(held.name.parent.with_name("moved")) / held.name.name
    held.name.mkdir(0o700, parents=True)  # another one
    assert held.name_for_others() == moved
    assert not held.name_for_others().samefile(held.name)


@pytest.mark.parametrize("name", ["f\N{LATIN SMALL LETTER U WITH DIAERESIS}r", "a\nb"])
def test_a_name_of_other_characters(name: str, held: HeldFolder) -> None:
    moved = held.name.rename(held.name.with_name(name))
    assert held.name_for_others().parts[:2] == ("/", "proc") and held.name_for_others().samefile(moved)
