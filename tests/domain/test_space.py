"""Points of the parameter space: within bounds, on steps, with conditional parameters only where they exist."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.space import Parameter, ParameterKind, Space, Value

OPTIMIZER = Parameter(ParameterKind.CATEGORICAL, choices=("sgd", "adam"))
SPACE = Space(
    {
        "momentum": Parameter(ParameterKind.FLOAT, 0.0, 0.99, when={"optimizer": "sgd"}),
        "nesterov": Parameter(ParameterKind.CATEGORICAL, choices=(True, False), when={"momentum": 0.99}),
        "optimizer": OPTIMIZER,
        "layers": Parameter(ParameterKind.INT, 1, 4),
    }
)


@st.composite
def numbers(draw: st.DrawFn) -> Parameter:
    """A numeric parameter without a fault."""
    kind = draw(st.sampled_from((ParameterKind.FLOAT, ParameterKind.INT)))
    bounds = st.integers(-1000, 1000) if kind is ParameterKind.INT else st.floats(-1e6, 1e6)
    low, high = sorted((float(draw(bounds)), float(draw(bounds))))
    log = low > 0 and draw(st.booleans())
    steps = st.integers(1, 50).map(float) if kind is ParameterKind.INT else st.sampled_from((0.1, 0.25, 3.0))
    step = None if log else draw(st.one_of(st.none(), steps))
    made = Parameter(kind, low, high, log, step)
    assert made.fault() is None
    return made


@given(numbers(), st.floats(0, 1), st.integers())
def test_a_parameter_accepts_every_value_that_it_generates(
    parameter: Parameter, fraction: float, seed: int
) -> None:
    values = [parameter.at(fraction), parameter.baseline, parameter.sample(random.Random(seed))]
    for value in [*values, *parameter.grid(4)]:
        assert parameter.accepts(value), (parameter, value)
        assert type(value) is (int if parameter.type is ParameterKind.INT else float)


@given(numbers())
def test_the_grid_has_both_ends_exactly(parameter: Parameter) -> None:
    values = parameter.grid(5)
    assert values[0] == parameter.low
    if parameter.step is None:
        assert values[-1] == parameter.high


def test_a_logarithmic_grid_starts_at_its_lower_end() -> None:
    assert Parameter(ParameterKind.FLOAT, 0.1, 10.0, log=True).grid(3) == [0.1, pytest.approx(1.0), 10.0]


@pytest.mark.parametrize(
    ("parameter", "word"),
    [
        (Parameter(ParameterKind.FLOAT, 1.0), "low and high"),
        (Parameter(ParameterKind.FLOAT, 2.0, 1.0), "no larger"),
        (Parameter(ParameterKind.FLOAT, -1.7e308, 1.7e308), "finite"),
        (Parameter(ParameterKind.FLOAT, float("nan"), 1.0), "finite"),
        (Parameter(ParameterKind.FLOAT, 0.0, 1.0, log=True), "above 0"),
        (Parameter(ParameterKind.FLOAT, 1.0, 2.0, log=True, step=0.5), "exclude"),
        (Parameter(ParameterKind.INT, 0.5, 2.0), "whole"),
        (Parameter(ParameterKind.INT, 0.0, 9.0, step=0.5), "whole number for step"),
        (Parameter(ParameterKind.INT, 0.0, 9.0, choices=(1,)), "categorical"),
        (Parameter(ParameterKind.INT, 0.0, 9.0, default=3.0), "outside"),
        (Parameter(ParameterKind.INT, 0.0, 9.0, default=True), "outside"),
        (Parameter(ParameterKind.INT, 0.0, 9.0, step=2.0, default=3), "outside"),
        (Parameter(ParameterKind.FLOAT, 0.0, 1.0, step=0.25, default=0.3), "outside"),
        (Parameter(ParameterKind.FLOAT, 0.0, 1.0, default=1.5), "outside"),
        (Parameter(ParameterKind.CATEGORICAL), "choices"),
        (Parameter(ParameterKind.CATEGORICAL, choices=("a", "a")), "equal"),
        (Parameter(ParameterKind.CATEGORICAL, choices=(1, True)), "equal"),
        (Parameter(ParameterKind.CATEGORICAL, low=1.0, choices=("a",)), "leave low"),
        (Parameter(ParameterKind.CATEGORICAL, choices=("a",), default="b"), "outside"),
    ],
)
def test_a_faulty_parameter_says_how_to_fix_it(parameter: Parameter, word: str) -> None:
    assert word in (parameter.fault() or "")


def test_a_parameter_exists_only_under_its_conditions() -> None:
    rng = random.Random(1)
    points = [SPACE.sample(rng) for _ in range(50)]
    assert all(("momentum" in point) == (point["optimizer"] == "sgd") for point in points)
    assert all(SPACE.fault(point) is None for point in [*points, SPACE.baseline()])
    assert {point["optimizer"] for point in points} == {"sgd", "adam"}


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"optimizer": "adam"}, "layers"),
        ({"optimizer": "adam", "layers": 2, "momentum": 0.5}, "does not exist"),
        ({"optimizer": "sgd", "layers": 2}, "is missing"),
        ({"optimizer": "adam", "layers": 9}, "outside"),
        ({"optimizer": "adam", "layers": 2.0}, "outside"),
        ({"optimizer": "adam", "layers": 2, "x": 1}, "no parameter 'x'"),
    ],
)
def test_a_fault_says_why_values_are_no_point_of_the_space(params: dict[str, Value], word: str) -> None:
    assert word in (SPACE.fault(params) or "")


def test_a_circle_of_conditions_is_an_error() -> None:
    one = Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"b": 1.0})
    with pytest.raises(ValueError, match="circle: a, b"):
        Space({"a": one, "b": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"a": 1.0})}).order()
