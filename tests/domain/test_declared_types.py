"""A record that does not have the types and sizes that it declares is named, with the place of the fault."""

import gc
import timeit

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Outcome
from loopty.record.nodes import NodeSealed
from loopty.record.trials import TrialEnded

NODE = NodeId("1.2")


def ended(**values):
    return TrialEnded(NODE, 1, Outcome(Ending.FINISHED, **values))


@pytest.mark.parametrize("value", [True, "9", None, [1], {}, float("nan"), float("-inf"), 10**400, 1j])
def test_what_is_no_finite_number_is_no_score(value):
    assert misfit(ended(metrics={"score": value})).startswith("outcome.metrics.score is ")


@pytest.mark.parametrize("value", [0, -0.0, 9, 1e300, 10**30])
def test_whole_numbers_are_numbers(value):
    assert misfit(ended(metrics={"score": value})) is None


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"seconds": -1e300}, "outcome.seconds"),
        ({"seconds": 1e300}, "outcome.seconds"),
        ({"seconds": False}, "outcome.seconds"),
        ({"rows_left_out": 1.0}, "outcome.rows_left_out"),
        ({"rows_left_out": 10**30}, "outcome.rows_left_out"),
        ({"reason": "x" * 3_000_000}, "outcome.reason"),
        ({"reason": "half \ud800"}, "outcome.reason"),
        ({"reason": b"bytes"}, "outcome.reason"),
        ({"metrics": [1]}, "outcome.metrics"),
        ({"metrics": {1: 2.0}}, "outcome.metrics"),
        ({"metrics": {"\ud800": 2.0}}, "outcome.metrics"),
        ({"directions": {"score": "max"}}, "outcome.directions.score"),
        ({"error_lines": ["a"]}, "outcome.error_lines"),
        ({"error_lines": ("a", 1)}, "outcome.error_lines"),
        ({"step": "1"}, "outcome.step"),
        ({"integrity": "strong"}, "outcome.integrity"),
        ({"cascade": ({"name": "a"},)}, "outcome.cascade"),
    ],
)
def test_the_fault_is_named_with_its_place(values, place):
    assert misfit(ended(**values)).startswith(f"{place} ")


def test_a_record_is_bounded_as_a_whole():
    assert "characters" in misfit(ended(metrics={f"{number:0100}": 1.0 for number in range(170_000)}))


@pytest.mark.parametrize("commit", ["--output=x", "a" * 39, 7])
def test_a_name_holds_what_its_type_allows(commit):
    assert misfit(NodeSealed(NODE, commit, "a" * 40)).startswith("commit is ")


def test_one_of_several_types_is_enough():
    assert misfit(Gate("fast", "true")) is None
    assert misfit(Gate("fast", ("sh", "-c", "true"))) is None
    assert misfit(Gate("fast", 7)).startswith("command is a number")


def test_the_fault_itself_can_be_printed_and_written():
    misfit(ended(metrics={"\ud800" * 9_000: 2.0, "a": True})).encode()
    misfit(ended(metrics={"é\ud8ff": 2.0})).encode()


def test_words_are_cut_visibly_and_can_be_written():
    assert cut_words("short") == "short"
    assert cut_words("x" * 3_000_000) == "x" * 1_999 + "…"
    assert cut_words("half \ud800 é") == "half ? é"


def test_the_check_of_a_trial_takes_far_less_than_a_millisecond():
    event = ended(metrics={f"tasks.{number}": 0.5 for number in range(20)})
    assert min(timeit.repeat(lambda: misfit(event), number=100, repeat=5)) / 100 < 0.000_5


def test_a_check_leaves_no_circle_that_would_keep_a_ledger_open():
    record = ended(metrics={"score": 1.0}, step=None)
    gc.collect()
    gc.disable()
    try:
        assert misfit(record) is None
        assert misfit(ended(integrity="strong"))
        assert gc.collect() == 0
    finally:
        gc.enable()
