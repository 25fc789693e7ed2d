"""A recording that begins paused leaves Python's allocators alone until it is resumed, and then knows all of their memory."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import embedding
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    bare,
    environment,
    line_of,
    lines_of,
    losses,
    record,
    record_command,
    report,
    rows,
    target,
)
from tests.support.steered_recording import Steered, control, steered

FILE = target("steered")
OURS = ["libscalene_shim.so"] * 2
#: Of 500,000 floats: 24 bytes each, in blocks of 32 (16 bytes is pymalloc's unit); and their list, which grows by an eighth.
FLOATS = 500_000 * 32
#: A megabyte and a copy of it live at the moment of one recording, and may not at that of another.
TEMPORARY = 2_300_000


def heap(live: Steered) -> Json:
    """What the process has now."""
    live.tell("work", "copy")  # it is written down every few tenths of a second, by a thread that allocates
    live.control("snapshot")
    return rows(live.trace, "heap")[-1]


def lowest_footprint(trace: Path) -> int:
    """The smallest in any record, in bytes."""
    lowest: int = min(row["footprint_bytes"] for kind in ("memory", "heap") for row in rows(trace, kind))
    return lowest


def both_ways(tmp_path: Path, python: Interpreter, *words: str) -> tuple[Json, Json, Json]:
    """The heap of a program that was told ``words``, recorded from its start, and resumed after the first word; and the
    lines of that."""
    with steered(tmp_path / "all.parquet", python) as live:
        live.tell(*words)
        whole = heap(live)
        assert live.quit() == 0
    with steered(tmp_path / "late.parquet", python, "--pause-at-start") as live:
        live.tell(words[0])
        live.control("resume")
        live.tell("work", *words[1:])
        late = heap(live)
        assert live.quit() == 0
    return whole, late, lines_of(report(tmp_path / "late.parquet"), FILE)


def test_the_allocators_are_pythons_own_until_the_recording_is_resumed(python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", python, "--pause-at-start") as live:
        before = live.tell("small", "work", "allocators")["said"]
        live.control("resume")
        after = live.tell("work", "allocators")["said"]
        live.control("pause")
        assert live.tell("work", "allocators")["said"] == OURS
        assert live.quit() == 0
    assert len(before) == 2 and not set(before) & set(OURS)
    assert after == OURS
    assert set(losses(report(live.trace))) == {"paused"}


def test_what_was_allocated_before_is_in_the_footprint_and_on_no_line(any_python: Interpreter, tmp_path: Path) -> None:
    whole, late, lines = both_ways(tmp_path, any_python, "small", "hold")
    assert late["footprint_bytes"] == pytest.approx(whole["footprint_bytes"], abs=TEMPORARY)
    assert late["pool_bytes"] == pytest.approx(whole["pool_bytes"], rel=0.02)
    assert late["arena_bytes"] == pytest.approx(whole["arena_bytes"], abs=2 << 20)
    assert FLOATS < late["python_bytes"] <= whole["python_bytes"] + 100_000
    assert lines[line_of("steered", "hold")]["growth_bytes"] == pytest.approx(30_000_000, abs=10_000)
    assert not lines.get(line_of("steered", "small"), {}).get("growth_bytes")


def test_large_blocks_from_before_that_are_freed_later_take_nothing_from_python(
    any_python: Interpreter, tmp_path: Path
) -> None:
    """Whose they were is not known, so they were counted as native; the pools are Python's nevertheless."""
    whole, late, _ = both_ways(tmp_path, any_python, "hold", "small", "drop")
    assert late["footprint_bytes"] == pytest.approx(whole["footprint_bytes"], abs=TEMPORARY)
    assert late["pool_bytes"] == pytest.approx(whole["pool_bytes"], rel=0.02)
    assert FLOATS < late["python_bytes"] <= whole["python_bytes"] + 100_000


