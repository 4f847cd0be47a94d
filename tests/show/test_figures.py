"""Numbers, times and changes as people read them."""

from __future__ import annotations

import pytest

from loopty.show.figures import duration, figure, rate
from loopty.show.plot import AxisScale, robust_scale, tick_labels
from loopty.show.terminal import cut, cut_middle, pad, wrap


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.0, "2"), (-0.5, "-0.5"), (1234567.8, "1234568"), (0.000012, "1.2e-05"), (1 / 3, "0.333333")],
)
def test_figures_have_six_digits(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.2 s"), (75, "75 s"), (125, "2 min 05 s"), (7300, "2 h 01 min"), (200_000, "2 d 07 h")],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"), [(30, "30.0 trials/s"), (0.5, "30.0 trials/min"), (0.001, "3.6 trials/h")]
)
def test_rates_choose_their_unit(per_second: float, text: str) -> None:
    assert rate(per_second) == text


def test_wide_letters_take_two_columns() -> None:
    assert cut("長長長", 5) == "長長…"
    assert pad("長", 4) == "長  "
    assert cut("abc", 0) == ""


def test_words_are_wrapped_by_their_columns() -> None:
    assert wrap("one 長長 abcdefgh", 6) == ["one", "長長", "abcdef", "gh"]
    assert wrap("", 6) == [""]


def test_a_long_name_keeps_its_head_and_tail() -> None:
    assert cut_middle("1.2.3", 5) == "1.2.3"
    assert cut_middle("1.22.333.4444", 8) == "1.….4444"


def test_ticks_are_round_and_within_the_range() -> None:
    assert AxisScale(0.93, 2.61).ticks(5) == [1.0, 1.5, 2.0, 2.5]
    assert tick_labels([0.1, 0.15000000000000002, 0.2]) == ["0.10", "0.15", "0.20"]


def test_a_small_sample_is_never_clipped() -> None:
    assert robust_scale([1.0, 1.1, 1.2, 1000.0], best=1.2) == AxisScale(1.0, 1000.0)
