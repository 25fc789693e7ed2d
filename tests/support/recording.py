"""Records a program for a test, reads its report, and finds the lines of a target.

A target is a tiny program under ``tests/targets/``. It marks a line with ``# LINE: name``, prints what it knows about
itself (stopwatches, CPU time, pids) as one JSON object on its last line of stdout, and takes its options as arguments.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S, TARGETS

MARK = "# LINE: "
Json = dict[str, Any]


@dataclass(frozen=True)
class Finished:
    """A finished program: ``status`` as a shell would show it (128 + n for signal n)."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def facts(self) -> Json:
        """The JSON object on the last line of stdout; fails with both outputs when there is none."""
        lines = self.stdout.decode().strip().splitlines()
        assert lines, f"the program printed nothing; status {self.status}, stderr:\n{self.stderr.decode()}"
        facts: Json = json.loads(lines[-1])
        return facts


@dataclass(frozen=True)
class Recording(Finished):
    """A recorded program and the path of its trace."""

    trace: Path


def tool(name: str) -> list[str]:
    """The command line that starts ``scalene-record`` or ``scalene-analyze``."""
    script = Path(sys.executable).parent / name
    return (
        [str(script)] if script.exists() else [sys.executable, "-m", f"scalene_trace.cli.{name.split('-')[1]}.command"]
    )


def run(command: Sequence[str | Path], timeout_s: float = PATIENCE_S, **options: Any) -> Finished:
    """Runs a command to its end, without input."""
    done = subprocess.run(
        [*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, **options
    )
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Finished(status, done.stdout, done.stderr)


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a target: ours, without what would change an interpreter, plus ``extra``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV"))}
    if "PYTHONPATH" in os.environ:
        kept["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return kept | dict(extra or {})


def record_command(
    trace: Path, program: Sequence[str | Path], python: Interpreter | None = None, options: Sequence[str] = ()
) -> list[str]:
    """The command line of a recording. ``program`` is all that follows the recorder's own options."""
    chosen = ["--python", str(python.path)] if python else []
    return [*tool("scalene-record"), "-o", str(trace), *chosen, *options, *map(str, program)]


def record(
    trace: Path,
    program: Sequence[str | Path],
    python: Interpreter | None = None,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float = 180,
    **more: Any,
) -> Recording:
    """Records ``program`` into ``trace``. ``more`` goes to subprocess.run (cwd, preexec_fn)."""
    command = record_command(trace, program, python, options)
    done = run(command, timeout_s, env=environment(env), **more)
    return Recording(done.status, done.stdout, done.stderr, trace)


def record_cpu(trace: Path, python: str, program: Sequence[str | Path], interval: str) -> str:
    """Records CPU time alone, every ``interval``. Returns what the program printed; fails if it fails."""
    options = ["--python", python, "--cpu-interval", interval, "--no-memory", "--no-wait"]
    command = record_command(trace, program, options=options)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def bare(
    program: Sequence[str | Path], python: Interpreter, env: Mapping[str, str] | None = None, **more: Any
) -> Finished:
    """Runs ``program`` with ``python``, unrecorded."""
    return run([python.path, *program], env=environment(env), **more)


def target(name: str) -> Path:
    """The target called ``name``."""
    return TARGETS / f"{name}.py"


@cache
def marks(path: Path) -> dict[str, int]:
    """The marked lines of a target: name to line number."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {text.split(MARK, 1)[1].split()[0]: number for number, text in lines if MARK in text}


def line_of(name: str, mark: str) -> int:
    """The line of target ``name`` that is marked ``# LINE: mark``."""
    return marks(target(name))[mark]


def analyze(*arguments: str | Path) -> Finished:
    """Calls ``scalene-analyze`` within this process: dozens of tests read what it prints, and starting it takes as long as a
    report."""
    from scalene_trace.cli.analyze.command import run as run_analyze

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = run_analyze([*map(str, arguments)])
    return Finished(status, *(each.buffer.getvalue() for each in (out, err)))  # type: ignore[attr-defined]


def report(trace: Path, *arguments: str, command: str = "report") -> Json:
    """The JSON of a report (or of another ``command``), made in this process: hundreds of tests ask for one. Fails with
    the command's own message."""
    from scalene_trace.cli.analyze.command import run as run_analyze

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = run_analyze([command, "--json", *arguments, str(trace)])
    assert status == 0, f"scalene-analyze {command} returned {status}: {err.getvalue()}"
    found: Json = json.loads(out.getvalue())
    return found


def lines_of(found: Json, path: Path | str) -> dict[int, Json]:
    """The rows of ``lines`` that belong to the file ``path``, by line number."""
    wanted = str(path)
    return {row["line"]: row for row in found["lines"] if row["file"] == wanted}


def native_percent(row: Json) -> float:
    """The native share of what is not kernel time in a row of a line or function."""
    return 100 * total([row], "native_s") / total([row], "native_s", "python_s")


def hold(errors: Mapping[str, float], limit: float) -> None:
    """Holds sampled figures against their limit, naming those that miss it."""
    missed = {name: round(error, 2) for name, error in errors.items() if abs(error) > limit}
    assert not missed, f"limit {limit} missed"


def hold_median(measure: Callable[[Path], Mapping[str, float]], folder: Path, limit: float) -> None:
    """Holds the figures that ``measure`` returns for a trace at the path that it is given. Other work on the machine shifts a
    single run, so if the first run misses, two more are made and the median of the three is held."""
    runs = [measure(folder / "0.parquet")]
    if any(abs(error) > limit for error in runs[0].values()):
        runs += [measure(folder / f"{turn}.parquet") for turn in (1, 2)]
    hold({name: median(run[name] for run in runs) for name in runs[0]}, limit)


def total(rows: Sequence[Json], *columns: str) -> float:
    """The sum of columns over rows; NULL counts as zero."""
    return sum(row[column] or 0 for row in rows for column in columns)


def losses(found: Json) -> dict[str, int]:
    """The losses of the (first) trace of a report: name to count. What exact recording costs is none."""
    told = found["traces"][0]["losses"]
    return {loss["name"]: loss["count"] for loss in told if loss["name"] != "exact_cost"}


def rows(trace: Path, kind: str) -> list[Json]:
    """The records of one kind, read by pyarrow without any code of the package: common columns and the kind's own together."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with trace.open("rb") as file:  # opened once: a snapshot may take the place of another one
        table = pq.read_table(file)
    found = table.filter(pc.equal(table["kind"], kind)).to_pylist()
    own = f"{kind}_row" if f"{kind}_row" in table.column_names else kind
    return [{"t_ns": row["t_ns"], "process": row["process"], "thread": row["thread"], **row[own]} for row in found]


def figure(what: str, python: Interpreter, value: float, limit: float, unit: str) -> None:
    """Prints a measured figure, and appends it to the file that ``SCALENE_FIGURES`` names."""
    row = {"what": what, "python": python.full_name, "value": round(value, 4), "limit": limit, "unit": unit}
    print(f"figure: {what} on {python.full_name}: {value:.3f} {unit} (limit {limit} {unit})")
    if path := os.environ.get("SCALENE_FIGURES"):
        with Path(path).open("a") as file:
            file.write(json.dumps(row) + "\n")


def rows_of_function(found: Json, name: str, path: Path) -> list[Json]:
    """The line rows of a function of the target at ``path``."""
    return [row for row in found["lines"] if row["function"].split(".")[-1] == name and row["file"] == str(path)]
