"""GPU time and memory by line, with a scripted driver in place of a GPU: none of these figures is one of a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    environment,
    figure,
    hold_median,
    line_of,
    lines_of,
    losses,
    record,
    report,
    rows,
    run,
    target,
    tool,
)
from tests.support.recording import record_command as command_of
from tests.support.scripted_gpu import ALL, SECOND_US, SIXTH_US, ScriptedGpu, scripted_gpu, spinning_cuda

MIB = 1 << 20
WITHIN_POINTS = 5


@pytest.fixture
def gpu(tmp_path: Path) -> ScriptedGpu:
    return scripted_gpu(tmp_path, (SIXTH_US, ALL))


def scripted_gpu_beside(trace: Path) -> ScriptedGpu:
    """One in a folder of its own, named after the trace."""
    folder = trace.with_suffix("")
    folder.mkdir()
    return scripted_gpu(folder, (SIXTH_US, ALL))


def line(found: Json, mark: str) -> Json:
    return lines_of(found, target("gpu_lines"))[line_of("gpu_lines", mark)]


def hold_shares(python: Interpreter, tmp_path: Path, device: tuple[int, str], *words: str) -> Json:
    """Records a scenario, holds each line's share of the GPU time against the script's, in points, and the sum in percent;
    returns the last report."""
    found: Json = {}

    def measure(trace: Path) -> dict[str, float]:
        folder = trace.with_suffix("")
        folder.mkdir()
        done = scripted_gpu(folder, device).record(python, *words, env={"AFTERWARDS_S": str(0.2 + device[0] / 1e6)})
        assert (done.status, done.stderr) == (0, b"")
        found.update(report(done.trace))
        whole_s = sum(done.facts.values())
        errors = {name: line(found, name)["gpu_percent"] - 100 * s / whole_s for name, s in done.facts.items()}
        errors |= {"idle": line(found, "idle")["gpu_percent"], "sum": 100 * (found["totals"]["gpu_s"] / whole_s - 1)}
        for name, error in errors.items():
            what = f"scripted device ({' '.join(words)} {device}): share of {name}"
            figure(what, python, error, WITHIN_POINTS, "points")
        return errors

    hold_median(measure, tmp_path, WITHIN_POINTS)
    return found


def hold_memory(found: Json) -> None:
    assert line(found, "grow")["gpu_peak_bytes"] == 300 * MIB + 7
    assert line(found, "shrunk")["gpu_peak_bytes"] == 50 * MIB + 11
    assert found["totals"]["gpu_peak_bytes"] == 300 * MIB + 7


@pytest.mark.measures
def test_busy_and_idle_lines_and_steps_of_memory(python: Interpreter, tmp_path: Path) -> None:
    found = hold_shares(python, tmp_path, (SIXTH_US, ALL), "lines", "1.3")
    hold_memory(found)
    assert line(found, "synchronize")["gpu_short"] is False
    assert found["traces"][0]["events"]["gpu"] > 20
    assert not [name for name in losses(found) if name.startswith("gpu")]


@pytest.mark.measures
def test_a_busy_background_thread_gets_none_of_what_another_one_waits_for(python: Interpreter, tmp_path: Path) -> None:
    found = hold_shares(python, tmp_path, (SIXTH_US, ALL), "beside", "1.3")
    background = line(found, "background")
    assert background["gpu_percent"] < WITHIN_POINTS and background["cpu_s"] > 1
    hold_memory(found)


@pytest.mark.measures
def test_a_line_that_spins_in_cuda_comes_before_threads_that_rest(any_python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        gpu = scripted_gpu_beside(trace)
        done = gpu.record(any_python, "spin", "1.3", env={"SPINNING_CUDA": str(spinning_cuda(gpu.folder))})
        found = report(done.trace)
        return {
            "spin": line(found, "spin")["gpu_percent"] - 100,
            "doze": line(found, "doze")["gpu_percent"],
            "sum": 100 * (found["totals"]["gpu_s"] / done.facts["spin"] - 1),
        }

    hold_median(measure, tmp_path, WITHIN_POINTS)


@pytest.mark.measures
def test_a_recorder_that_was_stopped_in_the_meantime_still_charges_the_line(
    any_python: Interpreter, gpu: ScriptedGpu
) -> None:
    """It is stopped for longer than the line spins, as on a machine that has no time for it: the driver then tells of the process
    one average over all of that. A line that waits instead is not met by a look, and what it waited goes to its neighbours."""
    trace = gpu.folder / "t.parquet"
    env = environment(gpu.env | {"SPINNING_CUDA": str(spinning_cuda(gpu.folder))})
    command = command_of(trace, [target("gpu_lines"), "spin", "1.3"], any_python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
    deadline = time.monotonic() + 60
    while "busy 100" not in gpu.script.read_text():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.6)
    process.send_signal(signal.SIGCONT)
    facts = json.loads(process.communicate(timeout=PATIENCE_S)[0])
    found = report(trace)
    assert line(found, "spin")["gpu_s"] == pytest.approx(facts["spin"], rel=0.05)
    assert found["totals"]["gpu_s"] == pytest.approx(facts["spin"], rel=0.05)


@pytest.mark.measures
def test_a_driver_that_averages_over_a_second(any_python: Interpreter, tmp_path: Path) -> None:
    hold_shares(any_python, tmp_path, (SECOND_US, ALL), "lines", "2.6")


@pytest.mark.measures
def test_lines_shorter_than_the_average_are_marked(any_python: Interpreter, tmp_path: Path) -> None:
    gpu = scripted_gpu(tmp_path, (SECOND_US, ALL))
    done = gpu.record(any_python, "lines", "0.4", env={"AFTERWARDS_S": "1.2"})
    assert line(report(done.trace), "synchronize")["gpu_short"] is True


@pytest.mark.measures
def test_two_processes_on_one_device_have_each_its_own(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = scripted_gpu_beside(trace).record(python, "share", "1.3")
        facts = done.facts
        ids = {row["pid"]: row["process"] for row in rows(done.trace, "process")}
        parent = report(done.trace, "--process", str(ids[facts["pid"]]))
        child = report(done.trace, "--process", str(ids[facts["child"]["pid"]]))
        assert (parent["totals"]["gpu_peak_bytes"], child["totals"]["gpu_peak_bytes"]) == (111 * MIB, 222 * MIB)
        assert report(done.trace)["totals"]["gpu_peak_bytes"] == 333 * MIB
        return {
            "the parent's sum": 100 * (parent["totals"]["gpu_s"] / facts["synchronize"] - 1),
            "the child's sum": 100 * (child["totals"]["gpu_s"] / facts["child"]["half"] - 1),
            "the parent's line": line(parent, "synchronize")["gpu_percent"] - 100,
            "the child's line": line(child, "half")["gpu_percent"] - 100,
        }

    hold_median(measure, tmp_path, WITHIN_POINTS)


@pytest.mark.measures
def test_without_accounting_the_whole_device_is_taken_and_said_so(any_python: Interpreter, tmp_path: Path) -> None:
    found = hold_shares(any_python, tmp_path, (SIXTH_US, "sl"), "lines", "1.3")
    hold_memory(found)
    assert losses(found)["gpu_whole_device"] == 1
    ticks = rows(Path(found["traces"][0]["path"]), "gpu")
    assert {row["scope"] for row in ticks if row["busy_ns"] is not None} == {"device"}


@pytest.mark.measures
def test_a_device_that_reports_only_its_present_rate(any_python: Interpreter, tmp_path: Path) -> None:
    done = scripted_gpu(tmp_path, (SIXTH_US, "r")).record(any_python, "lines", "1.3")
    found = report(done.trace)
    assert line(found, "synchronize")["gpu_s"] == pytest.approx(done.facts["synchronize"], abs=0.3)
    assert line(found, "grow")["gpu_peak_bytes"] == 300 * MIB + 7, "memory in use on the device"


@pytest.mark.measures
def test_the_other_device_of_a_machine_is_not_the_programs(any_python: Interpreter, tmp_path: Path) -> None:
    gpu = scripted_gpu(tmp_path, (SIXTH_US, "sl"), (SIXTH_US, "sl"))
    with gpu.script.open("a") as script:
        script.write(f"1 1 {os.getpid()} busy 100\n1 1 {os.getpid()} memory {5000 * MIB}\n")
    done = gpu.record(any_python, "lines", "1", env={"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    found = report(done.trace)
    assert found["totals"]["gpu_s"] == pytest.approx(sum(done.facts.values()), rel=0.05)
    assert found["totals"]["gpu_peak_bytes"] == 300 * MIB + 7


@pytest.mark.measures
def test_a_mig_instance_has_memory_and_a_loss_for_its_utilisation(any_python: Interpreter, tmp_path: Path) -> None:
    done = scripted_gpu(tmp_path, (SIXTH_US, "sal2")).record(any_python, "instance", "0.6")
    found = report(done.trace)
    assert line(found, "synchronize")["gpu_peak_bytes"] == 77 * MIB
    assert found["totals"]["gpu_s"] == 0 and losses(found)["gpu_untold"] == 2


@pytest.mark.measures
def test_a_device_that_vanishes_is_a_loss_and_no_failure(any_python: Interpreter, gpu: ScriptedGpu) -> None:
    done = gpu.record(any_python, "fail", "1", "15")
    found = report(done.trace)
    assert (done.status, done.stderr, done.facts["says"]) == (0, b"", "done")
    assert losses(found)["gpu_lost"] == 1
    assert line(found, "synchronize")["gpu_s"] == pytest.approx(done.facts["synchronize"], rel=0.1)
    assert line(found, "half")["gpu_s"] < 0.1


@pytest.mark.measures
def test_a_device_that_fails_for_a_moment_goes_on(any_python: Interpreter, gpu: ScriptedGpu) -> None:
    done = gpu.record(any_python, "recover", "1", "999")
    found = report(done.trace)
    assert losses(found)["gpu_ticks"] >= 1 and "gpu_lost" not in losses(found)
    for name in ("synchronize", "half"):
        assert line(found, name)["gpu_s"] == pytest.approx(done.facts[name], rel=0.15)


@pytest.mark.measures
def test_a_driver_that_does_not_answer_delays_neither_program_nor_recorder(
    any_python: Interpreter, gpu: ScriptedGpu
) -> None:
    done = gpu.record(any_python, "fail", "0.3", "-5000")
    assert done.status == 0 and done.facts["says"] == "done"
    found = report(done.trace)
    assert losses(found)["gpu_ticks"] >= 1
    assert found["traces"][0]["wall_s"] < 3


@pytest.mark.parametrize("options", [["--no-gpu"], ["--gpu-interval", "0"]])
def test_it_can_be_turned_off(any_python: Interpreter, gpu: ScriptedGpu, options: list[str]) -> None:
    done = gpu.record(any_python, "instance", "0.1", options=options)
    found = report(done.trace)
    assert found["traces"][0]["events"]["gpu"] is None and rows(done.trace, "gpu") == []
    assert (found["totals"]["gpu_s"], found["totals"]["gpu_peak_bytes"]) == (None, None)


def test_without_a_driver_it_is_null_and_silent(any_python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", ["-c", "print('done')"], any_python)
    found = report(tmp_path / "t.parquet")
    assert (done.stdout, done.stderr, done.status) == (b"done\n", b"", 0)
    assert found["traces"][0]["events"]["gpu"] is None
    assert not [name for name in losses(found) if name.startswith("gpu")]
    for row in (found["totals"], found["unattributed"], *found["lines"]):
        assert row["gpu_s"] is None and row["gpu_peak_bytes"] is None


def test_a_driver_without_a_device_is_not_a_gpu(any_python: Interpreter, tmp_path: Path) -> None:
    gpu = scripted_gpu(tmp_path)
    done = record(tmp_path / "t.parquet", ["-c", "print('done')"], any_python, env=gpu.env)
    assert (done.stdout, done.stderr, done.status) == (b"done\n", b"", 0)
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["events"]["gpu"] is None and "gpu_off" not in losses(found)


def test_a_program_that_uses_no_gpu_has_zero_not_null(any_python: Interpreter, gpu: ScriptedGpu) -> None:
    record(gpu.folder / "t.parquet", ["-c", "import time; time.sleep(0.5)"], any_python, env=gpu.env)
    found = report(gpu.folder / "t.parquet")
    assert (found["totals"]["gpu_s"], found["totals"]["gpu_peak_bytes"]) == (0, 0)


@pytest.mark.measures
def test_a_killed_recorder_leaves_its_gpu_ticks(any_python: Interpreter, gpu: ScriptedGpu) -> None:
    trace = gpu.folder / "t.parquet"
    command = command_of(trace, [target("gpu_lines"), "forever"], any_python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(gpu.env), start_new_session=True)
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())["pid"]
    time.sleep(2.5)
    process.kill()
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    recovered = run([*tool("scalene-record"), "--recover", gpu.folder / "t.parquet.spool"])
    assert recovered.status == 0, recovered.stderr
    found = report(trace)
    assert 1.8 < found["totals"]["gpu_s"] < 2.8
    assert line(found, "forever")["gpu_peak_bytes"] == 7 * MIB
