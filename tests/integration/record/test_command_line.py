"""``scalene-record`` as users call it: its command line, its sentences, its exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from scalene_trace.cli.record.options import OPTIONS, Split, read_options, settings_of, split_command_line
from scalene_trace.formats.libraries import SHIM_NAME
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.formats.version import VERSION
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.settings import Settings
from scalene_trace.recorder.shim_library import find_shim
from tests.support.command_line import interrupted_import
from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, tool
from tests.support.trace_builder import TraceBuilder

RECORD = tool("scalene-record")


def run(*words, cwd, stdin=subprocess.DEVNULL, **more):
    done = subprocess.run(
        [*RECORD, *map(str, words)], cwd=cwd, stdin=stdin, capture_output=True, timeout=PATIENCE_S, **more
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def settings(trace: Path) -> dict[str, str]:
    check_trace(trace)
    return dict(duckdb.sql(f"SELECT unnest(setting) FROM '{trace}' WHERE kind = 'setting'").fetchall())


def mounted_tmpfs(folder: Path, size: str) -> bool:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.parametrize(
    ("words", "own", "program"),
    [
        ("-m pytest -o log_cli=true -q", "", "-m pytest -o log_cli=true -q"),
        ("-m http.server --help", "", "-m http.server --help"),
        ("-c print(1) -o x", "", "-c print(1) -o x"),
        ("-- ./prog --help", "", "./prog --help"),
        ("-o out.parquet app.py -o x", "-o out.parquet", "app.py -o x"),
        ("-oout.parquet app.py", "-oout.parquet", "app.py"),
        ("--output=x --no-memory -mjson.tool", "--output=x --no-memory", "-m json.tool"),
        ("--python -m -c pass", "--python -m", "-c pass"),
        ("--memory-threshold 1MB --children app.py -- y", "--memory-threshold 1MB --children", "app.py -- y"),
        ("--alloc-interval -1 app.py", "--alloc-interval -1", "app.py"),
        ("--copy-threshold 1MB --no-copy a.py --no-copy", "--copy-threshold 1MB --no-copy", "a.py --no-copy"),
        ("--alloc-interval=1 -mpytest", "--alloc-interval=1", "-m pytest"),
        ("--help", "--help", ""),
        ("- x", "", "- x"),
        ("-o", "-o", ""),
    ],
)
def test_the_command_line_is_split_at_the_program(words, own, program):
    assert split_command_line(words.split()) == Split(own.split(), program.split())


def test_options_become_settings():
    words = "-o x.parquet --python=py --no-memory --no-children --cpu-interval 1ms --memory-threshold 4KB --no-source --no-argv"
    options = read_options([*words.split(), "--cpu-engine", "posix"])
    found = settings_of(options, ["app.py"])
    assert (found.output, found.python, found.cpu_engine) == (Path("x.parquet"), "py", "posix")
    assert (found.cpu_interval_ns, found.memory_threshold_bytes) == (1_000_000, 4_001)
    assert not (found.memory or found.children or found.sources or found.argv)
    assert found.copy and found.copy_threshold_bytes == 8_009 and found.alloc_interval_bytes is None
    words = "--no-copy --alloc-interval=64KB --copy-threshold 4KB --memory-threshold 1MB"
    found = settings_of(read_options(words.split()), ["app.py"])
    assert (found.copy, found.alloc_interval_bytes, found.copy_threshold_bytes) == (False, 64_000, 4_001)
    assert settings_of(read_options([]), ["a"]) == Settings(command=["a"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--label shop", "--label 'shop' has no value. Write a name and a value, like --label service=shop."),
        ("--label Shop=1", "--label 'Shop' is no name of a label. It has lower-case letters"),
        (f"--label {'a' * 65}=1", "is no name of a label"),
        ("--label é=1", "is no name of a label"),
        ("--label a=", "--label a= has no value"),
        ("--label a=1 --label=a=2", "--label a is given twice. Give each name once."),
        (f"--label a={'é' * 129}", "The value of --label a has 258 bytes in UTF-8. It can have 256: shorten it."),
        ("--label a=\x1b[31m", "The value of --label a has a control character"),
        ("--label a=\x85", "The value of --label a has a control character"),
        ("--label a=\udcff", "The value of --label a is not UTF-8. Write it in UTF-8."),
    ],
)
def test_labels_that_make_no_sense_are_refused(words, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        settings_of(read_options(words.split(" ")), ["a"])


def test_the_help_knows_the_same_options_and_defaults():
    from typer.main import get_command

    from scalene_trace.cli.record.help import application

    declared: set[str] = set()
    for parameter in get_command(application()).params:
        declared |= {each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("-")}
    known = {name for option in OPTIONS for name in (*option.names, *filter(None, [option.off_name]))}
    assert declared - known == {"--version", "--install-completion", "--show-completion"}
    assert known <= declared
    defaults = {p.name: p.default for p in get_command(application()).params}
    shown = {option.key: text for option in OPTIONS if option.metavar and (text := defaults[option.key]) is not None}
    assert settings_of(read_options([]), ["a"]) == settings_of(shown, ["a"]) == Settings(command=["a"])


@pytest.mark.parametrize("words", [["--cpu-engine", "magic"], ["--cpu-interval", "1h"], ["-o", ""], ["-o"]])
def test_options_that_make_no_sense_are_refused(words):
    with pytest.raises(UsageError):
        settings_of(read_options(words), ["a"])


def test_help_shows_examples_and_exit_codes(tmp_path):
    status, out, err = run("--help", cwd=tmp_path, env=environment({"COLUMNS": "100"}))
    assert (status, err) == (0, "")
    assert "scalene-record -o run.parquet -m pytest -q" in out
    assert "125" in out and "--memory-threshold" in out
    assert run("--version", cwd=tmp_path)[:2] == (0, f"scalene-record {VERSION}\n")


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ([], 125, "There is nothing to record"),
        (["--no-memry", "app.py"], 125, "--no-memry"),
        (["--cpu-interval", "1h", "x"], 125, "--cpu-interval 1h is out of range. It can be 10us to 1s."),
        (
            ["--alloc-interval", "5", "app.py"],
            125,
            "--alloc-interval '5' is not an interval. It can be auto, a size like",
        ),
        (["--alloc-interval", "-64KB", "app.py"], 125, "1 (every allocation) or 0 (none)"),
        (["--copy-threshold", "0", "app.py"], 125, "--copy-threshold 0 is out of range. It can be 4KB to "),
        (["--memory-threshold", "-1MB", "app.py"], 125, "--memory-threshold '-1MB' is not a size. Write it like 10MB"),
        (["-o", "gone/x.parquet", "-c", "pass"], 125, "does not exist"),
        (["-o", "/dev/null", "-c", "pass"], 125, "not a regular file"),
        (["missing.py"], 127, "There is no file missing.py"),
        (["no-such-command-at-all"], 127, "There is no command"),
        (["--python", "no-such-python", "-c", "pass"], 127, "no-such-python"),
        (["./plain.txt"], 126, "is not executable"),
        (["./garbage"], 126, "cannot be executed"),
        (["./orphan"], 127, "does not exist"),
        (["-m"], 125, "needs a module name"),
        (["--recover", "nowhere"], 125, "contains no spool"),
        (["--recover", "x", "app.py"], 125, "runs no program"),
    ],
)
def test_mistakes_get_a_sentence_and_the_documented_code(tmp_path, words, status, sentence):
    (tmp_path / "plain.txt").touch()
    (tmp_path / "garbage").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
    for name in ("garbage", "orphan"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "trace.parquet").write_text("kept")
    found, out, err = run(*words, cwd=tmp_path)
    assert (found, out) == (status, "")
    assert sentence in err
    assert err.startswith("scalene-record: ") and err.count("\n") == 1 and "Traceback" not in err
    assert (tmp_path / "trace.parquet").read_text() == "kept"
    assert not list(tmp_path.glob("*.spool*"))


def test_a_folder_that_cannot_be_written_is_reported_before_the_program_starts(tmp_path):
    closed = tmp_path / "closed"
    mounted = mounted_tmpfs(closed, "64k,ro")
    if not mounted:
        closed.chmod(0o500)
    try:
        status, out, err = run("-o", "closed/x.parquet", "-c", "print('ran')", cwd=tmp_path)
    finally:
        unmount(closed)
    assert (status, out) == (125, "")
    assert re.fullmatch(r"scalene-record: The recording cannot be written in .*/closed: .*\. Name .*\n", err)


def test_the_program_runs_as_it_would_alone(tmp_path, python):
    (tmp_path / "app.py").write_text(
        "import sys\nprint(sys.argv, sys.stdin.read())\nprint('to stderr', file=sys.stderr)\nsys.exit(41)\n"
    )
    words = ["app.py", "-o", "mine", "--recover"]
    with (tmp_path / "app.py").open("rb") as stdin:
        alone = subprocess.run([python.path, *words], cwd=tmp_path, stdin=stdin, capture_output=True)
    with (tmp_path / "app.py").open("rb") as stdin:
        found = run("--python", python.path, *words, cwd=tmp_path, stdin=stdin)
    assert found == (41, alone.stdout.decode(), alone.stderr.decode())
    assert settings(tmp_path / "trace.parquet")["command"] == json.dumps(words)
    assert settings(tmp_path / "trace.parquet")["exit_status"] == "41"
    assert [each.name for each in tmp_path.glob("trace*")] == ["trace.parquet"]


def test_the_resident_set_is_read_while_the_program_runs(tmp_path):
    code = "import os, time; block = b'x' * 50_000_017; pid = os.fork(); time.sleep(2); pid and os.wait()"
    assert run("-c", code, cwd=tmp_path)[0] == 0
    rows = duckdb.sql(
        "SELECT process, count(*), max(rss.rss_bytes), min(rss.shared_bytes), max(rss.shared_bytes) "
        f"FROM '{tmp_path}/trace.parquet' WHERE kind = 'rss' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert [row[0] for row in rows] == [1, 2]
    assert all(count >= 1 and 50_000_017 < size < 150_000_000 for _, count, size, _, _ in rows)
    assert all(100_000 < least <= most < 50_000_000 for _, _, _, least, most in rows)  # libc and libpython


def test_a_process_that_outlives_its_recorder_stops_recording_when_recovered(tmp_path):
    code = "import time\nprint(1, flush=True)\nt = time.monotonic()\nwhile time.monotonic() - t < 20: pass\n"
    process = subprocess.Popen([*RECORD, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
    process.stdout.readline()
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    time.sleep(1)
    process.kill()
    process.wait()
    assert run("--recover", "trace.parquet.spool", cwd=tmp_path)[0] == 0
    os.kill(int(child), signal.SIGKILL)
    process.stdout.close()
    (first, last), (count,) = (
        duckdb.sql(f"SELECT {what} FROM '{tmp_path}/trace.parquet' WHERE kind = 'cpu'").fetchall()[0]
        for what in ("min(t_ns), max(t_ns)", "count(*)")
    )
    assert count > 0 and last - first < 15e9, "it would run for 20 s"
    assert not list(tmp_path.glob("*.spool*"))


def test_a_folder_that_is_gone_is_a_sentence(tmp_path):
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && exec {' '.join(RECORD)} -c pass"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 125
    assert "does not exist any more" in done.stderr and done.stderr.count("\n") == 1


def test_commands_scripts_without_a_first_line_and_modules_run(tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("echo hello $1; exit 9\n")
    script.chmod(0o755)
    assert run("./start.sh", "you", cwd=tmp_path)[:2] == (9, "hello you\n")
    assert run("true", cwd=tmp_path) == (0, "", "")
    assert "usage: " in run("-m", "json.tool", "--help", cwd=tmp_path)[1]


def test_a_script_runs_under_the_environment_that_is_first_on_path(tmp_path):
    """As in a container: ``ENV PATH=/venv/bin:$PATH``, no VIRTUAL_ENV, the recorder elsewhere."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (tmp_path / "app.py").write_text("import sys\nprint(sys.prefix)\n")
    env = environment(None) | {"PATH": os.pathsep.join([f"{tmp_path}/venv/bin", os.environ["PATH"]])}
    for words in (["app.py"], ["-c", "import sys; print(sys.prefix)"], ["-m", "app"]):
        assert run(*words, cwd=tmp_path, env=env) == (0, f"{tmp_path}/venv\n", "")
    env["PATH"] = str(tmp_path / "nothing")
    status, printed, said = run("app.py", cwd=tmp_path, env=env)
    assert (status, printed) == (0, f"{sys.prefix}\n") and "There is no Python 3 on PATH" in said


