"""The programs of the operating system, recorded and bare: each is started with ``--help`` and with ``--version``, and must end
with the same status, the same output and the same files.

``python -m tests.long.executables`` takes every executable of /usr/bin and /usr/sbin. One program runs all of them
(``targets/run_each.py``): bare twice, which shows what differs by itself, then recorded with a tick every millisecond. With
``--each``, every command is recorded by a recorder of its own. With ``--work``, the lines of work.sh are run instead, in
which programs do some work. All of it runs without network on file systems that are read-only except for one folder, as
root and as an ordinary user. A dated result is written into ``benchmarks/results/``; exit status 1 if a program did
something else while it was recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.interpreters import Interpreter, newest
from tests.support.paths import ROOT
from tests.support.recording import losses, record_command, report, target

FOLDERS = ("/usr/bin", "/usr/sbin")
ARGUMENTS = ("help", "version")
OPTIONS = ("--cpu-interval", "1ms", "--no-source")
USERS = {"root": 0, "nobody": 65534}
LIMIT_S = 5
#: A command that ended in time must only end when it runs again: the machine may be busy.
PATIENT_S = 120
REPEATS = 2
CHILDREN = "children of one recording"

#: Programs that stop the machine or its processes, by their names and by the names that their links end at.
_NEVER = "halt init kexec killall5 poweroff reboot runlevel shutdown switch_root systemctl systemd telinit"
NEVER = frozenset(_NEVER.split())
#: What differs between two runs of one program, and what is compared instead.
VARYING = {
    r"/tmp/executables\w+": "FOLDER",
    r"^gz\d+$": "TEMPORARY",  # of bzexe
    r"(line \d+: +)\d+ ": r"\1PID ",  # bash, of a child that a signal has ended
    r"0x[0-9a-f]{6,}": "ADDRESS",
    r"\b\d\d:\d\d:\d\d(\.\d+)?\b": "TIME",
    r"/tmp/[A-Za-z]*[._-]?[A-Za-z0-9]{6,}": "TEMPORARY",
}
#: Makes all file systems read-only but the folder of the first argument, and runs the rest. Other users may not enter the
#: folder that root's interpreters are in (the second argument, the third is what is needed of it), so it is covered.
SANDBOX = """
mount --bind "$1" "$1"
if [ -n "$2" ]; then
  mkdir "$1/kept"
  mount --bind "$3" "$1/kept"
  mount -t tmpfs -o mode=755 tmpfs "$2"
  mkdir "$3"
  mount --move "$1/kept" "$3"
fi
while read -r _ point _; do
  case $point in "$1") ;; *) mount -o remount,bind,ro "$point" 2>/dev/null ;; esac
