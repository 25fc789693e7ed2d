"""Long source texts are compressed in a thread, as a row group of their own, while other rows are made."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow.parquet as pq
import pytest

from scalene_trace.formats.beside import Beside
from scalene_trace.formats.trace import row_groups, writer
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.formats.trace.writer import write_trace

TRACE_ID = "00112233445566778899aabbccddeeff"


def sources(count: int) -> dict[str, Any]:
    texts = [f"# file {number}\n" + "x = 1\n" * 20_000 for number in range(count)]
    return {"file": [f"/a/{number}.py" for number in range(count)], "text": texts, "changed": [False] * count}


def marks(count: int) -> dict[str, Any]:
    return {"t_ns": list(range(count)), "what": ["mark"] * count}


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("has_threads", [True, False])
def test_long_texts_are_a_row_group_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_threads: bool
) -> None:
    if not has_threads:
        monkeypatch.setattr(threading.Thread, "start", no_thread)
    path, texts = tmp_path / "t.parquet", sources(12)
    assert sum(map(len, texts["text"])) > row_groups.LONG_TEXT_BYTES
    write_trace(path, TRACE_ID, [{"source": texts}, {"mark": marks(5)}, {"mark": marks(7)}])
    check_trace(path)
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [12, 12]
    found = duckdb.sql(f"SELECT source.file, source.text FROM '{path}' WHERE kind = 'source' ORDER BY 1").fetchall()
    assert found == sorted(zip(texts["file"], texts["text"], strict=True))


def test_short_texts_share_the_row_group_of_small_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(path, TRACE_ID, [{"source": sources(2)}, {"mark": marks(5)}])
    assert pq.ParquetFile(path).metadata.num_row_groups == 1


def test_an_error_while_texts_are_compressed_leaves_no_file(tmp_path: Path) -> None:
    def parts() -> Any:
        yield {"source": sources(40)}
        raise KeyError("between the parts")

    with pytest.raises(KeyError, match="between the parts"):
        write_trace(tmp_path / "t.parquet", TRACE_ID, parts())
    assert list(tmp_path.iterdir()) == []
    assert not [each for each in threading.enumerate() if each.name == "row group"]


@pytest.mark.parametrize("has_threads", [True, False])
def test_work_beside_gives_its_result_or_its_error(monkeypatch: pytest.MonkeyPatch, has_threads: bool) -> None:
    if not has_threads:
        monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert Beside(lambda: 7, "work").result() == 7
    with pytest.raises(ZeroDivisionError):
        Beside(lambda: 1 // 0, "work").result()


def test_an_interrupt_waits_for_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file must not be closed while a thread still writes to it."""
    done, first = [], []

    class Interrupted(Beside[None]):
        def result(self) -> None:
            if not first:
                first.append(self)
                raise KeyboardInterrupt
            super().result()

    def slow(self: object, held: list[object], is_one_of_many: bool) -> None:
        time.sleep(0.3)
        done.append(held.pop())

    monkeypatch.setattr(writer, "Beside", Interrupted)
    monkeypatch.setattr(writer._Groups, "_write", slow)
    with pytest.raises(KeyboardInterrupt), writer._Groups(cast(Any, None), cast(Any, None)) as groups:
        groups.add([cast(Any, "texts")], True, False)
        groups.add([cast(Any, "more")], False, False)
    assert done == ["texts"]
