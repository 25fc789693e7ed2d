"""Records programs on an emulated arm64 machine and compares what the traces say with what the programs know.

``python -m tests.long.arm64`` runs the unit tests of the shim in the machine, installs the wheel in ``dist/`` (``make
wheel-aarch64``) and records there: lines of each kind, halves of Python and native code, kills at a few moments, and the
programs of tests.long.stress for ``--minutes`` altogether. The traces are made in the machine and read here. A dated result
goes into ``benchmarks/results/``; exit status 1 when something is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from tests.support import arm64_machine as machine
from tests.support.dated_results import write_result
from tests.support.paths import ROOT, TARGETS
from tests.support.recording import Json, line_of, losses, report, target

#: A second of the machine's takes about ten of ours, where it starts programs and converts.
START_S, CONVERT_S = 240, 120
#: The shares of the hardest programs' time, as in tests.long.stress.
PROGRAMS = {"churn": 0.6, "greenlets": 0.1, "threads": 0.1, "native": 0.2}
#: Of a share that a loop of known length has: sampling alone leaves about 5 % here.
CLOSE = 0.15
#: Percentage points that a share may be off.
POINTS = 5.0
#: Blocks that the program has published when it is killed.
KILLS_AT = (1, 200, 900)
#: Losses that say what is known of this processor, or are chance where a machine is this slow.
EXPECTED = {
    "loop_unread",
    "recovered",
    "interval_widened",
    "types_unread",
    "torn_stack",
    "waits_torn",
    "waits_rare",
    "tasks_torn",
    "tasks_rare",
}


def record(trace: str, *program: str | Path, options: str = "") -> str:
    """The shell command that records a program of ``share`` in the machine."""
    words = shlex.join(map(str, program))
    return (
        f"{machine.PYTHON} -m scalene_trace.cli.record.command -o /tmp/{trace}.parquet --python {machine.PYTHON} {options} "
        f"/host/targets/{words} >/host/out/{trace}.txt 2>/host/out/{trace}.err; echo $? >/host/out/{trace}.status\n"
        f"cp /tmp/{trace}.parquet /host/out/ 2>/dev/null\n"
    )


def facts_of(out: Path, trace: str) -> Json:
    """What a program printed on its last line. AssertionError when it or its recorder failed."""
    status, errors = (out / f"{trace}.status").read_text().strip(), (out / f"{trace}.err").read_text()
    assert status == "0", f"{trace}: status {status}\n{errors[-2000:]}"
    facts: Json = json.loads((out / f"{trace}.txt").read_text().strip().splitlines()[-1])
    return facts


def unexpected(found: Json) -> dict[str, int]:
    return {name: count for name, count in losses(found).items() if name not in EXPECTED}


# ---- the unit tests in C ----


def commands_of_units(_: float) -> tuple[str, float]:
    """Each test's exit status is appended to a file."""
    tests = "for test in /host/units/test_*; do LD_LIBRARY_PATH=/host/units timeout 600 $test >/host/out/unit.txt 2>&1; status=$?"
    # The longest takes minutes here.
    failed = '[ $status = 0 ] || { echo "$test"; tail -n 30 /host/out/unit.txt; }'
    return f"cd /tmp; {tests}; {failed}; echo $status $test >>/host/out/units; done\n", 1800.0


def check_units(out: Path) -> Iterator[tuple[str, float, float]]:
    """How many failed."""
    ended = [line.split() for line in (out / "units").read_text().splitlines()]
    assert len(ended) > 20, ended
    yield f"failures of {len(ended)} unit tests", sum(status != "0" for status, _ in ended), 0


