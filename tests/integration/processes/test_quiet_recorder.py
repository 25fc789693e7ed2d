"""Where nothing happens that must be observed, the recorder leaves the processors to the program."""

from __future__ import annotations

import subprocess
import time
from itertools import pairwise
from pathlib import Path

from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, record_command

#: It computes without a wait.
BUSY = "import time\nend_s = time.monotonic() + 6\nwhile time.monotonic() < end_s: pass\n"
#: The watcher begins to look more rarely after 0.64 s, and looks at most so often from 2 s on.
STEADY_S, WINDOWS, WINDOW_S = 2.5, 6, 0.5


def wakes(recorder: int) -> dict[str, int]:
    """How often each thread of a recorder has slept."""
    found: dict[str, int] = {}
    for task in Path(f"/proc/{recorder}/task").iterdir():
        lines = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found["main" if task.name == str(recorder) else lines["Name"].strip()] = int(lines["voluntary_ctxt_switches"])
    return found


def test_a_program_that_only_computes_is_left_alone(tmp_path: Path) -> None:
    trace, program = tmp_path / "t.parquet", tmp_path / "busy.py"
    program.write_text(BUSY)
    command = record_command(trace, [program])
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(None))
    time.sleep(STEADY_S)
    counts = []
    for _ in range(WINDOWS):
        counts.append(wakes(recorder.pid))
        time.sleep(WINDOW_S)
    counts.append(wakes(recorder.pid))
    out, err = recorder.communicate(timeout=PATIENCE_S)
    assert (recorder.returncode, out) == (0, b""), err
    # On a busy machine the program may wait for a page now and then, so the quietest half second counts.
    looks = min(later["watcher"] - earlier["watcher"] for earlier, later in pairwise(counts))
    turns = min(later["main"] - earlier["main"] for earlier, later in pairwise(counts))
    assert 0 < looks <= 30
    assert 0 < turns <= 7
