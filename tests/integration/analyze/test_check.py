"""`scalene-analyze check`: a recording against a budget."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.check.budget import LIMITS, Limit, Rule, read_budget
from scalene_trace.analyze.check.check import Check
from tests.support.command_line import Ran, fields_of
from tests.support.example_traces import APP, THIN, damaged, hostile_trace, thin_trace
from tests.support.paths import DOCS
from tests.support.trace_builder import MS, SECOND, TraceBuilder

TOOL = "/home/me/shop/tool.py"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """10 s: 6 s of CPU on app.py:4, 3 s on app.py:5, 1 s on tool.py:9; 100 MB of which 60 MB live on app.py:5, copies of
    200 MB there, and a second of waiting."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "memory", "alloc", "copy", "wait"]'
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    stacks = {4: builder.stack((APP, "main", 3, 4)), 5: builder.stack((APP, "main", 3, 5))}
    stacks[9] = builder.stack((TOOL, "Basket.pay", 8, 9), (APP, "main", 3, 4))
    for line, count in ((4, 60), (5, 30), (9, 10)):
        for index in range(count):
            builder.tick(index * MS, process, thread, stacks[line], user_ns=100 * MS)
    for index in range(10):
        builder.alloc(index * MS, process, thread, stacks[5], 10_000_000, None if index < 6 else 900 * MS)
        builder.copy(index * MS, process, thread, stacks[5], 20_000_000)
    builder.memory(2 * SECOND, process, thread, stacks[5], 60_000_000, 60_000_000)
    builder.wait(0, process, thread, stacks[9], SECOND)
    return builder.write(tmp_path / "t.parquet")


@pytest.fixture
def check(run: Any, trace: Path, tmp_path: Path) -> Any:
    def call(text: str, *arguments: object) -> Ran:
        budget = tmp_path / "budget.toml"
        budget.write_text(text)
        found: Ran = run("check", "--budget", budget, *arguments, trace)
        return found

    return call


#: Tables of budgets with a limit that is just kept, one that is just broken, and the figure of the latter.
CASES: list[tuple[str, str, str, float | None]] = [
    ("[total]", 'cpu = "10.5 s"', 'cpu = "9.9 s"', 10.0),
    ("[total]", 'python = "100 %"', 'python = "99.9 %"', 100.0),
    ("[total]", 'peak = "100 MB"', 'peak = "99 MB"', 100e6),
    ("[total]", 'wall = "10 s"', 'wall = "9 s"', 10.0),
    ("[total]", 'copy = "20 MB/s"', 'copy = "19 MB/s"', 20e6),
    ("[total]", 'copy = "200 MB"', 'copy = "199 MB"', 200e6),
    ("[total]", 'wait = "1 s"', 'wait = "999 ms"', 1.0),
    ("[total]", 'alloc = "100 MB"', 'alloc = "90 MB"', 100e6),
    ("[total]", 'growth = "60 MB"', 'growth = "59 MB"', 60e6),
    ("[total]", 'leak = "0 B/s"', 'cpu = "0 %"', None),
    ("[[line]]", 'cpu = "60 %"', 'cpu = "59 %"', 60.0),
    ("[[line]]\nfile = 'app.py'\nline = 5", 'cpu = "30 %"', 'cpu = "29 %"', 30.0),
    ("[[line]]\nfile = 'app.py'", 'peak = "100 MB"', 'peak = "99 MB"', 100e6),
    ("[[function]]\nfunction = 'Basket.*'", 'cpu = "10 %"', 'cpu = "9 %"', 10.0),
    ("[[function]]\nfile = 'app.py'", 'cpu = "90 %"', 'cpu = "89 %"', 90.0),
    ("[[function]]\nfunction = 'main'", 'total_cpu = "100 %"', 'total_cpu = "99 %"', 100.0),
    ("[[function]]\nfunction = 'main'", 'total_cpu = "10 s"', 'total_cpu = "9.9 s"', 10.0),
    ("[[function]]\nfunction = 'main'", 'total_wait = "1 s"', 'total_wait = "0.9 s"', 1.0),
    ("[[function]]\nfunction = 'main'", 'wait = "0 s"', 'total_wait = "0 s"', 1.0),
    ("[[function]]\nfunction = 'main'", 'total_alloc = "100 MB"', 'total_alloc = "99 MB"', 100e6),
    ("[[function]]\nfunction = 'main'", 'total_peak = "100 MB"', 'total_peak = "99 MB"', 100e6),
    ("[[file]]\nfile = '*/shop/*'", 'wait = "1 s"', 'wait = "0.5 s"', 1.0),
    ("[[file]]", 'cpu = "90 %"', 'cpu = "89 %"', 90.0),
    ("[[sql]]\nquery = 'SELECT count(*) FROM cpu_ticks'", "max = 100", "max = 99", 100.0),
    ("[[sql]]\nquery = 'SELECT sum(bytes) FROM copies'", "min = 2e8", "min = 2.1e8", 2e8),
]


