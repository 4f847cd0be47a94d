"""When a repeated measurement counts as the same."""

import pytest

from loopty.domain.objective import Direction, Metric
from loopty.domain.trial import Ending, Outcome
from loopty.record.node_record import Result
from loopty.show.reproduction import reproduction

SCORE = (Metric("score"),)


def finished(**metrics: float) -> Outcome:
    return Outcome(Ending.FINISHED, metrics)


def recorded(*scores: float) -> Result:
    return Result(finished(score=sorted(scores)[len(scores) // 2]), tuple({"score": score} for score in scores))


def is_same(then: Result, *now: float, tolerance: float = 0.0) -> bool:
    return reproduction(
        then, [finished(score=score) for score in now], (Metric("score", tolerance=tolerance),)
    ).is_same


def test_one_measurement_must_match_exactly_or_within_the_tolerance():
    assert is_same(recorded(5.0), 5.0)
    assert not is_same(recorded(5.0), 5.0000001)
    assert is_same(recorded(5.0), 5.25, tolerance=0.25)
    assert not is_same(recorded(5.0), 5.5, tolerance=0.25)


def test_a_difference_within_known_noise_is_ignored():
    floor = {"score": 0.1}
    assert reproduction(recorded(5.0), [finished(score=5.3)], SCORE, floor).is_same
    assert not reproduction(recorded(5.0), [finished(score=5.31)], SCORE, floor).is_same


@pytest.mark.parametrize(
    ("now", "expected"), [(9.0, True), (10.5, True), (12.0, True), (8.9, False), (12.1, False)]
)
def test_several_samples_accept_values_within_their_widened_spread(now, expected):
    assert is_same(recorded(10.0, 10.5, 11.0), now) is expected


def test_samples_that_never_varied_must_match_exactly():
    assert is_same(recorded(5.0, 5.0, 5.0), 5.0)
    assert not is_same(recorded(5.0, 5.0, 5.0), 5.001)


def test_repeats_are_compared_by_their_median_and_their_spread():
    assert is_same(recorded(5.0), 4.0, 5.0, 90.0)
    assert is_same(recorded(5.0), 4.9, 5.2, 5.3)
    assert not is_same(recorded(5.0), 7.0, 7.1, 7.2)


def test_all_counting_metrics_decide_and_no_others():
    then = Result(finished(score=1.0, seconds=2.0, tasks=3.0))
    both = (Metric("score"), Metric("seconds", Direction.MIN, tolerance=0.5))
    assert reproduction(then, [finished(score=1.0, seconds=2.4, tasks=9.0)], both).is_same
    assert not reproduction(then, [finished(score=1.0, seconds=2.6, tasks=3.0)], both).is_same
    found = reproduction(then, [finished(score=1.0, seconds=2.4, tasks=9.0)], both)
    assert [(metric.name, metric.counts, metric.is_same) for metric in found.metrics] == [
        ("score", True, True),
        ("seconds", True, True),
        ("tasks", False, False),
    ]


def test_weights_do_not_let_one_metric_compensate_for_another():
    weighted = (Metric("a", weight=1.0), Metric("b", weight=1.0))
    assert not reproduction(Result(finished(a=1.0, b=2.0)), [finished(a=2.0, b=1.0)], weighted).is_same


def test_a_missing_metric_is_never_the_same():
    assert not reproduction(Result(finished(score=1.0)), [finished(other=1.0)], SCORE).is_same
    assert not reproduction(Result(finished(other=1.0)), [finished(score=1.0)], SCORE).is_same
    assert not reproduction(Result(finished(other=1.0)), [finished(other=1.0)], SCORE).is_same


def test_the_ending_must_match_and_suffices_for_a_failure():
    failed = Outcome(Ending.FAILED, reason="exit code 1")
    found = reproduction(Result(failed), [failed], ())
    assert found.is_same
    assert found.failure == "failed: exit code 1"
    assert not reproduction(Result(failed), [finished(score=1.0)], SCORE).is_same
    assert not reproduction(recorded(1.0), [finished(score=1.0), failed], SCORE).is_same


def test_a_metric_that_no_sample_holds_is_compared_with_the_record_as_a_whole():
    then = Result(finished(score=2.0, seconds=2.0), ({"score": 2.0},))
    found = reproduction(then, [finished(score=2.0, seconds=2.0)], SCORE)
    assert [metric.then for metric in found.metrics] == [(2.0,), (2.0,)]
