"""Is it better, or was it lucky? The error rate is counted over every possible outcome, not sampled."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.evidence import Evidence, evidence, is_clear, noise_floor

MOST = 16
RATES = (0.01, 0.05, 0.1, 0.3)

sigmas = st.sampled_from((0.0, 1e-9, 0.1, 1.0, 50.0))
rates = st.sampled_from(RATES)
sizes = st.floats(0.0, 1e6)
gains_lists = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=MOST)


def evidence_of(gains: Sequence[float], sigma: float = 1.0, error_rate: float = 0.05) -> Evidence:
    return evidence(gains, sigma, error_rate, MOST)


def outcomes(magnitudes: Sequence[float], sigma: float, error_rate: float) -> list[Evidence]:
    """The final evidence for each sequence of signs, which are equally likely if the candidate is no better."""
    signs = itertools.product((1, -1), repeat=len(magnitudes))
    return [
        evidence_of([sign * size for sign, size in zip(pattern, magnitudes, strict=True)], sigma, error_rate)
        for pattern in signs
    ]


@pytest.mark.parametrize("error_rate", RATES)
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    "magnitudes",
    [
        [1.0] * 8,
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8],
        [12.8, 6.4, 3.2, 1.6, 0.8, 0.4, 0.2, 0.1],
        [3.0, 0.0, 3.0, 0.0, 3.0, 3.0, 3.0, 1e9],
    ],
)
def test_a_candidate_that_is_no_better_is_kept_at_most_at_the_error_rate(
    magnitudes: list[float], sigma: float, error_rate: float
) -> None:
    every = outcomes(magnitudes, sigma, error_rate)
    assert sum(one.better for one in every) <= error_rate * len(every)
    # A fair game: on average nothing is won and nothing lost.
    assert statistics.fmean(one.wealth for one in every) == pytest.approx(1.0)


@given(st.lists(sizes, min_size=1, max_size=7), sigmas, rates)
def test_the_error_rate_holds_for_any_sizes_and_any_noise(
    magnitudes: list[float], sigma: float, error_rate: float
) -> None:
    every = outcomes(magnitudes, sigma, error_rate)
    assert sum(one.better for one in every) <= error_rate * len(every)


@given(gains_lists, sigmas, rates)
def test_a_bet_that_is_won_stays_won(gains: list[float], sigma: float, error_rate: float) -> None:
    won = [evidence_of(gains[:pairs], sigma, error_rate).better for pairs in range(1, len(gains) + 1)]
    assert won == sorted(won)


@given(gains_lists, sigmas, rates)
def test_what_is_kept_is_not_given_up(gains: list[float], sigma: float, error_rate: float) -> None:
    found = evidence_of(gains, sigma, error_rate)
    assert not (found.better and (found.futile or found.exhausted))


@given(gains_lists, st.integers(0, MOST - 1), st.floats(0, 1e6), sigmas)
def test_a_larger_gain_never_weakens_the_evidence(
    gains: list[float], which: int, more: float, sigma: float
) -> None:
    larger = [gain + more * (index == which) for index, gain in enumerate(gains)]
    assert evidence_of(larger, sigma).wealth >= evidence_of(gains, sigma).wealth * (1 - 1e-12)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=MOST), st.sampled_from((1e-3, 8.0, 1e6)))
def test_the_unit_of_the_metric_does_not_matter(gains: list[float], unit: float) -> None:
    found, scaled = evidence_of(gains, 2.0), evidence_of([gain * unit for gain in gains], 2.0 * unit)
    assert scaled.wealth == pytest.approx(found.wealth)
    assert scaled.effect == pytest.approx(found.effect * unit)


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e308, max_value=1e308),
        min_size=1,
        max_size=MOST,
    ),
    st.floats(0, 1e308),
)
def test_nothing_overflows(gains: list[float], sigma: float) -> None:
    found = evidence_of(gains, sigma)
    assert math.isfinite(found.effect)
    assert 0 <= found.wealth <= 27


def test_five_clear_wins_are_enough_and_four_are_not() -> None:
    assert not evidence_of([9.0] * 4).better
    assert evidence_of([9.0] * 5).better


def test_pairs_within_the_tolerance_are_no_evidence() -> None:
    assert evidence_of([0.0] * 2).wealth == 1.0
    assert evidence_of([3.0, 0.0, 3.0, 0.0]).wealth == evidence_of([3.0, 3.0]).wealth


def test_a_candidate_that_only_ties_is_discarded_early() -> None:
    assert not evidence_of([0.0]).futile
    assert evidence_of([0.0] * 2).futile


def test_a_candidate_that_is_clearly_worse_is_discarded_at_once() -> None:
    assert evidence_of([-5.0]).futile


def test_many_small_gains_say_that_there_is_no_gain_worth_finding() -> None:
    gains = [0.1] * 4
    assert evidence_of(gains).wealth > 1
    assert evidence_of(gains).futile
    assert not evidence_of([0.8] * 4).futile


def test_one_outlier_does_not_ruin_a_good_candidate() -> None:
    gains = [4.0, 4.0, -1000.0, *[4.0] * 8]
    assert not any(evidence_of(gains[:pairs]).futile for pairs in range(1, len(gains) + 1))
    assert evidence_of(gains).better
    assert evidence_of(gains).effect == pytest.approx(4.0)


def test_no_more_pairs_are_measured_when_they_cannot_win_the_bet() -> None:
    gains = [2.0, -0.7] * 4
    assert not evidence(gains, 1.0, 0.05, most_pairs=40).exhausted
    found = evidence(gains, 1.0, 0.05, most_pairs=10)
    assert found.exhausted
    assert not found.futile


def test_the_last_pair_leaves_nothing_open() -> None:
    found = evidence([0.5] * 6, 1.0, 0.05, most_pairs=6)
    assert found.better or found.exhausted


def test_a_metric_that_looked_deterministic_is_judged_by_its_signs() -> None:
    assert evidence_of([1e-12] * 5, sigma=0.0).better
    assert not evidence_of([1e-12, -1e-12] * 8, sigma=0.0).better


@pytest.mark.parametrize(
    ("error_rate", "pairs", "differences"), [(0.05, 2, 10), (0.05, 3, 4), (0.2, 1, 18), (0.2, 2, 4)]
)
def test_few_pairs_are_enough_where_they_exceed_all_that_repeats_show(
    error_rate: float, pairs: int, differences: int
) -> None:
    gains, repeats = [3.0] * pairs, [2.9] * differences
    assert evidence(gains, 1.0, error_rate, MOST, repeats).better
    assert not evidence(gains, 1.0, error_rate, MOST, repeats[2:]).better
    assert not evidence(gains, 1.0, error_rate, MOST, [*repeats[1:], 3.0]).better


@pytest.mark.parametrize("tail", ["gauss", "student", "lognormal", "two values"])
def test_a_clear_gain_is_luck_no_more_often_than_its_share_of_the_error_rate(tail: str) -> None:
    rng = random.Random(1)

    def draw() -> float:
        if tail == "two values":
            return float(rng.random() < 0.3)
        if tail == "lognormal":
            return rng.lognormvariate(0, 1)
        return rng.gauss(0, 1) / (math.sqrt(rng.gammavariate(1.0, 1.0)) if tail == "student" else 1)

    lucky = 0
    for _ in range(10_000):
        values = [draw() for _ in range(11)]
        repeats = [abs(one - other) for one, other in itertools.pairwise(values)]
        lucky += is_clear([draw() - draw() for _ in range(2)], repeats, 0.05)
    assert lucky <= 125 + 35


def test_the_noise_floor_is_the_standard_deviation_of_each_metric() -> None:
    rng = random.Random(5)
    samples = [{"time": rng.gauss(10, 2), "bytes": 512.0} for _ in range(300)]
    found = noise_floor(samples)
    assert found["time"] == pytest.approx(2.0, rel=0.1)
    assert found["bytes"] == 0.0


def test_one_outlier_does_not_determine_the_noise_floor() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 0.95, 900.0]
    assert noise_floor([{"time": value} for value in values])["time"] < 1.0


def test_values_that_differ_once_are_not_without_noise() -> None:
    assert noise_floor([{"score": value} for value in (1.0, 1.0, 1.0, 1.0, 1.0, 0.5)])["score"] > 0


def test_a_metric_that_is_sometimes_missing_has_no_noise_floor() -> None:
    assert noise_floor([{"a": 1.0, "b": 1.0}, {"a": 1.0}]) == {"a": 0.0}
    assert noise_floor([]) == {}


def test_it_is_called_no_better_only_where_a_gain_worth_finding_is_excluded() -> None:
    small, wide = evidence_of([0.2, -0.2, 0.1, -0.1] * 4), evidence_of([4.0, -4.0, 1.0, -3.0, 0.5])
    assert small.refuted
    assert wide.futile
    assert not wide.refuted
