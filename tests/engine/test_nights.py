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
    assert kept >= 0.65


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


def test_the_fast_mode_finds_more_for_the_same_measurements():
    careful, fast = (
        statistics.fmean(judged_night(steady, 0.003, mixed_effects, 300, seed, noise).gain for seed in range(8))
        for noise in (Noise(), Noise(mode="fast"))
    )
    assert fast > 1.2 * careful


@pytest.mark.parametrize("mode", ["careful", "fast"])
@pytest.mark.parametrize("world", ["null, heavy tails", "null, alternating hosts", "null, 30 % toss coins"])
def test_heavy_tails_alternating_hosts_and_coins_keep_the_error_rate(world, mode):
    nights = [night(world, mode, 300, 7000 + seed) for seed in range(4)]
    assert sum(one.false_keeps for one in nights) <= Noise(mode=mode).rate * sum(one.null for one in nights)


@pytest.mark.parametrize(
    ("world", "mode", "least"), [("noisy start", "careful", 0.5), ("noise shrinks", "careful", 0.7)]
)
def test_the_noise_of_yesterday_hides_no_gain_of_today(world, mode, least):
    nights = [night(world, mode, 300, 7000 + seed) for seed in range(6)]
    assert sum(one.found for one in nights) / sum(one.available for one in nights) >= least
