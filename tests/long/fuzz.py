"""Coverage-guided fuzzing of every reader of files and messages. The long form is part of ``make stress``.

``python -m tests.long.fuzz`` runs each of the targets (``tests/support/fuzz_targets.py``), or those that are named, for ``--seconds``
under atheris, and writes a dated result into ``benchmarks/results/``. atheris is not a dependency: without it nothing is
run. Whatever is not the documented answer ends a run and leaves the input in the current folder. Such an input is kept
under ``tests/support/corpus/WHAT``, whose files are read by ``tests/acceptance/survival/test_survival.py``.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

from scalene_trace.recorder.folder.facts import Facts
from tests.support.fuzz_targets import TARGETS, small_trace
from tests.support.paths import CORPUS, ROOT

_PROGRESS = re.compile(r"#(\d+)\s.* cov: (\d+) .* corp: (\d+)/")
#: What an input may be made of, beside bytes.
_JSON = '{ } [ ] , : " 1e999 -1 NaN null true \\\\ud800 4611686018427387904'
WORDS = {
    "recovery": f"{_JSON} {' '.join(Facts.__match_args__)} mark end pause resume set what t_ns id pid text",
    "control": f"{_JSON} \\x0a command pause resume mark end set status snapshot text id t_ns values auto 1ms 20MB cpu-interval "
    "memory-threshold alloc-interval copy-threshold",
}


def dictionary(words: str) -> str:
    """The words, quoted, as libFuzzer reads them: backslashes as they are."""
    return "".join('"{}"\n'.format(word.replace('"', '\\"')) for word in words.split())


@dataclass(frozen=True)
class Outcome:
    """What libFuzzer said at the end. ``coverage``: branches and calls of Python that were reached; ``inputs``: how many
    were kept because they reached something new; ``status``: 0 = nothing was found."""

    what: str
    seconds: int
    runs: int
    coverage: int
    inputs: int
    status: int


def ours() -> list[FunctionType]:
    """Every function of the package that is loaded: to count the branches of all others too takes minutes."""
    functions = (each for each in gc.get_objects() if isinstance(each, FunctionType))
    return [each for each in functions if (each.__module__ or "").startswith("scalene_trace.")]


def run_inside(what: str, seconds: int, found: Path) -> None:
    """Runs until the time is over or something is found, and ends the process."""
    import atheris

    for function in ours():
        atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = CORPUS / what
        if what == "bytes":
            seeds = folder / "seeds"
            small_trace(seeds)
        limits = [f"-max_total_time={seconds}", "-max_len=65536", "-timeout=30", "-rss_limit_mb=4096"]
        if what in WORDS:
            (folder / "words").write_text(dictionary(WORDS[what]))
            limits.append(f"-dict={folder / 'words'}")
        atheris.Setup([sys.argv[0], *limits, str(found), str(seeds)], lambda data: TARGETS[what](data, folder))
        atheris.Fuzz()


def run(what: str, seconds: int, found: Path | None) -> Outcome:
    """The same in a process of its own; its last line of progress says how far it came."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "tests.long.fuzz", what, "--seconds", str(seconds), "--inside", found or name]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
        assert child.stderr
        numbers = (0, 0, 0)
        for line in child.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            if seen := _PROGRESS.match(line):
                numbers = (int(seen[1]), int(seen[2]), int(seen[3]))
        return Outcome(what, seconds, *numbers, child.wait())


def save(outcome: Outcome) -> None:
    """Puts it into the result of the day."""
    now = datetime.now(UTC)
    path = ROOT / "benchmarks" / "results" / f"fuzz-{now:%Y-%m-%d}.json"
    before = json.loads(path.read_text())["outcomes"] if path.exists() else []
    outcomes = {each["what"]: each for each in before} | {outcome.what: asdict(outcome)}
    result = {
        "date": now.isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    path.write_text(json.dumps(result | {"outcomes": [outcomes[what] for what in sorted(outcomes)]}, indent=1) + "\n")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"{', '.join(TARGETS)} (default: all, one after the other)")
    parser.add_argument("--seconds", type=int, default=600, help="for each")
    parser.add_argument("--found", type=Path, help="folder for inputs that reach new code (default: none is kept)")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Exit status 1 when something was found."""
    asked = options()
    if find_spec("atheris") is None:
        print("atheris is not installed: nothing was run (pip install atheris)")
        return 0
    if asked.inside:
        run_inside(asked.what[0], asked.seconds, asked.inside)
    statuses = []
    for what in asked.what or TARGETS:
        outcome = run(what, asked.seconds, asked.found)
        print(outcome, flush=True)
        statuses.append(outcome.status)
        if not asked.print_only:
            save(outcome)
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
