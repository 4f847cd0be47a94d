"""The size of a gain, from fresh pairs."""

import random

import pytest

from loopty.domain.evidence import FEWEST_PAIRS, paired_estimate


def test_too_few_pairs_have_no_interval():
    assert paired_estimate([1.0] * (FEWEST_PAIRS - 1)) is None
    assert paired_estimate([1.0] * FEWEST_PAIRS) is not None


def test_ten_pairs_leave_out_the_eight_outermost_means_as_in_wilcoxons_table():
    found = paired_estimate([float(value) for value in range(1, 11)])
    means = sorted((one + other) / 2 for one in range(1, 11) for other in range(one, 11))
    assert (found.amount, found.low, found.high) == (5.5, means[8], means[-9])


@pytest.mark.parametrize("pairs", [6, 10, 20])
@pytest.mark.parametrize("tail", ["gauss", "outliers"])
def test_the_interval_holds_the_true_gain_as_often_as_it_says(pairs, tail):
    rng = random.Random(pairs)

    def noise():
        wide = tail == "outliers" and rng.random() < 0.1
        return rng.gauss(0, 10 if wide else 1)

    held = 0
    for _ in range(1000):
        found = paired_estimate([3 + noise() - noise() for _ in range(pairs)])
        held += found.low <= 3 <= found.high
    assert held >= 930


def test_one_outlier_hardly_moves_it():
    gains = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98, 1.01]
    assert paired_estimate([*gains, 100.0]).amount == pytest.approx(1.0, abs=0.1)
