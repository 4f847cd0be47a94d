"""How much each parameter matters."""

from __future__ import annotations

import random

import pytest

from loopty.domain.objective import Direction
from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool
from loopty.show.parameters import parameter_importance

from .story import Story


def random_point(rng: random.Random) -> dict[str, Value]:
    point: dict[str, Value] = {"big": rng.random(), "small": rng.random(), "none": rng.random()}
    point["method"] = rng.choice(["a", "b", "c"])
    if point["method"] == "c":
        point["only_c"] = rng.random()
    return point


def score_of(point: dict[str, Value]) -> float:
    """The best value of `big` is in the middle: what matters need not grow or fall."""
    return (
        10 * abs(float(point["big"]) - 0.5)
        + 3.5 * float(point["small"])
        + (1.0 if point["method"] == "a" else 0.0)
    )


def searched(trials: int, direction: Direction = Direction.MIN, tree: str = "t0", **more: Pool) -> Story:
    story, rng = Story(direction, baseline=100.0 * -direction.sign), random.Random(3)
    for _ in range(trials):
        point = random_point(rng)
        node = story.adds("1", params=point, tree=tree, **more)
        story.ends(node, -direction.sign * score_of(point))
    return story


@pytest.mark.parametrize("direction", Direction)
def test_parameters_are_listed_by_what_the_score_depends_on(direction: Direction) -> None:
    found = parameter_importance(searched(150, direction).history, 1)
    assert [each.name for each in found[:2]] == ["big", "small"]
    shares = {each.name: each.share for each in found}
    assert shares["big"] > 0.5 > shares["small"] > shares["none"]
    assert shares["none"] < 0.05
    assert shares["method"] < shares["small"]


def test_a_conditional_parameter_counts_where_it_exists() -> None:
    story = Story(Direction.MIN, baseline=100.0)
    rng = random.Random(3)
    for _ in range(150):
        point = random_point(rng)
        extra = 50 * float(point["only_c"]) if "only_c" in point else 0.0
        story.ends(story.adds("1", params=point, tree="t0"), score_of(point) + extra)
    shares = {each.name: each for each in parameter_importance(story.history, 1)}
    assert shares["only_c"].share > 0.5
    assert 30 < shares["only_c"].trials < 70
    assert shares["big"].trials == 150


def test_too_few_trials_or_other_code_say_nothing() -> None:
    assert parameter_importance(searched(19).history, 1) == []
    assert parameter_importance(Story().history, 1) == []
    other = searched(30, tree="other code")
    assert len({node.tree for node in other.history.nodes(1, Pool.ATTEMPT)}) == 2
    history = other.history
    best = history.runs[1]
    assert [each.trials for each in parameter_importance(history, best.number)][:1] == [30]
    other.ends(other.adds("1", params={"big": 0.5}, tree="newest code"), -1e9)
    assert parameter_importance(other.history, 1) == []


def test_trials_of_the_control_count_and_pruned_ones_are_the_worst() -> None:
    story, rng = searched(15), random.Random(8)
    for _ in range(15):
        point = random_point(rng)
        story.ends(story.adds("1", Pool.CONTROL, params=point, tree="t0"), score_of(point))
    assert parameter_importance(story.history, 1)[0].trials == 30
    for _ in range(60):
        story.ends(story.adds("1", params={"big": 0.5, "none": 2.0}, tree="t0"), None, Ending.PRUNED)
    shares = {each.name: each.share for each in parameter_importance(story.history, 1)}
    assert shares["none"] > 0.5, "each trial with this value was pruned"


def test_failed_trials_and_constant_parameters_say_nothing() -> None:
    story = Story(Direction.MIN, baseline=100.0)
    for number in range(30):
        story.ends(story.adds("1", params={"x": float(number), "same": 1}, tree="t0"), float(number))
    for number in range(30):
        story.ends(story.adds("1", params={"x": float(number), "same": 2}, tree="t0"), None)
    (only,) = parameter_importance(story.history, 1)
    assert (only.name, only.trials) == ("x", 30)
    assert only.share > 0.9
