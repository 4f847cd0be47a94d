"""Is it better, or was it lucky? The error rate is counted over every possible outcome, not sampled."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopty.domain.evidence import Evidence, evidence, noise_floor

MOST = 16
RATES = (0.01, 0.05, 0.1, 0.3)

sigmas = st.sampled_from((0.0, 1e-9, 0.1, 1.0, 50.0))
rates = st.sampled_from(RATES)
sizes = st.floats(0.0, 1e6)
gains_lists = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=MOST)


def weighed(gains: Sequence[float], sigma: float = 1.0, error_rate: float = 0.05) -> Evidence:
    return evidence(gains, sigma, error_rate, MOST)


def outcomes(magnitudes: Sequence[float], sigma: float, error_rate: float) -> list[Evidence]:
    """The last look at every candidate that is no better: each sign is a coin."""
    signs = itertools.product((1, -1), repeat=len(magnitudes))
    return [
        weighed([sign * size for sign, size in zip(pattern, magnitudes, strict=True)], sigma, error_rate)
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
def test_of_all_outcomes_no_more_than_the_error_rate_is_ever_kept(
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
def test_a_bet_that_was_won_stays_won(gains: list[float], sigma: float, error_rate: float) -> None:
    won = [weighed(gains[:pairs], sigma, error_rate).better for pairs in range(1, len(gains) + 1)]
    assert won == sorted(won)


@given(gains_lists, sigmas, rates)
@example([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 0.0, 0.05)
@example([5e-324] * 6, 0.0, 0.05)
def test_the_interval_says_what_the_verdict_says(gains: list[float], sigma: float, error_rate: float) -> None:
    found = weighed(gains, sigma, error_rate)
    assert found.better == (found.low >= 0)
    assert found.low <= found.effect <= found.high
    assert found.better == (found.wealth >= 1 / error_rate)
    assert not (found.better and (found.futile or found.exhausted))


@given(gains_lists, sigmas, rates)
def test_the_interval_of_the_opposite_is_the_opposite(gains: list[float], sigma: float, error_rate: float) -> None:
    found = weighed(gains, sigma, error_rate)
    turned = weighed([-gain for gain in gains], sigma, error_rate)
    assert (turned.low, turned.high) == (-found.high, -found.low)
    assert turned.effect == -found.effect


@given(gains_lists, st.integers(0, MOST - 1), st.floats(0, 1e6), sigmas)
def test_a_larger_gain_never_weakens_the_evidence(
    gains: list[float], which: int, more: float, sigma: float
) -> None:
    larger = [gain + more * (index == which) for index, gain in enumerate(gains)]
    assert weighed(larger, sigma).wealth >= weighed(gains, sigma).wealth * (1 - 1e-12)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=MOST), st.sampled_from((1e-3, 8.0, 1e6)))
def test_the_unit_of_the_metric_does_not_matter(gains: list[float], unit: float) -> None:
    found, scaled = weighed(gains, 2.0), weighed([gain * unit for gain in gains], 2.0 * unit)
    assert scaled.wealth == pytest.approx(found.wealth)
    assert scaled.low == pytest.approx(found.low * unit, rel=1e-4, abs=unit * 1e-3)


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e308, max_value=1e308),
        min_size=1,
        max_size=MOST,
    ),
    st.floats(0, 1e308),
)
def test_nothing_overflows(gains: list[float], sigma: float) -> None:
    found = weighed(gains, sigma)
    assert math.isfinite(found.effect)
    assert 0 <= found.wealth <= 20
    assert not math.isnan(found.low)
    assert not math.isnan(found.high)


def test_five_clear_wins_are_enough_and_four_are_not() -> None:
    assert not weighed([9.0] * 4).better
    assert weighed([9.0] * 4).low == -math.inf
    assert weighed([9.0] * 5).better


def test_pairs_within_the_tolerance_say_nothing() -> None:
    assert weighed([0.0] * 2).wealth == 1.0
    assert weighed([3.0, 0.0, 3.0, 0.0]).wealth == weighed([3.0, 3.0]).wealth


def test_a_candidate_that_only_ties_is_given_up_early() -> None:
    assert not weighed([0.0] * 2).futile
    assert weighed([0.0] * 3).futile


def test_a_clear_loss_is_given_up_at_once() -> None:
    assert weighed([-5.0]).futile


def test_one_outlier_does_not_ruin_a_good_candidate() -> None:
    gains = [4.0, 4.0, -1000.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    assert not any(weighed(gains[:pairs]).futile for pairs in range(1, len(gains) + 1))
    assert weighed(gains).better
    assert weighed(gains).effect == pytest.approx(4.0)


def test_pairs_that_cannot_win_the_bet_any_more_are_not_measured() -> None:
    gains = [0.3, -0.2] * 6
    assert not evidence(gains, 1.0, 0.05, most_pairs=40).exhausted
    found = evidence(gains, 1.0, 0.05, most_pairs=13)
    assert found.exhausted
    assert not found.futile


def test_the_last_pair_leaves_nothing_open() -> None:
    found = evidence([0.5] * 6, 1.0, 0.05, most_pairs=6)
    assert found.better or found.exhausted


def test_a_metric_that_looked_deterministic_is_judged_by_its_signs() -> None:
    assert weighed([1e-12] * 5, sigma=0.0).better
    assert not weighed([1e-12, -1e-12] * 8, sigma=0.0).better


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(3)
    missed = sum(
        not found.low <= 0.7 <= found.high
        for found in (weighed([rng.gauss(0.7, 1.4) for _ in range(12)]) for _ in range(1000))
    )
    assert missed <= 100


def test_the_noise_floor_is_the_standard_deviation_of_each_metric() -> None:
    rng = random.Random(5)
    samples = [{"time": rng.gauss(10, 2), "bytes": 512.0} for _ in range(300)]
    found = noise_floor(samples)
    assert found["time"] == pytest.approx(2.0, rel=0.1)
    assert found["bytes"] == 0.0


def test_one_outlier_does_not_make_the_noise_floor() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 0.95, 900.0]
    assert noise_floor([{"time": value} for value in values])["time"] < 1.0


def test_values_that_differ_once_are_not_without_noise() -> None:
    assert noise_floor([{"score": value} for value in (1.0, 1.0, 1.0, 1.0, 1.0, 0.5)])["score"] > 0


def test_a_metric_that_is_sometimes_missing_has_no_noise_floor() -> None:
    assert noise_floor([{"a": 1.0, "b": 1.0}, {"a": 1.0}]) == {"a": 0.0}
    assert noise_floor([]) == {}