def test_copies_are_counted_from_then_on(any_python: Interpreter, tmp_path: Path) -> None:
    """Until then, the calls of the interpreter do not even pass through the shim."""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start") as live:
        before = live.tell("copy", "copying")["said"]
        live.control("resume")
        after = live.tell("work", "copying")["said"]
        live.tell("copy")
        assert live.quit() == 0
    assert after and not set(before) & set(OURS) and set(after) == set(OURS)
    copied = lines_of(report(live.trace), FILE)[line_of("steered", "copy")]["copy_bytes"]
    assert copied == pytest.approx(200_000_000, abs=40_000_000), "but for what the last sample does not hold"


def test_an_allocator_around_pythons_is_waited_for(any_python: Interpreter, tmp_path: Path) -> None:
    """tracemalloc puts back what was there when it began, so a wrapper around its own would be lost."""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start") as live:
        live.tell("cover")
        live.control("resume")
        covered = live.tell("work", "allocators")["said"]
        uncovered = live.tell("uncover", "work", "allocators")["said"]
        live.tell("small")
        assert live.quit() == 0
    assert not set(covered) & set(OURS) and uncovered == OURS
    found = report(live.trace)
    assert set(losses(found)) == {"paused", "allocator_covered"}
    assert lines_of(found, FILE)[line_of("steered", "small")]["growth_bytes"] > FLOATS / 2