def budgets(limits: Sequence[tuple[str, str]]) -> list[str]:
    """Budgets with all of these limits. A key stands in [total] only once, so there may be several."""
    totals: list[dict[str, str]] = []
    for limit in (limit for table, limit in limits if table == "[total]"):
        key = limit.partition(" ")[0]
        if (free := next((each for each in totals if key not in each), None)) is None:
            totals.append(free := {})
        free[key] = limit
    texts = ["\n".join(["[total]", *each.values()]) for each in totals]
    return ["\n".join([texts[0], *(f"{table}\n{limit}" for table, limit in limits if table != "[total]")]), *texts[1:]]


def test_limits_are_kept(check: Any) -> None:
    shown = [check(text) for text in budgets([(table, kept) for table, kept, _, _ in CASES])]
    assert [(each.code, each.err) for each in shown] == [(0, "")] * 2
    assert [each.out.splitlines()[-1] for each in shown] == [
        f"All of {len(CASES) - 1} limits kept.",
        "All of 1 limit kept.",
    ]


def test_limits_are_broken(check: Any) -> None:
    rows = []
    for text in budgets([(table, broken) for table, _, broken, _ in CASES]):
        failed = check(text, "--json")
        assert (failed.code, failed.err) == (1, "")
        failed.code = 0
        rows += failed.json["checks"]
    assert not [row["text"] for row in rows if row["passed"]]
    values = [(table.strip("[").partition("]")[0], 100 if value is None else value) for table, _, _, value in CASES]
    assert sorted((row["kind"], round(row["value"], 6)) for row in rows) == sorted(values)


def test_what_fails_comes_first_and_names_the_place(check: Any) -> None:
    text = '[total]\npeak = "1 GB"\n[[line]]\ncpu = "25 %"\n[[line]]\nfile = "no.py"\noptional = true\ncpu = "1 %"\n'
    shown = check(text)
    assert shown.code == 1
    assert shown.out.splitlines() == [
        "FAILED  line /home/me/app.py:4: self cpu 60.0 % of at most 25 %",
        "ok      the program: total peak 100.0 MB of at most 1 GB",
        "ok      line no.py: self cpu within 1 % (no sample there)",
        "1 of 3 limits failed.",
    ]


#: Rules whose names are not in the trace, and what is said of them.
UNKNOWN = [
    ("[[function]]\nfunction = 'Basket.pya'", "no such function in the trace. Did you mean Basket.pay?"),
    ("[[function]]\nfunction = 'Shlef.*'", "no such function in the trace"),
    ("[[function]]\nfunction = 'pay'", "no such function in the trace. Did you mean Basket.pay?"),
    ("[[function]]\nfunction = 'find'", "no such function in the trace. Did you mean Shelf.find?"),
    (
        "[[function]]\nfile = 'tool.py'\nfunction = 'main'",
        "function main in tool.py: no such function in the trace",
    ),
    ("[[function]]\nfile = 'aap.py'\nfunction = 'main'", "no such file in the trace. Did you mean app.py?"),
    ("[[line]]\nfile = 'toll.py'", "line toll.py: no such file in the trace. Did you mean tool.py?"),
    ("[[file]]\nfile = '/home/me/shop/tol.py'", "Did you mean /home/me/shop/tool.py?"),
    ("[[function]]\nfunction = 'dumps'", "it is not the program's own code; --all or --include counts it"),
    ("[[line]]\nfile = 'shelf.py'\nline = 8", "no such line in the trace; the file has 7"),
]


def test_a_name_that_is_not_in_the_trace_fails(run: Any, tmp_path: Path) -> None:
    path, budget = shop(tmp_path / "t.parquet"), tmp_path / "budget.toml"
    budget.write_text("\n".join(f'{rule}\ncpu = "1 h"' for rule, _ in UNKNOWN))
    failed = run("check", "--budget", budget, path)
    assert (failed.code, failed.err) == (1, "")
    said = [" ".join(text.split()) for text in failed.out.split("FAILED")[1:]]
    by_kind = [
        says for kind in ("file", "function", "line") for rule, says in UNKNOWN if rule.startswith(f"[[{kind}]]")
    ]
    assert len(said) == len(UNKNOWN) and f"{len(UNKNOWN)} of {len(UNKNOWN)} limits failed." in failed.out
    assert not [(says, text) for says, text in zip(by_kind, said, strict=True) if says not in text]
    budget.write_text("\n".join(f'{rule}\noptional = true\ncpu = "1 h"' for rule, _ in UNKNOWN))
    assert run("check", "--budget", budget, path).code == 0


