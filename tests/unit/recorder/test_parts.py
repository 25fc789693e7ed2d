"""Parts of the recorder by themselves: units, program resolution, folders, space, the shim's path."""

from __future__ import annotations

import fcntl
import os
import py_compile
import re
import resource
import shutil
import subprocess
import sys
import time
import zipapp
from pathlib import Path

import pytest

from scalene_trace.formats.libraries import OVERRIDE_VARIABLE, SHIM_NAME
from scalene_trace.formats.spool.layout import constants
from scalene_trace.formats.units import UnitError, file_size_text, parse_size
from scalene_trace.recorder import option_values, shim_library
from scalene_trace.recorder.errors import NotExecutable, NotFound, SetupError, UsageError
from scalene_trace.recorder.folder import output
from scalene_trace.recorder.folder.facts import read_facts, restore_folder
from scalene_trace.recorder.folder.held import HeldFolder
from scalene_trace.recorder.run.program import resolve_program
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.spool import spool_file

C = constants()


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("10ms", 10_000_000), ("1s", 10**9), ("100us", 100_000), ("0.5 ms", 500_000), ("10US", 10_000)],
)
def test_durations_are_read(text, nanoseconds):
    assert option_values.interval_ns("--cpu-interval", text) == nanoseconds


@pytest.mark.parametrize("text", ["", "10", "ms", "-1ms", "10m", "1e3ms", "10 ms ms"])
def test_a_text_that_is_not_a_duration_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match=r"--cpu-interval .* is not a duration\. Write it like 10ms, 1s or 100us\."):
        option_values.interval_ns("--cpu-interval", text)


@pytest.mark.parametrize("text", ["9us", "1.001s", "0ms"])
def test_durations_out_of_range_are_refused(text):
    with pytest.raises(UsageError, match="It can be 10us to 1s"):
        option_values.interval_ns("--cpu-interval", text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10MB", 10_000_000),
        ("10MiB", 10 * 2**20),
        ("512kib", 2**19),
        ("1GB", 10**9),
        ("65536", 65_536),
        ("1.5k", 1_500),
        ("1.5Ki", 1_536),
        ("7 b", 7),
        ("2T", 2 * 10**12),
    ],
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "10XB", "-5MB", "0x10", "1,5MB", "9" * 400])
def test_a_text_that_is_not_a_size_is_refused_with_the_forms(text):
    with pytest.raises(UnitError, match=r".* is not a size\. Write it like 10MB, 512KiB or 1GB, or 65536 \(bytes\)\."):
        parse_size(text)
    with pytest.raises(UsageError, match=r"--memory-threshold .* is not a size"):
        option_values.threshold_bytes("--memory-threshold", text)


def test_thresholds_are_rounded_up_to_the_next_prime():
    assert (
        option_values.threshold_bytes("--memory-threshold", "10MiB") == 10_485_767 == Settings().memory_threshold_bytes
    )
    assert option_values.threshold_bytes("--memory-threshold", "10485767") == 10_485_767
    size = option_values.threshold_bytes("--memory-threshold", "1MB")
    assert all(size % divisor for divisor in range(2, 1_100)) and 10**6 <= size < 10**6 + 100
    twice = option_values.threshold_bytes("--memory-threshold", "10MiB", times=2)
    assert twice == 20_971_529 == Settings().copy_threshold_bytes
    assert all(twice % divisor for divisor in range(2, 4_580)) and not any(
        all(each % divisor for divisor in range(2, 4_580)) for each in range(20 * 2**20, twice)
    )


@pytest.mark.parametrize("text", ["1", "0", "0MB", "2000TB"])
def test_thresholds_out_of_range_are_refused_with_the_range(text):
    with pytest.raises(
        UsageError, match=rf"--copy-threshold {text} is out of range\. It can be 4KB to .+, this machine.s memory\."
    ):
        option_values.threshold_bytes("--copy-threshold", text)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("auto", None),
        (" Auto ", None),
        ("0", 0),
        ("1", 1),
        ("16", 16),
        ("64KB", 64_000),
        ("64KiB", 65_536),
        ("1.5k", 1_500),
        ("128MB", 128_000_000),
    ],
)
def test_allocation_intervals_are_read(text, interval):
    assert option_values.alloc_interval_bytes("--alloc-interval", text) == interval


