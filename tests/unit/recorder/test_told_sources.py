"""The texts of code that a program has told: lines of a file that anyone may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scalene_trace.recorder.convert.survey.given_programs import GivenPrograms, with_told
from scalene_trace.recorder.folder.marks import read_marks, read_told


def told(folder: Path, *lines: Any) -> dict[str, tuple[str, str]]:
    path = folder / "marks"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return {file: (each.title, each.text) for file, each in read_told(path).items()}


def source(file: Any, title: Any, text: Any) -> dict[str, Any]:
    return {"what": "source", "t_ns": 1, "file": file, "title": title, "text": text}


def test_the_last_text_of_a_file_holds_and_titles_are_unique(tmp_path: Path) -> None:
    lines = [source("/1.py", "In[1]", "old"), source("/2.py", "In[1]", "two"), source("/1.py", "In[1]", "new")]
    assert told(tmp_path, *lines) == {"/1.py": ("In[1]", "new"), "/2.py": ("In[1] (2)", "two")}


def test_a_title_without_a_text_has_an_unknown_one(tmp_path: Path) -> None:
    told(tmp_path, source("/1.py", "/etc/hostname", ""), source("/2.py", "b", "text"))
    found = with_told(GivenPrograms({}, {"<string>": "own"}), read_told(tmp_path / "marks"))
    assert found.texts == {"<string>": "own", "/etc/hostname": None, "b": "text"}


def test_a_number_that_was_told_is_not_given_twice(tmp_path: Path) -> None:
    lines = [source("/1.py", "a", "1"), source("/2.py", "a", "2"), source("/3.py", "a (2)", "3")]
    assert len({title for title, _ in told(tmp_path, *lines).values()}) == 3


def test_other_lines_are_passed_over(tmp_path: Path) -> None:
    odd = [
        source(1, "t", "x"),
        source("/f", None, "x"),
        source("/f", "t", [1]),
        {"what": "mark", "t_ns": 1, "text": "m"},
    ]
    assert told(tmp_path, *odd, "{", "[]", source("/f\ud800", "t" * 999, "x\ud800\0")).keys() == {"/f\\ud800"}
    assert len(told(tmp_path, source("/f", "t" * 999, "x"))["/f"][0]) == 200
    assert read_told(tmp_path / "missing") == {}


def test_a_mark_that_has_ended_when_it_is_told(tmp_path: Path) -> None:
    marks = [
        {"what": "mark", "t_ns": t_ns, "end_ns": end_ns, "text": "m", "pid": 1} for t_ns, end_ns in ((5, 9), (5, 3))
    ]
    told(tmp_path, *marks, {"what": "mark", "t_ns": 5, "end_ns": "x", "text": "m"})
    assert [each.end_ns for each in read_marks(tmp_path / "marks")] == [9, 5, None]
    assert [each.end_ns for each in read_marks(tmp_path / "marks", until_ns=7)] == [None, 5, None]
    assert read_marks(tmp_path / "marks", until_ns=4) == []
