"""Copies to and from devices, and device memory, through a scripted CUDA runtime: exact per line.

The runtime is a stand-in that copies host memory (``standins/scripted_cuda.c``): nothing here is a measurement of a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.recording import Json, Recording, bare, line_of, lines_of, losses, record, report, rows, run, target
from tests.support.scripted_cuda import Scripted, scripted_cuda

ZERO = {"h2d_bytes": 0, "d2h_bytes": 0, "d2d_bytes": 0, "h2h_bytes": 0, "unified_bytes": 0}
DEVICE_FIELDS = (
    *("device_copy_bytes", "device_copy_s", "device_sync_s", "device_alloc_bytes", "device_live_at_peak_bytes"),
)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    return scripted_cuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="module")
def without_driver(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    return scripted_cuda(tmp_path_factory.mktemp("cuda"), needs_driver=False)


def recorded(scripted: Scripted, name: str, python: Interpreter, folder: Path, *options: str) -> Recording:
    done = record(folder / "t.parquet", [target(name), scripted.runtime], python, options, scripted.env)
    assert done.status == 0, done.stderr.decode()
    return done


def marked(found: Json, name: str, mark: str) -> Json:
    row: Json = lines_of(found, target(name))[line_of(name, mark)]
    return row


def test_bytes_are_exact_per_line_and_direction(scripted: Scripted, python: Interpreter, tmp_path: Path) -> None:
    done = recorded(scripted, "device_copies", python, tmp_path)
    found = report(done.trace)
    asked = done.facts
    directions = {
        "h2d": "h2d",
        "d2h": "d2h",
        "d2d": "d2d",
        "unified": "unified",
        "async": "h2d",
        "2d": "d2h",
        "2d_async": "h2d",
        "thread": "h2d",
    }
    for mark, direction in directions.items():
        row = marked(found, "device_copies", mark)
        assert row["device_copies"] == ZERO | {f"{direction}_bytes": asked[mark]}, mark
        assert row["device_copy_bytes"] == asked[mark] and row["device_alloc_bytes"] == 0
        assert row["device_copy_s"] > 0
    copied = sum(asked[mark] for mark in directions)
    assert found["totals"]["device_copy_bytes"] == copied == sum(row["device_copy_bytes"] for row in found["lines"])
    assert losses(found).keys() <= {"engine_posix", "thread_posix"}


def test_functions_have_what_their_lines_have(scripted: Scripted, any_python: Interpreter, tmp_path: Path) -> None:
    done = recorded(scripted, "device_copies", any_python, tmp_path)
    by_name = {row["function"]: row for row in report(done.trace, command="functions")["functions"]}
    assert by_name["from_a_thread"]["device_copies"] == ZERO | {"h2d_bytes": done.facts["thread"]}
    assert by_name["allocate"]["device_alloc_bytes"] == done.facts["malloc"]


def test_waits_for_the_device_are_timed(scripted: Scripted, python: Interpreter, tmp_path: Path) -> None:
    done = recorded(scripted, "device_copies", python, tmp_path)
    row = marked(report(done.trace), "device_copies", "sync")
    found = rows(done.trace, "device_sync")
    assert sum(each["calls"] for each in found) == 5
    assert sum(each["duration_ns"] for each in found) / 1e9 == pytest.approx(row["device_sync_s"])
    assert row["device_sync_s"] >= 5 * 0.02  # the scripted runtime sleeps as long in each


def test_device_memory_is_exact_per_line(scripted: Scripted, python: Interpreter, tmp_path: Path) -> None:
    done = recorded(scripted, "cuda_blocks", python, tmp_path)
    found, facts = report(done.trace), done.facts
    rows_of = {mark: marked(found, "cuda_blocks", mark) for mark in facts["made"]}
    assert {mark: row["device_alloc_bytes"] for mark, row in rows_of.items()} == facts["made"]
    alive = {mark: row["device_live_at_peak_bytes"] for mark, row in rows_of.items()}
    assert alive == dict.fromkeys(facts["made"], 0) | facts["at_peak"]
    assert found["totals"]["device_alloc_bytes"] == sum(facts["made"].values())
    assert found["totals"]["device_peak_bytes"] == sum(facts["at_peak"].values())


def test_a_block_lives_until_it_is_freed(scripted: Scripted, any_python: Interpreter, tmp_path: Path) -> None:
    done = recorded(scripted, "cuda_blocks", any_python, tmp_path)
    blocks = rows(done.trace, "device_alloc")
    alive = [each["bytes"] for each in blocks if each["lifetime_ns"] is None]
    assert sorted(alive) == sorted([300_007, 3 * 1_024, 11_003])  # never freed: a refused call frees nothing
    assert {each["bytes"]: each["allocator"] for each in blocks} == {
        1_999_993: "malloc",
        7_001: "malloc",
        300_007: "managed",
        5_000_011: "async",
        3 * 1_024: "malloc",
        11_003: "malloc",
    }
    parent = min(each["process"] for each in blocks)
    assert [each["bytes"] for each in blocks if each["process"] != parent] == [11_003]


SEEN = ("ctypes", "global", "linked", "linked_lazily", "table", "dlsym")
SEEN_AT_THE_DRIVER = ("driver", "inside", "dlvsym", "constructor")


@pytest.mark.parametrize("way", [*SEEN, *SEEN_AT_THE_DRIVER])
def test_a_copy_is_seen_once_however_cuda_is_reached(
    way: str, scripted: Scripted, python: Interpreter, tmp_path: Path
) -> None:
    found = report(loaded(way, scripted, python, tmp_path).trace)
    (row,) = (each for each in found["lines"] if each["device_copy_bytes"])
    assert row["file"] == str(target("cuda_loading"))
    assert "CDLL(" in row["source"] if way == "constructor" else "device, host, size" in row["source"]
    assert row["device_copies"] == ZERO | {"h2d_bytes": 1_000_003}


@pytest.mark.parametrize("way", SEEN)
def test_calls_of_the_runtime_are_seen_without_the_driver(
    way: str, without_driver: Scripted, any_python: Interpreter, tmp_path: Path
) -> None:
    found = report(loaded(way, without_driver, any_python, tmp_path).trace)
    assert found["totals"]["device_copies"] == ZERO | {"h2d_bytes": 1_000_003}


@pytest.mark.parametrize("way", ["inside", "dlvsym", "constructor"])
def test_what_only_the_driver_would_show_is_not_seen_without_it(
    way: str, without_driver: Scripted, any_python: Interpreter, tmp_path: Path
) -> None:
    found = report(loaded(way, without_driver, any_python, tmp_path).trace)
    assert not found["totals"]["device_copy_bytes"]


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_a_program_that_is_linked_with_cuda_is_seen(binding: str, without_driver: Scripted, tmp_path: Path) -> None:
    program = without_driver.program(f"copies_{binding}", "-DLINKED", "-DMAIN", f"-Wl,-z,{binding}")
    done = record(tmp_path / "t.parquet", [program], env=without_driver.env)
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace)
    assert found["unattributed"]["device_copies"] == ZERO | {"h2d_bytes": 1_000_003, "d2h_bytes": 7}


def test_a_library_calls_the_runtime_that_it_is_linked_with(tmp_path: Path) -> None:
    """Beside another runtime that came first, and beside a library with functions of the same names, as TensorFlow has."""
    clients = []
    for answer, name in ((12, "libcudart.so.12"), (13, "libcudart.so.13"), (77, "libtrampolines.so")):
        options = ("-shared", "-fPIC", f"-DANSWER={answer}", f"-Wl,-soname,{name}")
        made = build(tmp_path, "cuda_runtimes.c", *options, name=name)
        calling = ("-shared", "-fPIC", "-DCLIENT", "-Wl,-z,lazy", made, f"-Wl,-rpath,{tmp_path}")
        clients.append(build(tmp_path, "cuda_runtimes.c", *calling, name=f"libclient_{answer}.so"))
    program = [build(tmp_path, "cuda_runtimes.c", "-ldl"), tmp_path / "libcudart.so.12", *clients]
    done = record(tmp_path / "t.parquet", program)
    assert done.stdout == b"12\n13\n77\n" == run(program).stdout
    assert sum(row["calls"] for row in rows(done.trace, "device_sync")) == 2, "the last is no CUDA library's"


def loaded(way: str, scripted: Scripted, python: Interpreter, folder: Path) -> Recording:
    done = record(folder / "t.parquet", [target("cuda_loading"), way, scripted.folder], python, env=scripted.env)
    assert done.status == 0, done.stderr.decode()
    assert done.facts == {"result": 0, "arrived": True}
    return done


def test_results_errors_and_errno_are_the_librarys(scripted: Scripted, python: Interpreter, tmp_path: Path) -> None:
    program = [target("cuda_errors"), scripted.runtime]
    done = record(tmp_path / "t.parquet", program, python, env=scripted.env)
    alone = bare(program, python, scripted.env)
    assert (done.status, done.stdout) == (alone.status, alone.stdout)
    assert alone.stdout.count(b"\n") == 17 and alone.status == 0
    assert sum(each["bytes"] for each in rows(done.trace, "device_copy")) == 13  # what failed has copied nothing


def test_a_program_without_cuda_sees_none(scripted: Scripted, python: Interpreter, tmp_path: Path) -> None:
    program = [target("cuda_probe"), scripted.folder / "libclient_weak.so"]
    done = record(tmp_path / "t.parquet", program, python)
    alone = bare(program, python)
    assert (done.status, done.stdout, done.stderr) == (alone.status, alone.stdout, alone.stderr)
    assert b"undefined symbol: cudaMalloc" in alone.stdout and b"cudaMalloc None None" in alone.stdout
    found = report(done.trace)
    assert all(row[name] is None for row in found["lines"] for name in DEVICE_FIELDS)
    assert found["traces"][0]["events"]["device_copy"] is None


def test_a_hundred_thousand_copies_are_few_rows_and_all_there(
    scripted: Scripted, python: Interpreter, tmp_path: Path
) -> None:
    done = recorded(scripted, "cuda_many", python, tmp_path)
    found, facts = report(done.trace), done.facts
    assert {mark: marked(found, "cuda_many", mark)["device_copy_bytes"] for mark in ("one", "two", "three")} == {
        mark: facts[mark] for mark in ("one", "two", "three")
    }
    stored = rows(done.trace, "device_copy")
    assert sum(each["calls"] for each in stored) == 100_002
    assert len(stored) <= 1_000  # some hundred, by the time that it took


def test_threads_that_load_and_unload_libraries_miss_nothing(
    without_driver: Scripted, python: Interpreter, tmp_path: Path
) -> None:
    clients = [without_driver.linked(f"libclient_{number}.so") for number in range(6)]
    program = [target("cuda_threads"), without_driver.runtime, *clients]
    done = record(tmp_path / "t.parquet", program, python, env=without_driver.env)
    assert done.status == 0, done.stderr.decode()
    totals, facts = report(done.trace)["totals"], done.facts
    assert totals["device_alloc_bytes"] == facts.pop("blocks")
    assert totals["device_copies"] == ZERO | facts


def test_without_copies_only_device_memory_is_recorded(
    scripted: Scripted, any_python: Interpreter, tmp_path: Path
) -> None:
    done = recorded(scripted, "device_copies", any_python, tmp_path, "--no-copy")
    found = report(done.trace)
    assert (found["totals"]["device_copy_bytes"], found["totals"]["device_alloc_bytes"]) == (0, done.facts["malloc"])


def test_with_neither_copies_nor_memory_nothing_is_watched(
    scripted: Scripted, any_python: Interpreter, tmp_path: Path
) -> None:
    done = recorded(scripted, "device_copies", any_python, tmp_path, "--no-copy", "--no-memory")
    assert report(done.trace)["totals"]["device_alloc_bytes"] is None
