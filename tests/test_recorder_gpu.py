"""What the recorder keeps of GPUs: rows of its file, devices that a program may see, and its option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.cli.record import read_options, settings_of
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.gpu_rows import GpuRows
from scalene_trace.recorder.nvml import About, visible
from scalene_trace.recorder.recording import GPU_DEVICES_NAME, GPU_NAME, GPU_STRUCT

A100, T4 = About("A100", "GPU-aaaa", 40), About("T4", "GPU-bbbb", 16)


def rows_of(folder: Path, *rows: tuple[Any, ...], until_ns: int | None = None, tail: bytes = b"") -> GpuRows:
    """The file with ``rows`` as GPU_STRUCT packs them, and a device list."""
    (folder / GPU_DEVICES_NAME).write_text(json.dumps([{"name": "A100"}]))
    (folder / GPU_NAME).write_bytes(b"".join(GPU_STRUCT.pack(*row) for row in rows) + tail)
    return GpuRows(folder, until_ns)


def test_rows_become_columns(tmp_path: Path) -> None:
    (table,) = rows_of(tmp_path, (5, 100, 60, -1, 3, 0, False, True), (7, 0, -1, 999, 0, 1, True, True)).tables()
    found = {name: column.tolist() for name, column in table.items() if name != "scope"}
    assert found == {
        "t_ns": [5, 7], "process": [3, None], "device": [0, 1], "duration_ns": [100, 0], "busy_ns": [60, None],
        "memory_bytes": [None, 999], "charged": [True, True],
    }  # fmt: skip
    assert [table["scope"].values[code] for code in table["scope"].codes] == ["process", "device"]


@pytest.mark.parametrize(
    "row",
    [
        (-1, 100, 60, -1, 0, 0, False, True),
        (0, 100, 101, -1, 0, 0, False, True),
        (0, 1 << 50, 60, -1, 0, 0, False, True),
        (0, 100, -1, -1, 0, 0, False, True),
        (0, 100, 60, 5, 0, 0, False, True),
        (0, 100, -1, 1 << 60, 0, 0, False, True),
        (0, 100, 60, -1, -5, 0, False, True),
        (0, 100, 60, -1, 0, -1, False, True),
    ],
)
def test_a_row_that_cannot_be_is_counted_and_left_out(tmp_path: Path, row: tuple[Any, ...]) -> None:
    found = rows_of(tmp_path, row, (0, 100, 60, -1, 0, 0, False, True), tail=b"half a row")
    (table,) = found.tables()
    assert (len(table["t_ns"]), found.damaged) == (1, 1)


def test_a_whole_device_does_not_count_once_its_processes_are_told(tmp_path: Path) -> None:
    """Device 0 tells utilisation by process in the end; its memory, and device 1, stay whole."""
    whole = [(0, 100, 50, -1, 0, 0, True, True), (0, 0, -1, 77, 0, 0, True, True), (0, 100, 50, -1, 0, 1, True, True)]
    found = rows_of(tmp_path, *whole, (100, 100, 60, -1, 3, 0, False, True))
    (table,) = found.tables()
    assert table["charged"].tolist() == [False, True, True, True] and found.whole == {0, 1}


def test_a_snapshot_ends_with_what_was_over(tmp_path: Path) -> None:
    rows = [(0, 100, 60, -1, 1, 0, False, True), (50, 100, 60, -1, 1, 0, False, True)]
    (table,) = rows_of(tmp_path, *rows, until_ns=120).tables()
    assert table["t_ns"].tolist() == [0]


def test_without_a_device_there_is_no_table(tmp_path: Path) -> None:
    found = GpuRows(tmp_path, None)
    assert list(found.tables()) == [] and found.devices is None


@pytest.mark.parametrize(
    ("devices", "setting", "order", "expected"),
    [
        ([A100, A100], None, None, {0, 1}),
        ([A100, A100], "1", None, {1}),
        ([A100, A100], "", None, set()),
        ([A100, A100], "-1", None, set()),
        ([A100, A100], "1,7,0", None, {1}),
        ([A100, T4], "1", None, {0, 1}),
        ([A100, T4], "1", "PCI_BUS_ID", {1}),
        ([A100, T4], "GPU-bb", None, {1}),
    ],
)
def test_devices_that_cuda_shows(
    devices: list[About], setting: str | None, order: str | None, expected: set[int]
) -> None:
    assert visible(devices, setting, order) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [("", 50_000_000), ("--gpu-interval 10ms", 10_000_000), ("--gpu-interval=1s", 10**9), ("--gpu-interval 0", 0),
     ("--no-gpu", 0), ("--no-gpu --gpu-interval 1s", 0)],
)  # fmt: skip
def test_the_interval_is_an_option(words: str, expected: int) -> None:
    options = read_options(words.split())
    assert options and settings_of(options, ["app.py"]).gpu_interval_ns == expected


@pytest.mark.parametrize("text", ["50", "0.1ms", "11s", "often", "-1ms"])
def test_an_interval_that_is_none_is_refused(text: str) -> None:
    options = read_options([f"--gpu-interval={text}"])
    assert options
    with pytest.raises(UsageError, match="--gpu-interval"):
        settings_of(options, ["app.py"])
