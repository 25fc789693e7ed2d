"""Programs that set a seccomp filter: they must run as they do unrecorded, since the filter may kill for a system call."""

from __future__ import annotations

import os
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.native import build
from tests.support.packages import chromium, needed
from tests.support.recording import Finished, bare, environment, losses, record, report, rows, run, target

_OFTEN = ("--cpu-interval", "1ms")
_STRICT = [("strict", work, end) for work, end in product(["none", "spin"], ["raw", "_exit"])]
_STRICT += [("strict_seccomp", "spin", "raw")]
_WAYS = ("prctl", "syscall_prctl", "seccomp", "tsync", "thread")
_WORKS = ("spin", "allocate", "map", "threads", "fork", "vfork", "exec", "system", "masks")
_ENDS = ("exit", "_exit", "quick_exit", "return", "raw")
#: Each work with two ways, and each end with two.
_SOME = [(way, work, "exit") for i, work in enumerate(_WORKS) for way in (_WAYS[i % 5], _WAYS[(i + 3) % 5])]
_SOME += [(way, "allocate", end) for end, way in product(_ENDS[1:], ("tsync", "thread"))]
_ALL = list(product(_WAYS, _WORKS, _ENDS))


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that sets a filter that kills."""
    return build(tmp_path_factory.mktemp("filtered"), "filtered.c")


def _script(program: Path, cases: list[tuple[str, str, str]]) -> list[str]:
    """Runs all cases in turn, and prints the status of each."""
    return ["bash", "-c", "\n".join(f"'{program}' {' '.join(case)}; echo '{' '.join(case)}' $?" for case in cases)]


def _same(recorded: Finished, unrecorded: Finished) -> None:
    assert recorded.stdout.decode() == unrecorded.stdout.decode()
    assert recorded.status == unrecorded.status


@pytest.mark.parametrize("cases", [_STRICT + _SOME, pytest.param(_ALL, marks=pytest.mark.long)], ids=["some", "all"])
def test_filtered_processes_behave_as_unrecorded(
    tmp_path: Path, filtered: Path, cases: list[tuple[str, str, str]]
) -> None:
    script = _script(filtered, cases)
    unrecorded = run(script, env=environment(None), timeout_s=1200)
    assert "prctl spin exit 5\n" in unrecorded.stdout.decode()
    recorded = record(tmp_path / "t.parquet", script, options=_OFTEN, timeout_s=1200)
    _same(recorded, unrecorded)
    assert losses(report(recorded.trace))["seccomp"] >= len(cases)


def test_a_filter_for_all_threads_waits_for_those_inside_the_shim(tmp_path: Path) -> None:
    program = build(tmp_path, "filter_race.c")
    script = ["bash", "-c", f"for i in {{1..15}}; do '{program}'; echo $?; done"]
    recorded = record(tmp_path / "t.parquet", script, options=["--cpu-interval", "200us", "--alloc-interval", "1"])
    assert recorded.stdout == b"5\n" * 15
    assert losses(report(recorded.trace))["seccomp"] == 15


def test_handlers_are_waited_for_under_a_harmless_filter_too(
    any_python: Interpreter, tmp_path: Path, filtered: Path
) -> None:
    """Containers have such a filter. The threads of the process are read before the one that kills is set."""
    log = tmp_path / "log"
    program = [any_python.path, target("refuse_readv"), "process_vm_readv", filtered, "tsync", "threads", "exit"]
    trace = [needed("strace"), "-f", "-y", "-e", "trace=openat,getdents64,seccomp", "-o", log]
    recorded = record(tmp_path / "t.parquet", [*trace, *program], options=_OFTEN)
    assert recorded.status == 5, recorded.stderr.decode()
    before, set_it, _ = log.read_text().partition("SECCOMP_FILTER_FLAG_TSYNC")
    assert set_it and "/task>" in before.splitlines()[-2]


def test_a_tick_that_a_tracer_holds_does_not_kill_after_the_filter(tmp_path: Path) -> None:
    program = [build(tmp_path, "traced_filter.c")]
    recorded = record(tmp_path / "t.parquet", program, options=_OFTEN)
    assert recorded.status == run(program, env=environment(None)).status == 5
    assert losses(report(recorded.trace))["seccomp"] == 1


def test_python_under_a_filter_behaves_as_unrecorded(python: Interpreter, tmp_path: Path) -> None:
    program = [target("filtered")]
    recorded = record(tmp_path / "t.parquet", program, python, _OFTEN)
    assert recorded.status == 7, recorded.stderr.decode()
    _same(recorded, bare(program, python))
    assert losses(report(recorded.trace))["seccomp"] == 1
    (process,) = rows(recorded.trace, "process")
    assert process["end"] == "filter" and process["user_ns"] > 0 and process["exit_status"] == 7


def test_recording_continues_after_a_refused_filter(tmp_path: Path, filtered: Path) -> None:
    program = [filtered, "bare", "ask", "exit"]
    recorded = record(tmp_path / "t.parquet", program, options=_OFTEN)
    _same(recorded, run(program, env=environment(None)))
    found = report(recorded.trace)
    assert "seccomp" not in losses(found)
    (process,) = rows(recorded.trace, "process")
    assert process["end"] == "exit"
    assert rows(recorded.trace, "cpu")[-1]["t_ns"] > 0.8 * process["end_ns"]


def test_a_filter_of_a_vfork_child_does_not_seal_its_parent(tmp_path: Path, filtered: Path) -> None:
    program = [filtered, "bare", "filter_vfork", "exit"]
    recorded = record(tmp_path / "t.parquet", program, options=_OFTEN)
    _same(recorded, run(program, env=environment(None)))
    assert losses(report(recorded.trace))["seccomp"] == 1, "the child's image"
    assert [row["end"] for row in rows(recorded.trace, "process")] == ["exit"]


def test_an_image_starts_under_a_filter_that_the_shim_has_not_seen(tmp_path: Path, filtered: Path) -> None:
    static = build(tmp_path, "filtered.c", "-static", name="static")
    script = ["bash", "-c", f"'{static}' prctl exec exit '{filtered}'; echo $?"]
    recorded = record(tmp_path / "t.parquet", script, options=_OFTEN)
    _same(recorded, run(script, env=environment(None)))
    assert recorded.stdout == b"3\n"


@pytest.mark.parametrize(
    ("refused", "loss"), [("perf_event_open", "engine_posix"), ("process_vm_readv", "read_refused")]
)
def test_a_filter_that_forbids_nothing_we_need_leaves_recording_on(
    any_python: Interpreter, tmp_path: Path, refused: str, loss: str
) -> None:
    program = [target("refuse_readv"), refused, any_python.path, target("dying"), "exit", "0.3"]
    recorded = record(tmp_path / "t.parquet", program, any_python, _OFTEN)
    assert recorded.status == 7, recorded.stderr.decode()
    found = report(recorded.trace)
    assert loss in losses(found) and "seccomp" not in losses(found)
    assert found["totals"]["cpu_s"] > 0.2
    assert [row["end"] for row in rows(recorded.trace, "process")] == ["exec", "exit"]


def test_nothing_is_preloaded_where_landlock_hides_the_library(tmp_path: Path) -> None:
    program = [build(tmp_path, "landlocked.c")]
    unrecorded = run(program, env=environment(None))
    if unrecorded.status == 77:
        pytest.skip("the kernel lacks Landlock")
    recorded = record(tmp_path / "t.parquet", program)
    _same(recorded, unrecorded)
    assert recorded.stderr == unrecorded.stderr == b""


def _calls_after_filter(log: Path) -> Counter[str]:
    """The system calls in a log of strace after the filter was set."""
    lines = log.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if "SET_MODE_FILTER" in line or "PR_SET_SECCOMP" in line)
    words = (line.split(maxsplit=1)[1] for line in lines[first + 1 :])
    return Counter(word.split("(")[0] for word in words if "(" in word and word[0] not in "<+-")


@pytest.mark.parametrize(
    "case", ["tsync allocate exit", "thread fork _exit", "prctl vfork return", "seccomp masks exit"]
)
def test_a_filtered_process_makes_no_other_system_calls(tmp_path: Path, filtered: Path, case: str) -> None:
    program = [needed("strace"), "-f", "-o", tmp_path / "log", filtered, *case.split()]
    run(program, env=environment(None))
    unrecorded = _calls_after_filter(tmp_path / "log")
    record(tmp_path / "t.parquet", program, options=_OFTEN)
    more = _calls_after_filter(tmp_path / "log") - unrecorded
    assert set(more) <= {"brk", "mmap", "munmap", "mprotect", "madvise", "futex"}, more  # libc's own, by timing


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() == 0, reason="Chromium has no sandbox as root")
def test_chromium_in_its_sandbox_behaves_as_unrecorded(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p id=a></p><script>let s=0; for (let i=0; i<1e7; i++) s+=i; a.textContent = s</script>")
    home = {"HOME": str(tmp_path)}
    command = [
        chromium(),
        "--headless",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/user",
        "--dump-dom",
        page.as_uri(),
    ]
    unrecorded = run(command, env=environment(home))
    assert unrecorded.status == 0 and b">49999995000000<" in unrecorded.stdout
    recorded = record(tmp_path / "t.parquet", command, options=_OFTEN, env=home)
    _same(recorded, unrecorded)
    assert losses(report(recorded.trace))["seccomp"] > 0
