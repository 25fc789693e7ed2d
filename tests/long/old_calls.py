"""Is the work of C functions of the older calling conventions, and of types without ``tp_vectorcall``, native in the trace
as it is in truth? On each interpreter, for all that targets/old_calls.py finds in it.

CPython calls these through ``_PyObject_MakeTpCall``, which it also calls instances of Python classes through. Linux's perf
tells the truth: it samples the same calls without the recorder. Errors are in points (percent of the case's CPU time). A
case in which they are large is run in several more pairs of processes, which then count. What runs Python code itself
(``max`` of a generator, ``datetime.strptime``) is undecided: perf counts the entry of that code's bytecode loop to it, and
the trace to the frame that calls. A dated result is written into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.called_natively import OUTSIDE, Called, Interpreter, classes_of, function_at, native_share
from tests.support.dated_results import parser_of_check, write_result
from tests.support.paths import TARGETS
from tests.support.perf import Sample, sampled
from tests.support.recording import record_cpu, tool
from tests.support.target_environments import interpreters_and_distribution, version_of

PROGRAM = str(TARGETS / "old_calls.py")
LIMIT = 5.0
#: Percent of a case's samples that may have no usable stack.
MOST_UNUSABLE = 3.0
#: Percent of a case's ticks that may be in Python code that the callee runs.
MOST_IN_CALLEES = 5.0
#: Pairs of processes, with perf and with the recorder, for a case with a large error.
PAIRS = 8
#: CPU time of the cases that are run at once: perf writes up to 100 MB for each second.
SECONDS_AT_ONCE = 20.0
MODULES_CODE = """
import os, sys
folders = [path for path in sys.path if path.endswith("lib-dynload")]
names = {name.partition(".")[0] for folder in folders for name in os.listdir(folder) if name.endswith(".so")}
print(*sorted(name for name in names if not name.startswith(("_test", "_xx", "xx", "_ctypes_test"))))
"""
TICKS = """
SELECT f.function, f.depth > 1 AS in_callees, t.class, count(*) AS ticks, sum(t.user_s) AS user_s,
    count(*) FILTER (opcode_call = 'c') AS specialised, count(*) FILTER (opcode_call = 'generic') AS generic
FROM cpu_ticks t JOIN stack_frames f USING (trace, stack)
WHERE starts_with(f.function, 'old_') GROUP BY ALL
"""


@dataclass(frozen=True)
class Case:
    """A case on one interpreter: native percentages of user CPU time, by perf and in the trace. ``unusable``: percent of
    perf's samples that have no bytecode loop; ``in_callees``: of the ticks in Python code that is called. ``first_error``:
    in the first pair of processes; ``errors``: in each of those that count, where there are several."""

    python: str
    case: str
    kind: str
    took_ns: int
    truth: float
    samples: int
    unusable: float
    in_callees: float
    answer: float
    ticks: int
    classes: dict[str, int]
    first_error: float | None = None
    errors: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        return self.answer - self.truth

    @property
    def is_decided(self) -> bool:
        return self.unusable <= MOST_UNUSABLE and not self.runs_python and bool(self.samples) and bool(self.ticks)

    @property
    def runs_python(self) -> bool:
        return self.in_callees > MOST_IN_CALLEES

    @property
    def deviation(self) -> float:
        """Standard deviation of the error: between processes, or if samples were independent."""
        if self.errors:
            return statistics.stdev(self.errors) / len(self.errors) ** 0.5
        share = min(max(self.truth / 100, 0.01), 0.99)
        return float(100 * (share * (1 - share) * (1 / max(self.samples, 1) + 1 / max(self.ticks, 1))) ** 0.5)


@dataclass(frozen=True)
class Result:
    """One interpreter: how many callables there are of each kind, its cases, and why the other callables have none."""

    python: str
    counts: dict[str, int]
    cases: list[Case]
    reasons: dict[str, list[str]]
    driven: int


def truth_of(python: str, found: Path, seconds: float, names: Sequence[str]) -> dict[str, Counter[str]]:
    """Classes of perf's samples for each case."""
    run = sampled([python, PROGRAM, "run", found, str(seconds), *names], rate_hz=4000, stack_bytes=8192, depth=100)
    first, *lines = (json.loads(line) for line in run.stdout.splitlines())
    images = first["images"]
    own = frozenset(function_at(images, address) for address in first["object"].values())
    interpreter = Interpreter(
        images, function_at(images, first["type_call"]), own, function_at(images, first["tuple_dealloc"])
    )
    return {line["name"]: classes_in(line, interpreter, run.samples) for line in lines}


