"""``%%scalene`` in notebooks that nbconvert executes: the report is below the cell, and lines are named by cell."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.recording import record, report, rows, run, tool
from tests.support.suites import clean_environment

DEFINES = """import time
kept = []
def spin(cpu_s):
    due = time.thread_time() + cpu_s
    while time.thread_time() < due:
        sum(range(1000))
def grow():
    kept.append(bytearray(40_000_000))"""
LOAD = "%load_ext scalene_trace"


def executed(folder: Path, cells: Sequence[str], *recorder: str) -> list[list[Any]]:
    """The outputs of the cells of a notebook that nbconvert executes, under ``recorder`` if there is one."""
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(text) for text in cells])  # type: ignore[no-untyped-call]
    nbformat.write(notebook, folder / "in.ipynb")  # type: ignore[no-untyped-call]
    convert = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--allow-errors"]
    done = run([*recorder, *convert, "--output", "out.ipynb", "in.ipynb"], cwd=folder, env=clean_environment())
    assert done.status == 0, done.stderr.decode()
    return [cell["outputs"] for cell in json.loads((folder / "out.ipynb").read_text())["cells"]]


def texts(outputs: Sequence[Any]) -> str:
    """What a cell has printed."""
    return "".join("".join(each["text"]) for each in outputs if each["output_type"] == "stream")


def page(outputs: Sequence[Any]) -> str:
    """The report below a cell: the page, as its frame holds it."""
    (shown,) = (each for each in outputs if each["output_type"] == "display_data")
    frame = "".join(shown["data"]["text/html"])
    assert '<iframe sandbox="allow-scripts" srcdoc="' in frame
    return html.unescape(frame.partition('srcdoc="')[2].partition('"')[0])


def test_a_cell_is_recorded_and_its_lines_are_named_by_cell(tmp_path: Path) -> None:
    cells = [
        LOAD,
        DEFINES,
        "spin(0.3)",
        "%%scalene -o kept.parquet --cpu-interval 1ms\nspin(0.4)\ntime.sleep(0.3)\n'the result'",
        "%scalene spin(0.1)",
        "%%scalene --height 300\n%%time\nspin(0.1)",
    ]
    *_, first, second, third = executed(tmp_path, cells)
    assert ["".join(each["data"]["text/plain"]) for each in first if each["output_type"] == "execute_result"] == [
        "'the result'"
    ]
    for outputs in (first, second, third):
        assert "<!doctype html>" in page(outputs)[:100].lower()
        assert "In[2]" in page(outputs)
    assert "CPU times" in texts(third)
    trace = tmp_path / "kept.parquet"
    found = report(trace)
    sources = {each["file"]: each["text"].splitlines() for each in rows(trace, "source")}
    assert sources["In[2]"] == DEFINES.splitlines()
    assert sources["In[4]"][1:] == cells[3].splitlines()[1:]  # the lines have the notebook's numbers
    lines = {(row["file"], row["line"]): row for row in found["lines"]}
    assert lines["In[2]", 6]["cpu_s"] + lines["In[2]", 5]["cpu_s"] == pytest.approx(0.4, abs=0.15)
    assert lines["In[4]", 3]["wait_s"] > 0.25
    (mark,) = rows(trace, "mark")
    assert mark["text"].startswith("In[4] of ")
    assert 0.65 < (mark["end_ns"] - mark["t_ns"]) / 1e9 < 3


def test_under_the_recorder_memory_is_recorded_and_only_the_cell(tmp_path: Path) -> None:
    other = "others = [bytearray(9_000_000) for _ in range(5)]"
    cells = [LOAD, DEFINES, other, "%%scalene --text --cpu-interval 1ms\ngrow()\nspin(0.2)", other, "%scalene grow()"]
    cells.append("for _ in range(2):\n    %scalene spin(0.1)")
    recorder = [*tool("scalene-record"), "--pause-at-start", "-o", "t-%p.parquet"]
    *_, first, _, second, several = executed(tmp_path, cells, *recorder)
    (trace,) = tmp_path.glob("t-*.parquet")
    said = texts(first)
    assert "scalene-record records this kernel, and its own options hold" in said
    assert "40.0 MB" in said and "kept.append(bytearray(40_000_000))" in said
    assert "bytearray(9_000_000)" not in said
    assert "In[2]" in page(second)
    assert [each["output_type"] for each in several].count("display_data") == 2
    found = report(trace)
    grown = {(row["file"], row["line"]): row["growth_bytes"] for row in found["lines"]}
    assert {each["file"] for each in rows(trace, "source")} >= {"In[2]", "In[4]"}
    assert grown["In[2]", 8] == pytest.approx(80_000_000, rel=0.05)


def test_what_goes_wrong_is_said_and_cells_run_as_ever(tmp_path: Path) -> None:
    cells = [
        LOAD,
        "%%scalene\n1 / 0",
        "%%scalene -o missing/t.parquet\nprint('ran')",
        "%%scalene wrong\nprint('ran')",
        "%%scalene --height tall\nprint('ran')",
        "%%scalene --no-such-option\nprint('ran')",
        "%%scalene --help\nprint('ran')",
        "%%scalene --text -c \"open('made', 'w')\"\nprint('ran')",
        "%%scalene -p4711\nprint('ran')",
        "%%scalene -o 'x\nprint('ran')",
        "%%scalene\nthis is no Python",
        "%%scalene\nimport asyncio\nawait asyncio.sleep(0)\nprint('ran')",
        "from scalene_trace.recorder import start, stop\nstart('t.parquet')",
        "%scalene print('ran')",
        "stop()",
        "print('the last')",
    ]
    _, raises, no_folder, stray, height, unknown, *more = executed(tmp_path, cells)
    refused, starts, attaches, quotes, syntax, awaits, _, within, _, last = more
    assert [each["ename"] for each in raises if each["output_type"] == "error"] == ["ZeroDivisionError"]
    assert "<!doctype html>" in page(raises)[:100].lower()
    assert "missing does not exist" in texts(no_folder) and "ran\n" in texts(no_folder)
    assert "'wrong' is not an option" in texts(stray) and "ran" not in texts(stray).split()
    assert "--height" in texts(height) and "ran" not in texts(height).split()
    assert "--no-such-option" in texts(unknown) and "ran\n" in texts(unknown)
    assert "a cell cannot be recorded with --help" in texts(refused) and "ran" not in texts(refused).split()
    assert "'-c' is not an option" in texts(starts) and "ran" not in texts(starts).split()
    assert "a cell cannot be recorded with -p4711" in texts(attaches) and not (tmp_path / "made").exists()
    assert "No closing quotation" in texts(quotes) and "ran" not in texts(quotes).split()
    assert [each.get("ename") for each in syntax] == ["SyntaxError"]  # and no report of nothing
    assert "A cell with await cannot be run within another" in texts(awaits)
    assert "the recording of this kernel goes on" in texts(within) and "ran\n" in texts(within)
    assert texts(last) == "the last\n"


def test_cells_keep_their_names_however_often_they_are_recorded(tmp_path: Path) -> None:
    long = "# " + "x" * 70_000
    cells = [
        LOAD,
        DEFINES,
        "%%scalene -o 3.parquet --cpu-interval 1ms\ndef burn():\n    spin(0.2)\nburn()",
        "%%scalene -o 4.parquet --cpu-interval 1ms\nburn()\nspin(0.1)",
        f"def lengthy():\n    {long}\n    spin(0.2)",
        "%%scalene -o 6.parquet --cpu-interval 1ms\nlengthy()\nburn()",
        "value = 5\n%scalene print(f'{value} {{1}} $value')",
    ]
    *_, last = executed(tmp_path, cells)
    assert texts(last) == "5 {1} $value\n"
    for name, expected in (
        ("3.parquet", {"In[2]:spin", "In[3]:burn"}),
        ("4.parquet", {"In[2]:spin", "In[3]:burn"}),
        ("6.parquet", {"In[2]:spin", "In[3]:burn", "In[5]:lengthy"}),
    ):
        found = report(tmp_path / name)
        functions = {f"{row['file']}:{row['function']}" for row in found["functions"] if row["cumulative_cpu_s"] > 0.05}
        assert expected <= functions, json.dumps([name, found["functions"], found["unattributed"], found["totals"]])
        assert f"In[{name[0]}]:<module>" in functions
        files = {each.partition(":")[0] for each in functions}
        assert {each for each in files if each.startswith(("In", "/tmp"))} - {f"In[{name[0]}], magic command"} == {
            each.partition(":")[0] for each in expected
        } | {f"In[{name[0]}]"}


def test_an_error_in_a_recorded_cell_ends_the_run_as_ever(tmp_path: Path) -> None:
    new = nbformat.v4
    notebook = new.new_notebook(
        cells=[new.new_code_cell(each) for each in (LOAD, "%%scalene\n1 / 0", "open('on', 'w')")]
    )  # type: ignore[no-untyped-call]
    nbformat.write(notebook, tmp_path / "in.ipynb")  # type: ignore[no-untyped-call]
    convert = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", "in.ipynb"]
    done = run(convert, cwd=tmp_path, env=clean_environment())
    assert done.status != 0
    assert b"ZeroDivisionError" in done.stderr
    assert not (tmp_path / "on").exists()


@pytest.mark.parametrize("under_recorder", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_statement_within_a_recorded_cell_is_part_of_it(tmp_path: Path, under_recorder: bool) -> None:
    cells = [LOAD, DEFINES, "%%scalene -o kept.parquet\nspin(0.1)\n%scalene spin(0.1)\nspin(0.3)"]
    recorder = [*tool("scalene-record"), "--pause-at-start", "-o", "kept.parquet"] if under_recorder else []
    *_, outputs = executed(tmp_path, cells, *recorder)
    assert "In[2]" in page(outputs)  # one report, of the cell
    assert report(tmp_path / "kept.parquet")["totals"]["cpu_s"] == pytest.approx(0.5, abs=0.2)
    assert {"In[3]", "In[3], %scalene"} <= {each["file"] for each in rows(tmp_path / "kept.parquet", "source")}


def test_functions_beside_a_statement_keep_their_names_and_the_analyzer_is_not_recorded(tmp_path: Path) -> None:
    cell = f"{DEFINES}\n{LOAD}\n%scalene spin(0.2)\n"
    (tmp_path / "cell.ipy").write_text(cell)
    trace = tmp_path / "t.parquet"
    options, env = ["--python", sys.executable], {"IPYTHONDIR": str(tmp_path / "settings")}
    done = record(trace, ["-m", "IPython", "cell.ipy"], options=options, env=env, cwd=tmp_path)
    assert done.status == 0, done.stderr.decode()
    assert len(rows(trace, "process")) == 1
    found = report(trace)
    functions = {f"{row['file']}:{row['function']}" for row in found["functions"] if row["cumulative_cpu_s"] > 0.1}
    assert {"In[1]:spin", "In[1]:<module>", "In[1], %scalene:<module>"} <= functions
    lines = {(row["file"], row["line"]) for row in found["lines"] if row["cpu_s"] > 0.05}
    assert ("In[1]", 6) in lines or ("In[1]", 5) in lines


@pytest.mark.long
def test_texts_are_left_out_where_sources_are(tmp_path: Path) -> None:
    executed(tmp_path, [LOAD, DEFINES, "%%scalene -o kept.parquet --no-source\nspin(0.1)"])
    assert not rows(tmp_path / "kept.parquet", "source")
    assert "In[2]" in {row["file"] for row in report(tmp_path / "kept.parquet")["lines"]}