def test_a_second_recording_keeps_the_first_as_old(tmp_path):
    for code in ("1", "2"):
        assert run("-c", f"exit({code})", cwd=tmp_path)[0] == int(code)
    assert settings(tmp_path / "trace.old.parquet")["exit_status"] == "1"
    assert settings(tmp_path / "trace.parquet")["exit_status"] == "2"
    assert run("no-such-command-at-all", cwd=tmp_path)[0] == 127
    assert settings(tmp_path / "trace.parquet")["exit_status"] == "2"


def test_a_program_that_does_not_run_leaves_an_earlier_trace_in_its_place(tmp_path):
    assert run("-c", "pass", cwd=tmp_path)[0] == 0
    before = (tmp_path / "trace.parquet").read_bytes()
    (tmp_path / "plain.txt").touch()
    (tmp_path / "main.c").write_text("int main(void) { return 3; }")
    subprocess.run(["cc", "-static", "-o", "static", "main.c"], cwd=tmp_path, check=True)
    kept = "trace.parquet of an earlier recording was kept"
    for words, status, sentence in (
        (["nowhere.py"], 127, "There is no file"),
        (["./plain.txt"], 126, "is not executable"),
        (["env", "no-such-command"], 127, kept),
        (["timeout", "9", "no-such-command"], 127, kept),
        (["sh", "-c", "./plain.txt"], 126, kept),
        (["./static"], 3, kept),
    ):
        code, _, said = run(*words, cwd=tmp_path)
        assert (code, sentence in said) == (status, True), (words, said)
        assert (tmp_path / "trace.parquet").read_bytes() == before, words
        assert [path.name for path in tmp_path.glob("trace*")] == ["trace.parquet"], words
    (tmp_path / "trace.parquet").unlink()
    assert run("./static", cwd=tmp_path)[0] == 3
    assert (tmp_path / "trace.parquet").exists(), "its losses say why nothing was recorded"


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "raise SystemExit(127)"],
        ["-c", "import os, sys\ntry: os.execv('/no/such', ['x'])\nexcept OSError: sys.exit(127)"],
        ["sh", "-c", "ls; exit 127"],
        ["sh", "-c", "ls; ./missing"],
        ["./native"],
    ],
)
def test_a_program_that_ran_replaces_an_earlier_trace_whatever_its_exit_status(tmp_path, words):
    (tmp_path / "trace.parquet").write_bytes(b"earlier")
    (tmp_path / "main.c").write_text("#include <unistd.h>\nint main(void) { sleep(11); return 127; }")
    subprocess.run(["cc", "-o", "native", "main.c"], cwd=tmp_path, check=True)
    status, _, said = run(*words, cwd=tmp_path)
    assert status in (126, 127) and "earlier recording" not in said
    assert settings(tmp_path / "trace.parquet")["exit_status"] == str(status)
    assert (tmp_path / "trace.old.parquet").read_bytes() == b"earlier"


