"""Files beside the spool that grow with the length of a recording are never in memory as a whole."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.formats.spool.reader import Bulk, Spool, WithPayload
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from scalene_trace.recorder.convert.kinds import resident
from scalene_trace.recorder.convert.kinds.resident import rss_tables
from scalene_trace.recorder.convert.survey.gc_history import GcHistory
from scalene_trace.recorder.convert.survey.starts import StartCollector
from scalene_trace.recorder.folder import marks
from scalene_trace.recorder.folder.marks import MarkFile, read_marks
from tests.support.conversion import facts, rows
from tests.support.spool_builder import C, SpoolBuilder

SECOND = 10**9


def resident_file(path: Path, count: int) -> np.ndarray:
    """Writes ``count`` samples of two processes, a second apart."""
    samples = np.zeros((count, 4), "<i8")
    samples[:, 0] = np.arange(count) * SECOND
    samples[:, 1] = 1 + np.arange(count) % 2
    samples[:, 2] = 50_000_017 + np.arange(count)
    path.write_bytes(samples.tobytes() + b"cut")
    return samples


@pytest.mark.parametrize("piece_rows", [1, 10, 29, 30, 31, 1000])
def test_resident_sets_in_pieces_of_any_size_are_the_same(
    piece_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "_PIECE_ROWS", piece_rows)
    samples = resident_file(tmp_path / "rss", 30)
    path = SpoolBuilder().start(1).write(tmp_path / "recording" / "spool")
    conversion = Conversion(Spool(path), facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "rss")
    found = [row for tables in conversion.tables() for row in rows(tables.get("rss", {}))]
    names = ("t_ns", "process", "rss_bytes", "shared_bytes")
    assert [[row[name] for name in names] for row in found] == samples.tolist()


def test_a_long_file_of_resident_sets_takes_little_memory(tmp_path: Path) -> None:
    resident_file(tmp_path / "rss", 1_000_000)
    tracemalloc.start()
    try:
        count = sum(len(table["t_ns"]) for table in rss_tables(tmp_path / "rss", None))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 1_000_000 and peak_bytes < 12_000_000, "the file has 32 MB"


def collections_of(process: int, first: int, end: int) -> Bulk:
    """A record of the process for each tenth of a second in which it has collected once more."""
    records = np.zeros(end - first, struct_dtype("record_gc"))
    records["t_ns"] = np.arange(first, end) * SECOND // 10
    records["collections"][:, 0] = np.arange(first, end)
    return Bulk(records, np.full(end - first, process, np.int32))


def test_the_history_of_collections_is_thinned_and_forks_inherit_nearly_all() -> None:
    history, fork = GcHistory(), np.zeros(1, struct_dtype("record_process_start"))
    fork["cause"], fork["parent"], fork["t_ns"] = C["CAUSE_FORK"], 1, 90_000 * SECOND
    starts = StartCollector()
    starts.add([WithPayload(7, fork[0], b"")])
    for at in range(0, 1_000_000, 50_000):
        history.add(collections_of(1, at, at + 50_000))
        history.add(collections_of(2, at, at + 10))
    assert len(history._rows) + history._count <= 300_000
    inherited = history.inherited(7, starts.all().lineage())
    assert 900_000 - 10 * history._interval_ns // SECOND <= inherited[0] <= 900_000
    assert history._interval_ns <= 64 * SECOND
    assert history.inherited(8, starts.all().lineage()).tolist() == [0] * 5


def test_marks_are_limited_by_their_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "MOST_BYTES", 11_200)
    file = MarkFile(tmp_path / "marks")
    assert [file.add("mark", n, text="x" * 900) for n in range(20)].count(True) == 10
    assert file.add("mark", 20, text="short"), "one that fits is written"
    file.close()
    assert file.left_out == 10
    found = read_marks(tmp_path / "marks")
    assert len(found) == 11 and found[-1].text == "short"
    (tmp_path / "marks").write_bytes(b"[" * 10_200 + b"\n" + (tmp_path / "marks").read_bytes())
    assert len(read_marks(tmp_path / "marks")) < 2, "a file that is too long is read up to the limit"
