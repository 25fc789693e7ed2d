"""The stacks of a fleet in all formats: their sums, and hostile names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.collapsed import frame_name, frames_of
from scalene_trace.analyze.exports.fleet import FORMATS, fleet_profile
from scalene_trace.analyze.html.fleet import fleet_document
from scalene_trace.analyze.results.fleet import Coverage, FleetStack, FleetTable
from scalene_trace.cli.analyze.export import FORMAT_NAMES as OF_TRACES
from scalene_trace.cli.fleet.figures import FORMAT_NAMES
from tests.support.hostile_fleet import MAIN, NAMES, hostile_fleet, stacks


def table(rows: dict[str, float]) -> FleetTable:
    covered = Coverage("/traces", 3, 2, 1, 3.0, None, "2026-11-01", "2026-11-02", 0)
    query = {"where": ["service=shop", "version=1"], "host": ["a"]}
    return FleetTable("flame", query, covered, [FleetStack(stack, value, 1) for stack, value in rows.items()], "stacks")


def test_the_formats_are_called_as_those_of_a_trace() -> None:
    assert ("collapsed", *FORMATS, "html") == FORMAT_NAMES
    assert [name for name in OF_TRACES if name in FORMAT_NAMES] == [*FORMAT_NAMES[:-1]]


def test_frames_of_a_stack_have_the_names_that_it_has() -> None:
    for stack in stacks():
        assert ";".join(map(frame_name, frames_of(stack))) == stack
    frames = list(frames_of("f (/srv/a (1)/b.py:7);std::function<void (int)> (libx);libz;[kernel];(other)"))
    assert [(each.function, each.file, each.line, each.kind) for each in frames] == [
        ("f", "/srv/a (1)/b.py", 7, "python"), ("std::function<void (int)>", "libx", 0, "native"), ("libz", "libz", 0, "native"),
        ("[kernel]", "", 0, "note"), ("(other)", "", 0, "note"),
    ]  # fmt: skip


def test_the_profile_has_the_sums_and_their_parts() -> None:
    profile = fleet_profile(
        table({f"{MAIN};f (a.py:2)": 1.5, f"{MAIN};[kernel]": 0.25, f"{MAIN};g (libg)": 2.0, "(other)": 1.0})
    )
    values = profile.values["cpu"]
    assert [(each.part, each.value) for each in values] == [
        ("python", 1_500_000_000), ("system", 250_000_000), ("native", 2_000_000_000), ("unclassified", 1_000_000_000)
    ]  # fmt: skip
    assert json.loads(profile.settings[0]["labels"]) == {"service": "shop", "version": "1"}
    assert (profile.traces[0].wall_s, profile.traces[0].started_at) == (10_800, "2026-11-01T00:00:00+00:00")


def test_the_page_has_the_sums_and_very_many_stacks_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalene_trace.analyze.html.series.MAX_STACKS", 2)
    rows = {f"{MAIN};f (a.py:{line})": 10.0 - line for line in range(4)}
    entry = fleet_document(table(rows), ["a.py"])["traces"][0]
    assert entry["function_names"] == ["<module>", "f", "(other)"] and entry["short_stacks"] == 2
    assert entry["user_files"] == ["a.py"] and entry["nodes"]["count"] == 5


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_a_hostile_fleet_is_inert_in_every_format(name: str, tmp_path: Path, run: Any) -> None:
    fleet, out = hostile_fleet(tmp_path / "fleet"), tmp_path / "out"
    assert run("fleet", "flame", "--format", name, "-o", out, fleet).code == 0
    contents = out.read_bytes()
    if name == "pprof":
        contents = gzip.decompress(contents)
    assert b"\x1b" not in contents or name == "otlp" or name == "pprof"
    assert b"[31mred" in contents and "\u202e".encode() not in contents
    if name == "speedscope":
        weights = json.loads(contents)["profiles"][0]["weights"]
        assert sum(weights) == round(1e9 * sum(stacks().values())) and b"<" not in contents
    if name == "html":
        assert contents.isascii() and NAMES[0].encode() not in contents and contents.count(b"</script>") == 2


def test_the_format_is_that_of_the_files_name(tmp_path: Path, run: Any) -> None:
    fleet, page = hostile_fleet(tmp_path / "fleet"), tmp_path / "x.html"
    assert run("fleet", "flame", "-o", page, fleet).code == 0 and b"scalene-trace report" in page.read_bytes()[:200]
    assert run("fleet", "flame", "-o", page, fleet).code == 0  # a page is replaced by a page
    page.write_text("mine")
    assert (
        "is not a report of this command" in run("fleet", "flame", "-o", page, fleet).err and page.read_text() == "mine"
    )
    assert "Did you mean pprof?" in run("fleet", "flame", "--format", "pprov", fleet).err
    assert len(run("fleet", "flame", "--format", "speedscope", "--json", fleet).json["stacks"]) == len(stacks())
    assert run("fleet", "flame", "--format", "speedscope", fleet).json["exporter"] == "scalene-trace"
