"""What a trial says that cannot be recorded becomes its failure, and hides no finding."""

import pytest

from loopty.domain.declared_types import misfit
from loopty.domain.proposal import recordable
from loopty.domain.trial import Ending, Outcome


def test_a_sound_outcome_stays_as_it_is():
    outcome = Outcome(Ending.FAILED, {"score": 1.0}, reason="no", error_lines=("a", "b"))
    assert recordable(outcome) is outcome


def test_words_are_cut_and_nothing_else_is():
    found = recordable(Outcome(Ending.FAILED, reason="x" * 3_000_000, error_lines=("y" * 9_000, "half \ud800")))
    assert found.ending is Ending.FAILED
    assert found.reason == "x" * 1_999 + "…"
    assert found.error_lines == ("y" * 1_999 + "…", "half ?")


@pytest.mark.parametrize(
    ("ending", "becomes"),
    [
        (Ending.FINISHED, Ending.FAILED),
        ("finished", Ending.FAILED),
        (None, Ending.FAILED),
        (Ending.TAMPERED, Ending.TAMPERED),
        (Ending.REFUSED, Ending.REFUSED),
    ],
)
def test_what_cannot_be_recorded_is_a_failure_with_its_reason(ending, becomes):
    found = recordable(Outcome(ending, {"score": True}, reason=None, error_lines=7))
    assert found.ending is becomes
    assert found.reason.startswith("its result cannot be recorded: ")
    assert not found.metrics
    assert misfit(found) is None
