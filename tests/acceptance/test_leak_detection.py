"""Leaks of a known rate are found on their line, and programs without leaks have none. All are recorded side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.recording import Recording, figure, line_of, lines_of, record, report, target
from tests.support.target_environments import recorded_interpreters

pytestmark = pytest.mark.samples

SECONDS = "22"
BESIDE = ("beside_small", "beside_large", "beside_huge")
LEAKS = ("steady", "below_a_spike", "native", "in_a_thread", "cycles", *BESIDE)
NO_LEAKS = ("full_cache", "sawtooth", "rotated_log", "temporaries")
PYTHONS = recorded_interpreters()
#: Each program with one interpreter, so that every interpreter gets some of both.
PAIRS = {way: PYTHONS[index % len(PYTHONS)] for index, way in enumerate([*LEAKS, *NO_LEAKS])}


def mark(way: str) -> str:
    """The mark of the line that leaks."""
    return "beside" if way in BESIDE else way


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """A recording of every program. They mostly sleep, so all run at once."""
    folder = tmp_path_factory.mktemp("leaks")

    def one(way: str) -> Recording:
        return record(folder / f"{way}.parquet", [target("leaks"), way, SECONDS], PAIRS[way])

    with ThreadPoolExecutor(len(PAIRS)) as pool:
        return dict(zip(PAIRS, pool.map(one, PAIRS), strict=True))


@pytest.mark.parametrize("way", LEAKS)
def test_a_leak_is_found_on_its_line_with_its_rate(way: str, recordings: dict[str, Recording]) -> None:
    done = recordings[way]
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace, command="leaks")["leaks"]
    assert [(row["file"], row["line"]) for row in found] == [(str(target("leaks")), line_of("leaks", mark(way)))]
    error = 100 * (found[0]["bytes_per_s"] / done.facts["leaked_bytes_per_s"] - 1)
    # Few samples are drawn of a leak beside gigabytes of temporaries: the trace says how uncertain its bytes are.
    limit = max(20.0, 300 * found[0]["live_at_end_error_bytes"] / found[0]["live_at_end_bytes"])
    figure(f"rate of the leak {way}", PAIRS[way], error, limit, "percent")
    assert abs(error) <= limit
    assert 0.95 <= found[0]["probability"] <= 1
    leaked = done.facts["leaked_bytes_per_s"] * float(SECONDS)
    # A sample drawn right after a burst stands for megabytes (its interval was coarse): once in some forty runs there is one.
    within = max(0.2 * leaked, 3 * found[0]["live_at_end_error_bytes"])
    assert found[0]["live_at_end_bytes"] == pytest.approx(leaked, abs=within)


@pytest.mark.parametrize("way", LEAKS)
def test_the_report_has_the_leak_too(way: str, recordings: dict[str, Recording]) -> None:
    found = report(recordings[way].trace)
    line, leak = lines_of(found, target("leaks"))[line_of("leaks", mark(way))], found["leaks"][0]
    assert (leak["file"], leak["line"]) == (line["file"], line["line"])
    assert (line["leak_probability"], line["leak_bytes_per_s"]) == (leak["probability"], leak["bytes_per_s"])


@pytest.mark.parametrize("way", BESIDE)
def test_growth_beside_temporaries_is_charged_to_the_line_that_keeps(
    way: str, recordings: dict[str, Recording]
) -> None:
    lines = lines_of(report(recordings[way].trace), target("leaks"))
    grown = {number: line["growth_bytes"] for number, line in lines.items() if line["growth_bytes"]}
    kept = recordings[way].facts["leaked_bytes_per_s"] * float(SECONDS)
    on_line = grown.pop(line_of("leaks", "beside"), 0)
    # In four steps of about 10 MB. One may be the start-up, one a temporary that was alive; neither is charged again.
    assert on_line >= 0.4 * kept and sum(grown.values()) <= 0.5 * kept, (on_line, grown)


@pytest.mark.parametrize("way", NO_LEAKS)
def test_memory_that_does_not_leak_is_not_reported(way: str, recordings: dict[str, Recording]) -> None:
    done = recordings[way]
    assert done.status == 0 and done.facts["leaked_bytes_per_s"] == 0, done.stderr.decode()
    assert report(done.trace, command="leaks")["leaks"] == []
