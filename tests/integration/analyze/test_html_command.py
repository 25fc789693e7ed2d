"""``scalene-analyze html``: where it writes, and which files it refuses to replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalene_trace.cli.analyze.command import EXIT_TRACE, EXIT_USAGE, run
from tests.support.trace_builder import MS, SECOND, TraceBuilder


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    builder = TraceBuilder()
    process = builder.process()
    builder.tick(5 * MS, process, builder.thread(process, SECOND), builder.stack(("/home/me/app.py", "f", 1, 2)))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return builder.write(tmp_path / "run.parquet")


def test_the_page_goes_where_it_is_asked_and_is_its_owners_alone(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["html", str(trace), "-o", "report.html"]) == 0
    assert Path("report.html").read_text().startswith("<!doctype html>")
    assert Path("report.html").stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().out.startswith("Written: report.html (")
    assert run(["html", str(trace)]) == 0
    assert sorted(path.name for path in Path().iterdir()) == ["report.html", "run.html"]


def test_a_report_is_replaced_and_nothing_else_is(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(["html", str(trace)]), run(["html", str(trace)])] == [0, 0]
    Path("run.html").write_text("my own page")
    assert run(["html", str(trace)]) == EXIT_USAGE
    assert "run.html: it exists and is not a report of this command" in capsys.readouterr().err
    assert Path("run.html").read_text() == "my own page"
    before = trace.read_bytes()
    assert run(["html", str(trace), "-o", str(trace)]) == EXIT_USAGE and trace.read_bytes() == before
    assert run(["html", str(trace), "-o", str(trace), "--force"]) == EXIT_USAGE and trace.read_bytes() == before
    assert run(["html", str(trace), "--force"]) == 0
    assert Path("run.html").read_text().startswith("<!doctype html>")


def test_a_page_goes_to_stdout_when_asked(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["html", str(trace), "-o", "-", "--from", "0.001"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "/nowhere/at/all.html"], "there is no folder /nowhere/at"),
        (["-o", "."], "is a folder"),
        (["-o", "/dev/null", "--force"], "is not a regular file"),
        (["-o", "x" * 300 + ".html"], "Cannot write xxx"),
        (["--from", "2", "--to", "1"], "--to 1 is not after --from 2"),
    ],
)
def test_a_page_that_cannot_be_written_is_reported_in_a_sentence(
    arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["html", str(trace), *arguments]) == EXIT_USAGE
    assert said in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_a_trace_that_cannot_be_read_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.parquet").write_bytes(b"no trace")
    assert run(["html", "x.parquet"]) == EXIT_TRACE
    assert run(["html", ""]) == EXIT_TRACE
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["html", "--help"]) == 0
    assert "scalene-analyze html trace.parquet -o report.html" in capsys.readouterr().out
