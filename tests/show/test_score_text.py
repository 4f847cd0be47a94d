"""Scores and changes with the same digits and units on every line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.objective import Direction
from loopty.show.comparisons import ScoreChange, score_change
from loopty.show.figures import figure, value_text
from loopty.show.score_text import ScoreText


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        ([8.0, 12.0], ["8", "12"]),
        ([0.5, 0.25], ["0.50", "0.25"]),
        ([1.83285456, 2.06619123], ["1.83285", "2.06619"]),
        ([1.27, 0.000634881], ["1.27000", "0.00063"]),
        ([1.0000001, 1.0000002], ["1.0000001", "1.0000002"]),
        ([100000.0, 0.001], ["100000.000", "0.001"]),
        ([1.2e-05, 3.4567891e-05], ["1.2e-05", "3.45679e-05"]),
        ([1234567.8, 2.0], ["1234568", "2"]),
        ([1e15], ["1e+15"]),
        ([0.0], ["0"]),
        ([], []),
    ],
)
def test_scores_that_do_not_vary_are_told_apart(scores: list[float], texts: list[str]) -> None:
    assert list(map(ScoreText.of(scores).score, scores)) == texts


@pytest.mark.parametrize(
    ("noise", "text"),
    [(3.0, "45"), (0.8, "45.1"), (0.08, "45.12"), (1e-9, "45.1235"), (40.0, "45")],
)
def test_scores_that_vary_have_as_many_digits_as_the_noise_allows(noise: float, text: str) -> None:
    assert ScoreText.of([45.123456, 44.987654], noise=noise).score(45.123456) == text


def test_small_scores_that_vary_have_significant_digits() -> None:
    assert ScoreText.of([1.23456e-05], noise=3e-07).score(1.23456e-05) == "1.23e-05"


def test_a_score_far_below_the_noise_of_a_large_one_is_not_written_as_zero() -> None:
    scores = [0.36, 0.0016169]
    assert list(map(ScoreText.of(scores, noise=0.05).score, scores)) == ["0.3600", "0.0016"]


def test_all_changes_have_the_same_unit() -> None:
    some, crossing = ScoreChange(1.5, 75.0), ScoreChange(2.5, None)
    assert ScoreText.of([2.0], [some]).change(some) == "+75.0 %"
    text = ScoreText.of([2.0, 0.5, -0.5], [some, crossing])
    assert [text.change(some), text.change(crossing)] == ["+1.5", "+2.5"]
    assert text.change_words(some, "it") == "1.5 better than it"


def test_percentages_have_as_many_digits_as_the_noise_allows() -> None:
    change = ScoreChange(10.0, 20.0)
    assert ScoreText.of([50.0, 60.0], [change], noise=2.0).change(change) == "+20 %"
    assert ScoreText.of([50.0, 60.0], [change], noise=0.05).change(change) == "+20.00 %"


def test_changes_are_better_or_worse() -> None:
    text = ScoreText.of([0.5])
    assert text.change_words(ScoreChange(0.5, 25.0), "it") == "25.0 % better than it"
    assert text.change_words(ScoreChange(-0.5, -2500.0), "it") == "2,500 % worse than it"
    assert text.change_words(ScoreChange(0.5, None), "it") == "0.5 better than it"
    assert text.change_words(ScoreChange(0.0, 0.0), "it") == "no better than it"
    assert text.change(ScoreChange(-0.5, -0.04)) == "-0.04 %"


_NUMBERS = st.one_of(
    st.floats(-1e15, 1e15), st.floats(-1e-6, 1e-6), st.integers(-(10**7), 10**7).map(float), st.just(-0.0)
)


@given(st.lists(_NUMBERS, min_size=1, max_size=5), st.sampled_from([0.0, 1e-9, 0.01, 3.0, 1e6]))
def test_no_score_has_a_minus_before_zero_or_more_digits_than_tell_it_apart(
    values: list[float], noise: float
) -> None:
    text = ScoreText.of(values, noise=noise)
    for value in values:
        shown = text.score(value)
        assert not re.fullmatch(r"-[0.]+", shown)
        assert len(re.sub(r"e.*|\D", "", shown).lstrip("0").rstrip("0")) <= 12
    assert not re.fullmatch(r"-[0.]+", figure(values[0]))
    assert len(re.sub(r"e.*|\D", "", figure(values[0])).strip("0")) <= 12
    assert value_text(values[0]) != "-0"


@given(_NUMBERS, _NUMBERS, st.sampled_from([Direction.MIN, Direction.MAX]), st.sampled_from([0.0, 0.01, 3.0]))
def test_a_change_has_one_sign_and_is_the_same_where_only_zeros_are_left(
    score: float, older: float, direction: Direction, noise: float
) -> None:
    change = score_change(score, older, direction, noise)
    text = ScoreText.of([score, older], [change], noise)
    shown, words = text.change(change), text.change_words(change, "it")
    assert shown == "same" or re.match(r"[+-](?![+-])", shown)
    assert shown == "same" or re.search("[1-9]", shown)
    assert (shown == "same") == (words == "no better than it")
