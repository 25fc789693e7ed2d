"""A small file that claims to unfold to more than any recording is refused by its metadata, before anything is unfolded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.formats.errors import TraceDamaged, TraceTooLarge
from scalene_trace.formats.trace.bounds import limits
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.formats.trace.parquet import thrift
from tests.support.forged_traces import Forged
from tests.support.paths import PATIENCE_S
from tests.support.trace_builder import TraceBuilder, write_large_trace

MIB = 1 << 20

#: Each claim by itself, and what the message says.
BOMBS: dict[str, tuple[dict[str, Any], str]] = {
    "a page": ({"unfolded": 2**31 - 1}, "a page of its column c0 unfolds to 2,147,483,647 bytes"),
    "a dictionary": ({"dictionary": 2**31 - 1}, "a dictionary of its column c0 unfolds to"),
    "pages of many columns": ({"unfolded": 60 * MIB, "columns": 6}, "the pages of a row group unfold to"),
    "many pages": ({"unfolded": MIB, "pages": 10_000, "columns": 1}, "its columns unfold to"),
    "rows": ({"rows": 2**31 - 2}, "it has 2,147,483,646 rows"),
    "rows of many groups": ({"rows": 1_000_000, "groups": 50}, "rows"),
    "list elements": ({"list_values": 2**31 - 2}, "its lists have 2,147,483,646 elements"),
    "list elements of a small file": ({"list_values": 30_000_000}, "its lists have 30,000,000 elements"),
    "row groups": ({"groups": 5_000, "columns": 1}, "it has 5,000 row groups"),
    "columns": ({"columns": 1_500}, "it has 1,501 columns"),
    "pairs of key and value": ({"key_values": 5_000}, "it has 5,003 pairs of key and value"),
    "a long key": ({"padding": 2_000_000}, "its metadata has 2,"),
    "fixed values": ({"width": 2**31 - 1}, "a value of its column fixed has 2,147,483,647 bytes"),
    "a sparse file": ({"sparse_bytes": 1 << 35}, "its size is 34,359,7"),
}
#: Claims that contradict each other, or that no writer makes.
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "more values in a page": ({"page_values": 2**31 - 1}, "not as many values"),
    "more row groups than bytes": ({"claimed_groups": 4_000}, "more elements than there are bytes"),
    "more columns than bytes": ({"claimed_columns": 900}, "more elements than there are bytes"),
    "front-coded texts": ({"encoding": 7}, "has the encoding 7"),
    "columns within columns": ({"depth": 50}, "do not form a tree"),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_claim_beyond_a_limit_is_refused_with_the_limit(what: str, tmp_path: Path) -> None:
    claim, words = BOMBS[what]
    with pytest.raises(TraceTooLarge) as refused:
        check_trace(Forged(**claim).write(tmp_path / "t.parquet"))
    assert words in str(refused.value) and "If you recorded it" in str(refused.value)


@pytest.mark.parametrize("what", LIES)
def test_a_claim_that_contradicts_another_is_damage(what: str, tmp_path: Path) -> None:
    claim, words = LIES[what]
    with pytest.raises(TraceDamaged, match=words):
        check_trace(Forged(**claim).write(tmp_path / "t.parquet"))


def test_a_file_of_tiny_pages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Forged(pages=300, columns=1, rows=300).write(tmp_path / "t.parquet")
    assert check_trace(path)
    monkeypatch.setattr(limits, "FREE_PAGES", 200)
    with pytest.raises(TraceTooLarge, match="it has 300 pages"):
        check_trace(path)


def test_a_long_name_of_a_column_is_cut_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(TraceDamaged) as refused:
        check_trace(Forged(name_bytes=100_000, encoding=7).write(tmp_path / "t.parquet"))
    assert len(str(refused.value)) < 500


def test_a_forged_trace_that_claims_little_passes(tmp_path: Path) -> None:
    assert check_trace(Forged(list_values=30, width=16, dictionary=50).write(tmp_path / "t.parquet"))


def test_large_recordings_are_far_from_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of 100,000 events, checked with limits of a quarter for those that grow with the size of the file."""
    path = write_large_trace(tmp_path / "t.parquet", ticks=50_000, allocations=50_000)
    for name in ("FREE_ROWS", "FREE_BYTES", "MOST_PAGE_BYTES", "MOST_HELD_BYTES", "FOOTER_BYTES", "MOST_COLUMNS"):
        monkeypatch.setattr(limits, name, getattr(limits, name) // 4)
    monkeypatch.setattr(limits, "ROWS_PER_BYTE", 1)
    monkeypatch.setattr(limits, "UNFOLDED_PER_BYTE", 8)
    assert check_trace(path)


@pytest.mark.parametrize(
    "data", [b"", b"\x19", b"\x80", b"\xff" * 40, b"\x1c" * 60, b"\x19\xfc\xff\xff\x7f", b"\x1f\x00"]
)
def test_bytes_that_are_not_thrift_end_in_an_error(data: bytes) -> None:
    reader = thrift.ThriftReader(data)
    with pytest.raises((thrift.NotThrift, IndexError)):
        for _, kind in reader.fields():
            reader.skip(kind)


# ---- texts, which stand in the file once ----


def repeated_name(path: Path, rows: int, size: int) -> Path:
    """A trace of so many threads with the same long name, which the file holds once."""
    builder = TraceBuilder()
    process = builder.process()
    for _ in range(rows):
        builder.thread(process, cpu_ns=0, name="x" * size)
    return builder.write(path)


def test_a_text_that_stands_in_many_rows_is_refused(run: Any, tmp_path: Path) -> None:
    path = repeated_name(tmp_path / "t.parquet", 700, 100_000)
    assert path.stat().st_size < 100_000
    refused = run("threads", path)
    assert (refused.code, refused.out) == (3, "")
    assert "the texts of its rows of the kind thread unfold to 70,00" in refused.err


def test_a_setting_for_each_row_is_refused(run: Any, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings |= {f"name {each}": "" for each in range(10_001)}
    refused = run("info", builder.write(tmp_path / "t.parquet"))
    assert refused.code == 3 and "rows of the kind setting" in refused.err


# ---- what a refusal takes ----

#: Seconds of CPU time and MiB of memory that a refused command may take.
MOST_CPU_S, MOST_MIB = 2.0, 200


#: Runs a command, then prints its exit code, its CPU time and the most memory that it took, in kB.
_MEASURED = """
import resource, sys
from scalene_trace.cli.analyze.command import run
code = run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(code, used.ru_utime + used.ru_stime, peak)
"""


@pytest.mark.parametrize("what", ["a dictionary", "many pages", "row groups", "texts"])
def test_a_refusal_takes_little_time_and_memory(what: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    if what == "texts":
        repeated_name(path, 700, 100_000)
    else:
        Forged(**BOMBS[what][0]).write(path)
    command = [sys.executable, "-c", _MEASURED, "info", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    code, cpu_s, peak_kb = done.stdout.split()
    assert int(code) == 3, done.stderr
    assert float(cpu_s) < MOST_CPU_S and int(peak_kb) < MOST_MIB * 1024


# ---- texts in lists ----


def command_lines(path: Path, commands: list[list[str]]) -> Path:
    builder = TraceBuilder()
    for command in commands:
        builder.process(command=command)
    return builder.write(path)


def test_a_word_that_stands_in_many_command_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_LIST_TEXT_BYTES", 10 * MIB)
    path = command_lines(tmp_path / "t.parquet", [["x" * 100_003] * 20] * 10)  # 12 bytes: a page without texts
    assert path.stat().st_size < 50_000
    with pytest.raises(TraceTooLarge, match="the texts in its lists unfold to 20,000,612 bytes"):
        check_trace(path)


def test_many_words_beside_one_long_one_are_added_up_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 command lines of six words, one of which is a megabyte once: 100 different lengths, absent ones, empty ones."""
    words = ["y" * each for each in range(100)]
    commands = [[words[(process * 7 + each) % 100] for each in range(6)] for process in range(3_000)]
    commands[17] = ["x" * 1_000_003, *words[:5]]
    commands[18] = []
    path = command_lines(tmp_path / "t.parquet", commands)
    assert check_trace(path)
    exact = sum(len(word) for command in commands for word in command)
    levels = 14  # a page of a column in which no text is
    monkeypatch.setattr(limits, "MOST_LIST_TEXT_BYTES", exact)
    assert check_trace(path)
    monkeypatch.setattr(limits, "MOST_LIST_TEXT_BYTES", exact - 1)
    with pytest.raises(TraceTooLarge, match=f"{exact + levels:,} bytes"):
        check_trace(path)