def build_units(share: Path) -> None:
    """Builds the unit tests for arm64 into ``share/units``."""
    build, tools = ROOT / "build" / "c-aarch64", Path(sys.executable).parent
    options = [
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'shim/cmake/aarch64.cmake'}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DSHIM_TESTS=ON",
    ]
    options += ["-DSHIM_WERROR=ON", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    made = [tools / "cmake", "-S", ROOT / "shim", "-B", build, "-G", "Ninja", *options]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tools / "cmake", "--build", build, "-j", "2"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(share / "units", ignore_errors=True)
    (share / "units").mkdir()
    for each in [*build.glob("test_*"), build / "libdriver_whole.so"]:
        shutil.copy(each, share / "units")


# ---- a line of each kind ----


def commands_of_each_kind(_: float) -> tuple[str, float]:
    return record("each_kind", "each_kind.py", "3", options="--alloc-interval 32KiB"), 60.0


def check_each_kind(out: Path) -> Iterator[tuple[str, float, float]]:
    """(figure, found, truth) of the lines of each_kind.py."""
    facts, found = facts_of(out, "each_kind"), report(out / "each_kind.parquet")
    rows = {row["line"]: row for row in found["lines"] if row["file"] == "/host/targets/each_kind.py"}
    python, native = rows[line_of("each_kind", "python")], rows[line_of("each_kind", "native")]
    loop = rows[line_of("each_kind", "python") - 1]
    yield "CPU s of Python, parent and child", python["cpu_s"] + loop["cpu_s"], 2 * facts["python_s"]
    yield "CPU s of native code", native["cpu_s"], facts["native_s"]
    yield "native % of Python's line", 100 * python["native_s"] / (python["python_s"] + python["native_s"]), 0
    yield "native % of the native line", 100 * native["native_s"] / (native["python_s"] + native["native_s"]), 100
    yield "sleep s", rows[line_of("each_kind", "sleep")]["waits"]["sleep_s"], facts["sleep_s"]
    yield "kept MB", rows[line_of("each_kind", "kept")]["live_at_end_bytes"] / 1e6, 30.0
    yield "processes", report(out / "each_kind.parquet", command="info")["traces"][0]["processes"], 2
    yield "unexpected losses", len(unexpected(found)), 0
    assert facts["child_status"] == 3 << 8


# ---- half Python, half native ----


def commands_of_halves(_: float) -> tuple[str, float]:
    return record("halves", "halves.py", "4", "zlib_2000us", "hashlib_2000us", "sorted_20000us", "min_2000us"), 120.0


def check_halves(out: Path) -> Iterator[tuple[str, float, float]]:
    """The native share of each pair, in percent."""
    facts, found = facts_of(out, "halves"), report(out / "halves.parquet")
    by_function = {row["function"]: row for row in found["functions"] if row["file"] == "/host/targets/halves.py"}
    for name, percent in facts.items():
        row = by_function[name]
        yield f"native % of {name}", 100 * row["native_s"] / (row["native_s"] + row["python_s"]), percent


# ---- kills ----


def commands_of_kills(_: float) -> tuple[str, float]:
    """Kills the recorder and all that it has started once some blocks are published, and recovers what it has left."""
    waiting = "import sys, time\nwhile int.from_bytes(open(sys.argv[1], 'rb').read(8), 'little') < int(sys.argv[2]): time.sleep(.05)"
    recorder = f"{machine.PYTHON} -m scalene_trace.cli.record.command"
    text = ""
    for blocks in KILLS_AT:
        name = f"killed_{blocks}"
        options = f"-o /tmp/{name}.parquet --python {machine.PYTHON} --alloc-interval 1 --no-source"
        text += f"dd if=/dev/zero of=/tmp/{name} bs=32 count=1 2>/dev/null\n"
        text += f"setsid {recorder} {options} /host/targets/progress.py /tmp/{name} 2>/dev/null & recorder=$!\n"
        text += f"{machine.PYTHON} -S -c {shlex.quote(waiting)} /tmp/{name} {blocks}\n"
        text += f"kill -9 -$recorder; sleep 1; cp /tmp/{name} /host/out/\n"
        text += f"{recorder} -o /tmp/{name}.parquet --recover /tmp/{name}.parquet.spool 2>/host/out/{name}.err\n"
        text += f"cp /tmp/{name}.parquet /host/out/\n"
    return text, 60.0 * len(KILLS_AT)


def check_kills(out: Path) -> Iterator[tuple[str, float, float]]:
    """How many published blocks are missing after a kill. The sizes are those of tests/targets/progress.py."""
    for blocks in KILLS_AT:
        name = f"killed_{blocks}"
        numbers = (out / name).read_bytes()
        tops = int.from_bytes(numbers[:8], "little"), int.from_bytes(numbers[16:24], "little")
        table = pq.read_table(out / f"{name}.parquet", columns=["alloc.size_bytes"])
        sizes = Counter(table.flatten()[0].to_pylist())
        missing = sum(
            not sizes[first + number]
            for first, top in zip((100_003, 200_003), tops, strict=True)
            for number in range(1, top + 1)
        )
        yield f"missing of {sum(tops)} blocks, killed after {blocks}", missing, 0


# ---- filters of system calls ----


def commands_of_filters(_: float) -> tuple[str, float]:
    cases = [(kind, way) for kind in ("kills", "allows") for way in ("prctl", "syscall")]
    return "".join(record(f"{kind}_{way}", "filtered_arm64.py", kind, way) for kind, way in cases), 120.0


def check_filters(out: Path) -> Iterator[tuple[str, float, float]]:
    """A program is not killed for what the recorder does; and is recorded on if the filter allows that."""
    for way in ("prctl", "syscall"):
        for kind in ("kills", "allows"):
            facts_of(out, f"{kind}_{way}")
            found = report(out / f"{kind}_{way}.parquet")
            yield f"losses by a filter that {kind}, by {way}", losses(found).get("seccomp", 0), int(kind == "kills")
        line = line_of("filtered_arm64", "filtered")
        cpu_s = sum(row["cpu_s"] for row in found["lines"] if row["line"] in (line - 1, line))
        yield f"CPU s under a filter that allows, by {way}", cpu_s, 1


# ---- the hardest programs ----


def commands_of_stress(minutes: float) -> tuple[str, float]:
    text = "cp /host/*.so /tmp/\n"  # signals interrupt reads of the host's folder, which begin again then
    for program, share in PROGRAMS.items():
        libraries = ["/tmp/churn_native.so", "/tmp/comes_and_goes.so"] if program == "native" else []
        words = ["churn.py", f"{60 * minutes * share:.0f}", program, *libraries]
        interval = "10ms" if program == "native" else "1ms"  # docs/design/arm64.md: shorter ones may stop a thread
        text += record(f"stress_{program}", *words, options=f"--cpu-interval {interval} --no-source")
    return text, 60.0 * minutes + CONVERT_S * len(PROGRAMS)


def check_stress(out: Path) -> Iterator[tuple[str, float, float]]:
    """Programs that failed or left a kind of work out; and torn stacks in percent of the ticks."""
    for program in PROGRAMS:
        facts, found = facts_of(out, f"stress_{program}"), report(out / f"stress_{program}.parquet")
        ticks, lost = found["traces"][0]["events"]["cpu"], losses(found)
        print(f"  stress {program}: {ticks} ticks, {facts}, losses {lost}")
        yield f"failures of {program} in {ticks} ticks", sum(count <= 0 for count in facts.values()), 0
        yield f"torn stacks of {program} above one in a hundred", max(0.0, lost.get("torn_stack", 0) - ticks / 100), 0


#: For each part: what gives the commands of the machine, given the minutes of the hardest programs, and the seconds that they
#: may take; and what gives the figures, given the folder of their output: name, found, truth.
PARTS: dict[str, tuple[Callable[[float], tuple[str, float]], Callable[[Path], Iterator[tuple[str, float, float]]]]] = {
    "units": (commands_of_units, check_units),
    "each_kind": (commands_of_each_kind, check_each_kind),
    "halves": (commands_of_halves, check_halves),
    "kills": (commands_of_kills, check_kills),
    "filters": (commands_of_filters, check_filters),
    "stress": (commands_of_stress, check_stress),
}


def prepare(share: Path) -> None:
    """The folder that the machine sees: packages, targets, and the libraries of the native stress program."""
    (wheel,) = (ROOT / "dist").glob("scalene_trace-*aarch64.whl")
    site = share / "site"
    if not (site / "pyarrow").exists():
        machine.install(site, wheel, "greenlet")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, site], check=True)
    shutil.copytree(TARGETS, share / "targets", dirs_exist_ok=True)
    shutil.rmtree(share / "out", ignore_errors=True)
    (share / "out").mkdir()
    compile_it = [
        machine.COMPILER,
        "-O1",
        "-fno-builtin",
        "-shared",
        "-fPIC",
        target("churn").with_name("churn_native.c"),
    ]
    subprocess.run([*compile_it, "-o", share / "churn_native.so"], check=True)
    subprocess.run([*compile_it, "-DLIBRARY", "-o", share / "comes_and_goes.so"], check=True)