def test_a_place_without_a_sample_that_is_known_keeps_a_limit(run: Any, tmp_path: Path) -> None:
    rules = [
        "[[function]]\nfunction = 'Shelf.find'",  # defined in a source of the trace
        "[[function]]\nfunction = 'Shelf.find.<locals>.near'",
        "[[function]]\nfile = 'shelf.py'\nfunction = '<module>'",
        "[[line]]\nfile = 'shelf.py'\nline = 3",
        "[[line]]\nfile = 'tool.py'\nline = 700",  # its source is not in the trace
    ]
    path = shop(tmp_path / "t.parquet")
    (tmp_path / "budget.toml").write_text("\n".join(f'{rule}\ncpu = "0 s"' for rule in rules))
    kept = run("check", "--budget", tmp_path / "budget.toml", path)
    assert kept.code == 0 and " ".join(kept.out.split()).count("(no sample there)") == len(rules)


def test_names_are_those_of_the_recorded_version(run: Any, tmp_path: Path) -> None:
    """Traces of 3.10 have plain names of functions."""
    (tmp_path / "budget.toml").write_text("[[function]]\nfunction = 'find'\ncpu = '0 s'")
    (tmp_path / "other.toml").write_text("[[function]]\nfunction = 'Shelf.find'\ncpu = '0 s'")
    old, new = shop(tmp_path / "old.parquet", "3.10.13"), shop(tmp_path / "new.parquet")
    assert run("check", "--budget", tmp_path / "budget.toml", old).code == 0
    failed = run("check", "--budget", tmp_path / "other.toml", old)
    assert failed.code == 1 and "no such function in the trace. Did you mean find?" in " ".join(failed.out.split())
    assert "1 of 1 limit failed." in failed.out
    assert run("check", "--budget", tmp_path / "other.toml", old, new).code == 0


@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_warnings_about_the_programs_source_are_not_shown(options: tuple[str, ...]) -> None:
    """In a process of its own, because pytest catches warnings."""
    text = 'def f():\n    return "\\d"\n'
    code = f"from scalene_trace.analyze.check.names import defined_functions as d; print('f' in d({text!r}))"
    ran = subprocess.run([sys.executable, "-W", "always", *options, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("True\n", "")


def shop(path: Path, version: str = "3.12.4") -> Path:
    """A tick of each of three functions of the user's and one of a library, and the source of one file."""
    builder = TraceBuilder()
    process = builder.process(python_version=version)
    thread = builder.thread(process, cpu_ns=0)
    shelf = "/home/me/shelf.py"
    library = ("/usr/lib/python3.12/json/__init__.py", "dumps", 1, 2)
    for place in ((APP, "main", 3, 4), (TOOL, "Basket.pay", 8, 9), (shelf, "Shelf.fill", 6, 7)):
        builder.tick(0, process, thread, builder.stack(library, place))
    text = "class Shelf:\n  def find(self):\n    def near(): pass\n    return near\n\n  def fill(self):\n    return 5\n"
    builder.add("source", file=shelf, text=text, changed=False)
    return builder.write(path)


def test_the_json_has_every_key_and_the_documents_name_them(check: Any) -> None:
    document = check('[total]\ncpu = "1 h"\n', "--json").json
    assert list(document) == ["schema", "query", "traces", "checks"] and document["schema"] == "scalene-trace/check/1"
    assert list(document["checks"][0]) == fields_of(Check)
    described = (DOCS / "json.md").read_text()
    assert [name for name in fields_of(Check) if f"`{name}`" not in described] == []
    assert [name for name in LIMITS if f"`{name}`" not in (DOCS / "check.md").read_text()] == []


def test_the_example_of_the_documents_is_a_budget(tmp_path: Path, check: Any) -> None:
    example = (DOCS / "check.md").read_text().split("```toml\n", 1)[1].split("```", 1)[0]
    assert check(example).code == 1, "a line has more than 20 %"
    budget = read_budget(tmp_path / "budget.toml")
    assert budget.rules[3] == Rule("line", (Limit("cpu", "cpu_s", "percent", 20.0, "20 %"),), file="app.py")
    assert len(budget.rules) == 4 and len(budget.queries) == 1


def test_several_traces_are_added_up(check: Any, trace: Path) -> None:
    assert check('[total]\ncpu = "15 s"\npeak = "100 MB"\n').code == 0
    assert check('[total]\ncpu = "15 s"\n', trace).code == 1
    assert check('[total]\npeak = "100 MB"\n', trace).code == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The budget has no limits"),
        ("[total", "is not valid TOML"),
        ("[totals]\ncpu = '1 s'", "Did you mean total?"),
        ("[total]\ncpuu = '1 s'", "Did you mean cpu?"),
        ("[total]\ncpu = 5", "Write, for example, cpu ="),
        ("[total]\ncpu = '5 MB'", "Write, for example, cpu ="),
        ("[total]\nleak = '5 MB'", '"1 MB/s"'),
        ("[[line]]\nwall = '5 s'", "wall"),
        ("[[line]]\nline = 'x'\ncpu = '5 s'", "line of [line] must be an integer"),
        ("[[line]]\nfile = 'app.py'", "has no limit"),
        ("total = 5", "total must be a table"),
        ("[[sql]]\nmax = 5", "needs query"),
        ("[[sql]]\nquery = 'SELECT 1'", "needs min or max"),
        ("[[sql]]\nquery = 'SELECT 1'\nmax = nan", "must be numbers"),
        (f"[[sql]]\nquery = 'SELECT 1'\nmax = 1{400 * '0'}", "must be numbers"),
        (f"[total]\npeak = 1{5000 * '0'}", "is not valid TOML"),
        ("[[sql]]\nquery = 'SELECT 1, 2'\nmax = 5", "must return one row with one column"),
        ("[[sql]]\nquery = \"SELECT 'x'\"\nmax = 5", "must return a number"),
        ("[[sql]]\nquery = 'SELECT NULL'\nmax = 5", "must return a number"),
        ("[[sql]]\nquery = 'SELECT nope'\nmax = 5", "Cannot run the query"),
        ("[[sql]]\nquery = \"COPY (SELECT 1) TO 'x'\"\nmax = 5", "Only SELECT"),
        ("[total]\nrss = '5 MB'", "was not recorded"),
        ("[[line]]\ntotal_cpu = '5 s'", "There is no key of [line] 'total_cpu'"),
        ("[[line]]\noptional = 1\ncpu = '5 s'", "optional of [line] must be true or false"),
        ("[total]\noptional = true\ncpu = '5 s'", "There is no key of [total] 'optional'"),
        ("a = '\\ud800'", "There is no table 'a'"),
    ],
)
def test_a_wrong_budget_is_2_and_a_sentence(text: str, says: str, check: Any) -> None:
    wrong = check(text)
    assert (wrong.code, wrong.out) == (2, "")
    assert says in wrong.err and "Traceback" not in wrong.err and wrong.err.startswith("scalene-analyze: ")


