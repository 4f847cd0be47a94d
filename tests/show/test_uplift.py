"""The worth of the proposer, measured against chance."""

from __future__ import annotations

import functools
import random

import pytest

from loopty.domain.evidence import chance_of_wins
from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Pool
from loopty.show.tally import SURPRISING, Uplift, UpliftWords, is_quick, tally, uplift, uplift_of_pairs

from .story import Story, random_story


def uplift_of(attempts: list[float | None], control: list[float | None], story: Story | None = None) -> Uplift:
    """The uplift of attempts, each with a control trial beside it; a coin says which comes first."""
    story, rng = story or Story(baseline=1.0), random.Random(1)
    for mine, theirs in zip(attempts, control, strict=True):
        pair = [(mine, Pool.ATTEMPT), (theirs, Pool.CONTROL)]
        for score, pool in pair if rng.random() < 0.5 else reversed(pair):
            story.tries("1", score, pool)
    found = uplift(story.history, 1)
    assert found is not None
    return found


def test_a_proposer_that_is_always_ahead_is_better_than_random() -> None:
    found = uplift_of([2.0 + place / 10 for place in range(8)], [1.0 + place / 10 for place in range(8)])
    assert found == Uplift("score", pytest.approx(1.0), 8, 8, 0, pytest.approx(9 / 256), UpliftWords.BETTER)


def test_one_lucky_attempt_is_no_better_than_random() -> None:
    found = uplift_of([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 9.0], [1.2, 1.1, 1.4, 1.3, 1.6, 1.5, 1.8, 1.7])
    assert (found.words, found.won, found.lost) == (UpliftWords.OPEN, 4, 4)
    assert found.amount == pytest.approx(7.2)


def test_a_proposer_that_is_always_behind_is_worse_than_random() -> None:
    assert uplift_of([1.0] * 8, [2.0 + place for place in range(8)]).words is UpliftWords.WORSE


def test_lower_is_better_if_the_objective_says_so() -> None:
    found = uplift_of([0.1] * 8, [0.9] * 8, Story(Direction.MIN, baseline=1.0))
    assert found.words is UpliftWords.BETTER
    assert found.amount == pytest.approx(0.8)


def test_attempts_without_a_control_beside_them_are_not_compared() -> None:
    story = Story(baseline=1.0)
    for score in (9.0, 9.0):
        story.tries("1", score)
    story.tries("1", 2.0)
    for score in (1.5, 3.0, 1.7):
        story.tries("1", score, Pool.CONTROL)
    story.tries("1", 1.2)
    found = uplift(story.history, 1)
    assert found is not None
    assert (found.pairs, found.won, found.lost) == (2, 1, 1)
    assert found.amount == pytest.approx(0.3)


def test_a_control_that_runs_alone_afterwards_says_nothing() -> None:
    story = Story(baseline=1.0)
    for _ in range(20):
        story.tries("1", 2.0)
    for _ in range(20):
        story.tries("1", 1.5, Pool.CONTROL)
    found = uplift(story.history, 1)
    assert found is not None
    assert (found.pairs, found.words) == (1, UpliftWords.TOO_FEW)


def test_failures_and_scores_below_the_baseline_improve_nothing() -> None:
    found = uplift_of([None, None, 0.1, 0.2, 0.3], [0.5, 0.6, None, None, None])
    assert (found.amount, found.pairs, found.won, found.lost, found.chance) == (0.0, 5, 0, 0, 1.0)
    assert found.words is UpliftWords.TOO_FEW


def test_a_refusal_by_a_gate_costs_a_trial() -> None:
    story = Story(baseline=1.0)
    story.tries("1", None, ending=Ending.REFUSED)
    story.tries("1", 1.5, Pool.CONTROL)
    found = uplift(story.history, 1)
    assert found is not None
    assert (found.pairs, found.lost) == (1, 1)


def test_without_control_or_baseline_there_is_no_uplift() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 2.0)
    assert uplift(story.history, 1) is None
    assert uplift(Story(baseline=None).history, 1) is None


def test_results_of_another_machine_do_not_count() -> None:
    story = Story(baseline=1.0, machine="laptop")
    for _ in range(6):
        story.tries("1", 2.0)
        story.tries("1", 1.5, Pool.CONTROL)
    story.moves("server", {"1": 10.0, "1.1": 20.0}, incumbent="1.1")
    assert uplift(story.history, 1) is None


def test_the_largest_floats_are_compared() -> None:
    found = uplift_of([1.7e308] * 5, [-1.7e308] * 5, Story(baseline=-1.7e308))
    assert found.amount == pytest.approx(1.797e308, rel=1e-3)


def test_a_control_without_attempts_compares_nothing() -> None:
    story = Story(baseline=1.0)
    for _ in range(6):
        story.tries("1", 1.1, Pool.CONTROL)
    assert uplift(story.history, 1) is None


def test_a_random_proposer_is_rarely_called_better_by_whoever_looks_after_every_pair() -> None:
    known = functools.cache(chance_of_wins)
    rng, runs, called = random.Random(5), 1_000, 0
    for _ in range(runs):
        won = 0
        for pairs in range(1, 201):
            won += rng.random() < 0.5
            if known(won, pairs - won) <= SURPRISING:
                called += 1
                break
    assert called <= SURPRISING * runs


def test_a_clear_advantage_is_seen() -> None:
    rng = random.Random(1)
    pairs = [[(rng.gauss(2, 1), rng.gauss(0, 1)) for _ in range(30)] for _ in range(100)]
    found = [uplift_of_pairs("score", some) for some in pairs]
    assert sum(each is not None and each.words is UpliftWords.BETTER for each in found) >= 95


def test_the_same_run_has_the_same_uplift() -> None:
    story = random_story(seed=3, attempts=40, control=20)
    assert uplift(story.history, 1) == uplift(story.history, 1)


def test_the_tally_counts_verdicts_by_pool_without_the_baseline() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 2.0)
    story.tries("1", 1.0, Pool.CONTROL)
    story.tries("1", None, ending=Ending.TAMPERED)
    counted = tally(story.history, 1)
    assert counted.verdicts == {"kept": 1, "rejected": 1}
    assert counted.control_verdicts == {"discarded": 1}
    assert is_quick(story.history)
