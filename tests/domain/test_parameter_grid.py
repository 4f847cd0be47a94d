"""The grid of a space."""

from __future__ import annotations

import itertools

from loopty.domain.space import Parameter, ParameterGrid, ParameterKind, Space

from .test_space import OPTIMIZER, SPACE


def test_the_grid_is_every_combination_once_in_natural_order() -> None:
    points = list(ParameterGrid(SPACE, 2))
    assert len(points) == len({tuple(sorted(point.items())) for point in points}) == (1 + 2) * 2 + 2
    assert all(SPACE.fault(point) is None for point in points)
    plain = Space({"a": Parameter(ParameterKind.INT, 0, 2), "b": OPTIMIZER})
    expected = [{"a": a, "b": b} for a, b in itertools.product((0, 1, 2), ("sgd", "adam"))]
    assert list(ParameterGrid(plain, 3)) == expected


def test_a_grid_of_many_conditional_parameters_is_not_the_product_of_all() -> None:
    methods = tuple(f"method{number}" for number in range(30))
    own = {
        f"{method}.{name}": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"method": method})
        for method in methods
        for name in "ab"
    }
    space = Space({"method": Parameter(ParameterKind.CATEGORICAL, choices=methods), **own})
    assert ParameterGrid(space, 5).size == 30 * 25
    assert len({str(point) for point in ParameterGrid(space, 5)}) == 30 * 25


def test_a_point_of_an_astronomical_grid_is_found_at_once() -> None:
    parts = {f"x{number}": Parameter(ParameterKind.FLOAT, 0.0, 1.0) for number in range(60)}
    grid = ParameterGrid(Space({"method": OPTIMIZER, **parts}), 5)
    assert grid.size == 2 * 5**60
    assert grid.point(0) == {"method": "sgd", **dict.fromkeys(parts, 0.0)}
    assert grid.point(grid.size - 1) == {"method": "adam", **dict.fromkeys(parts, 1.0)}


def test_conditions_on_conditional_parameters_are_counted() -> None:
    space = Space(
        {
            "a": Parameter(ParameterKind.INT, 1, 3),
            "b": Parameter(ParameterKind.INT, 1, 2, when={"a": 2}),
            "c": Parameter(ParameterKind.INT, 1, 4, when={"b": 1}),
            "d": Parameter(ParameterKind.INT, 1, 2),
        }
    )
    points = list(ParameterGrid(space, 5))
    assert len(points) == ParameterGrid(space, 5).size == (2 + (4 + 1)) * 2
    assert all(space.fault(point) is None for point in points)
    assert len({str(point) for point in points}) == len(points)
