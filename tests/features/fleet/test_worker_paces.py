"""A worker that becomes slower is noticed from what it measures again; a quiet one raises no alarm."""

import random

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome
from loopty.features.fleet.paces import LEAST_BEFORE, NEWEST, WorkerPaces
from loopty.record.trials import TrialEnded
from loopty.record.workers import LeaseLost, TrialLeased, WorkerDrifted

BEST = NodeId("1.2")
_REPEATS = 40


class World:
    """Workers that measure the best node again and again."""

    def __init__(self):
        self.paces, self.number = WorkerPaces(Objective()), 0

    def measure(self, worker, score):
        """The reason of the alarm that this measurement raises, or None."""
        self.number += 1
        outcome = Outcome(Ending.FINISHED, metrics={"score": score}, fingerprint="f0")
        assert self.paces.apply(TrialLeased(BEST, self.number, worker, "lease")) is None
        found = self.paces.apply(TrialEnded(BEST, self.number, outcome))
        return found and found.reason

    def alarms(self, worker, scores):
        return [reason for score in scores if (reason := self.measure(worker, score))]


def gauss(rng):
    return 100 + 3 * rng.gauss(0, 1)


def with_outliers(rng):
    return 100 + 3 * rng.gauss(0, 1) * (5 if rng.random() < 0.1 else 1)


def exact(_rng):
    return 100.0


@pytest.mark.parametrize("noise", [gauss, with_outliers, exact])
def test_quiet_nights_raise_no_alarm(noise):
    rng, nights = random.Random(5), 200
    alarms = sum(bool(World().alarms("a", [noise(rng) for _ in range(_REPEATS)])) for _ in range(nights))
    assert alarms <= nights / 100


def test_a_worker_that_becomes_slower_is_noticed_and_its_neighbour_is_not():
    rng, noticed, false = random.Random(6), 0, 0
    for _ in range(50):
        world = World()
        for _ in range(LEAST_BEFORE + 6):
            false += len(world.alarms("slow", [gauss(rng)]) + world.alarms("quiet", [gauss(rng)]))
        later = [(world.measure("slow", gauss(rng) - 25), world.measure("quiet", gauss(rng))) for _ in range(8)]
        false += any(quiet for _, quiet in later)
        noticed += any(slow for slow, _ in later)
    assert noticed >= 45
    assert false <= 1


def test_a_few_bad_measurements_are_no_change():
    assert World().alarms("a", [10.0] * LEAST_BEFORE + [8.0] * (NEWEST - 1) + [10.0] * 4) == []


def test_the_reason_says_what_was_measured_before_and_now():
    reasons = World().alarms("a", [10.0] * LEAST_BEFORE + [8.0] * NEWEST)
    assert reasons == ["score of the same node was 10 there and is 8 now (-20%; the noise is 0)"]


def test_after_an_alarm_everything_there_is_new():
    world = World()
    assert world.alarms("a", [10.0] * LEAST_BEFORE + [8.0] * NEWEST)
    world.paces.apply(WorkerDrifted(1, "a", "f1", "it changed"))
    assert world.alarms("a", [8.0] * _REPEATS) == []


def test_a_result_whose_lease_was_lost_counts_for_nothing():
    world = World()
    assert world.alarms("a", [10.0] * LEAST_BEFORE) == []
    for number in range(100, 100 + NEWEST):
        world.paces.apply(TrialLeased(BEST, number, "a", "lease"))
        world.paces.apply(LeaseLost(BEST, number, "lease", "it was silent"))
        outcome = Outcome(Ending.FINISHED, metrics={"score": 1.0}, fingerprint="f0")
        assert world.paces.apply(TrialEnded(BEST, number, outcome)) is None
