"""What the recorder keeps of GPUs: rows of its file, devices that a program may see, and its option."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalene_trace.cli.record.command import read_options, settings_of
from scalene_trace.recorder.convert.kinds.gpu import GpuRows
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.folder.files import GPU_DEVICES_NAME, GPU_NAME, GPU_STRUCT
from scalene_trace.recorder.run.gpu import sampler
from scalene_trace.recorder.run.gpu.nvml import Busy, Device, DeviceInfo, visible
from scalene_trace.recorder.run.gpu.owners import Owners
from scalene_trace.recorder.run.gpu.sampler import clocks_ns

A100, T4 = DeviceInfo("A100", "GPU-aaaa", 40), DeviceInfo("T4", "GPU-bbbb", 16)


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
    devices: list[DeviceInfo], setting: str | None, order: str | None, expected: set[int]
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


def test_rows_wait_until_their_process_is_known_and_a_stranger_s_are_dropped() -> None:
    known: dict[int, int] = {}
    owners = Owners(lambda: dict(known))
    ours, theirs = (0, 10, 5, -1, 501, 0, False, True), (0, 10, 5, -1, 777, 0, False, True)
    whole = (0, 10, 5, -1, 0, 0, True, False)
    owners.learn()
    assert owners.owned([ours, theirs, whole], 10) == [whole]
    known[501] = 3
    owners.learn()
    assert owners.owned([], 20) == [(0, 10, 5, -1, 3, 0, False, True)]
    assert owners.owned([], 11_000_000_000) == []
    known[777] = 4
    owners.learn()
    assert owners.owned([], 11_000_000_001) == [], "too late"
    assert owners.owned([theirs], 11_000_000_002) == [(0, 10, 5, -1, 4, 0, False, True)], "a pid that came again"


class Clocks:
    """Both clocks of a machine on which reading one takes as many ns as ``pauses`` says, in turn, then a microsecond."""

    def __init__(self, *pauses: int) -> None:
        self._now_ns, self._pauses = 1_000_000_000_000, list(pauses)

    def monotonic_ns(self) -> int:
        self._now_ns += self._pauses.pop(0) if self._pauses else 1_000
        return self._now_ns

    def time_ns(self) -> int:
        return self.monotonic_ns() + 7_000_000_000_000


@pytest.mark.parametrize("pauses", [(), (0, 1_300_000_000, 0), (0, 0, 1_300_000_000), (1_300_000_000,)])
def test_a_pause_between_the_clocks_moves_no_sample(pauses: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that did not get the CPU for 1.3 s between the two readings put all samples of a tick 1.3 s later."""
    monkeypatch.setattr(sampler, "time", Clocks(*pauses))
    real_ns, mono_ns = clocks_ns()
    assert abs(real_ns - mono_ns - 7_000_000_000_000) <= 1_000


def test_clocks_that_are_never_read_at_one_moment_are_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "time", Clocks(*[60_000] * 1_000))
    real_ns, mono_ns = clocks_ns()
    assert abs(real_ns - mono_ns - 7_000_000_000_000) <= 60_000


class LateDriver:
    """NVML of one device, asked once after 1.5 s: nine samples, ``shares`` in percent, and one average of each process."""

    NVML_GPU_UTILIZATION_SAMPLES = 1
    NVMLError = RuntimeError

    def __init__(self, shares: list[int], averages: dict[int, int], end_us: int) -> None:
        samples = [(166_667 * (index + 1), share) for index, share in enumerate(shares)]
        self._samples = [
            SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=share)) for at, share in samples
        ]
        self._parts = [SimpleNamespace(timeStamp=end_us, smUtil=share, pid=pid) for pid, share in averages.items()]

    def nvmlDeviceGetName(self, handle: object) -> str:  # noqa: N802 (as NVML has it)
        return "late"

    nvmlDeviceGetUUID = nvmlDeviceGetName  # noqa: N815

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=1)

    def nvmlDeviceGetSamples(self, handle: object, kind: int, seen_us: int) -> tuple[int, list[SimpleNamespace]]:  # noqa: N802
        return 1, self._samples

    def nvmlDeviceGetProcessUtilization(self, handle: object, seen_us: int) -> list[SimpleNamespace]:  # noqa: N802
        return self._parts


def by_process(shares: list[int], averages: dict[int, int], end_us: int = 9 * 166_667) -> dict[int, list[Busy]]:
    device = Device(LateDriver(shares, averages, end_us), None, 0)
    device.utilisation(9 * 166_667)
    found: dict[int, list[Busy]] = {}
    for each in device.by_process(9 * 166_667) or []:
        found.setdefault(each.pid, []).append(each)
    return found


def test_an_average_over_many_samples_is_divided_as_the_device_was_busy() -> None:
    """Idle for three samples, all of the device for four, idle for two: 4 / 9 on average."""
    (rows,) = by_process([0, 0, 0, 100, 100, 100, 100, 0, 0], {7: 44}).values()
    assert [round(each.share, 2) for each in rows] == [0, 0, 0, 0.99, 0.99, 0.99, 0.99, 0, 0]
    assert [each.end_us for each in rows] == [166_667 * number for number in range(1, 10)]
    assert all(before.end_us == after.start_us for before, after in pairwise(rows))


def test_several_processes_keep_their_sums_when_averages_are_divided() -> None:
    found = by_process([0, 60, 60, 60, 100, 40, 40, 0, 0], {7: 30, 8: 10})
    for pid, share in ((7, 0.30), (8, 0.10)):
        assert sum(each.share for each in found[pid]) / 9 == pytest.approx(share)
        assert found[pid][4].share > found[pid][1].share > found[pid][5].share > found[pid][0].share == 0


def test_a_sample_that_came_between_the_two_calls_counts_too() -> None:
    (rows,) = by_process([0, 50], {7: 50}, end_us=3 * 166_667).values()
    assert [each.end_us for each in rows] == [166_667, 333_334, 500_001]
    assert sum(each.share for each in rows) == pytest.approx(1.5) and rows[0].share == 0