def check(part: str, share: Path, minutes: float, pages_kib: int) -> list[tuple[str, float, float, bool]]:
    """Runs one part in a machine of its own: (figure, found, truth, whether it is close)."""
    commands, figures = PARTS[part]
    text, seconds = commands(minutes)
    found = []
    try:
        status, output = machine.run_machine(share, text, START_S + seconds, pages_kib)
        if output.strip():
            print(f"  {part}: status {status}, {output.strip()[-1000:]}")
        for name, value, truth in figures(share / "out"):
            close = abs(value - truth) <= (POINTS if "%" in name else CLOSE * truth)
            found.append((name, value, truth, close))
            print(f"  {part}: {name}: {value:.2f}, in truth {truth:.2f}{'' if close else '  WRONG'}", flush=True)
    except (AssertionError, KeyError, OSError, TypeError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"  {part}: {error!r}  WRONG")
        found.append((f"{part}: {error!r}", 0, 1, False))
    return found


def main() -> int:
    """Exit status 1 when something is not as it should be, 2 when there is no machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="of the hardest programs (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=4, choices=machine.PAGES, help="KiB (default: %(default)s)")
    parser.add_argument("--part", action="append", choices=PARTS, help="once or more (default: all)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    options = parser.parse_args()
    reason = machine.missing()
    if reason:
        print(f"There is no arm64 machine: {reason}.", file=sys.stderr)
        return 2
    machine.make_machine(options.pages)
    share = machine.FOLDER / "share"
    prepare(share)
    if "units" in (options.part or PARTS):
        build_units(share)
    found = [each for part in options.part or PARTS for each in check(part, share, options.minutes, options.pages)]
    if not options.print_only:
        names = ("figure", "found", "truth", "close")
        text = "\n".join(f"{value:10.2f} {truth:10.2f}  {name}" for name, value, truth, _ in found)
        write_result(
            "-".join(["arm64", *([f"{options.pages}k"] if options.pages != 4 else []), *(options.part or ())]),
            {"figures": [dict(zip(names, each, strict=True)) for each in found]},
            text,
        )
    return int(not all(close for *_, close in found))


if __name__ == "__main__":
    sys.exit(main())
