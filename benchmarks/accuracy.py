"""How right profiles are: programs that know the truth, under this project, the papers' estimator, and peers.

Two questions. The split: what share of a function that is half Python and half native is reported as native? The line
share: how much of the time of eight numpy operators, each on its own line, is reported for each line? Errors are in
points (percent of the whole) against the program's own stopwatch, of the same run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from support.environments import ROOT, add_peers, environment, save, tool

TARGETS = ROOT / "tests" / "targets"
ESTIMATOR = ROOT / "benchmarks" / "programs" / "delay_estimator.py"
KINDS = ("zlib", "hashlib", "sorted", "numpy")
LENGTHS_US = (20, 200, 2000, 20000)
MARK = "# LINE: "


@dataclass(frozen=True)
class LineTime:
    """What a method says of one line of a function, in seconds (or any one unit). Kernel time, where a method tells it
    apart, belongs to the line and to neither half of the split: the profiler's own interrupts are in it.
    """

    function: str
    line: int
    python: float
    native: float
    kernel: float = 0.0


@dataclass(frozen=True)
class Error:
    """One comparison: what was asked, the truth and the answer in percent, the error in points."""

    method: str
    question: str
    truth: float
    answer: float
    error: float


Method = Callable[[Path, Path, list[str], Path], tuple[str, list[LineTime]]]


def finish(command: list[str]) -> str:
    """Runs a command; its stdout. Ends the benchmark when it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nreturned {done.returncode}\n{done.stderr}")
    return done.stdout


def ours(interval: str) -> Method:
    """This project, at a mean interval of ``interval``."""

    def run(python: Path, program: Path, arguments: list[str], folder: Path) -> tuple[str, list[LineTime]]:
        trace = str(folder / "t.parquet")
        record = [tool("scalene-record"), "-o", trace, "--python", str(python), "--cpu-interval", interval]
        out = finish([*record, str(program), *arguments])
        rows = json.loads(finish([tool("scalene-analyze"), "report", "--json", "--all-lines", trace]))["lines"]
        mine = [row for row in rows if row["file"] == str(program)]
        return out, [
            LineTime(row["function"], row["line"], row["python_s"], row["native_s"], row["system_s"]) for row in mine
        ]

    return run


def estimator(q_s: float) -> Method:
    """The papers' T - q estimator with interval ``q_s``."""

    def run(python: Path, program: Path, arguments: list[str], folder: Path) -> tuple[str, list[LineTime]]:
        result = folder / "estimate.json"
        out = finish([str(python), str(ESTIMATOR), str(result), str(q_s), str(program), *arguments])
        rows = json.loads(result.read_text())
        return out, [LineTime(*row[1:]) for row in rows if row[0] == str(program)]

    return run


def scalene(python: Path, program: Path, arguments: list[str], folder: Path) -> tuple[str, list[LineTime]]:
    """Scalene, CPU only, as installed. Its lines carry no function name: all are given the empty one."""
    result = folder / "scalene.json"
    command = [str(python), "-m", "scalene", "run", "--cpu-only", "-o", str(result), str(program), "---", *arguments]
    out = finish(command)
    lines = json.loads(result.read_text())["files"].get(str(program), {"lines": []})["lines"]
    return out, [LineTime("", row["lineno"], row["n_cpu_percent_python"], row["n_cpu_percent_c"]) for row in lines]


def truth_of(out: str) -> dict[str, float]:
    """The JSON object on the program's last line that is one."""
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            found: dict[str, float] = json.loads(line)
            return found
    raise SystemExit(f"the program said nothing about itself:\n{out}")


