"""Rank correlation."""

import pytest

from loopty.show.stages import rank_correlation


def test_any_rising_relation_is_perfect():
    found = rank_correlation([(x, x**3) for x in range(10)])
    assert found.value == pytest.approx(1)
    assert found.low > 0.9


def test_the_opposite_order_is_minus_one():
    assert rank_correlation([(x, -x) for x in range(6)]).value == pytest.approx(-1)


def test_equal_values_share_their_places():
    found = rank_correlation([(1, 1), (2, 2), (2, 3), (3, 4)])
    assert found.value == pytest.approx(0.9487, abs=1e-4)  # as scipy.stats.spearmanr says
    assert found.low < found.value < found.high


@pytest.mark.parametrize("pairs", [[], [(1, 2), (2, 3), (3, 4)], [(1, 1), (1, 2), (1, 3), (1, 4)]])
def test_too_few_or_constant_values_say_nothing(pairs):
    assert rank_correlation(pairs) is None
