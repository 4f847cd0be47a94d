"""What tune mode's slice is worth."""

import pytest

from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.record.tunings import SliceRecord
from loopty.show.stages import slice_text, slice_value


def make_run(pairs=(), tune_seconds=1.0, attempt_seconds=100.0, trials=20):
    run = Run(1, "c", Objective(), 0, "", 0.0).with_part(SliceRecord("dev", 10, 7, tuple(pairs)))
    tunes = TrialCounts(trials, {"finished": trials}, trials * tune_seconds, {"finished": trials * tune_seconds})
    attempts = TrialCounts(10, {"finished": 10}, 10 * attempt_seconds, {"finished": 10 * attempt_seconds})
    return run.with_pool_part(Pool.TUNE, tunes).with_pool_part(Pool.ATTEMPT, attempts)


def test_nothing_is_said_where_nothing_was_tuned():
    assert slice_value(Run(1, "c", Objective(), 0, "", 0.0)) is None


def test_a_cheap_slice_that_predicts_gets_no_advice():
    found = slice_value(make_run([(x, 2 * x) for x in range(12)]))
    assert found.share == pytest.approx(0.01)
    assert found.prediction.value == pytest.approx(1)
    assert found.advice == ""
    assert slice_text(found).startswith("slice dev: 10 nodes tuned, 7 of them changed, in 20 tune trials")
    assert "costs 1 % of a trial; rank correlation with the whole benchmark 1.00" in slice_text(found)


def test_a_dear_slice_is_advised_against():
    found = slice_value(make_run(tune_seconds=15.0))
    assert found.advice == (
        "a tune trial costs 15 % of a trial, and above 3 % it rarely pays: "
        "make the slice smaller, or remove [tune]"
    )


def test_a_slice_that_predicts_nothing_is_advised_against():
    shuffled = [(x, x * 7 % 11) for x in range(11)]
    assert "the slice says little" in slice_value(make_run(shuffled)).advice
    assert slice_value(make_run(shuffled[:6])).advice == "", "six nodes are too few to say so"