def split_errors(name: str, method: Method, python: Path, seconds: float) -> list[Error]:
    """The native share of each pair of native function and piece length, one run each."""
    program, errors = TARGETS / "halves.py", []
    for cell in (f"{kind}_{length}us" for kind in KINDS for length in LENGTHS_US):
        with TemporaryDirectory() as folder:
            out, rows = method(python, program, [str(seconds), cell], Path(folder))
        first, last = body_of(program, "halves")
        mine = [row for row in rows if row.function == cell or (row.function == "" and first <= row.line <= last)]
        whole = sum(row.python + row.native for row in mine)
        answer = 100 * sum(row.native for row in mine) / whole if whole else float("nan")
        truth = truth_of(out)[cell]
        errors.append(Error(name, cell, truth, answer, answer - truth))
        print(f"{name:16} {cell:16} truth {truth:5.1f}  answer {answer:5.1f}  error {answer - truth:+5.1f}", flush=True)
    return errors


def body_of(program: Path, function: str) -> tuple[int, int]:
    """First and last line of a top-level function."""
    lines = program.read_text().splitlines()
    first = lines.index(next(line for line in lines if line.startswith(f"def {function}("))) + 1
    after = (number for number, line in enumerate(lines[first:], first + 1) if line and not line.startswith(" "))
    return first, next(after) - 1


def line_errors(name: str, method: Method, python: Path, seconds: float) -> list[Error]:
    """The share of each numpy line."""
    program = TARGETS / "numpy_lines.py"
    with TemporaryDirectory() as folder:
        out, rows = method(python, program, [str(seconds)], Path(folder))
    truth = truth_of(out)
    marked = {
        text.split(MARK)[1]: number for number, text in enumerate(program.read_text().splitlines(), 1) if MARK in text
    }
    spent = {
        mark: sum(row.python + row.native + row.kernel for row in rows if row.line == marked[mark]) for mark in truth
    }
    whole, errors = sum(spent.values()) or 1.0, []  # nothing on any of the lines: 0 % each
    for mark in truth:
        share, answer = 100 * truth[mark] / sum(truth.values()), 100 * spent[mark] / whole
        errors.append(Error(name, f"line {mark}", share, answer, answer - share))
        print(
            f"{name:16} line {mark:11} truth {share:5.1f}  answer {answer:5.1f}  error {answer - share:+5.1f}",
            flush=True,
        )
    return errors


def table(errors: list[Error]) -> str:
    """One row for each question, one column for each method, errors in points."""
    methods = list(dict.fromkeys(each.method for each in errors))
    found = {(each.question, each.method): each.error for each in errors}
    width = max(18, *(len(name) + 2 for name in methods))
    lines = ["errors in points", f"{'':18}" + "".join(f"{name:>{width}}" for name in methods)]
    for question in dict.fromkeys(each.question for each in errors):
        lines.append(f"{question:18}" + "".join(f"{found[question, name]:>+{width}.1f}" for name in methods))
    worst = {name: max(abs(each.error) for each in errors if each.method == name) for name in methods}
    return "\n".join([*lines, f"{'largest':18}" + "".join(f"{worst[name]:>{width}.1f}" for name in methods)])


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="CPU time for each question")
    parser.add_argument(
        "--python", action="append", help="interpreter to measure (default: the one running); of several, only ours"
    )
    parser.add_argument("--peers", action="store_true", help="also under scalene, if it can be installed")
    return parser.parse_args()


def main() -> int:
    """Measures and writes the result."""
    asked = options()
    pythons = [environment(each) for each in asked.python or [None]]
    methods: dict[str, tuple[Method, Path]] = {"scalene-trace": (ours("1ms"), pythons[0])}
    if len(pythons) > 1:
        methods = {python.parent.parent.name: (ours("1ms"), python) for python in pythons}
    else:
        methods["T - q, q = 10 ms"] = estimator(0.01), pythons[0]
    if asked.peers and add_peers(pythons[0], ["scalene"]):
        methods["Scalene"] = scalene, pythons[0]
    errors = []
    for name, (method, python) in methods.items():
        errors += split_errors(name, method, python, asked.seconds) + line_errors(name, method, python, asked.seconds)
    result = {
        "python": [python.parent.parent.name for python in pythons],
        "seconds": asked.seconds,
        "errors": [asdict(each) for each in errors],
    }
    save("accuracy", result, table(errors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
