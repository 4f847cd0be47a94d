"""The samplers of tune mode."""

import random

import pytest

from loopty.domain.objective import Direction
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task_tables import SAMPLERS
from loopty.proposers.parameters.tune_samplers import make_draw
from loopty.record.tunings import TunePoint

SPACE = Space(
    {
        "rate": Parameter(ParameterKind.FLOAT, 0.001, 1.0, log=True),
        "depth": Parameter(ParameterKind.INT, 1, 9),
        "kind": Parameter(ParameterKind.CATEGORICAL, choices=("a", "b")),
        "extra": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"kind": "b"}),
    }
)
START = {"rate": 0.5, "depth": 2, "kind": "a"}


def score(params):
    return -abs(params["depth"] - 7) - 3 * abs(params["rate"] - 0.01) + (params["kind"] == "b")


def search(sampler, direction, trials=24):
    draw, points = make_draw(sampler), [TunePoint(START, direction.sign * score(START))]
    for number in range(trials):
        params = draw(SPACE, points, direction, random.Random(f"seed {number}"))
        assert SPACE.fault(params) is None
        points.append(TunePoint(params, direction.sign * score(params) if number % 5 else None))
    return points


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "gp"])
@pytest.mark.parametrize("direction", Direction)
def test_points_lie_in_the_space_and_get_better(sampler, direction):
    found = [direction.sign * point.score for point in search(sampler, direction) if point.score is not None]
    assert max(found) > found[0] + 2


def test_the_same_points_and_generator_give_the_same_answer():
    assert search("tpe", Direction.MAX, 4) == search("tpe", Direction.MAX, 4)
    assert search("local", Direction.MAX) == search("local", Direction.MAX)


def test_no_point_is_drawn_twice_while_there_are_others():
    space = Space({"n": Parameter(ParameterKind.INT, 1, 6)})
    draw, points = make_draw("local"), [TunePoint({"n": 3}, 1.0)]
    for number in range(4):
        points.append(TunePoint(draw(space, points, Direction.MAX, random.Random(number)), 0.0))
    assert len({point.params["n"] for point in points}) >= 4
