"""Results per time and tokens."""

from __future__ import annotations

import itertools

import pytest

from loopty.domain.task import Noise
from loopty.domain.trial import Ending, Pool
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.trials import TrialCounts
from loopty.show.goodput import Goodput, goodput

from .story import Story
from .test_run_status import status_of


def goodput_of(story: Story, seconds: float = 1800.0) -> Goodput:
    history = story.history
    return goodput(history, history.runs[1], seconds)


def test_results_are_counted_per_hour_and_per_million_tokens() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1", 1.0, Pool.CONTROL)
    story.tries("1", None)
    story.reserves(500_000, 0.1)
    found = goodput_of(story)
    assert (found.results, found.per_hour, found.per_million_tokens) == (2, 4.0, 4.0)


def test_without_tokens_and_time_there_is_no_rate() -> None:
    found = goodput_of(Story(), seconds=0.0)
    assert (found.results, found.per_hour, found.per_million_tokens, found.waste) == (0, None, None, ())


def test_waste_has_causes() -> None:
    story = Story()
    for ending in (Ending.FAILED, Ending.TIMED_OUT, Ending.FAILED, Ending.REFUSED, Ending.TAMPERED, Ending.PRUNED):
        story.tries("1", None, ending=ending)
    story.refuses()
    found = goodput_of(story)
    assert [(each.cause, each.trials, each.seconds) for each in found.waste] == [
        ("failed", 2, 1.0),
        ("timed out", 1, 0.5),
        ("pruned", 1, 0.5),
        ("rejected by a gate", 1, 0.5),
        ("tampered", 1, 0.5),
    ]
    assert (found.refused, found.busy_seconds) == (1, 3.5)


def test_repeat_measurements_are_not_waste() -> None:
    wobble = itertools.cycle([0.99, 1.02, 0.98, 1.0, 1.01])
    story = Story(baseline=1.0, noise=Noise(pairs=3), again=lambda _: next(wobble))
    story.tries("1", 1.5)
    found = goodput_of(story)
    assert found.waste == ()
    assert found.repeats.trials == TrialCounts.of(story.history.runs[1], Pool.REPEAT).started
    assert found.repeats_of_discarded == found.repeats.trials - 2
    assert found.repeats.seconds == pytest.approx(0.5 * found.repeats.trials)


def test_work_by_hand_takes_the_seconds_of_its_trials() -> None:
    story = Story(driven=False)
    story.tries("1", 2.0)
    found = status_of(story)
    result = goodput_of(story, found.work_seconds)
    assert (result.seconds, result.per_hour) == (1.0, 3600.0)


def test_results_of_another_machine_are_not_comparable() -> None:
    story = Story(machine="laptop")
    story.tries("1", 2.0)
    story.tries("1", 1.5)
    story.moves("server", {"1": 50.0, "1.1": 60.0}, incumbent="1.1")
    assert goodput_of(story).results == 1


def test_the_slots_of_trials_and_of_models_are_busy_a_share_of_the_time() -> None:
    story = Story()
    assert goodput_of(story).model_slots_busy is None
    story.tries("1", 2.0)
    story.tell(CallReserved(1, "a", "evolver", 9, 0.0, "me", pool=Pool.ATTEMPT))
    story.tell(CallSettled(1, "a", 9, 0.0))  # a second later, by the clock of the story
    story.tell(CallReserved(1, "b", "verifier", 9, 0.0, "me"))
    story.tell(CallSettled(1, "b", 9, 0.0))
    story.tell(CallReserved(1, "c", "evolver", 9, 0.0, "me", pool=Pool.ATTEMPT))
    story.tell(CallSettled(1, "c", 9, 0.0, lost=True))
    history = story.history
    found = goodput(history, history.runs[1], 10.0, trial_slots=2, model_slots=4)
    assert found.trial_slots_busy == pytest.approx(found.busy_seconds / 20)
    assert found.model_slots_busy == pytest.approx(1 / 40), "a call whose process died has no known time"