def test_a_budget_that_is_missing_is_2(run: Any, trace: Path, tmp_path: Path) -> None:
    assert run("check", trace).code == 2
    wrong = run("check", "--budget", tmp_path / "no.toml", trace)
    assert wrong.code == 2 and f"Cannot read {tmp_path / 'no.toml'}: no such file or directory" in wrong.err
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    assert "not text in UTF-8" in run("check", "--budget", tmp_path / "bytes.toml", trace).err


@pytest.mark.parametrize("kind", ["missing", "empty", "cut"])
def test_a_bad_trace_is_3(kind: str, run: Any, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text('[total]\ncpu = "1 s"')
    refused = run("check", "--budget", tmp_path / "budget.toml", damaged(kind, tmp_path / "bad.parquet"))
    assert (refused.code, refused.out) == (3, "")


@pytest.mark.parametrize("kind", THIN)
def test_a_thin_trace_is_answered_sensibly(kind: str, run: Any, tmp_path: Path) -> None:
    path = thin_trace(kind, tmp_path / "t.parquet")
    codes = []
    for limit in ('[total]\ncpu = "1 s"', '[[line]]\ncpu = "100 %"', '[total]\npeak = "1 GB"'):
        (tmp_path / "budget.toml").write_text(limit)
        found = run("check", "--budget", tmp_path / "budget.toml", path)
        codes.append(found.code)
        assert found.out.strip() if found.code == 0 else "was not recorded" in found.err
    has_cpu, has_memory = (kind != each and kind != "nothing at all" for each in ("memory only", "cpu only"))
    assert codes == [0 if has_cpu else 2, 0 if has_cpu else 2, 0 if has_memory else 2]


def test_hostile_text_is_inert(run: Any, tmp_path: Path) -> None:
    path = hostile_trace(tmp_path / "t.parquet")
    (tmp_path / "budget.toml").write_text('[[line]]\ncpu = "1 %"\n[[function]]\nalloc = "1 B"\n[[file]]\ncpu = "1 %"')
    shown = run("check", "--budget", tmp_path / "budget.toml", path)
    assert shown.code == 1 and not set(shown.out) & set("\x1b\x07\r\x00\u202e\u2028\x9b")
    assert run("check", "--budget", tmp_path / "budget.toml", "--json", path).out.isascii()
