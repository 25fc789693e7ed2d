"""Unusual calls of the memory functions: the program gets the same results as bare, and the figures are right."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.recording import Recording, environment, losses, record, report, rows, run, target, tool

MIB = 1 << 20


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program edges.c."""
    return build(tmp_path_factory.mktemp("edges"), "edges.c", "-lrt", "-lm")


def recorded(trace: Path, edges: Path, way: str, *options: str) -> Recording:
    """One way of edges.c, recorded; it must end well."""
    command = [*tool("scalene-record"), "-o", trace, *options, edges, way]
    done = run(command, env=environment(None))
    assert (done.status, done.stderr) == (0, b"")
    return Recording(done.status, done.stdout, done.stderr, trace)


def test_a_mapping_that_grows_moves_the_footprint_by_the_difference(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "grown")
    assert max(row["footprint_bytes"] for row in rows(done.trace, "heap")) == pytest.approx(
        done.facts["bytes"], abs=MIB
    )
    assert sum(row["allocated_bytes"] for row in rows(done.trace, "memory")) <= done.facts["bytes"] + MIB
    exact = recorded(tmp_path / "e.parquet", edges, "grown", "--alloc-interval", "1")
    sizes = Counter(row["allocator"] for row in rows(exact.trace, "alloc") if row["size_bytes"] >= MIB)
    assert sizes == {"mmap": 1, "mremap": 50}


def test_blocks_that_threads_resize_before_they_allocate_any_are_followed_on(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "resized_first", "--alloc-interval", "1")
    found = [row for row in rows(done.trace, "alloc") if row["size_bytes"] == 5003]
    lives = Counter((row["allocator"], row["lifetime_ns"] is None) for row in found)
    assert lives == {("malloc", False): 10, ("realloc", True): 10}


def test_memory_that_cannot_be_unmapped_is_still_counted(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "refused")
    assert done.facts["result"] == -1
    assert max(row["mapped_bytes"] for row in rows(done.trace, "heap")) == done.facts["bytes"]


def test_mappings_without_reserve_are_memory_as_far_as_they_are_resident(
    any_python: Interpreter, tmp_path: Path
) -> None:
    done = record(tmp_path / "t.parquet", [target("reserved")], any_python)
    assert done.status == 0, done.stderr.decode()
    rest = done.facts["mapped"]  # the interpreter, and its libraries
    heap = rows(done.trace, "heap")
    assert max(row["mapped_bytes"] for row in heap) == pytest.approx(done.facts["touched"] - rest, rel=0.05)
    assert heap[-1]["mapped_bytes"] + heap[-1]["reserved_bytes"] <= MIB
    touching = [row for row in report(done.trace)["functions"] if row["function"] == "touch"]
    assert touching[0]["growth_bytes"] == pytest.approx(done.facts["touched"] - rest, rel=0.15)
    sampled = [row for row in rows(done.trace, "alloc") if row["allocator"] == "mmap" and row["size_bytes"] >= MIB]
    assert sampled and all(row["lifetime_ns"] is not None for row in sampled)


def test_mappings_that_find_no_room_are_a_loss_and_never_counted_half(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "crowded")
    assert max(row["mapped_bytes"] for row in rows(done.trace, "heap")) <= done.facts["bytes"] + MIB
    assert losses(report(done.trace))["mapping_missed"] > 0


@pytest.mark.parametrize("children", ["--children", "--no-children"])
def test_a_child_of_a_raw_system_call_may_map_without_reserve(edges: Path, tmp_path: Path, children: str) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "forked_raw", children)
    assert done.facts["status"] == 0


def test_frees_are_seen_beside_reallocs_of_nothing(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "aligned", "--alloc-interval", "64KB")
    found = [row for row in rows(done.trace, "alloc") if row["size_bytes"] == 16 * MIB]
    assert len(found) >= 500
    assert all(row["lifetime_ns"] is not None for row in found)


@pytest.mark.parametrize("interval", ["auto", "4KB", "1"])
def test_floating_point_flags_and_traps_are_the_programs(edges: Path, tmp_path: Path, interval: str) -> None:
    way = "floating" if interval == "auto" else "floating_few"
    done = recorded(tmp_path / "t.parquet", edges, way, "--alloc-interval", interval)
    assert done.facts["raised"] == 0
    assert len(rows(done.trace, "alloc")) > 100


