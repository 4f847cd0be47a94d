"""The sample of answers that is compared with a reference."""

import pytest

from loopty_sdk import CandidateError, candidate
from loopty_sdk.answer_checks import AnswerChecks
from loopty_sdk.values import encode


def note(checks, *args, answer, **named):
    checks.note(encode((args, named)), encode(answer))


def test_at_least_one_answer_is_checked_however_small_the_sample():
    for _ in range(50):
        checks = AnswerChecks("f", lambda x: x, 1e-9, 0.0)
        for number in range(5):
            note(checks, number, answer=number)
        checks.finish()
        assert checks.checked == 1


def test_about_the_wanted_share_is_checked():
    checks = AnswerChecks("f", lambda x: x, 0.25, 0.0)
    for number in range(2000):
        note(checks, number, answer=number)
    checks.finish()
    assert 350 < checks.checked < 650


def test_a_wrong_answer_is_named_with_its_arguments():
    checks = AnswerChecks("program.py:f", lambda x, scale=1: x * scale, 1.0, 0.0)
    note(checks, 2, scale=3, answer=6)
    note(checks, 2, scale=3, answer=7)
    with pytest.raises(CandidateError, match="returned 7 instead of 6 for") as error:
        checks.finish()
    assert error.value.kind == "wrong"


def test_numbers_may_differ_by_the_tolerance():
    for tolerance, is_right in ((0.0, False), (1e-3, True)):
        checks = AnswerChecks("f", lambda x: x, 1.0, tolerance)
        note(checks, 1.0, answer=1.0001)
        if is_right:
            checks.finish()
        else:
            with pytest.raises(CandidateError):
                checks.finish()


def test_a_reference_that_changes_its_arguments_changes_nothing_else():
    def take_last(values):
        return values.pop()

    checks = AnswerChecks("f", take_last, 1.0, 0.0)
    note(checks, [1, 2], answer=3)
    with pytest.raises(CandidateError, match=r"for \(\[1, 2\],\)"):
        checks.finish()


def test_a_large_backlog_is_compared_at_once(monkeypatch):
    monkeypatch.setattr("loopty_sdk.answer_checks._LARGEST_BACKLOG", 100)
    checks = AnswerChecks("f", lambda x: x, 1.0, 0.0)
    for number in range(20):
        note(checks, "x" * number, answer="x" * number)
    assert 0 < checks.checked <= 20
    assert len(checks._chosen) < 20


def test_a_sample_is_a_share():
    for sample in (0.0, 1.5, -1.0):
        with pytest.raises(ValueError, match="share of the calls"):
            candidate("program.py:f", check=len, sample=sample)