done </proc/self/mounts
cd "$1" && shift 3 && exec "$@"
"""
NAMESPACES = ["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]

Command = list[str]


@dataclass(frozen=True)
class Result:
    """What a command did. ``status``: its exit status (-n for signal n), None if it was killed at the limit."""

    status: int | str | None
    stdout: str
    stderr: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """A command that did something else while it was recorded."""

    command: Command
    bare: dict[str, Any]
    recorded: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """All commands as one user. ``programs``: distinct executables among the ``compared`` commands; ``left_out``: reason
    to commands; ``statuses``: exit status to number of commands."""

    user: str
    way: str
    programs: int
    commands: int
    compared: int
    equal: int
    left_out: dict[str, list[Command]]
    statuses: dict[str, int]
    losses: dict[str, int]
    bare_s: float
    recorded_s: float
    differences: list[Difference]


def shell_commands() -> list[Command]:
    """The lines of work.sh: what each does is compared."""
    lines = (Path(__file__).parent / "work.sh").read_text().splitlines()
    return [["/bin/bash", "-c", line] for line in lines if line and not line.startswith("#")]


def executables(folders: Sequence[str]) -> list[Path]:
    """Every file of the folders that can be executed."""
    found = [path for folder in folders for path in sorted(Path(folder).iterdir())]
    return [path for path in found if path.is_file() and path.stat().st_mode & 0o111 and not is_dangerous(path)]


def is_dangerous(path: Path) -> bool:
    """Whether the program stops the machine or its processes."""
    return bool({path.name, path.resolve().name} & NEVER)


class Runner:
    """Runs lists of commands in a sandbox, as one user. ``python`` runs ``targets/run_each.py``."""

    def __init__(self, python: Interpreter, user: str, workers: int) -> None:
        self._python, self._user, self._workers = python, user, workers
        self.losses: dict[str, int] = {}

    def bare(self, commands: Mapping[str, Command], limit_s: float = PATIENT_S) -> dict[str, Result]:
        """The results of the commands, by number."""
        return self._run(commands, limit_s, lambda folder, program: [str(self._python.path), *program])

    def recorded(self, commands: Mapping[str, Command]) -> dict[str, Result]:
        """The same, as children of one recorded program."""
        return self._run(commands, PATIENT_S, self._recording)

    def each_recorded(self, commands: Mapping[str, Command]) -> dict[str, Result]:
        """The same, with a recorder for each. The recorder runs a file named *.py with a Python of its own choice, so
        ``env`` starts that."""
        started = {number: ["env", *each] if each[0].endswith(".py") else each for number, each in commands.items()}
        each = {number: record_command(Path("t.parquet"), ["--", *words]) for number, words in started.items()}
        return {number: without_messages(result) for number, result in self.bare(each).items()}

    def _recording(self, folder: Path, program: Command) -> Command:
        return record_command(folder / "t.parquet", program, self._python, OPTIONS)

    def _run(
        self, commands: Mapping[str, Command], limit_s: float, start: Callable[[Path, Command], Command]
    ) -> dict[str, Result]:
        with tempfile.TemporaryDirectory(prefix="executables") as name:
            folder = Path(name)
            (folder / "work").mkdir()
            (folder / "commands").write_text(json.dumps(list(commands.items())))
            for path in (folder, folder / "work"):
                os.chown(path, USERS[self._user], -1)
            program = [str(target("run_each")), *map(str, (folder / "commands", folder / "results", folder / "work"))]
            done = self._sandboxed(folder, start(folder, [*program, str(limit_s), str(self._workers)]))
            if not (folder / "results").exists():
                raise RuntimeError(f"nothing was run: {done.stderr.decode()}")
            if (folder / "t.parquet").exists():
                self.losses = losses(report(folder / "t.parquet"))
            return read_results(folder / "results")

    def _sandboxed(self, folder: Path, command: Command) -> subprocess.CompletedProcess[bytes]:
        user = str(USERS[self._user])
        as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if self._user != "root" else []
        as_root = [] if os.getuid() == 0 else ["--map-root-user"]
        sandbox = [
            *NAMESPACES,
            *as_root,
            "sh",
            "-c",
            SANDBOX,
            "sh",
            str(folder),
            *closed_folder(self._python),
            *as_user,
        ]
        return subprocess.run([*sandbox, *command], stdin=subprocess.DEVNULL, capture_output=True)


def closed_folder(python: Interpreter) -> tuple[str, str]:
    """The folder above the interpreter that other users may not enter, and the next one on the way; empty if there is
    none."""
    way = [*reversed(python.path.parents), python.path]
    pairs = pairwise(way)
    return next(((str(each), str(inner)) for each, inner in pairs if not each.stat().st_mode & 1), ("", ""))


def read_results(path: Path) -> dict[str, Result]:
    """What ``run_each.py`` has stored."""
    stored: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return {number: Result(**each | {"files": tuple(each["files"])}) for number, each in stored.items()}


def without_messages(result: Result) -> Result:
    """The result of a program without what its recorder printed and wrote."""
    lines = result.stderr.splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("scalene-record: "))
    return Result(result.status, result.stdout, kept, tuple(name for name in result.files if name != "t.parquet"))


def normal(result: Result) -> Result:
    """The result without what differs between two runs of one program, with the status that a shell shows."""
    texts = [result.stdout, result.stderr, *result.files]
    for pattern, instead in VARYING.items():
        texts = [re.sub(pattern, instead, text) for text in texts]
    killed = isinstance(result.status, int) and result.status < 0
    return Result(128 - int(result.status or 0) if killed else result.status, texts[0], texts[1], tuple(texts[2:]))


class Outcomes:
    """Collects the results of all runs, by command, and says which commands differ."""

    def __init__(self, first: Mapping[str, Result], second: Mapping[str, Result]) -> None:
        self._bare = {number: [normal(first[number]), normal(second[number])] for number in second}

    def varying(self) -> list[str]:
        """Commands whose two bare runs differ."""
        return [number for number, (first, second) in self._bare.items() if first != second]

    def suspects(self, recorded: Mapping[str, Result]) -> list[str]:
        """Commands that did what they never do bare."""
        return [number for number, result in recorded.items() if normal(result) not in self._bare[number]]

    def add(self, bare: Mapping[str, Result]) -> None:
        """Adds further bare runs."""
        for number, result in bare.items():
            self._bare[number].append(normal(result))

    def difference(self, number: str, command: Command, result: Result) -> Difference:
        """What differed, with only the fields that did."""
        bare, ours = asdict(self._bare[number][0]), asdict(normal(result))
        names = [name for name in bare if bare[name] != ours[name]]
        return Difference(command, {name: bare[name] for name in names}, {name: ours[name] for name in names})


def compare(
    commands: Mapping[str, Command], runner: Runner, user: str, way: str, record: Callable[..., dict[str, Result]]
) -> Comparison:
    """Runs all commands bare twice and recorded once; those that seem to differ again, both ways."""
    first = runner.bare(commands, LIMIT_S)
    ended = {number: words for number, words in commands.items() if first[number].status is not None}
    start_s = time.monotonic()
    outcomes = Outcomes(first, runner.bare(ended))
    bare_s = time.monotonic() - start_s
    varying = outcomes.varying()
    steady = {number: words for number, words in ended.items() if number not in varying}
    start_s = time.monotonic()
    recorded = record(steady)
    recorded_s = time.monotonic() - start_s
    found_losses = dict(runner.losses)
    differences = repeat_suspects(steady, recorded, outcomes, runner, record)
    return Comparison(
        user=user,
        way=way,
        programs=len({words[0] for words in steady.values()}),
        commands=len(commands),
        compared=len(steady),
        equal=len(steady) - len(differences),
        left_out={
            "did not end in time": [words for number, words in commands.items() if number not in ended],
            "vary by themselves": [ended[number] for number in varying],
        },
        statuses=dict(Counter(str(recorded[number].status) for number in steady).most_common()),
        losses=found_losses,
        bare_s=round(bare_s, 1),
        recorded_s=round(recorded_s, 1),
        differences=differences,
    )


def repeat_suspects(
    commands: Mapping[str, Command],
    recorded: Mapping[str, Result],
    outcomes: Outcomes,
    runner: Runner,
    record: Callable[..., dict[str, Result]],
) -> list[Difference]:
    """The commands that differ each time."""
    last = recorded
    suspects = outcomes.suspects(recorded)
    for _ in range(REPEATS):
        if not suspects:
            return []
        again = {number: commands[number] for number in suspects}
        outcomes.add(runner.bare(again))
        last = record(again)
        suspects = outcomes.suspects(last)
    return [outcomes.difference(number, commands[number], last[number]) for number in suspects]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path, help="executables (default: all of the folders)")
    parser.add_argument("--folders", nargs="*", default=FOLDERS, help="folders of executables")
    users = "root,nobody" if os.getuid() == 0 else "root"
    parser.add_argument(
        "--users", default=users, help="as whom they run; without rights only root, in a namespace of its own"
    )
    parser.add_argument("--arguments", nargs="*", default=ARGUMENTS, help="what each program is started with")
    parser.add_argument(
        "--work", action="store_true", help="instead of all programs: the lines of work.sh, in which some work"
    )
    parser.add_argument("--each", action="store_true", help="start a recorder for each command")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="commands that run at once")
    parser.add_argument("--print-only", action="store_true", help="write no result")
    return parser.parse_args()


def show(compared: Comparison) -> None:
    """Prints the counts and each difference."""
    print(
        f"as {compared.user}, {compared.way}: {compared.programs} programs, {compared.compared} commands, {compared.equal} equal"
    )
    for reason, left_out in compared.left_out.items():
        print(
            f"left out, {reason}: {len(left_out)}", *(shlex.join(words) for words in left_out), sep="\n  ", flush=True
        )
    for each in compared.differences:
        print(json.dumps(asdict(each), indent=1), flush=True)


def save(compared: Comparison) -> None:
    """Puts it into the result of the day, in place of an earlier comparison of the same kind."""
    now = datetime.now(UTC)
    path = ROOT / "benchmarks" / "results" / f"executables-{now:%Y-%m-%d}.json"
    before = json.loads(path.read_text())["comparisons"] if path.exists() else []
    kept = [each for each in before if (each["user"], each["way"]) != (compared.user, compared.way)]
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    facts = {"date": now.isoformat(timespec="seconds"), "kernel": platform.release(), "system": system}
    path.write_text(json.dumps(facts | {"comparisons": [*kept, asdict(compared)]}, indent=1) + "\n")


def main() -> int:
    """Exit status 1 when a program differs."""
    asked = options()
    paths = asked.programs or ([] if asked.work else executables(asked.folders))
    words = [[str(path), f"--{argument}"] for path in paths for argument in asked.arguments]
    commands = {str(number): each for number, each in enumerate(words + (shell_commands() if asked.work else []))}
    compared = []
    for user in asked.users.split(","):
        runner = Runner(newest(), user, asked.workers)
        way, record = ("a recorder for each", runner.each_recorded) if asked.each else (CHILDREN, runner.recorded)
        way = f"lines of work.sh, {way}" if asked.work else way
        compared.append(compare(commands, runner, user, way, record))
        show(compared[-1])
        if not asked.print_only:
            save(compared[-1])
    return int(any(each.differences for each in compared))


if __name__ == "__main__":
    sys.exit(main())
