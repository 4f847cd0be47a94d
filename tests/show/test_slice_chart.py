"""The chart of scores against one parameter."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool
from loopty.show.parameters import ParameterSlice, parameter_slice, parameters_of, slice_chart
from loopty.show.rated_nodes import Mark
from loopty.show.terminal import Terminal, width

from .story import Story

LOG_AXIS = """
score (lower is better) by rate
  │·
4 ┤                                       ◦
  │        ●
2 ┤                                ·
  │                   ●       ·
  └────────────────────────────────────────
   1e-05             0.00316              1
"""


def tuned(values: list[Value], scores: list[float], control: int = -1) -> Story:
    """A run that changes only the parameter `rate`."""
    story = Story(Direction.MIN, baseline=None)
    story.ends(NodeId("1"), 9.0)
    for number, (value, score) in enumerate(zip(values, scores, strict=True)):
        pool = Pool.CONTROL if number == control else Pool.ATTEMPT
        story.ends(story.adds("1", pool, params={"rate": value}, tree="the same"), score)
    return story


def slice_of(story: Story) -> ParameterSlice:
    found = parameter_slice(story.history, 1, "rate")
    assert found is not None
    return found


def test_values_over_several_powers_of_ten_are_on_a_logarithmic_axis() -> None:
    story = tuned([1e-04, 1e-05, 0.003, 1.0, 0.03, 0.14], [3.0, 5.0, 1.0, 4.0, 1.1, 2.0], control=3)
    assert slice_chart(slice_of(story), 43, 5) == LOG_AXIS.strip("\n")


def test_each_choice_has_a_stretch_of_the_axis() -> None:
    text = slice_chart(slice_of(tuned(["sgd", "adam", "adam", "sgd"], [3.0, 1.0, 2.0, 4.0])), 40, 5)
    *_, labels = text.splitlines()
    assert labels.split() == ["adam", "sgd"]
    assert labels.index("sgd") > 20


def test_a_slice_has_the_trials_of_the_best_code_that_have_a_score() -> None:
    story = tuned([0.1, 0.2], [2.0, 1.0])
    story.ends(story.adds("1", params={"rate": 0.3}, tree="the same"), None, Ending.PRUNED)
    story.ends(story.adds("1", params={"rate": 0.4}, tree="other"), 5.0)
    assert [(point.value, point.score, point.mark) for point in slice_of(story).points] == [
        (0.1, 2.0, Mark.KEPT),
        (0.2, 1.0, Mark.KEPT),
    ]
    assert parameters_of(story.history, 1) == ["rate"]
    assert parameter_slice(story.history, 1, "depth") is None


@pytest.mark.parametrize("columns", [20, 40, 132])
@pytest.mark.parametrize("values", [[1, 2, 3], [0.5, 0.5, 0.5], [True, False, True], [1e-9, 1.0, 1e9]])
def test_a_slice_fits_any_terminal(values: list[Value], columns: int) -> None:
    found = slice_of(tuned(values, [1.0, 2.0, 3.0]))
    assert max(map(width, slice_chart(found, columns).splitlines())) <= columns
    assert slice_chart(found, columns, terminal=Terminal(unicode=False)).isascii()
