"""Whole simulated nights under the judge itself, on machines that change: seeded, and sized to take seconds."""

import statistics
import sys
from pathlib import Path

import pytest

from loopty.domain.task import Noise

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from judge_machines import (
    MACHINES,
    random_walk,
    slowed_at_once,
    slowing,
    speeding,
    steady,
    two_frequencies,
)
from judge_nights import judged_night, kept_share, mixed_effects, no_effect
from judge_worlds import night


def test_gains_are_found_after_the_machine_has_slowed_by_five_percent():
    kept, cost = kept_share(slowed_at_once, 0.01, 0.02, 60, 2, range(12), Noise())
    assert kept >= 0.75  # 0 before the record was kept fresh
    assert cost < 20


def test_a_fresh_record_costs_a_steady_machine_no_gains():
    kept, _ = kept_share(steady, 0.01, 0.02, 30, 2, range(12), Noise())
    assert kept >= 0.8


@pytest.mark.parametrize("machine", [slowing, speeding, two_frequencies, random_walk])
def test_nights_in_which_nothing_is_better_state_no_gain(machine):
    nights = [judged_night(machine, 0.01, no_effect, 250, 50 + seed) for seed in range(5)]
    assert all(night.gain == 0 for night in nights)
    assert max(abs(night.claim) for night in nights) < 0.02  # it was 5 % in half of such nights


def test_on_every_machine_no_more_than_the_error_rate_is_kept_falsely():
    nights = [
        judged_night(machine, 0.01, no_effect, 300, seed) for machine in MACHINES.values() for seed in range(3)
    ]
    assert sum(night.false_keeps for night in nights) <= 0.05 * sum(night.null for night in nights)


def test_the_interval_of_the_headline_holds_the_truth():
    nights = [
        judged_night(machine, sigma, mixed_effects, 150, 10 + seed)
        for machine in (steady, slowing, two_frequencies)
        for sigma in (0.003, 0.01)
        for seed in range(8)
    ]
    stated = [night for night in nights if night.claim_low == night.claim_low]
    held = [night.claim_low <= night.gain <= night.claim_high for night in stated]
    assert len(stated) >= 40
    assert statistics.fmean(held) >= 0.85  # 95 % are stated; seven misses of 48 have a chance of one in a hundred
    assert statistics.fmean(abs(night.claim - night.gain) for night in stated) < 0.01


def test_an_error_rate_of_the_run_lets_fewer_false_ones_in():
    free, strict = (
        [judged_night(steady, 0.01, no_effect, 300, seed, noise) for seed in range(6)]
        for noise in (Noise(error_rate=0.2), Noise(error_rate=0.2, run_error_rate=0.1))
    )
    assert sum(night.false_keeps for night in free) >= 6
    assert sum(night.false_keeps > 0 for night in strict) <= 1


def test_a_higher_first_look_finds_more_for_the_same_measurements_where_proposals_are_free():
    plain, promising = (
        statistics.fmean(judged_night(steady, 0.003, mixed_effects, 300, seed, noise).gain for seed in range(8))
        for noise in (Noise(), Noise(first_look=1.0))
    )
    assert promising > 1.2 * plain


@pytest.mark.parametrize(
    ("world", "first_look", "least"),
    [("noisy start", 1.0, 0.4), ("noise shrinks", 1.0, 0.75)],  # 1 and 27 % with the noise of the first six
)
def test_the_noise_of_yesterday_hides_no_gain_of_today(world, first_look, least):
    nights = [night(world, first_look, 300, 7000 + seed) for seed in range(6)]
    assert sum(one.found for one in nights) / sum(one.available for one in nights) >= least