def test_pointers_of_the_program_past_the_wrappers_are_a_loss(any_python: Interpreter, tmp_path: Path) -> None:
    program = [*embedding(tmp_path, "direct_allocators.c", any_python), "resumed"]
    command = record_command(tmp_path / "t.parquet", program, options=["--pause-at-start"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(None)) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        assert control(tmp_path / "t.parquet", "resume").status == 0
        assert process.communicate(b"\n", PATIENCE_S)[0] == b"0 wrong\n"
    assert process.returncode == 0
    assert losses(report(tmp_path / "t.parquet")) == {"paused": 1, "allocator_bypassed": 1}


def test_a_recording_that_is_never_resumed_ends_with_the_arenas_of_its_process(
    any_python: Interpreter, tmp_path: Path
) -> None:
    code = "import os\nkept = [float(i) for i in range(500_000)]\nos._exit(0)"
    sizes = {}
    for name, options in {"all": [], "late": ["--pause-at-start"]}.items():
        assert record(tmp_path / f"{name}.parquet", ["-c", code], any_python, options).status == 0
        (process,) = rows(tmp_path / f"{name}.parquet", "process")
        sizes[name] = process["end_footprint_bytes"]
    assert sizes["all"] > FLOATS
    assert sizes["late"] == pytest.approx(sizes["all"], rel=0.1)


def test_what_is_allocated_right_after_is_sampled_whatever_the_threshold(
    any_python: Interpreter, tmp_path: Path
) -> None:
    options = ["--pause-at-start", "--memory-threshold", "1GiB"]
    with steered(tmp_path / "t.parquet", any_python, *options) as live:
        live.tell("copying")
        live.control("resume")
        live.tell("small")
        assert live.quit() == 0
    allocated = lines_of(report(live.trace), FILE)[line_of("steered", "small")]["alloc_bytes"]
    assert allocated > FLOATS / 2


def test_without_reads_the_arenas_count_as_a_whole(any_python: Interpreter, tmp_path: Path) -> None:
    """Memory that may be unmapped is never read plainly for it."""
    program = [any_python.path, target("refuse_readv"), "process_vm_readv", any_python.path, FILE]
    with steered(tmp_path / "t.parquet", None, "--pause-at-start", program=program) as live:
        live.tell("small")
        live.control("resume")
        live.tell("work")
        late = heap(live)
        assert live.quit() == 0
    found = losses(report(live.trace))
    assert found["pools_unread"] == 1
    assert FLOATS < late["python_bytes"] < 2 * FLOATS + 10_000_000


def test_a_child_of_before_is_followed_after(any_python: Interpreter, tmp_path: Path) -> None:
    code = """
import os, sys
kept = [float(i) for i in range(500_000)]
child = os.fork()
if child == 0:
    sys.stdin.buffer.raw.read(1)
    for _ in range(100):
        kept.append([float(i) for i in range(20_000)])
    os._exit(0)
print(child, flush=True)
os._exit(os.waitpid(child, 0)[1])
"""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start", program=["-c", code]) as live:
        assert live.process.stdout is not None
        child = int(live.process.stdout.readline())
        live.control("resume")
        live.process.communicate(b"1", timeout=PATIENCE_S)
        assert live.process.returncode == 0
    ends = {row["pid"]: row["end_footprint_bytes"] for row in rows(live.trace, "process")}
    assert ends[child] > FLOATS + 2_000_000 * 32, "the parent's floats, and its own two million"
    allocated = sum(line["alloc_bytes"] or 0 for line in report(live.trace)["lines"])
    assert allocated > 1_000_000 * 32, "lists count again whenever they grow"


def test_a_thread_that_has_allocated_in_the_pause_leaves_nothing_to_other_lines(
    any_python: Interpreter, tmp_path: Path
) -> None:
    code = """
import sys, threading
go = threading.Event()
def allocate():
    kept.extend(bytearray(2000) for _ in range(100))
    go.wait()
kept = []
threads = [threading.Thread(target=allocate) for _ in range(50)]
for thread in threads:
    thread.start()
print(1, flush=True)
sys.stdin.readline()
go.set()
for thread in threads:
    thread.join()
for _ in range(300):
    last = bytearray(1_000_000)
"""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start", program=["-c", code]) as live:
        assert live.process.stdout is not None
        live.process.stdout.readline()
        live.control("resume")
        live.process.communicate(b"\n", timeout=PATIENCE_S)
    growth = [line["growth_bytes"] or 0 for line in report(live.trace)["lines"]]
    assert sum(growth) < 5_000_000, "10 MB were allocated in the pause"


def test_what_many_threads_have_allocated_in_the_pause_is_not_missing_when_it_is_freed(
    any_python: Interpreter, tmp_path: Path
) -> None:
    """Each has counted little that is not in the footprint yet, but together they have 67 MB."""
    code = """
import sys, threading
def allocate():
    kept.append([bytes(3000) for _ in range(75)])
    allocated.wait()
    end.wait()
kept, end, allocated = [], threading.Event(), threading.Barrier(301)
threading.stack_size(256 << 10)
for _ in range(300):
    threading.Thread(target=allocate).start()
allocated.wait()
print(1, flush=True)
sys.stdin.readline()
last = bytearray(3_000_000)
kept.clear()
last = [bytearray(1_000_000) for _ in range(12)]
end.set()
"""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start", program=["-c", code]) as live:
        assert live.process.stdout is not None
        live.process.stdout.readline()
        live.control("resume")
        live.process.communicate(b"\n", timeout=PATIENCE_S)
        assert live.process.returncode == 0
    assert lowest_footprint(live.trace) >= 0


def test_new_peaks_cost_little_while_an_allocator_is_around_pythons(any_python: Interpreter, tmp_path: Path) -> None:
    """What the pools hold is not known then, and is not added up at each of them."""
    with steered(tmp_path / "all.parquet", any_python) as live:
        whole = live.tell("many", "cover", "peaks")
        assert live.quit() == 0
    with steered(tmp_path / "late.parquet", any_python, "--pause-at-start") as live:
        live.tell("many", "cover")
        live.control("resume")
        late = live.tell("peaks")
        assert live.quit() == 0
    assert losses(report(live.trace))["allocator_covered"] == 1
    assert late["cpu_s"] < 5 * whole["cpu_s"] + 0.05


def test_pools_are_counted_anew_when_the_allocators_are_wrapped_again(any_python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start") as live:
        live.tell("small", "save")
        live.control("resume")
        live.tell("copy")  # which stops, and the allocators are wrapped
        live.control("pause")
        unwrapped = live.tell("restore", "many", "allocators")["said"]
        live.control("resume")
        wrapped = live.tell("copy", "allocators")["said"]
        live.tell("forget", "copy")
        assert live.quit() == 0
    assert not set(unwrapped) & set(OURS) and wrapped == OURS
    assert losses(report(live.trace))["allocator_covered"] == 1
    pools = max(row["pool_bytes"] for row in rows(live.trace, "heap"))
    assert 4 * FLOATS < pools < 5 * FLOATS, "those of both lists, and what the interpreter has"
    assert lowest_footprint(live.trace) >= 0


@pytest.mark.parametrize("pause", ["at the start", "later"])
def test_pages_that_a_thread_of_the_pause_has_touched_belong_to_no_line(
    pause: str, any_python: Interpreter, tmp_path: Path
) -> None:
    """In a pause that begins later, the main thread has no tick, so that only the new one knows of it."""
    options = ["--pause-at-start"] if pause == "at the start" else []
    with steered(tmp_path / "t.parquet", any_python, *options) as live:
        live.tell("mapping")
        if pause == "later":
            live.control("pause")
        live.tell("touch")
        live.control("resume")
        live.tell("work", "copy")
        assert live.quit() == 0
    assert max(row["footprint_bytes"] for row in rows(live.trace, "heap")) > 200 << 20
    growth = [line["growth_bytes"] or 0 for line in report(live.trace)["lines"]]
    assert sum(growth) < 20 << 20, "200 MiB were touched"


@pytest.mark.parametrize("words", [["drop"], ["scan", "drop"]], ids=" ".join)
def test_a_large_free_right_after_is_on_its_line(words: list[str], any_python: Interpreter, tmp_path: Path) -> None:
    """The second time, a tick has wrapped the allocators before, so the block is freed by Python's."""
    with steered(tmp_path / "t.parquet", any_python, "--pause-at-start") as live:
        live.tell("hold")
        live.control("resume")
        live.tell(*words)
        assert live.quit() == 0
    growth = lines_of(report(live.trace), FILE)[line_of("steered", "drop")]["growth_bytes"]
    assert growth == pytest.approx(-30_000_000, abs=10_000)


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_copies_of_other_programs_are_counted_too(binding: str, tmp_path: Path) -> None:
    """Of a program whose slots are read-only, and which allows no writes into another process."""
    program = tmp_path / "copies"
    command = ["cc", "-O1", "-fno-builtin", f"-Wl,-z,{binding}", "-Wl,-z,relro", target("copies").with_suffix(".c")]
    subprocess.run([*command, "-o", program], check=True)
    with steered(tmp_path / "t.parquet", None, "--pause-at-start", program=[program]) as live:
        assert live.process.stdin is not None and live.process.stdout is not None
        live.process.stdin.write(b"\n")
        live.process.stdin.flush()
        live.process.stdout.readline()
        live.control("resume")
        live.process.communicate(b"\n", timeout=PATIENCE_S)
        assert live.process.returncode == 0
    copied = sum(row["bytes"] for row in rows(live.trace, "copy"))
    assert 2_000_000_000 < copied <= 5_000_000_000
    assert set(losses(report(live.trace))) == {"paused"}


def test_resuming_in_a_storm_of_allocations_changes_nothing(python: Interpreter, tmp_path: Path) -> None:
    program = [target("storm"), "1.5"]
    truth = bare(program, python).stdout
    command = record_command(tmp_path / "t.parquet", program, python, ["--pause-at-start", "--alloc-interval", "8KiB"])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(None))
    while control(tmp_path / "t.parquet", "status").status:
        assert process.poll() is None
    time.sleep(random.uniform(0, 0.8))
    assert control(tmp_path / "t.parquet", "resume").status == 0
    printed, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, b"")
    assert printed == truth
    assert rows(tmp_path / "t.parquet", "alloc"), "it was not resumed in time"