def within(samples: list[Sample], windows: Iterable[tuple[int, int]]) -> Iterator[Sample]:
    """The samples, which are in the order of time, in the windows."""
    times = [sample.t_ns for sample in samples]
    for start, end in windows:
        yield from samples[bisect_right(times, start) : bisect_right(times, end)]


def classes_in(line: dict[str, Any], interpreter: Interpreter, samples: list[Sample]) -> Counter[str]:
    """Of a case's samples."""
    entered = frozenset(interpreter.function(address) for address in line["entered"])
    called = Called(entered - interpreter.of_object, interpreter.function(line["through"]))
    return classes_of([sample.frames for sample in within(samples, line["windows"])], called, interpreter)


def answer_of(
    python: str, found: Path, seconds: float, names: Sequence[str], interval: str
) -> dict[str, list[dict[str, Any]]]:
    """User CPU time and ticks in the trace, by class, for each case: in its function, and in Python code that is called."""
    answer = defaultdict(list)
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "t.parquet"
        record_cpu(trace, python, [PROGRAM, "run", found, str(seconds), *names], interval)
        query = [*tool("scalene-analyze"), "sql", "--json", trace, TICKS]
        text = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    for row in json.loads(text)["rows"]:
        answer[row["function"]].append(row)
    return answer


def measured(
    python: str, found: Path, seconds: float, names: Sequence[str], interval: str
) -> dict[str, dict[str, Any]]:
    """What perf and the trace say about each of the cases."""
    facts, at_once = {}, max(1, int(SECONDS_AT_ONCE / seconds))
    for first in range(0, len(names), at_once):
        some = names[first : first + at_once]
        truth, answer = truth_of(python, found, seconds, some), answer_of(python, found, seconds, some, interval)
        facts.update({name: facts_of(truth.get(name, Counter()), answer[name]) for name in some})
    return facts