@pytest.mark.parametrize(
    "text", ["", "-1", "-64KB", "2", "15", "0.6", "1.4", "1B", "0KB", "64QB", "automatic", "2000TB"]
)
def test_a_text_that_is_not_an_allocation_interval_is_refused_with_the_forms(text):
    with pytest.raises(
        UsageError, match=r"--alloc-interval '.*' is not an interval\. It can be auto, a size .*, 1 .* or 0"
    ):
        option_values.alloc_interval_bytes("--alloc-interval", text)


def test_sizes_for_people():
    assert [file_size_text(n) for n in (0, 999, 510_000, 1_234_567, 3 * 10**9)] == [
        "0 B",
        "999 B",
        "510 KB",
        "1.2 MB",
        "3.0 GB",
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return tmp_path


def test_what_python_runs_as_a_script_is_run_so(folder):
    """Each way is also run by Python itself, so that the test holds no script for one that Python refuses."""
    (folder / "code").mkdir()
    (folder / "code" / "__main__.py").write_text("print('ran')\n")
    (folder / "compiled").mkdir()
    py_compile.compile("code/__main__.py", "compiled/__main__.pyc")
    shutil.copy(folder / "compiled" / "__main__.pyc", folder / "single.pyc")
    shutil.make_archive("archive", "zip", "code")
    shutil.copy(folder / "archive.zip", folder / "bundle")
    zipapp.create_archive("code", "app.pyz")
    words = ["single.pyc", "compiled", "code", "archive.zip", "bundle", "app.pyz", "code/__main__.py"]
    for word in words:
        assert subprocess.run([sys.executable, word], capture_output=True, text=True).stdout == "ran\n", word
        assert resolve_program([word], sys.executable).argv == [sys.executable, word]
    zipapp.create_archive("code", "tool", interpreter=sys.executable)
    assert resolve_program(["./tool"], None).argv == ["./tool"]  # it names its own interpreter


def test_commands_are_found_on_path(folder, monkeypatch):
    tools = folder / "tools"
    tools.mkdir()
    (tools / "tool").write_text("#!/bin/sh\n")
    (tools / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'gone'}:{tools}")
    assert resolve_program(["tool", "x"], None) == resolve_program(["tool", "x"], None)
    assert resolve_program(["tool", "x"], None).executable == str(tools / "tool")
    assert resolve_program(["./tools/tool"], None).argv == ["./tools/tool"]


def test_a_file_that_cannot_be_run_is_distinguished_from_a_missing_one(folder):
    (folder / "plain.txt").touch()
    (folder / "empty").mkdir()
    (folder / "dangling").symlink_to("nowhere")
    for word in ("./plain.txt", "./empty"):
        with pytest.raises(NotExecutable):
            resolve_program([word], None)
    for word in ("missing.py", "no-such-command-here", "./dangling", ""):
        with pytest.raises(NotFound):
            resolve_program([word], None)
    with pytest.raises(UsageError, match="needs a module name"):
        resolve_program(["-m"], None)
    with pytest.raises(NotFound):
        resolve_program(["-m", "x"], "no-such-python")


@pytest.mark.parametrize("replaced_by", ["link", "folder"])
def test_what_was_put_in_place_of_the_recordings_folder_is_not_used(replaced_by, tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "recording"
    victim.mkdir()
    for name in ("spool", "rss", "marks"):
        (victim / name).write_text("precious")
    folder.mkdir(0o700)
    (folder / "spool").write_text("recorded")
    held = HeldFolder(folder)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(victim) if replaced_by == "link" else victim.rename(folder)
    assert not restore_folder(held, folder / "spool", 0, read_facts(tmp_path))
    assert (held.path / "spool").read_text() == "recorded"
    assert held.text(SetupError(f"{held.path}/spool is damaged")) == f"{tmp_path}/moved/spool is damaged"
    output.remove_recording(held.path)
    held.remove()
    held.close()
    assert not (tmp_path / "moved").exists()
    assert {path.read_text() for path in folder.iterdir()} == {"precious"}


@pytest.mark.parametrize("name_is_taken", [False, True])
def test_a_removed_folder_is_created_again_beside_what_has_its_name(name_is_taken, tmp_path):
    folder = tmp_path / "recording"
    folder.mkdir(0o700)
    held = HeldFolder(folder)
    folder.rmdir()
    if name_is_taken:
        folder.symlink_to(tmp_path)
    with (tmp_path / "open").open("w+b") as spool:
        assert restore_folder(held, tmp_path / "gone", spool.fileno(), read_facts(tmp_path))
        assert (held.path / "spool").exists()
    assert held.name.stat().st_mode & 0o777 == 0o700 and held.current_name() == held.name
    assert (held.name == folder) != name_is_taken and not (tmp_path / "spool").exists()
    held.close()


@pytest.mark.parametrize(
    ("parent", "mode", "is_named"),
    [
        ("ours", 0o755, True),
        ("sticky", 0o1777, True),
        ("of a team", 0o775, False),
        ("of all", 0o777, False),
        ("a\nline", 0o755, False),
        ("é", 0o755, False),
    ],
)
def test_another_process_gets_a_name_that_nobody_else_can_lead_elsewhere(parent, mode, is_named, tmp_path):
    folder = tmp_path / parent / "recording"
    folder.parent.mkdir()
    folder.parent.chmod(mode)
    folder.mkdir(0o700)
    held = HeldFolder(folder)
    name = held.name_for_others()
    assert (name == folder) == is_named and name.samefile(folder)
    held.close()


def test_a_folder_as_output_gets_a_file_of_its_own(tmp_path):
    template = output.output_template(tmp_path)
    assert Path(template).parent == tmp_path
    assert output.output_path(template, 77).name.endswith("-77.parquet")


def test_recorders_in_several_containers_share_a_folder(tmp_path):
    names = {output.output_path(output.output_template(tmp_path, is_shared=True), 1).name for _ in range(2)}
    assert len(names) == 2  # of the same second, host and pid
    assert all(re.fullmatch(r"trace-\d{8}-\d{6}-1-[A-Za-z0-9._-]+-[0-9a-f]{8}\.parquet", name) for name in names)


def test_impossible_outputs_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(SetupError, match="does not exist"):
        output.output_template(tmp_path / "gone" / "x.parquet")
    with pytest.raises(SetupError, match="not a regular file"):
        output.output_template(Path("/dev/null"))


def test_old_names():
    names = ["trace.old.parquet", *(f"trace.old.{number}.parquet" for number in (2, 3, 4, 5))]
    assert [path.name for path in output.old_names(Path("/a/trace.parquet"))] == names
    assert output.old_names(Path("/a/run.bin"))[:2] == [
        Path("/a/run.bin.old.parquet"),
        Path("/a/run.bin.old.2.parquet"),
    ]


def put(tmp_path, text):
    written = tmp_path / "written"
    written.write_text(text)
    written.chmod(0o600)
    output.put_in_place(written, tmp_path / "t.parquet")


def test_the_last_five_outputs_are_kept(tmp_path):
    for number in range(9):
        put(tmp_path, str(number))
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    names = ["t.parquet", *(path.name for path in output.old_names(Path("t.parquet")))]
    assert kept == dict(zip(names, "876543", strict=True))
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_old_outputs_move_no_further_than_to_a_gap(tmp_path):
    for number in range(5):
        put(tmp_path, str(number))
    (tmp_path / "t.old.2.parquet").unlink()
    put(tmp_path, "5")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    expected = {"t.parquet": "5", "t.old.parquet": "4", "t.old.2.parquet": "3", "t.old.3.parquet": "1"}
    assert kept == expected | {"t.old.4.parquet": "0"}


def test_links_with_the_names_of_old_outputs_are_not_followed(tmp_path):
    (tmp_path / "victim").write_text("victim")
    for name in ("t.old.parquet", "t.old.2.parquet"):
        (tmp_path / name).symlink_to("victim")
    for number in range(3):
        put(tmp_path, str(number))
    assert (tmp_path / "victim").read_text() == "victim"
    assert [(tmp_path / name).read_text() for name in ("t.parquet", "t.old.parquet")] == ["2", "1"]


@pytest.mark.parametrize("folders", [(0,), (1,), (4,), (0, 1), (0, 2, 4)])
def test_folders_with_the_names_of_old_outputs_stay_where_they_are(tmp_path, folders):
    names = [path.name for path in output.old_names(Path("t.parquet"))]
    for index in folders:
        (tmp_path / names[index]).mkdir()
        (tmp_path / names[index] / "mine").write_text("mine")
    for number in range(9):
        put(tmp_path, str(number))
    kept = ["t.parquet", *(name for index, name in enumerate(names) if index not in folders)]
    assert [(tmp_path / name).read_text() for name in kept] == [str(8 - index) for index in range(len(kept))]
    assert all((tmp_path / names[index] / "mine").read_text() == "mine" for index in folders)


def test_no_output_is_lost_where_all_old_names_are_those_of_folders(tmp_path):
    put(tmp_path, "0")
    for name in output.old_names(tmp_path / "t.parquet"):
        name.mkdir()
    with pytest.raises(IsADirectoryError, match=r"t\.old\.parquet"):
        put(tmp_path, "1")
    assert [(tmp_path / name).read_text() for name in ("t.parquet", "written")] == ["0", "1"]


def make_folder(tmp_path, told):
    descriptors = []

    def fill(new):
        descriptors.append(os.open(new / "spool", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return descriptors[0]

    made = output.create_spool_folder(str(tmp_path / "t.parquet"), fill, told.append)
    made.close()
    return made.name, descriptors[0]


def test_a_second_recorder_is_refused_and_a_dead_one_moved_aside(tmp_path):
    told: list[str] = []
    first, descriptor = make_folder(tmp_path, told)
    assert first.stat().st_mode & 0o777 == 0o700
    assert output.is_live(first)
    with pytest.raises(SetupError, match=r"Another scalene-record is recording to t\.parquet"):
        make_folder(tmp_path, told)
    os.close(descriptor)
    assert not output.is_live(first)
    for number in (1, 2):
        _, descriptor = make_folder(tmp_path, told)
        assert f"--recover {tmp_path}/t.parquet.spool.{number}" in told[-1]
        os.close(descriptor)
    found = sorted(tmp_path.iterdir())
    assert [each.name for each in found] == ["t.parquet.spool", "t.parquet.spool.1", "t.parquet.spool.2"]
    for each in found:
        shutil.rmtree(each)


def test_a_link_in_the_place_of_the_spool_is_not_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").touch()
    (tmp_path / "t.parquet.spool").symlink_to(tmp_path / "victim")
    with pytest.raises(SetupError, match="in the way"):
        make_folder(tmp_path, [])
    assert [each.name for each in (tmp_path / "victim").iterdir()] == ["kept"]
    (tmp_path / "t.parquet.spool").unlink()


def make_space(tmp_path, **settings):
    return spool_file.SpoolFile(tmp_path / "spool", Settings(**settings))


def test_the_header_says_what_was_asked_for(tmp_path):
    made = make_space(tmp_path, memory=False, copy=False, wait=False, cpu_engine="posix", cpu_interval_ns=1_234_567)
    header = made.header
    assert header.magic == C["SPOOL_MAGIC"] and header.version == C["SPOOL_VERSION"]
    as_root = ("RIGHTS",) if os.geteuid() == 0 else ()
    assert header.features == sum(
        C[f"FEATURE_{name}"] for name in ("CPU", "CHILDREN", "ARGV", "POSIX_ONLY", "EVENTS", *as_root)
    )
    assert header.alloc_interval_bytes == 0
    assert header.cpu_interval_ns == 1_234_567 and header.recorder_pid == os.getpid()
    assert abs(header.start_mono_ns - time.monotonic_ns()) < 10**9
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o600
    made.close()


@pytest.mark.parametrize(
    ("settings", "interval", "features"),
    [
        ({}, 262_144, {"MEMORY", "COPY", "ALLOC_AUTO"}),
        ({"alloc_interval_bytes": 1_000}, 1_000, {"MEMORY", "COPY"}),
        ({"alloc_interval_bytes": 0, "copy": False}, 0, {"MEMORY"}),
        ({"alloc_interval_bytes": 1, "memory": False}, 0, {"COPY"}),
    ],
)
def test_the_header_says_how_allocations_and_copies_are_sampled(tmp_path, settings, interval, features):
    made = make_space(tmp_path, copy_threshold_bytes=1_999_993, **settings)
    assert made.header.alloc_interval_bytes == interval
    assert made.header.copy_threshold_bytes == 1_999_993
    on = {name for name in ("MEMORY", "COPY", "ALLOC_AUTO") if made.header.features & C[f"FEATURE_{name}"]}
    assert on == features
    made.close()


@pytest.mark.parametrize(("behind_s", "is_other"), [(0.0, False), (86_400.0, True)])
def test_a_clock_that_is_not_the_kernels_is_told_to_processes(
    behind_s: float, is_other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under libfaketime: they read the same one then, since times of two clocks cannot be compared."""
    read = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: read(clock) - behind_s)
    assert spool_file.has_other_clock() == is_other


def test_chunks_are_allocated_for_real_and_ahead_of_use(tmp_path):
    made = make_space(tmp_path)
    made.offer_ahead()
    assert made.header.offered == 256
    status = (tmp_path / "spool").stat()
    assert status.st_size == C["SPOOL_CHUNKS_OFFSET"] + 16_384 * 65_536
    assert 256 * 65_536 <= status.st_blocks * 512 < 300 * 65_536
    made.header.taken = 100
    made.offer_ahead()
    assert made.header.offered == 256  # 156 are left
    made.offer_ahead(is_often=False)
    assert made.header.offered == 100 + 256
    made.header.taken = 229
    made.offer_ahead()
    assert made.header.offered == 229 + 256
    ring = os.pread(made.descriptor, 4 * 485, C["SPOOL_HEADER_BYTES"])
    assert list(memoryview(ring).cast("I")) == list(range(485))
    made.close()


@pytest.mark.parametrize("look", range(1, 9))
def test_a_chunk_may_be_taken_at_any_moment(tmp_path, monkeypatch, look):
    """The program takes one whenever the recorder has just looked how many are left."""
    made, looks = make_space(tmp_path), iter(range(1, 1000))

    def ahead():
        left = made._offered - made._taken()
        made.header.taken += next(looks) == look
        return left

    monkeypatch.setattr(made, "_ahead", ahead)
    for taken in (0, 200):
        made.header.taken += taken
        made.offer_ahead()
        assert made.failures == 0 and made.header.offered - made.header.taken >= 255
    made.close()


def test_the_last_slots_are_offered_and_then_the_end_is_counted(tmp_path):
    made = make_space(tmp_path)
    made.chunks = 300
    made.offer_ahead()
    made.header.taken = 250
    made.offer_ahead()
    assert (made.header.offered, made.failures) == (300, 0)
    made.header.taken = 300
    made.offer_ahead()
    assert (made.header.offered, made.failures) == (300, 1)
    made.close()


def test_the_limit_on_file_sizes_bounds_the_spool(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (C["SPOOL_CHUNKS_OFFSET"] + 3 * 65_536 + 5, limits[1]))
        made = make_space(tmp_path)
        made.offer_ahead()
        assert (made.chunks, made.header.offered) == (3, 3)
        made.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_if_space_is_missing_a_part_is_offered_and_the_failure_counted(tmp_path, monkeypatch):
    left = [40]

    def fallocate(descriptor, offset, size):
        if size > left[0] * 65_536:
            raise OSError(28, "No space left on device")
        left[0] -= size // 65_536

    made = make_space(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    made.offer_ahead()
    assert (made.header.offered, made.failures) == (40, 1)
    made.offer_ahead()  # not at once again
    assert made.failures == 1 and made.header.waited_in_vain == 0
    made.header.taken = 40
    monkeypatch.setattr(made, "_retry_at_s", 0.0)
    made.offer_ahead()
    assert made.failures == 2 and made.header.waited_in_vain == 41, "no thread waits for a disk that is full"
    made.close()


@pytest.mark.parametrize("name", ["with space", "with:colon", "with$dollar", "with;semicolon", "with\nnewline"])
def test_a_path_that_the_loader_cannot_take_is_copied_for_the_recording(tmp_path, monkeypatch, name):
    library = tmp_path / name / SHIM_NAME
    library.parent.mkdir()
    library.write_bytes(b"shim")
    monkeypatch.setenv(OVERRIDE_VARIABLE, str(library))
    with shim_library.preloadable_shim(tmp_path) as path:
        assert path.read_bytes() == b"shim"
        assert shim_library.usable(path)
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.parent.exists()


def test_a_plain_path_is_used_as_it_is_and_a_missing_shim_is_a_sentence(tmp_path, monkeypatch):
    library = tmp_path / "lib.so"
    library.touch()
    monkeypatch.setenv(OVERRIDE_VARIABLE, str(library))
    with shim_library.preloadable_shim(tmp_path) as path:
        assert path == library
    library.unlink()
    with pytest.raises(SetupError, match="is not installed"):
        shim_library.find_shim()


def test_locks_are_flocks(tmp_path):
    path = tmp_path / "spool"
    path.touch()
    assert not output.is_live(tmp_path)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert output.is_live(tmp_path)