def test_a_snapshot_of_a_program_that_cannot_be_recorded_is_not_taken_for_an_earlier_trace(tmp_path):
    (tmp_path / "main.c").write_text("#include <unistd.h>\nint main(void) { return (int)sleep(2); }")
    subprocess.run(["cc", "-static", "-o", "static", "main.c"], cwd=tmp_path, check=True)
    status, _, said = run("--snapshot-every", "1s", "./static", cwd=tmp_path)
    assert status == 0 and "earlier recording" not in said
    assert settings(tmp_path / "trace.parquet")["ended_by"] == "program"


def test_the_output_may_hold_the_pid_or_be_a_folder(tmp_path):
    (tmp_path / "traces").mkdir()
    _, out, _ = run("-o", "run-%p.parquet", "-c", "import os; print(os.getpid())", cwd=tmp_path)
    assert (tmp_path / f"run-{out.strip()}.parquet").exists()
    _, out, _ = run("-o", "traces", "-c", "import os; print(os.getpid())", cwd=tmp_path)
    (trace,) = (tmp_path / "traces").iterdir()
    assert trace.name.endswith(f"-{out.strip()}.parquet")


def test_arguments_are_left_out_on_request(tmp_path):
    secret = "token-1999993"
    code = "import sys; sum(n * n for n in range(3_000_000))"
    run("--no-argv", "--no-source", "-c", code, secret, cwd=tmp_path)
    data = (tmp_path / "trace.parquet").read_bytes()
    check_trace(tmp_path / "trace.parquet")
    found = duckdb.sql(f"SELECT process_row.command FROM '{tmp_path}/trace.parquet' WHERE kind = 'process'").fetchall()
    assert set(found) == {(None,)}
    rows = duckdb.sql(f"SELECT * FROM '{tmp_path}/trace.parquet'").fetchall()
    assert secret not in str(rows) and secret.encode() not in data
    assert "3_000_000" not in str(rows)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_that_are_sent_to_the_recorder_reach_the_program(tmp_path, number):
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(50))\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen([*RECORD, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_S) == 50
    process.stdout.close()
    assert settings(tmp_path / "trace.parquet")["exit_status"] == "50"


def test_the_status_of_a_killed_program_is_that_of_a_shell(tmp_path):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run("-c", code, cwd=tmp_path) == (137, "", "")
    assert settings(tmp_path / "trace.parquet")["exit_status"] == "137"


def test_a_killed_recorder_loses_nothing_that_recover_cannot_bring_back(tmp_path):
    code = "import time\nt = time.process_time()\nwhile time.process_time() - t < 1: pass\nprint(1, flush=True)\ntime.sleep(20)\n"
    labels = ["--label", "service=shop", "--label=version=1.4.2 é=\u202e"]
    process = subprocess.Popen([*RECORD, *labels, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
    process.stdout.readline()
    refused = run("-c", "pass", cwd=tmp_path)
    assert refused[0] == 125 and "Another scalene-record" in refused[2]
    early = run("--recover", "trace.parquet.spool", cwd=tmp_path)
    assert early[0] == 125 and "still being recorded" in early[2]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    os.kill(int(children[0]), signal.SIGKILL)
    process.stdout.close()
    second = run("-c", "pass", cwd=tmp_path)
    assert second[0] == 0 and "--recover" in second[2]
    status, _, err = run("--recover", "trace.parquet.spool.1", "-o", "found.parquet", cwd=tmp_path)
    assert status == 0 and "events in found.parquet" in err
    found = settings(tmp_path / "found.parquet")
    assert found["recovered"] == "true"
    assert list(json.loads(found["labels"]).items()) == [("service", "shop"), ("version", "1.4.2 é=\u202e")]
    ticks = duckdb.sql(f"SELECT sum(cpu.user_ns + cpu.system_ns) FROM '{tmp_path}/found.parquet'").fetchall()[0][0]
    assert ticks > 0.5e9  # unscaled, of a second that the program surely used


def test_on_a_terminal_one_line_names_the_trace(tmp_path):
    main, side = pty.openpty()
    done = subprocess.run(
        [*RECORD, "-c", "pass"], cwd=tmp_path, stdin=side, stdout=side, stderr=side, timeout=PATIENCE_S
    )
    os.close(side)
    text = os.read(main, 4096).decode()
    os.close(main)
    assert done.returncode == 0
    assert re.search(
        r"scalene-record: [\d,]+ events in trace\.parquet \([\d.]+ \w+\); next: scalene-analyze trace\.parquet", text
    )


def test_the_trace_is_named_in_a_pipe_when_asked(tmp_path):
    assert run("-c", "pass", cwd=tmp_path) == (0, "", "")
    status, printed, said = run("--verbose", "-o", "t.parquet", "-c", "pass", cwd=tmp_path)
    assert (status, printed) == (0, "") and "events in t.parquet (" in said
    assert "next: scalene-analyze t.parquet" in said


def test_a_recording_that_was_never_resumed_says_so(tmp_path):
    assert run("--pause-at-start", "-c", "pass", cwd=tmp_path)[0] == 0
    found = duckdb.sql(f"SELECT loss.name FROM '{tmp_path}/trace.parquet' WHERE kind = 'loss'").fetchall()
    assert ("never_resumed",) in found
    assert run("-c", "pass", cwd=tmp_path)[0] == 0
    found = duckdb.sql(f"SELECT loss.name FROM '{tmp_path}/trace.parquet' WHERE kind = 'loss'").fetchall()
    assert ("never_resumed",) not in found


def test_the_keyboard_interrupts_the_program_once(tmp_path):
    code = (
        "import time\ncount, end = 0, time.monotonic() + 60\n"
        "while time.monotonic() < end:\n    try:\n        if not count: print('ready', flush=True)\n"
        "        while time.monotonic() < end: time.sleep(0.2)\n"
        "    except KeyboardInterrupt:\n        count += 1\n        end = time.monotonic() + 0.7  # for a second one\n"
        "raise SystemExit(100 + count)\n"
    )
    main, side = pty.openpty()
    process = subprocess.Popen(
        [*RECORD, "-c", code], cwd=tmp_path, stdin=side, stdout=side, stderr=side, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    assert b"ready" in os.read(main, 100)
    os.write(main, b"\x03")
    assert process.wait(timeout=PATIENCE_S) == 101
    os.close(side)
    os.close(main)


def test_ctrl_z_stops_the_job_and_it_goes_on(tmp_path):
    code = "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('over', flush=True)\n"
    process = subprocess.Popen([*RECORD, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, process_group=0)
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        pytest.fail("the recorder did not stop")
    os.killpg(process.pid, signal.SIGCONT)
    (tmp_path / "go").touch()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stdout.read() == b"over\n"
    process.stdout.close()


def test_an_install_path_with_spaces_and_colons_records(tmp_path):
    library = tmp_path / "a b:c" / SHIM_NAME
    library.parent.mkdir()
    library.write_bytes(find_shim().read_bytes())
    code = "import os; print(os.environ['LD_PRELOAD'])"
    status, out, err = run("-c", code, cwd=tmp_path, env=os.environ | {"SCALENE_TRACE_SHIM": str(library)})
    assert (status, err) == (0, "")
    assert " " not in out and not Path(out.strip()).exists()
    processes = duckdb.sql(f"SELECT process_row.pid FROM '{tmp_path}/trace.parquet' WHERE kind = 'process'").fetchall()
    assert len(processes) == 1


def test_other_preloaded_libraries_come_after_ours(tmp_path):
    code = "import os; print(os.environ['LD_PRELOAD'])"
    _, out, _ = run("-c", code, cwd=tmp_path, env=os.environ | {"LD_PRELOAD": "libm.so.6"})
    assert out.strip() == f"{find_shim()}:libm.so.6"


def test_a_missing_shim_is_a_sentence_and_the_program_does_not_run(tmp_path):
    status, out, err = run("-c", "print(1)", cwd=tmp_path, env=os.environ | {"SCALENE_TRACE_SHIM": "/no/such.so"})
    assert (status, out) == (125, "")
    assert err == f"scalene-record: The recording library {SHIM_NAME} is not installed. Install scalene-trace again.\n"


def test_a_full_disk_is_reported_before_the_program_starts(tmp_path):
    full = tmp_path / "full"
    if not mounted_tmpfs(full, "64k"):
        pytest.skip("no tmpfs can be mounted here")
    try:
        status, out, err = run("-o", full / "t.parquet", "-c", "print(1)", cwd=tmp_path)
        assert (status, out) == (125, "")
        assert "no disk space left" in err and err.count("\n") == 1
        assert list(full.iterdir()) == []
    finally:
        unmount(full)


def test_a_disk_that_fills_up_never_hurts_the_program(tmp_path):
    small = tmp_path / "small"
    if not mounted_tmpfs(small, "3m"):
        pytest.skip("no tmpfs can be mounted here")
    try:
        code = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.5: pass\nprint(time.process_time())\n"
        status, out, err = run("-o", small / "t.parquet", "--cpu-interval", "10us", "-c", code, cwd=tmp_path)
        assert (status, err) == (0, "") and float(out) < 10  # seconds; it took minutes where each tick read a stack
        check_trace(small / "t.parquet")
    finally:
        unmount(small)


def test_a_trace_that_cannot_be_written_keeps_the_recording_and_the_status(tmp_path):
    (tmp_path / "out").mkdir()
    code = "import os; os.rename('out', 'moved'); raise SystemExit(7)"
    status, _, err = run("-o", "out/t.parquet", "-c", code, cwd=tmp_path)
    assert status == 7
    assert err.startswith("scalene-record: ") and err.count("\n") == 1
    (spool,) = (tmp_path / "moved").glob("*.spool")
    assert run("--recover", spool, cwd=tmp_path)[0] == 0
    check_trace(tmp_path / "moved" / "t.parquet")


def test_the_recorder_reads_pyarrow_and_typer_only_when_it_must():
    code = "import sys; import scalene_trace.cli.record.command; print([n for n in ('typer', 'rich', 'pyarrow', 'numpy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["scalene_trace.cli.record.command", "scalene_trace.recorder.errors"])
def test_ctrl_c_is_quiet_while_modules_are_imported(tmp_path, module):
    code = interrupted_import(module, "scalene_trace.cli.record.start")
    words = [sys.executable, "-c", code, "-o", tmp_path / "t.parquet", "echo", "started"]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_recording_does_not_import_what_it_does_not_use(tmp_path):
    """To the end: some modules were imported by calls of numpy and pyarrow, others to look at an earlier trace."""
    TraceBuilder().write(tmp_path / "trace.parquet")
    words = [sys.executable, "-X", "importtime", "-m", "scalene_trace.cli.record.command", "-c", "pass"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "pyarrow.lib" in imported and (tmp_path / "trace.old.parquet").exists()
    slow = {"typer", "rich", "pandas.core.api", "duckdb", "pyarrow.compute", "pyarrow.fs", "ssl", "importlib.metadata"}
    slow |= {"dataclasses", "numpy.ma.core", "concurrent.futures", "logging", "subprocess", "tempfile", "shutil"}
    assert not imported & (slow | {"zipfile", "secrets", "scalene_trace.formats.trace.bounds.limits"})
