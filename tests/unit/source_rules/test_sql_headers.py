"""Every SQL file is short and opens with what it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT

MOST_LINES = 75


def violations(root: Path) -> list[str]:
    """The SQL files that are too long, or do not open with a comment."""
    found = []
    for path in sorted((root / "analyze").rglob("*.sql")):
        lines = path.read_text().splitlines()
        if not lines or not lines[0].startswith("-- "):
            found.append(f"{path.name} does not open with what it answers")
        if len(lines) > MOST_LINES:
            found.append(f"{path.name} has {len(lines)} lines")
    return found


def test_every_sql_file_says_what_it_answers() -> None:
    assert list((ROOT / "analyze").rglob("*.sql"))
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-- Ticks.\nSELECT 1;\n", []),
        ("SELECT 1;\n", ["q.sql does not open with what it answers"]),
        ("", ["q.sql does not open with what it answers"]),
        ("-- Ticks.\n" * 76, ["q.sql has 76 lines"]),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "analyze/sql").mkdir(parents=True)
    (tmp_path / "analyze/sql/q.sql").write_text(text)
    assert violations(tmp_path) == found
