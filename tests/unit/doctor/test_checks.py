"""What will be recorded on invented hosts, and how it is printed."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.cli.record import command, doctor
from scalene_trace.cli.record.options import split_command_line
from scalene_trace.cli.render.text import Screen
from scalene_trace.formats.dataclass import replace
from scalene_trace.formats.spool.losses import RECORDER_LOSSES, shim_losses
from scalene_trace.recorder.errors import SetupError, UsageError
from scalene_trace.recorder.folder.output import output_template
from scalene_trace.recorder.host import checks, host
from scalene_trace.recorder.host.checks import IN_PART, LESS_EXACT, NOT, WHOLE, Check, checks_of, is_missing
from scalene_trace.recorder.host.host import Host, Place, Started, place_of
from scalene_trace.recorder.host.interpreter_file import Build
from scalene_trace.recorder.run import load
from scalene_trace.recorder.run.unrecorded import Unrecorded
from scalene_trace.recorder.spool.spool_file import AHEAD_BYTES
from tests.support.paths import ROOT
from tests.support.recording import tool

TEXTS = {each.name: each.text for each in (*shim_losses(), *RECORDER_LOSSES)}
NUMBERS = {each.name: number for number, each in enumerate(shim_losses())}
BUILD = Build(0x030C01F0, True, False, True, True)
PLACE = Place("/data", 10**9)
GOOD = Host(Started("/usr/bin/python3", build=BUILD), PLACE, signals=1000, descriptors=1024, locked_bytes=8 << 20)
SETUID = Started("/bin/su", missed=Unrecorded(NUMBERS["unrecorded_setuid"]))
GONE = Started("python9", problem="python9 was not found.")
UNKNOWN = Started("/usr/bin/python3", build=replace(BUILD, is_known=False))
FREE_THREADED = Started("/usr/bin/python3", build=replace(BUILD, is_free_threaded=True))

#: Of each host that differs from the good one: the check that finds it, what is recorded, and the losses.
PLANTED: list[tuple[dict[str, Any], str, str, tuple[str, ...]]] = [
    ({"machine": "aarch64"}, "processor", LESS_EXACT, ("loop_unread",)),
    ({"page_bytes": 8192}, "processor", NOT, ()),
    ({"page_bytes": 65536}, "processor", WHOLE, ()),
    ({"page_bytes": 65536, "locked_bytes": 64 * 131072 - 1}, "locked_memory", LESS_EXACT, ("faults_unseen",)),
    ({"page_bytes": 65536, "locked_bytes": 64 * 131072}, "locked_memory", WHOLE, ()),
    ({"perf_error": errno.EPERM}, "perf_events", LESS_EXACT, ("engine_posix", "faults_unseen")),
    ({"timer_error": errno.EAGAIN}, "timers", IN_PART, ("thread_unarmed",)),
    ({"signals": 0}, "signals", IN_PART, ("signal_budget",)),
    ({"signals": 63}, "signals", IN_PART, ("signal_budget",)),  # 15 threads with two signals each, of the half of 63
    ({"signals": 64}, "signals", WHOLE, ()),
    ({"descriptors": 63}, "descriptors", LESS_EXACT, ("thread_posix",)),
    ({"descriptors": 64}, "descriptors", WHOLE, ()),
    ({"locked_bytes": 64 * 8192 - 1}, "locked_memory", LESS_EXACT, ("faults_unseen",)),
    ({"locked_bytes": 64 * 8192}, "locked_memory", WHOLE, ()),
    ({"read_error": errno.EPERM}, "reading", NOT, ("stacks_off", "types_unread")),
    ({"child_error": errno.EPERM}, "observing", NOT, ("waits_off",)),
    ({"child_error": None}, "observing", WHOLE, ()),
    ({"place": replace(PLACE, free_bytes=AHEAD_BYTES - 1)}, "place", IN_PART, ("spool_space",)),
    ({"place": replace(PLACE, free_bytes=AHEAD_BYTES)}, "place", WHOLE, ()),
    ({"place": replace(PLACE, in_place=False, chunks=4096, free_bytes=AHEAD_BYTES - 1)}, "place", WHOLE, ()),
    ({"place": replace(PLACE, limit_chunks=255)}, "place", WHOLE, ()),
    ({"is_dev_mode": True}, "allocators", LESS_EXACT, ("allocator_replaced",)),
    ({"python_malloc": "malloc_debug"}, "allocators", LESS_EXACT, ("python_malloc",)),
    ({"python_malloc": "debug"}, "allocators", LESS_EXACT, ("allocator_replaced",)),
    ({"gpu_error": "NVML error 18"}, "gpu", NOT, ("gpu_off",)),
    ({"gpus": []}, "gpu", WHOLE, ()),
    ({"started": SETUID}, "program", NOT, ()),
    ({"started": GONE}, "program", NOT, ()),
    ({"started": UNKNOWN}, "interpreter", NOT, ("unknown_python",)),
    ({"started": FREE_THREADED}, "interpreter", IN_PART, ("free_threaded",)),
    ({"library_problem": "No folder could hold a copy."}, "library", NOT, ()),
    ({"place": replace(PLACE, free_bytes=1 << 20)}, "place", IN_PART, ("spool_space",)),
    ({"place": replace(PLACE, problem="It cannot be written.")}, "place", NOT, ()),
    ({"place": replace(PLACE, in_place=False, chunks=4096)}, "place", WHOLE, ()),
    ({"place": replace(PLACE, in_place=False)}, "place", WHOLE, ()),
]


@pytest.fixture(autouse=True)
def environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "prepare_converter", lambda: None)


def named(host: Host) -> dict[str, Check]:
    found = checks_of(host)
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}


def test_on_a_good_host_everything_is_recorded_and_nothing_is_to_be_changed() -> None:
    found = checks_of(GOOD)
    assert {each.recorded for each in found} == {WHOLE} and {each.change + each.consequence for each in found} == {""}
    assert [*doctor.lines(found, Screen())][-1] == "Everything will be recorded."


@pytest.mark.parametrize(("planted", "name", "recorded", "losses"), PLANTED)
def test_each_obstacle_is_found_by_its_own_check(
    planted: dict[str, Any], name: str, recorded: str, losses: tuple[str, ...]
) -> None:
    found, good = named(replace(GOOD, **planted)), named(GOOD)
    assert (found[name].recorded, found[name].losses) == (recorded, losses)
    expected = {name, "interpreter"} if planted.get("started") in (SETUID, GONE) else {name}
    if "page_bytes" in planted:  # both are told with it
        expected |= {"processor", "locked_memory"}
    assert {each for each in found if found[each] != good[each]} <= expected
    if losses:
        assert found[name].change
        said = found[name].consequence
        assert said.lower() == " ".join(f"{TEXTS[each]}." for each in losses).lower()
        assert said.startswith("perf_event_open") == (name == "perf_events")


def test_the_reason_is_the_sentence_that_a_recording_prints() -> None:
    said = named(replace(GOOD, started=SETUID))["program"].consequence
    assert said == "/bin/su cannot be recorded: it gains privileges, so its loader ignores LD_PRELOAD."
    assert named(replace(GOOD, started=GONE))["program"].consequence == GONE.problem
    for loss, reason in (("unrecorded_static", "a static binary"), ("unrecorded_image", "another libc, or 32-bit")):
        missed = Unrecorded(NUMBERS[loss])
        found = named(replace(GOOD, started=Started("/opt/p", missed=missed)))["program"]
        assert found.consequence == missed.sentence("/opt/p") and reason in found.consequence
        assert found.recorded == NOT and "LD_PRELOAD" in found.change


def test_stacks_are_lost_only_where_the_interpreter_needs_the_call() -> None:
    started = replace(GOOD.started, build=replace(BUILD, needs_reads=False))
    found = named(replace(GOOD, started=started, read_error=errno.ENOSYS))["reading"]
    assert (found.recorded, found.losses) == (LESS_EXACT, ("read_refused", "types_unread"))


@pytest.mark.parametrize(
    ("host", "change"),
    [
        (replace(GOOD, perf_error=errno.EACCES, paranoid="3"), "sysctl kernel.perf_event_paranoid=2"),
        (replace(GOOD, perf_error=errno.EPERM, paranoid="2", has_filter=True), "seccomp profile"),
        (replace(GOOD, child_error=errno.EPERM, ptrace_scope="2"), "sysctl kernel.yama.ptrace_scope=1"),
        (replace(GOOD, child_error=errno.EPERM, ptrace_scope=""), "seccomp profile"),
        (replace(GOOD, timer_error=errno.EAGAIN), "ulimit -i"),
        (replace(GOOD, timer_error=errno.EPERM), "timer_create"),
    ],
)
def test_what_to_change_follows_from_the_cause(host: Host, change: str) -> None:
    assert [each.change for each in checks_of(host) if change in each.change]


def test_the_shares_are_those_of_the_shim() -> None:
    text = "".join((ROOT / "shim/inside/cpu" / name).read_text() for name in ("faults.c", "descriptors.c"))
    numbers = dict(re.findall(r"#define (\w+) (\d+)$", text, re.MULTILINE))
    assert int(numbers["LOCKED_SHARE"]) == checks.LOCKED_SHARE and int(numbers["MOST_EVENTS"]) == checks.MOST_LOCKING
    assert f"#define MAPPED ({checks.LOCKED_PAGES_OF_THREAD} * PAGE)" in text
    assert int(numbers["MAX_DESCRIPTORS"]) == checks.MOST_DESCRIPTORS
    assert f"files.rlim_cur / {checks.DESCRIPTORS_SHARE}" in text
    timers = (ROOT / "shim/inside/cpu/timers.c").read_text()
    assert f"pending.rlim_cur / {checks.SIGNALS_SHARE};" not in timers
    assert f"pending.rlim_cur / {checks.SIGNALS_SHARE})" in timers


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_text_fits_and_has_colours_only_on_a_terminal(width: int) -> None:
    for planted, *_ in PLANTED:
        found = checks_of(replace(GOOD, **planted))
        plain = [*doctor.lines(found, Screen(width))]
        assert max(map(len, plain)) <= width and "\x1b" not in "".join(plain)
        painted = [*doctor.lines(found, Screen(width, has_color=True))]
        assert "\x1b" in "".join(painted)
        assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted] == plain


def test_names_move_no_cursor() -> None:
    host = replace(GOOD, started=replace(GOOD.started, path="/tmp/\x1b[2Jpython"), python_malloc="\x1b[1m")
    assert "\x1b" not in "".join(doctor.lines(checks_of(host), Screen()))


@pytest.mark.parametrize(
    ("planted", "status", "last"),
    [
        ({}, 0, "Everything will be recorded."),
        ({"perf_error": errno.EPERM}, 0, "Everything will be recorded, some of it less exactly."),
        ({"signals": 0}, 1, "1 check has found something that will not be recorded."),
        ({"signals": 0, "child_error": 1}, 1, "2 checks have found something that will not be recorded."),
    ],
)
def test_the_exit_status_says_whether_everything_is_recorded(
    planted: dict[str, Any], status: int, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "this_host", lambda *_: replace(GOOD, **planted))
    assert command.run(["--doctor"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert any(map(is_missing, checks_of(replace(GOOD, **planted)))) == bool(status)


def test_wrong_usage_of_the_doctor_is_2_and_of_its_option_125(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["--doctor", "--recover", "x"]) == command.run(["--doctor", "--cpu-interval", "1"]) == 2
    assert command.run(["--doctor", "-c"]) == 2
    with pytest.raises(SystemExit) as ended:
        command.run(["--doctor", "--bogus"])
    assert ended.value.code == 2 and "No such option" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--json belongs to --doctor"):
        command.run(["--json", "app.py"])


def test_a_program_called_doctor_is_a_program() -> None:
    for words in (["doctor"], ["doctor", "--json"], ["-v", "app.py", "--doctor"], ["--", "--doctor"]):
        assert "--doctor" not in split_command_line(words).own and split_command_line(words).program


def test_a_folder_that_may_not_be_searched_is_a_place_with_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    said = f"The recording cannot be written in {tmp_path}: permission denied. Name another folder with -o."
    with pytest.raises(SetupError, match=re.escape(said)):
        output_template(tmp_path / "t.parquet")
    assert place_of(tmp_path / "t.parquet").problem == said


@pytest.mark.parametrize(
    ("options", "planted", "name", "left"),
    [
        (["--no-wait"], {"child_error": errno.EPERM}, "observing", ()),
        (["--no-memory"], {"python_malloc": "debug"}, "allocators", ()),
        (["--no-memory"], {"locked_bytes": 0}, "locked_memory", ()),
        (["--no-memory"], {"read_error": errno.EPERM}, "reading", ("stacks_off",)),
        (["--no-memory"], {"perf_error": errno.EPERM}, "perf_events", ("engine_posix",)),
        (["--gpu-interval", "0"], {"gpu_error": "NVML error 18"}, "gpu", ()),
    ],
)
def test_what_the_options_leave_out_is_not_missing(
    options: list[str],
    planted: dict[str, Any],
    name: str,
    left: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "this_host", lambda *_: replace(GOOD, **planted))
    command.run(["--doctor", "--json", *options])
    (found,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == name]
    assert tuple(found["losses"]) == left and bool(found["change"]) == bool(left)
    assert ("do not need it" in found["consequence"]) == (not left)


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*tool("scalene-record"), "--doctor"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.stderr == b"" and done.returncode in (0, 1)


def test_without_perf_events_by_choice_the_limits_of_descriptors_and_locked_memory_do_not_count() -> None:
    found = named(replace(GOOD, is_posix_only=True, descriptors=1, locked_bytes=0))
    assert found["perf_events"].losses == ("engine_posix", "faults_unseen") and not found["perf_events"].change
    assert not found["descriptors"].losses + found["locked_memory"].losses


def test_a_low_limit_on_file_sizes_is_said_and_changed() -> None:
    (low,) = [each for each in checks_of(replace(GOOD, place=replace(PLACE, limit_chunks=255))) if each.consequence]
    assert "ulimit -f" in low.consequence and low.change == "Raise ulimit -f."
    assert not named(replace(GOOD, place=replace(PLACE, limit_chunks=256)))["place"].consequence


def test_a_limit_on_file_sizes_that_leaves_no_room_is_a_problem(tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "from pathlib import Path; from scalene_trace.recorder.host.host import place_of; print(place_of(Path('t')).problem)"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True).stdout
    assert said.startswith("The limit on file sizes (ulimit -f) is too low")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("#!{0}", True),
        ("#!/usr/bin/env {0}", True),
        ("#!/usr/bin/env -S {0} -u", True),
        ("#!/usr/bin/env -S A=1 {0} -m x", True),
        ("#!/usr/bin/env -S -u B -C / --chdir / {0}", True),
        ("#!/usr/bin/env -S{0} -u", True),
        ("#!/usr/bin/env -S python9 -m", False),
        ("#!/usr/bin/env -S -m", False),
        ("#!", False),
    ],
)
def test_the_interpreter_of_a_script_is_the_one_of_its_first_line(line: str, found: bool, tmp_path: Path) -> None:
    (script := tmp_path / "tool").write_text(line.format(sys.executable) + "\n")
    script.chmod(0o755)
    build = host.this_host([str(script)], None, tmp_path / "t").started.build
    assert (build is not None) == found
