"""Exactly when a trial is pruned."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.objective import Direction
from loopty.domain.trial import Curve
from loopty.proposers.pruners import HalvingPruner, MedianPruner, PatiencePruner


def curve(*values: float, direction: Direction = Direction.MAX) -> Curve:
    return Curve(tuple((float(step), value) for step, value in enumerate(values, start=1)), direction)


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=9),
    st.integers(-20, 20),
    st.integers(1, 9),
    st.sampled_from(list(Direction)),
)
def test_the_median_rule_prunes_exactly_the_strictly_worse_trials(
    peers: list[int], value: int, startup: int, direction: Direction
) -> None:
    doomed = MedianPruner(startup_trials=startup).prune_reason(
        curve(value, direction=direction), [curve(peer, direction=direction) for peer in peers]
    )
    worse = direction.sign * (value - statistics.median(peers)) < 0
    assert (doomed is not None) == (worse and len(peers) >= startup)


def test_a_trial_at_the_median_goes_on() -> None:
    peers = [curve(1), curve(2), curve(3)]
    pruner = MedianPruner(startup_trials=1)
    assert pruner.prune_reason(curve(2), peers) is None
    assert pruner.prune_reason(curve(1.999), peers) == "1.999 at step 1 is worse than the median 2 of 3 peers"


def test_the_median_rule_waits_for_peers_and_for_the_end_of_warm_up() -> None:
    good = [curve(9, 9, 9)] * 5
    assert MedianPruner(startup_trials=1).prune_reason(curve(0), []) is None
    assert MedianPruner().prune_reason(curve(0), good[:4]) is None
    assert MedianPruner().prune_reason(curve(0), good) is not None
    assert MedianPruner(warmup_steps=3).prune_reason(curve(0, 0), good) is None
    assert MedianPruner(warmup_steps=3).prune_reason(curve(0, 0, 0), good) is not None


def test_only_peers_that_reached_the_step_count_with_their_value_there() -> None:
    short, late = curve(9, 9), Curve(((1.0, 1.0), (4.0, 9.0)), Direction.MAX)
    assert MedianPruner(startup_trials=1).prune_reason(curve(0, 0, 0), [short]) is None
    assert MedianPruner(startup_trials=1).prune_reason(curve(5, 5, 5), [late]) is None
    assert MedianPruner(startup_trials=1).prune_reason(curve(0, 0, 0.5), [late]) is not None


@pytest.mark.parametrize("direction", Direction)
def test_halving_lets_the_best_third_pass_each_rung(direction: Direction) -> None:
    sign = direction.sign
    peers = [curve(*[sign * value] * 9, direction=direction) for value in range(5)]
    pruner = HalvingPruner(factor=3)
    assert pruner.prune_reason(curve(sign * 4.5, direction=direction), peers) is None
    assert pruner.prune_reason(curve(sign * 3.5, direction=direction), peers) is None
    assert pruner.prune_reason(curve(sign * 2.5, direction=direction), peers) is not None
    assert pruner.prune_reason(curve(sign * 0.0, direction=direction), peers[:1]) is None


def test_halving_judges_a_trial_at_rungs_only() -> None:
    peers = [curve(1, 1, 9, 9)] * 5
    pruner = HalvingPruner(first_rung=3.0)
    assert pruner.prune_reason(curve(0, 0), peers) is None
    assert pruner.prune_reason(curve(0, 0, 9, 0), peers) is None  # what counts is where it stood at the rung
    assert pruner.prune_reason(curve(0, 0, 8), peers) is not None


@pytest.mark.parametrize("direction", Direction)
def test_patience_counts_reports_without_a_real_improvement(direction: Direction) -> None:
    def values(*listed: float) -> Curve:
        return curve(*(direction.sign * value for value in listed), direction=direction)

    pruner = PatiencePruner(reports=2, tolerance=0.5)
    assert pruner.prune_reason(values(1, 1), []) is None
    assert pruner.prune_reason(values(1, 1, 1.5), []) is not None
    assert pruner.prune_reason(values(1, 1, 1.6), []) is None
    assert pruner.prune_reason(values(1, 0, 2, 1, 2.4), []) is not None
