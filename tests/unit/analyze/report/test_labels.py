"""Costs by label, and samples that are selected by it, on a trace whose figures are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.analyze import notebook
from scalene_trace.analyze.fleet.stacks import stacks_by_trace
from scalene_trace.analyze.labels.costs import LabelError
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from tests.support.recording import analyze, report
from tests.support.trace_builder import MS, SECOND, TraceBuilder

LINE = ("/home/me/app.py", "serve", 9, 10)
OTHER = ("/home/me/app.py", "other", 19, 20)
CART, BUY = ("endpoint=/cart", "user=7"), ("endpoint=/buy",)


def trace(folder: Path) -> Path:
    """One line of code, with the labels of two endpoints and without any; 1, 2 and 3 ticks of 10 ms each. Another line, with
    the label of the first endpoint and another user: a wait of 2 s and a suspension of 1 s."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait", "task", "memory", "alloc"]'
    process = builder.process(end_ns=9 * SECOND)
    thread = builder.thread(process, 60 * MS, end_ns=9 * SECOND)
    stacks = [builder.stack(LINE, labels=labels) for labels in (CART, BUY, ())]
    for number, stack in enumerate(stacks, start=1):
        for tick in range(number):
            builder.tick(tick * SECOND, process, thread, stack)
    waiting = builder.stack(OTHER, labels=("endpoint=/cart", "user=8"))
    builder.wait(SECOND, process, thread, waiting, 2 * SECOND)
    builder.task(SECOND, process, thread, waiting, SECOND, task=1, name="work")
    return builder.write(folder / "t.parquet")


def test_costs_are_added_up_by_label_and_the_rest_is_a_row(tmp_path: Path) -> None:
    path = trace(tmp_path)
    rows = report(path, command="labels")["labels"]
    assert [row["labels"] for row in rows] == [[], ["endpoint=/buy"], [*CART], ["endpoint=/cart", "user=8"]]
    assert [row["cpu_s"] for row in rows] == pytest.approx([0.03, 0.02, 0.01, 0])
    assert [row["cpu_percent"] for row in rows] == pytest.approx([50, 100 / 3, 100 / 6, 0])
    assert [row["wait_s"] for row in rows] == pytest.approx([0, 0, 0, 2])
    by_endpoint = report(path, "--by", "endpoint", "--sort", "wait_s", command="labels")
    assert by_endpoint["query"]["by"] == ["endpoint"]
    found = [(row["labels"], row["cpu_s"], row["wait_s"], row["suspended_s"]) for row in by_endpoint["labels"]]
    assert found[0] == (["endpoint=/cart"], pytest.approx(0.01), pytest.approx(2), pytest.approx(1))
    assert [labels for labels, *_ in found] == [["endpoint=/cart"], [], ["endpoint=/buy"]]
    by_nothing = report(path, "--by", "job", command="labels")["labels"]
    assert [(row["labels"], row["cpu_s"]) for row in by_nothing] == [([], pytest.approx(0.06))]
    text = analyze("labels", "--by", "endpoint", path).stdout.decode()
    assert "endpoint=/cart" in text and "(no endpoint)" in text
    assert "No sample has a label" not in text


@pytest.mark.parametrize(
    ("options", "cpu_s", "wait_s"),
    [
        ([], 0.06, 2),
        (["endpoint=/cart"], 0.01, 2),
        (["endpoint=/cart", "user=7"], 0.01, 0),
        (["user=8"], 0, 2),
        (["endpoint=/buy", "user=7"], 0, 0),
    ],
)
def test_samples_are_selected_by_all_labels_that_are_named(
    tmp_path: Path, options: list[str], cpu_s: float, wait_s: float
) -> None:
    path = trace(tmp_path)
    options = [word for each in options for word in ("--label", each)]
    found = report(path, *options)
    totals = found["totals"]
    assert (totals["cpu_s"], totals["wait_s"]) == (pytest.approx(cpu_s), pytest.approx(wait_s))
    assert found["query"]["label"] == options[1::2]
    functions = {row["function"]: row for row in report(path, *options, command="functions")["functions"]}
    assert sum(row["cpu_s"] for row in functions.values()) == pytest.approx(cpu_s)
    threads = report(path, *options, command="threads")["threads"]
    assert [(row["cpu_s"], row["wait_s"]) for row in threads] == [(pytest.approx(cpu_s), pytest.approx(wait_s))]
    tasks = report(path, *options, command="tasks")["tasks"]
    assert sum(row["suspended_s"] for row in tasks) == pytest.approx(wait_s / 2)


def test_labels_are_reachable_from_each_sample_in_sql(tmp_path: Path) -> None:
    path = trace(tmp_path)
    statement = (
        "SELECT value, round(sum(user_s), 3) AS s FROM cpu_ticks JOIN stack_labels USING (trace, stack) "
        "WHERE name = 'endpoint' GROUP BY value ORDER BY value"
    )
    done = analyze("sql", "--format", "csv", path, statement)
    assert done.stdout.split()[1:] == [b"/buy,0.02", b"/cart,0.01"], done.stderr
    selected = "SELECT round(sum(cpu_s), 3) AS s FROM own_cpu"
    assert analyze("sql", "--format", "csv", "--label", "user=7", path, selected).stdout.split() == [b"s", b"0.01"]
    script = analyze("sql", "--init", "--label", "user=7", path).stdout.decode()
    assert "has_labels" in script and "list_has_all(labels, ['user=7'])" in script


def test_the_stack_of_a_fleet_is_one_whatever_its_labels(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=60 * SECOND)
    thread = builder.thread(process, 20 * SECOND, end_ns=60 * SECOND)
    for user in range(2_000):  # each has less than the share that a stack needs
        builder.tick(user * MS, process, thread, builder.stack(LINE, labels=(f"user={user}",)))
    with open_traces([builder.write(tmp_path / "t.parquet")]) as traces:
        (found,) = stacks_by_trace(traces.connection, {1: 20.0}).values()
    ((stack, cpu_s),) = found.items()
    assert stack.startswith("serve (/home/me/app.py:") and cpu_s == pytest.approx(20)


def test_labels_are_checked_from_python(tmp_path: Path) -> None:
    path = trace(tmp_path)
    assert notebook.open(path, labels=["user=7"]).functions()
    with pytest.raises(LabelError):
        notebook.open(path, labels=["user=9"])
    with pytest.raises(ValueError, match="list of texts"):
        notebook.open(path, labels="user=7")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("endpoint", "Write a name and a value"),
        ("=1", "Write a name and a value"),
        ("endpoint=/car", "Did you mean 'endpoint=/cart'?"),
        ("o'=\n", "`scalene-analyze labels` lists the labels."),
    ],
)
def test_a_label_that_is_not_in_the_trace_is_refused(label: str, said: str, tmp_path: Path) -> None:
    path = trace(tmp_path)
    done = analyze("report", "--label", label, path)
    assert done.status == 2 and said in done.stderr.decode()
    with open_traces([path], Selection(labels=(label,))) as traces:  # as from Python
        assert traces.connection.execute("SELECT count(*) FROM selected_waits").fetchall() == [(0,)]
