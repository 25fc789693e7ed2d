"""The programs of docs/case-studies.md in a short form: the report points at the line and says why, the comparison says
what was gained. Shares and verdicts, no seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import ROOT
from tests.support.recording import Json, analyze, record, report

EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "case-studies.md"
FINE = ["--cpu-interval", "2ms"]


@dataclass(frozen=True)
class Case:
    """A program, how much it is to do, the text of the line that costs, and what of it a better version does not do."""

    name: str
    size: int
    text: str
    measures: tuple[str, ...]


CASES = {
    case.name: case
    for case in (
        Case("exponential", 1_200, "total += power / factorial", ("cpu_s", "alloc_bytes")),
        Case("regions", 600_000, 'table[COLUMNS][table["region"] == region]', ("cpu_s", "alloc_bytes", "copy_bytes")),
        Case("loudness", 4_000_000, "np.array(samples, dtype=float)", ("cpu_s", "alloc_bytes", "copy_bytes")),
    )
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def pair(case: Case, any_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Traces of both versions. The copies of short runs are small: a sample each 2 MB."""
    folder = tmp_path_factory.mktemp(case.name)
    options = [*FINE, "--copy-threshold", "2MB"]
    outputs = []
    for side in ("before", "after"):
        program = [EXAMPLES / side / f"{case.name}.py", str(case.size)]
        done = record(folder / f"{side}.parquet", program, any_python, options)
        assert done.status == 0, done.stderr.decode()
        outputs.append(done.stdout)
    assert digits(outputs[0]) == digits(outputs[1]), "both versions give the same result"
    return folder / "before.parquet", folder / "after.parquet"


def digits(output: bytes) -> list[str]:
    """The numbers of an output; of long ones the first ten digits."""
    return [text[:11] for text in re.findall(r"[\d.]+", output.decode())]


def top_line(found: Json) -> Json:
    """The line with most CPU time."""
    line: Json = max(found["lines"], key=lambda row: row["cpu_s"] or 0)
    return line


def test_the_report_points_at_the_line_and_says_why(case: Case, pair: tuple[Path, Path]) -> None:
    found = report(pair[0])
    line = top_line(found)
    assert case.text in line["source"]
    assert line["native_s"] + line["system_s"] > 0.6 * line["cpu_s"], "it is no Python code that costs"
    program = sum(row["cpu_s"] for row in found["lines"] if "import" not in (row["source"] or ""))
    assert line["cpu_s"] > 0.5 * program
    assert line["alloc_bytes"] > 0.5 * sum(row["alloc_bytes"] for row in found["lines"])
    assert line["alloc_bytes"] > 10 * line["live_at_peak_bytes"], "what it allocates is thrown away again"
    if "copy_bytes" in case.measures:
        assert line["copy_bytes"] > 0.5 * found["totals"]["copy_bytes"]


def test_the_comparison_names_the_gain(case: Case, pair: tuple[Path, Path]) -> None:
    found = report(pair[1], str(pair[0]), command="diff")
    (line,) = [row for row in found["lines"] if case.text in (row["before_source"] or "")]
    assert "faster" in found["summary"]
    for measure in case.measures:
        assert found["totals"][measure]["verdict"] == "better", measure
        change = line["changes"][measure]
        assert (change["after"] or 0) < 0.5 * change["before"]
        assert change["verdict"] == "better" or line["status"] == "removed"
    text = analyze("diff", *pair).stdout.decode()
    assert case.text in text, "the line is shown"


def test_the_page_shows_what_was_printed() -> None:
    page = PAGE.read_text()
    for case in CASES.values():
        for kind in ("report", "diff"):
            found = re.search(rf"<!-- output: {case.name} {kind} -->\n```text\n(.*?)```", page, re.DOTALL)
            assert found is not None and case.text in found[1], (case.name, kind)
    assert page.count("better") > 6
