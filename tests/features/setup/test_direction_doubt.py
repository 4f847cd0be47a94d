"""A score that grows with the duration of its runs is a time."""

import pytest

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.draft_checks import direction_doubt
from loopty.features.setup.proven_task import MeasuredNoise

SECONDS = (1.0, 1.3, 1.1, 1.6, 1.2)


def slowly(*runs):
    """Runs at a third of the speed: the score and the seconds of each."""
    waiting = list(runs)

    def run():
        value, seconds = waiting.pop(0)
        return Outcome(Ending.FINISHED, metrics={"score": value}, seconds=seconds)

    return run


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_what_grew_and_fell_with_the_duration_needs_no_other_run(unit):
    values = tuple((seconds - 0.1) * unit for seconds in SECONDS)
    assert "grew and fell" in direction_doubt(MeasuredNoise("score", values, SECONDS), slowly(), 600)


def test_a_steady_time_grows_when_its_run_is_slowed_down():
    noise = MeasuredNoise("score", (0.50, 0.51, 0.50, 0.51), (0.62, 0.60, 0.61, 0.60))
    assert "slowed down" in direction_doubt(noise, slowly((1.5, 1.8), (1.4, 1.7)), 600)
    assert direction_doubt(noise, slowly((0.51, 1.8), (0.50, 1.7)), 600) == "", "an accuracy stays"
    assert direction_doubt(noise, slowly((0.2, 1.8), (0.2, 1.7)), 600) == "", "a rate falls"
    assert direction_doubt(noise, slowly((1.5, 0.62), (1.4, 0.6)), 600) == "", "it was not slower"


def test_what_is_the_same_each_time_or_too_long_to_repeat_is_not_run_again():
    assert direction_doubt(MeasuredNoise("score", (2.0,) * 4, (1.0, 1.1, 1.2, 1.3)), slowly(), 600) == ""
    assert direction_doubt(MeasuredNoise("score", (2.0, 2.1, 2.0), (40.0, 41.0, 42.0)), slowly(), 600) == ""
    assert direction_doubt(None, slowly(), 600) == ""
