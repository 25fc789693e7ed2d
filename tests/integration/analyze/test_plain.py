"""Plain text has the figures of the JSON, each under its name, and nothing that could be taken for one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.cli.render.plain import plain_text
from tests.support.example_traces import gappy_trace, hostile_builder, rich_builder, rich_trace, small_trace
from tests.support.trace_builder import SECOND, TraceBuilder

#: Commands with tables of figures.
TABLES = (
    "report",
    "functions",
    "leaks",
    "memory",
    "timeline",
    "threads",
    "tasks",
    "labels",
    "libraries",
    "processes",
    "info",
)
FIGURE = re.compile(r"([\w.]+)=(-?[0-9]+(?:[.][0-9]+)?(?:e[+-][0-9]+)?)(?:±([0-9.]+(?:e[+-][0-9]+)?))?(?=[,)]|$)")
NOT_SHOWN = ("line", "first_line", "count")  # a part of places, and of what was lost


def scalars(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a document that are not zero, with the names of their fields; not those in lists without names."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not (isinstance(each, list) and each and isinstance(each[0], list)):
                yield from scalars(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from scalars(each, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        yield name, float(value)


def shown(text: str) -> list[tuple[str, float]]:
    """The figures of plain text by the last part of their names; errors by the name of their figure."""
    found = []
    for line in text.split("\n"):
        for match in FIGURE.finditer(line):
            name = match[1].rpartition(".")[2]
            found.append((name, float(match[2])))
            if match[3]:
                found.append((f"{name} error", float(match[3])))
    return found


def is_error(name: str) -> bool:
    return "error" in name


@pytest.mark.parametrize("command", TABLES)
def test_every_figure_is_there_under_its_name(command: str, run: Any, tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    document = run(command, path, "--json").json
    if command not in ("info", "processes"):  # only what matters of the traces is shown
        document.pop("traces")
    wanted = Counter(name for name, _ in scalars(document))
    text = run(command, path, "--plain").out
    found = Counter(name for name, _ in shown(text))
    missing = {
        name: count - found[name]
        for name, count in wanted.items()
        if count > found[name] and name not in NOT_SHOWN and not is_error(name) and "unseen" not in name
    }
    missing = {name: count for name, count in missing.items() if name != "value"}  # of findings, which are sentences
    nested = {"native_s", "cpu_s"}  # of the fourth library or function of a line
    assert {name: count for name, count in missing.items() if name not in nested} == {}
    assert sum(map(is_error, wanted)) == 0 or "±" in text


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        ("report", "lines"),
        ("functions", "functions"),
        ("memory", "memory"),
        ("threads", "threads"),
        ("processes", "processes"),
    ],
)
def test_each_record_has_its_own_figures(command: str, rows: str, run: Any, tmp_path: Path) -> None:
    """To four digits, in the order of the JSON, none twice, and errors with their figure."""
    path = rich_trace(tmp_path / "t.parquet")
    records = run(command, path, "--json").json[rows]
    text = run(command, path, "--plain").out.partition(f"\n{rows}:\n")[2]
    parts = [part for part in re.split(r"^  - ", text.partition("\n\n")[0], flags=re.MULTILINE) if part]
    assert len(records) > 1 and len(parts) >= len(records)
    for record, part in zip(records, parts, strict=False):
        own_part = re.split(r"\nunattributed|\nfunctions:", part)[0]
        found = shown(re.sub(r"=\(.*", "", own_part))  # without the lists, whose records have such figures too
        own = {
            name: value
            for name, value in record.items()
            if type(value) in (int, float) and value and "unseen" not in name
        }
        for name, value in own.items():
            if name in NOT_SHOWN or is_error(name):
                continue
            assert [each for key, each in found if key == name] == [pytest.approx(value, rel=1e-3)], (name, part)
            stem, _, unit = name.rpartition("_")
            error = record.get(f"{stem}_error_{unit}") or record.get(f"{name}_error")
            assert [each for key, each in found if key == f"{name} error"] == (
                [pytest.approx(error, rel=1e-3)] if error else []
            ), name


def test_no_name_can_forge_a_figure(run: Any, tmp_path: Path) -> None:
    path = small_trace(tmp_path / "t.parquet", "/a, cpu_s=77.5/x.py", "f, cpu_s=88.5\ncpu_s=99.5")
    lines = run("report", path, "--plain").out.split("\n")
    forged = [line for line in lines if re.search("(77|88|99)[.]5", re.sub(r'"(?:[^"\\]|\\.)*"', "", line))]
    assert forged == []
    assert any("88.5" in line for line in lines)


def test_a_name_with_a_quotation_mark_stays_quoted(run: Any, tmp_path: Path) -> None:
    path = small_trace(tmp_path / "t.parquet", '/a".py', 'f", cpu_s=88.5, x="')
    (place, *_) = [line for line in run("report", path, "--plain").out.split("\n") if " in " in line and "88.5" in line]
    assert '"f\\", cpu_s=88.5, x=\\""' in place


def test_source_and_losses_are_there(run: Any, tmp_path: Path) -> None:
    text = run("report", small_trace(tmp_path / "t.parquet"), "--plain").out
    assert "    | more()\n" in text and "/home/me/app.py:5 in main\n" in text
    assert 'loss torn_stack (loss, 7): "stacks were not readable"' in text
    assert "losses: none" in run("report", _whole(tmp_path / "u.parquet"), "--plain").out


def _whole(path: Path) -> Path:
    builder = TraceBuilder()
    process = builder.process()
    builder.tick(SECOND, process, builder.thread(process, cpu_ns=0), builder.stack(("/a.py", "f", 1, 2)))
    return builder.write(path)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("command", TABLES)
def test_traces_with_gaps_are_shown(command: str, seed: int, run: Any, tmp_path: Path) -> None:
    for build in (rich_builder, hostile_builder):
        done = run(command, gappy_trace(build(), seed, tmp_path / f"{build.__name__}.parquet"), "--plain")
        assert (done.code, done.err) == (0, "") and done.out.endswith("\n")


def test_what_is_left_out_is_counted() -> None:
    document = {
        "schema": "s",
        "rows": [{"cpu_s": 1.5}, {"cpu_s": 2.5}, {"cpu_s": 3.5}],
        "findings": [{"kind": "x", "text": "a"}] * 3,
    }
    lines = list(plain_text(document, 2))
    assert lines[:4] == ["findings:", '  - "a"', '  - "a"', '  - "a"']
    assert lines[4:8] == ["rows:", "  - cpu_s=1.5", "  - cpu_s=2.5", "  1 row is not shown."]
    assert not any("not shown" in line for line in plain_text(document))


def test_a_row_without_a_name_says_so() -> None:
    row = {"file": None, "line": None, "function": None, "type": None, "samples": 3}
    assert "  - type=none, samples=3" in plain_text({"memory": [row]})
    assert '  - type="none", samples=3' in plain_text({"memory": [row | {"type": "none"}]})
    assert "  - allocator=malloc, samples=3" in plain_text(
        {"memory": [{"type": None, "allocator": "malloc", "samples": 3}]}
    )


def test_what_was_not_sampled_has_its_bound() -> None:
    row = {"file": "/a.py", "line": 3, "cpu_s": 1.0, "cpu_error_s": 0.25, "alloc_bytes": 0, "alloc_unseen_bytes": 7000}
    assert "    cpu_s=1±0.25, alloc_bytes<7000" in plain_text({"lines": [row]})


def test_a_zero_that_may_be_more_says_so() -> None:
    row = {
        "cpu_s": 1.0,
        "growth_bytes": 0,
        "growth_error_bytes": 500,
        "live_at_end_bytes": 0,
        "live_at_end_error_bytes": 40,
    }
    assert "  - cpu_s=1, growth_bytes=0±500, live_at_end_bytes=0±40" in plain_text({"lines": [row]})
    assert "  - cpu_s=1, growth_bytes=0±500, live_at_end_bytes<900" in plain_text(
        {"lines": [row | {"live_unseen_bytes": 900}]}
    )
    assert "lines:\n\n" not in "\n".join(plain_text({"lines": [row | {"cpu_s": 0.0}]}))


def test_zeros_that_mean_something_stay() -> None:
    assert "  - exit_status=0, pid=7" in plain_text({"processes": [{"exit_status": 0, "pid": 7, "threads": 0}]})
    change = {"before": 5.0, "after": 0.0, "difference": -5.0, "p": 0.0}
    assert "  - cpu_s.before=5, cpu_s.after=0, cpu_s.difference=-5, cpu_s.p=0" in plain_text(
        {"lines": [{"cpu_s": change}]}
    )
    assert '  - gate="cpu>+5%", failed=no, text="within the limit"' in plain_text(
        {"gates": [{"gate": "cpu>+5%", "failed": False, "text": "within the limit"}]}
    )


def test_marks_have_their_text(run: Any, tmp_path: Path) -> None:
    assert "text=load" in run("info", rich_trace(tmp_path / "t.parquet"), "--plain").out


def test_samplers_that_were_off_are_named(run: Any, tmp_path: Path) -> None:
    trace = {"path": "/t", "wall_s": 1.0, "events": {"cpu": 3, "wait": None, "copy": None}, "losses": []}
    assert '  - trace=1, path=/t, wall_s=1, not_recorded="wait copy"' in plain_text({"traces": [trace], "lines": []})


def test_sentences_of_findings_are_in_quotation_marks() -> None:
    finding = {"kind": "line", "file": "/a/b.py", "text": '50 % is in "b.py":1'}
    assert '  - "50 % is in \\"b.py\\":1"' in plain_text({"findings": [finding]})


@pytest.mark.parametrize("name", ["a), cpu_s=0.1", "alloc_bytes<5", "losses:none", "none", "<module> ", "f(1)"])
def test_names_that_could_pass_for_structure_are_quoted(name: str) -> None:
    (line,) = [line for line in plain_text({"callees": [{"name": name, "cpu_s": 2.0}]}) if "cpu_s=2" in line]
    assert line == f'  - name="{name}", cpu_s=2'


def test_one_format_at_a_time(run: Any, tmp_path: Path) -> None:
    path = small_trace(tmp_path / "t.parquet")
    for words in (["report", path, "--json"], ["diff", path, path, "--json"], ["diff", path, path, "--markdown"]):
        done = run(*words, "--plain")
        assert done.code == 2 and "are two formats" in done.err
