"""Cells of notebooks, whose texts are found by the hashes in the names of their files."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.recorder.convert import notebooks
from scalene_trace.recorder.convert.notebooks import murmur2, notebooks_in
from scalene_trace.recorder.convert.sources import Sources, read_sources
from scalene_trace.recorder.rights.opening import Withheld, open_regular_file
from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder

#: Texts, and the names that ipykernel 7.4 gives them.
NAMED = {
    "a": 2167009006,
    "ab": 2805137849,
    "abc": 3350977461,
    "abcd": 804720481,
    "x = 'wärme'\nprint(x)": 757906340,
    "def f():\n    return 1\n" * 50: 2090130592,
}


def of_kernel(text: str, pid: int = 12) -> str:
    return f"/tmp/ipykernel_{pid}/{NAMED[text]}.py"


def of_shell(text: str) -> str:
    return f"<ipython-input-3-{hashlib.sha1(text.encode()).hexdigest()[:12]}>"


def notebook(folder: Path, *cells: Any, name: str = "a.ipynb") -> Path:
    path = folder / name
    made = [{"cell_type": "code", "source": each} for each in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["abc"]}, *made]}))
    return path


def read(
    folder: Path, *files: str, names: tuple[str, ...] = ("a.ipynb",), open_file: Any = open_regular_file
) -> Sources:
    return read_sources(files, set(), str(folder), 0, {}, open_file, names)


def texts(found: Sources) -> dict[str, str]:
    return dict(zip(found.table["file"], found.table["text"], strict=True))


@pytest.mark.parametrize("text", NAMED)
def test_the_hash_is_that_of_the_kernel(text: str) -> None:
    assert murmur2(text.encode(), 0xC70F6907) == NAMED[text]


def test_cells_are_found_by_the_hash_of_their_text(tmp_path: Path) -> None:
    shell, with_newline = of_shell("ab"), of_shell("abcd\n")
    notebook(tmp_path, ["a"], "ab", ["ab", "c", "d"])
    known = {of_kernel("a"): "a", of_kernel("a", 13): "a", of_kernel("ab"): "ab", shell: "ab", with_newline: "abcd"}
    unknown = [of_kernel("abc"), "<ipython-input-1-0123456789ab>", "/tmp/ipykernel_1/x.py", f"{of_kernel('a')}c"]
    found = read(tmp_path, *known, *unknown)
    assert texts(found) == known and (found.unread, found.withheld) == (0, 0)
    assert found.table["changed"] == [False] * len(known)
    assert texts(read(tmp_path, *known, names=("gone.ipynb", "a.ipynb/b.ipynb"))) == {}


def test_a_notebook_is_opened_only_for_cells_and_with_the_rights_of_the_program(tmp_path: Path) -> None:
    notebook(tmp_path, "a")
    opened: list[Path] = []

    def withholding(path: Path) -> int:
        opened.append(path)
        raise Withheld

    assert read(tmp_path, "/x/ipykernel/1.py", open_file=withholding).withheld == 1  # the file itself
    assert opened == [Path("/x/ipykernel/1.py")]
    found = read(tmp_path, of_kernel("a"), open_file=withholding)
    assert found.withheld == 2 and tmp_path / "a.ipynb" in opened and texts(found) == {}


def test_large_and_impossible_notebooks_are_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = notebook(tmp_path, "a")
    data = path.read_bytes()
    for bad in (b"", b"[" * 1_000_000, b'{"cells": 1}', b"\xff" + data, data.replace(b'"a"', b'[1, {"a": 2}]')):
        path.write_bytes(bad)
        assert read(tmp_path, of_kernel("a")).unread == 1, bad[:20]
    notebook(tmp_path, "\udc80", "a")
    assert read(tmp_path, of_kernel("a")).unread == 1
    path.write_bytes(data)
    for limit in ("LARGEST_BYTES", "MOST_CELL_BYTES"):
        with monkeypatch.context() as lowered:
            lowered.setattr(notebooks, limit, 0)
            assert read(tmp_path, of_kernel("a")).unread == 1
    many = tuple(f"{number}.ipynb" for number in range(130))
    assert read(tmp_path, of_kernel("a"), names=many).unread == 30


def test_damaged_notebooks_never_stop_the_conversion(tmp_path: Path) -> None:
    drawn, counts = random.Random(1), Counter[str]()
    data = notebook(tmp_path, "a", ["ab"]).read_bytes()
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(drawn.randint(0, 2)):
            changed[drawn.randrange(len(changed))] = drawn.choice(b'"[]{},: abc0\xff')
        (tmp_path / "a.ipynb").write_bytes(changed[: len(changed) - drawn.choice([0, 0, 20])])
        found = read(tmp_path, of_kernel("a"))
        assert texts(found) in ({}, {of_kernel("a"): "a"})
        counts["read" if texts(found) else "unread" if found.unread else "other"] += 1
    assert min(counts[each] for each in ("read", "unread")) > 20, counts


def test_the_notebooks_are_those_of_all_command_lines(tmp_path: Path) -> None:
    commands = [["jupyter", "execute", "a.ipynb"], None, ["python", "b.ipynb", "c.py"]]
    assert notebooks_in(commands) == {"a.ipynb", "b.ipynb"}
    notebook(tmp_path, "a")
    builder = SpoolBuilder().start(1, ("jupyter", "execute", "a.ipynb"))
    builder.code(1, process=1, file=of_kernel("a"))
    builder.add("node", process=1, hash=1, parent=0, code=1)
    end_ns = START_MONO_NS + 9
    builder.add("wait", process=1, thread=3, t_ns=START_MONO_NS, end_ns=end_ns, waited_ns=9, stack=1)
    assert [(row["file"], row["text"]) for row in rows(tables_of(builder, tmp_path)["source"])] == [
        (of_kernel("a"), "a")
    ]


def test_a_link_to_a_notebook_is_read_as_the_notebook(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    notebook(tmp_path / "elsewhere", "a", name="kept")  # a file of any name
    (tmp_path / "a.ipynb").symlink_to("elsewhere/kept")
    (tmp_path / "folder").symlink_to("elsewhere")
    notebook(tmp_path / "elsewhere", "ab", name="b.ipynb")
    known = {of_kernel("a"): "a", of_kernel("ab"): "ab"}
    found = read(tmp_path, *known, names=("a.ipynb", "folder/b.ipynb"))
    assert texts(found) == known and (found.unread, found.withheld) == (0, 0)


@pytest.mark.parametrize("leads_to", ["/dev/zero", "/proc/self/cmdline", "/proc/self/fd/0", "pipe", "a.ipynb", "."])
def test_a_link_to_what_is_no_file_is_unread_at_once(tmp_path: Path, leads_to: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.ipynb").symlink_to(leads_to)
    notebook(tmp_path, "ab", name="b.ipynb")
    found = read(tmp_path, of_kernel("a"), of_kernel("ab"), names=("a.ipynb", "b.ipynb"))
    assert texts(found) == {of_kernel("ab"): "ab"}
    assert found.unread == 1


def test_a_link_that_leads_nowhere_is_a_notebook_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").symlink_to("gone.ipynb")
    assert read(tmp_path, of_kernel("a")).unread == 0