def facts_of(classes: Counter[str], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The columns of a case that are measured."""
    own, everywhere = [row for row in rows if not row["in_callees"]], sum(row["ticks"] for row in rows)
    spent, samples = sum(row["user_s"] for row in own), sum(classes.values())
    in_python = sum(row["user_s"] for row in own if row["class"] == "python")
    is_specialised = sum(row["specialised"] for row in own) > sum(row["generic"] for row in own)
    ticks = sum(row["ticks"] for row in own)
    return {
        "truth": native_share(classes, is_specialised),
        "samples": samples,
        "unusable": 100 * classes[OUTSIDE] / samples if samples else 100.0,
        "in_callees": 100 * (1 - ticks / everywhere) if everywhere else 0.0,
        "answer": 100 * (spent - in_python) / spent if spent else float("nan"),
        "ticks": ticks,
        "classes": dict(classes),
    }


def result_of(python: str, seconds: float, interval: str, modules: Sequence[str], only: str | None) -> Result:
    """One interpreter."""
    version = version_of(python)
    with TemporaryDirectory() as folder:
        found = Path(folder) / "cases.json"
        subprocess.run([python, PROGRAM, "find", found, *modules], check=True, capture_output=True)
        listed = json.loads(found.read_text())
        by_name = {case["name"]: case for case in listed["cases"] if not only or only in case["name"]}
        facts = measured(python, found, seconds, list(by_name), interval)
        cases = {name: case_of(version, by_name[name], fact) for name, fact in facts.items()}
        again = [name for name, case in cases.items() if case.is_decided and abs(case.error) > LIMIT]
        pairs = [measured(python, found, seconds, again, interval) for _ in range(PAIRS if again else 0)]
        for name in again:
            fact = combined([pair[name] for pair in pairs])
            cases[name] = case_of(version, by_name[name], fact, cases[name].error)
    reasons = defaultdict(list)
    for name, (_, reason) in listed["reasons"].items():
        reasons[reason].append(name)
    driven = len({case["callable"] for case in by_name.values()})
    return Result(version, listed["counts"], list(cases.values()), dict(reasons), driven)


def combined(pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The columns of a case that was measured in several pairs of processes."""
    means = {
        name: statistics.mean(pair[name] for pair in pairs) for name in ("truth", "unusable", "in_callees", "answer")
    }
    sums = {name: sum(pair[name] for pair in pairs) for name in ("samples", "ticks")}
    classes: Counter[str] = sum((Counter(pair["classes"]) for pair in pairs), Counter())
    return {
        **means,
        **sums,
        "classes": dict(classes),
        "errors": tuple(pair["answer"] - pair["truth"] for pair in pairs),
    }


def case_of(version: str, case: dict[str, Any], facts: dict[str, Any], first_error: float | None = None) -> Case:
    """A case with what was measured."""
    return Case(version, case["name"], case["kind"], case["took_ns"], **facts, first_error=first_error)


def line_of(case: Case) -> str:
    """A case in the text."""
    first = "" if case.first_error is None else f", {case.first_error:+.1f} in a first pair"
    classes = ", ".join(f"{count} {name}" for name, count in sorted(case.classes.items()))
    return (
        f"{'':10}{case.case:56} truth {case.truth:5.1f}  answer {case.answer:5.1f}  error {case.error:+5.1f} "
        f"(deviation {case.deviation:.1f}{first}); {case.ticks} ticks; perf: {classes}; {case.took_ns / 1000:.1f} us"
    )


def totals_of(decided: Sequence[Case]) -> str:
    """How large the errors are, of one case or more."""
    errors = [abs(case.error) for case in decided]
    good = sum(error <= LIMIT for error in errors)
    return (
        f"{'':6}{good} of {len(decided)} cases within {LIMIT:g} points of perf; mean error {statistics.mean(errors):.2f}, "
        f"largest {max(errors):.1f}; median {statistics.median(case.ticks for case in decided):.0f} ticks, "
        f"{statistics.median(case.samples for case in decided):.0f} samples"
    )


def text_of(result: Result) -> str:
    """How many callables there are, how large the errors are, and which are larger than the limit."""
    there = ", ".join(f"{count} {kind}s" for kind, count in sorted(result.counts.items()))
    lines = [f"{result.python}: {there}; {result.driven} were driven, in {len(result.cases)} cases"]
    decided = [case for case in result.cases if case.is_decided]
    lines += [totals_of(decided)] if decided else []
    lines += [line_of(case) for case in sorted(decided, key=lambda case: -abs(case.error)) if abs(case.error) > LIMIT]
    open_cases = [case for case in result.cases if not case.is_decided]
    python = [case for case in open_cases if case.runs_python]
    undecided = [case for case in open_cases if not case.runs_python]
    lines.append(
        f"{'':6}{len(python)} undecided: more than {MOST_IN_CALLEES:g} % is in Python code that the callee runs"
    )
    lines += [line_of(case) for case in python]
    lines.append(f"{'':6}{len(undecided)} undecided: more than {MOST_UNUSABLE:g} % of perf's stacks have no loop")
    lines += [f"{'':10}{case.case}: {case.unusable:.0f} % of {case.samples}; {case.ticks} ticks" for case in undecided]
    for reason, names in sorted(result.reasons.items()):
        lines.append(f"{'':6}{len(names)} not driven, {reason}: {', '.join(names)}")
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """The command line."""
    parser = parser_of_check(__doc__, 0.2)
    parser.add_argument(
        "--extensions", action="store_true", help="also what is in the standard library's shared libraries"
    )
    parser.add_argument("--only", help="cases with this in their name")
    return parser.parse_args()


def main() -> int:
    """Exit status 1 if a case is off by more than the limit."""
    asked = options()
    results = []
    for python in asked.python or interpreters_and_distribution():
        modules: list[str] = []
        if asked.extensions:
            done = subprocess.run([python, "-c", MODULES_CODE], capture_output=True, text=True, check=True)
            modules = done.stdout.split()
        results.append(result_of(python, asked.seconds, asked.interval, modules, asked.only))
        print(text_of(results[-1]), flush=True)
    if not asked.print_only:
        text = "\n".join(text_of(result) for result in results)
        name = "old-calls-extensions" if asked.extensions else "old-calls"
        write_result(name, {"seconds": asked.seconds, "results": [asdict(result) for result in results]}, text)
    return int(any(case.is_decided and abs(case.error) > LIMIT for result in results for case in result.cases))


if __name__ == "__main__":
    sys.exit(main())