def test_handlers_that_leave_by_longjmp_leave_nothing_locked(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "jumping", "--alloc-interval", "1")
    last = [row for row in rows(done.trace, "alloc") if row["size_bytes"] == 10 * MIB + 7 * 4096]
    assert len(last) == 2000
    assert "mapping_missed" not in losses(report(done.trace))


def test_threads_of_notifications_leave_no_descriptors(edges: Path, tmp_path: Path) -> None:
    done = recorded(tmp_path / "t.parquet", edges, "notified")
    assert done.facts["descriptor"] < 40
    threads = rows(done.trace, "thread")
    assert len(threads) >= 500
    assert sum(row["end_ns"] is None for row in threads) <= 2, "libc keeps one to itself, that starts the others"


@pytest.mark.samples
def test_samples_are_fine_again_soon_after_a_burst(any_python: Interpreter, tmp_path: Path) -> None:
    """Also where little is allocated from then on, 50 KB a second here."""
    done = record(tmp_path / "t.parquet", [target("burst_then_little")], any_python)
    assert (done.status, done.stderr) == (0, b"")
    late = [row for row in rows(done.trace, "alloc") if 2500 <= row["size_bytes"] < 2600 and row["t_ns"] >= 2.5e9]
    assert late and all(row["interval_bytes"] <= 16_384 for row in late), "of 75,000 bytes"


def test_resolvers_that_run_before_the_shim_is_ready(tmp_path: Path) -> None:
    build(tmp_path, "early_copy.c", "-shared", "-fPIC", name="libearly.so")
    program = build(tmp_path, "early_copy.c", "-DPROGRAM", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-learly")
    assert run([program]).status == 0
    done = run([*tool("scalene-record"), "-o", tmp_path / "t.parquet", program], env=environment(None))
    assert (done.status, done.stderr) == (0, b"")


def test_names_of_types_are_their_own_after_classes_have_died(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("dying_types")], python, ["--alloc-interval", "1"])
    named = [row for row in rows(done.trace, "alloc") if (row["type"] or "").startswith("Dying")]
    # On 3.15, two blocks of half the size hold what looks like an object of such a class.
    types = Counter(row["type"] for row in named if python.version < (3, 15) or row["size_bytes"] == 48)
    assert len(named) - sum(types.values()) <= 4
    assert sum(types.values()) == done.facts["objects"]
    assert set(types.values()) == {3}


def test_names_of_types_are_the_newest_after_renames(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("renamed_types")], python, ["--alloc-interval", "1"])
    types = Counter(row["type"] for row in rows(done.trace, "alloc") if (row["type"] or "").startswith("Renamed"))
    assert len(types) == done.facts["names"]
    assert set(types.values()) == {done.facts["batch"]}


def test_objects_are_not_looked_into_where_reads_are_refused(python: Interpreter, tmp_path: Path) -> None:
    program = [python.path, "-c", "kept = [str(n) * 9 for n in range(20000)]; print(len(kept))"]
    for name in ("1", "4KB", "auto"):
        trace = tmp_path / f"{name}.parquet"
        command = [*tool("scalene-record"), "-o", trace, "--alloc-interval", name, *program]
        refused = [sys.executable, target("refuse_readv"), "process_vm_readv", *command]
        done = run(refused, env=environment(None))
        assert (done.status, done.stdout) == (0, b"20000\n")
        assert {row["type"] for row in rows(trace, "alloc")} == {None}
        assert "types_unread" in losses(report(trace))


def test_exact_mode_leaves_scarce_address_space_to_the_program(any_python: Interpreter, tmp_path: Path) -> None:
    code = "kept = bytearray(120_000_000); print(len(kept))"
    limited = ["sh", "-c", 'ulimit -v 400000; exec "$@"', "sh", str(any_python.path), "-c", code]
    assert run(limited, env=environment(None)).stdout == b"120000000\n"
    done = run([*tool("scalene-record"), "-o", tmp_path / "t.parquet", "--alloc-interval", "1", *limited])
    assert (done.status, done.stdout) == (0, b"120000000\n"), done.stderr
