"""Sizes, durations and percentages: one rule for options, budgets, gates and output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.formats.units import (
    UnitError,
    amount_text,
    duration_text,
    file_size_text,
    parse_amount,
    parse_duration_ns,
    parse_percent,
    parse_size,
    size_text,
)

#: Unit -> bytes, written out.
SIZES = {
    "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000,
    "KiB": 1_024, "MiB": 1_048_576, "GiB": 1_073_741_824, "TiB": 1_099_511_627_776,
}  # fmt: skip
TIMES_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


@given(st.integers(0, 9_999), st.sampled_from(sorted(SIZES)), st.sampled_from(["", " "]))
def test_options_and_budgets_read_a_size_alike(number: int, unit: str, space: str) -> None:
    for text in (
        f"{number}{space}{unit}",
        f"{number}{space}{unit.lower()}",
        f"{number}{space}{unit.rstrip('B') or 'B'}",
    ):
        assert parse_size(text) == parse_amount(text, "bytes") == number * SIZES[unit]


@given(st.integers(0, 9_999), st.sampled_from(sorted(TIMES_NS)))
def test_options_and_budgets_read_a_time_alike(number: int, unit: str) -> None:
    assert parse_duration_ns(f"{number}{unit}") == number * TIMES_NS[unit]
    assert parse_amount(f"{number} {unit}", "s") == pytest.approx(number * TIMES_NS[unit] / 1e9)


def test_limits_have_a_sign_and_need_a_unit() -> None:
    assert parse_amount("-1.5 MB", "bytes") == -1_500_000
    assert parse_amount("+ 20ms", "s") == pytest.approx(0.02)
    for text, unit in (("50", "bytes"), ("50", "s"), ("5s", "bytes"), ("5MB", "s"), ("", "s")):
        with pytest.raises(UnitError, match=r"is not a (size|duration)\. Write it like"):
            parse_amount(text, unit)


def test_options_have_no_sign() -> None:
    for text in ("-1MB", "+1MB", "1e6", "0x10", "1,5MB"):
        with pytest.raises(UnitError, match="is not a size"):
            parse_size(text)
    with pytest.raises(UnitError, match="is not a duration"):
        parse_duration_ns("-1ms")
    assert parse_duration_ns("30", bare_seconds=True) == 30 * 10**9
    with pytest.raises(UnitError):
        parse_duration_ns("30")


@pytest.mark.parametrize(("text", "number"), [("5%", 5.0), ("+ 2.5 %", 2.5), ("-1%", -1.0), ("5", None), ("%", None)])
def test_percentages_are_read(text: str, number: float | None) -> None:
    assert parse_percent(text) == number


def test_what_is_shown_follows_the_rule_that_is_read() -> None:
    assert file_size_text(510_000) == "510 KB" and parse_size("510 KB") == 510_000
    assert [size_text(n) for n in (12, 49_800, -1_500_000, 3 * 10**9)] == ["12 B", "49.8 KB", "-1.5 MB", "3.0 GB"]
    assert [duration_text(s) for s in (0.02, -1.5, 1234.0)] == ["20.0 ms", "-1.50 s", "1,234.00 s"]
    assert (amount_text(0.02, "s"), amount_text(12, "bytes")) == ("20.0 ms", "12 B")


@given(st.sampled_from(["KB", "MB", "GB"]), st.integers(10, 9_999))
def test_a_shown_size_reads_back_as_it_was(unit: str, tenths: int) -> None:
    size = tenths * SIZES[unit] // 10
    assert parse_size(size_text(size).replace(",", "")) == size
