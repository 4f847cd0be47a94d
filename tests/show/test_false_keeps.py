"""What the error rate of each candidate means for a run, and how a node compares with its parent."""

from __future__ import annotations

import itertools

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.task import Noise
from loopty.show.comparisons import over_parent
from loopty.show.node import detail
from loopty.show.tally import false_keeps, false_keeps_text

from .story import Story


def noisy_story(gain: float = 1.0) -> Story:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    return Story(baseline=1.0, again=lambda node: 1.0 + gain * (node == "1.1") + next(wobble))


def test_the_expected_false_keeps_are_the_sum_of_the_error_rates() -> None:
    story = noisy_story()
    story.tries("1", 2.0)
    for _ in range(3):
        story.tries("1", 2.5)
    found = false_keeps(story.history, 1)
    assert (found.kept, found.compared) == (1, 4)
    assert found.expected == pytest.approx(0.2)
    assert false_keeps_text(found) == "1 of 4 compared in pairs; at most 0.2 expected to be false"


def test_no_more_are_expected_to_be_false_than_were_kept() -> None:
    story = noisy_story()
    story.noise = Noise(error_rate=0.4)
    for _ in range(4):
        story.tries("1", 2.5)
    assert false_keeps(story.history, 1).expected <= false_keeps(story.history, 1).kept


def test_without_pairs_nothing_is_said() -> None:
    story = Story()
    story.tries("1", 2.0)
    assert false_keeps_text(false_keeps(story.history, 1)) == ""


def test_a_node_shows_its_gain_over_its_parent_although_the_best_is_elsewhere() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 9.0)
    weak = story.tries("1", 0.5)
    child = story.tries(weak, 0.6)
    found = over_parent(story.history, story.history[child])
    assert found is not None
    assert found.change.percent == pytest.approx(20.0)
    shown = detail(story.history, child).over_parent
    assert shown == found
    assert over_parent(story.history, story.history[NodeId("1")]) is None


def test_a_comparison_with_the_parent_in_pairs_is_that_of_the_verdict() -> None:
    story = noisy_story()
    tried = story.tries("1", 2.0)
    node = story.history[tried]
    found = over_parent(story.history, node)
    assert found is not None
    assert node.effect is not None
    assert found.is_paired
    assert found.change.amount == node.effect.amount
