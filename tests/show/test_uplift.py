"""The worth of the proposer, measured against chance."""

from __future__ import annotations

import math
import random

import pytest

from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Pool
from loopty.show.tally import Uplift, UpliftWords, is_quick, tally, uplift, uplift_from_gains

from .story import Story, random_story


def uplift_of(attempts: list[float | None], control: list[float | None], story: Story | None = None) -> Uplift:
    story = story or Story(baseline=1.0)
    for score in attempts:
        story.tries("1", score)
    for score in control:
        story.tries("1", score, Pool.CONTROL)
    found = uplift(story.history, 1)
    assert found is not None
    return found


def test_a_proposer_that_is_always_ahead_is_better_than_random() -> None:
    found = uplift_of([2.0, 2.1, 2.2, 2.3, 2.4, 2.5], [1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert found.words is UpliftWords.BETTER
    assert (found.metric, found.attempts, found.control, found.ahead) == ("score", 6, 6, 6)
    assert found.amount == pytest.approx(1.0)
    assert found.chance == pytest.approx(1 / 924)


def test_one_lucky_attempt_is_no_better_than_random() -> None:
    found = uplift_of([1.1, 1.2, 1.3, 1.4, 1.5, 9.0], [1.1, 1.2, 1.3, 1.4, 1.5, 1.6])
    assert found.words is UpliftWords.NO_BETTER
    assert found.amount == pytest.approx(7.4)


def test_a_proposer_that_is_always_behind_is_worse_than_random() -> None:
    assert uplift_of([1.0] * 6, [2.0, 2.1, 2.2, 2.3, 2.4, 2.5]).words is UpliftWords.WORSE


def test_lower_is_better_if_the_objective_says_so() -> None:
    found = uplift_of([0.5, 0.4, 0.3, 0.2, 0.1], [0.9] * 5, Story(Direction.MIN, baseline=1.0))
    assert found.words is UpliftWords.BETTER
    assert found.amount == pytest.approx(0.8)


def test_all_attempts_are_compared_with_all_control_trials() -> None:
    found = uplift_of([1.5] * 5 + [9.0], [1.5] * 5)
    assert (found.amount, found.attempts, found.control, found.words) == (7.5, 6, 5, UpliftWords.NO_BETTER)
    assert found.chance == pytest.approx(6 / 11)


def test_many_attempts_above_a_few_control_trials_may_be_chance() -> None:
    found = uplift_of([1.2] * 40 + [2.0] * 20, [1.5] * 6)
    assert found.chance == pytest.approx(math.prod((60 - place) / (66 - place) for place in range(20)))
    assert found.words is UpliftWords.NO_BETTER


def test_failures_and_scores_below_the_baseline_improve_nothing() -> None:
    found = uplift_of([None, None, 0.1, 0.2, 0.3], [0.5, 0.6, None, None, None])
    assert (found.amount, found.ahead, found.chance) == (0.0, 0, 1.0)


def test_a_refusal_by_a_gate_costs_a_trial() -> None:
    story = Story(baseline=1.0)
    story.tries("1", None, ending=Ending.REFUSED)
    assert uplift_of([1.5] * 4, [1.5] * 5, story).attempts == 5


@pytest.mark.parametrize(
    ("attempts", "control", "words"), [(9, 4, UpliftWords.FEW_CONTROLS), (4, 9, UpliftWords.FEW_ATTEMPTS)]
)
def test_few_trials_allow_no_conclusion(attempts: int, control: int, words: UpliftWords) -> None:
    found = uplift_of([2.0] * attempts, [1.0] * control)
    assert (found.words, found.chance, found.attempts, found.control) == (words, None, attempts, control)


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
    found = uplift(story.history, 1)
    assert found is not None
    assert (found.amount, found.attempts, found.control, found.words) == (0.0, 0, 0, UpliftWords.FEW_CONTROLS)


def test_the_largest_floats_are_compared() -> None:
    found = uplift_of([1.7e308] * 5, [-1.7e308] * 5, Story(baseline=-1.7e308))
    assert found.amount == pytest.approx(1.797e308, rel=1e-3)


def test_a_control_without_attempts_compares_nothing() -> None:
    story = Story(baseline=1.0)
    for _ in range(6):
        story.tries("1", 1.1, Pool.CONTROL)
    assert uplift(story.history, 1) is None


@pytest.mark.parametrize("trials", [5, 8, 20, 60])
def test_equal_pools_are_rarely_called_better(trials: int) -> None:
    rng = random.Random(trials)
    words = [
        uplift_from_gains("score", *([rng.gauss(0, 1) for _ in range(trials)] for _ in range(2))).words
        for _ in range(600)
    ]
    assert words.count(UpliftWords.BETTER) <= 30
    assert words.count(UpliftWords.WORSE) <= 30


@pytest.mark.parametrize(("trials", "controls"), [(5, 5), (12, 12), (40, 40), (60, 6), (6, 60)])
def test_the_chance_is_what_it_says(trials: int, controls: int) -> None:
    rng = random.Random(trials)
    found = [
        uplift_from_gains("score", *([rng.gauss(0, 1) for _ in range(count)] for count in (trials, controls)))
        for _ in range(4000)
    ]
    for most in (0.3, 0.1, 0.03):
        share = sum(one.chance is not None and one.chance <= most and one.ahead > 0 for one in found) / 4000
        assert share <= most + 0.015


def test_a_clear_advantage_is_seen() -> None:
    rng = random.Random(1)
    found = [
        uplift_from_gains("score", [rng.gauss(2, 1) for _ in range(30)], [rng.gauss(0, 1) for _ in range(30)])
        for _ in range(100)
    ]
    assert sum(each.words is UpliftWords.BETTER for each in found) >= 80


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
