"""The space of parameters: numbers, categories, and those that exist only under others; and its grid."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from loopty.kit.records import Record, field
from loopty.kit.tables import Table, option

Value = float | int | str | bool
Params = Mapping[str, Value]


class ParameterKind(StrEnum):
    FLOAT = "float"
    INT = "int"
    CATEGORICAL = "categorical"


class Parameter(Table):
    """One parameter."""

    type: ParameterKind = option("`float`, `int` or `categorical`.")
    low: float | None = option("Smallest value (float and int).", None)
    high: float | None = option("Largest value, included (float and int).", None)
    log: bool = option("Search on a logarithmic scale; needs low > 0.", False)
    step: float | None = option("Distance between values. Default for int: 1.", None, above=0)
    choices: tuple[Value, ...] = option("The values of a categorical parameter.", ())
    default: Value | None = option(
        "Value in the baseline. Default: the middle of the range, or the first choice.", None
    )
    when: Mapping[str, Value] = option(
        "The parameter exists only while these other parameters have these values.", {}
    )

    def fault(self) -> str | None:
        """Tell what is wrong with this parameter and how to fix it, or None."""
        if self.type is ParameterKind.CATEGORICAL:
            if not self.choices:
                return 'a categorical parameter needs choices, as in choices = ["a", "b"]'
            if len(set(self.choices)) < len(self.choices):
                return "has choices that are equal (1, 1.0 and true are): name each once"
            if self.log or (self.low, self.high, self.step) != (None, None, None):
                return "a categorical parameter has choices only: leave low, high, log and step out"
        else:
            if self.low is None or self.high is None:
                return f"a parameter of type {self.type} needs low and high"
            if not math.isfinite(self.high - self.low) or self.low > self.high:
                return f"low = {self.low} must be a finite number no larger than high = {self.high}"
            if self.log and self.low <= 0:
                return f"log = true needs low above 0, not {self.low}"
            if self.log and self.step is not None:
                return "log and step exclude each other: leave one out"
            if self.choices:
                return 'choices belong to type = "categorical"'
            if self.type is ParameterKind.INT and not (self.low == int(self.low) and self.high == int(self.high)):
                return "an int parameter needs whole numbers for low and high"
            if self.type is ParameterKind.INT and self.step is not None and self.step != int(self.step):
                return "an int parameter needs a whole number for step"
        if self.default is not None and not self.accepts(self.default):
            return f"default = {self.default!r} lies outside the parameter's values"
        return None

    def accepts(self, value: object) -> bool:
        """Say whether this parameter can have the value."""
        if self.type is ParameterKind.CATEGORICAL:
            return any(value == choice and type(value) is type(choice) for choice in self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.type is ParameterKind.INT and not isinstance(value, int):
            return False
        assert self.low is not None
        assert self.high is not None
        steps = (value - self.low) / self.step if self.step else 0.0
        return self.low <= value <= self.high and math.isclose(steps, round(steps), abs_tol=1e-9)

    @property
    def baseline(self) -> Value:
        if self.default is not None:
            return self.default
        return self.at(0.5) if self.type is not ParameterKind.CATEGORICAL else self.choices[0]

    def at(self, fraction: float) -> Value:
        """Return the value at this fraction (0 to 1) of the range, exact at its ends."""
        if self.type is ParameterKind.CATEGORICAL:
            return self.choices[min(int(fraction * len(self.choices)), len(self.choices) - 1)]
        assert self.low is not None
        assert self.high is not None
        if self.log:
            value = self.low ** (1 - fraction) * self.high**fraction
        else:
            value = self.low * (1 - fraction) + self.high * fraction
        step = self.step or (1.0 if self.type is ParameterKind.INT else None)
        if step is not None:
            value = self.low + round((value - self.low) / step) * step
            if value > self.high:
                value -= step
        value = min(max(value, self.low), self.high)
        return round(value) if self.type is ParameterKind.INT else float(value)

    def fraction(self, value: Value) -> float:
        """Tell at which fraction (0 to 1) of the range a value of this parameter lies: the inverse of `at`."""
        if self.type is ParameterKind.CATEGORICAL:
            return (self.choices.index(value) + 0.5) / len(self.choices)
        assert self.low is not None
        assert self.high is not None
        low, high, number = self.low, self.high, float(value)
        if low == high:
            return 0.5
        return math.log(number / low) / math.log(high / low) if self.log else (number - low) / (high - low)

    def sample(self, rng: random.Random) -> Value:
        if self.type is ParameterKind.INT and not self.log:
            assert self.low is not None
            assert self.high is not None
            step = round(self.step or 1)
            return rng.randrange(int(self.low), int(self.high) + 1, step)
        return self.at(rng.random())

    def grid(self, points: int) -> list[Value]:
        """Return at most `points` evenly spread values, ends included."""
        if self.type is ParameterKind.CATEGORICAL:
            return list(self.choices)
        fractions = [0.5] if points == 1 else [index / (points - 1) for index in range(points)]
        return list(dict.fromkeys(map(self.at, fractions)))


class Space(Record):
    """All parameters of a task by name, in the order of the task file."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.parameters)

    def is_active(self, name: str, params: Params) -> bool:
        """Say whether this parameter exists, given the values of the others."""
        return all(params.get(other) == value for other, value in self.parameters[name].when.items())

    def baseline(self) -> dict[str, Value]:
        return self.complete_point({})

    def complete_point(self, given: Params) -> dict[str, Value]:
        """Complete a point of the space: missing values get their defaults, inactive parameters are left out."""
        return self._point(lambda name: given[name] if name in given else self.parameters[name].baseline)

    def sample(self, rng: random.Random) -> dict[str, Value]:
        return self._point(lambda name: self.parameters[name].sample(rng))

    def _point(self, pick: Callable[[str], Value]) -> dict[str, Value]:
        params: dict[str, Value] = {}
        for name in self.order():
            if self.is_active(name, params):
                params[name] = pick(name)
        return params

    def fault(self, params: Params) -> str | None:
        """Tell why these values are not a point of the space, or None."""
        for name in params:
            if name not in self.parameters:
                return f"there is no parameter '{name}'"
        for name, parameter in self.parameters.items():
            if self.is_active(name, params) != (name in params):
                state = "is missing" if name not in params else "does not exist under these values"
                return f"parameter '{name}' {state}"
            if name in params and not parameter.accepts(params[name]):
                return f"{name} = {params[name]!r} lies outside its values"
        return None

    def order(self) -> list[str]:
        """List the parameter names, each after those that it depends on."""
        ordered: list[str] = []
        waiting = list(self.parameters)
        while waiting:
            ready = [name for name in waiting if set(self.parameters[name].when) <= set(ordered)]
            if not ready:
                raise ValueError(f"depend on each other in a circle: {', '.join(waiting)}")
            ordered += ready
            waiting = [name for name in waiting if name not in ready]
        return ordered


class ParameterGrid:
    """Combinations that differ only in inactive parameters count once. None is stored: a grid may be vast."""

    def __init__(self, space: Space, points: int) -> None:
        """`points` is the number of values of a numeric parameter, ends included."""
        self._space = space
        self._names = space.order()
        self._values = {name: space.parameters[name].grid(points) for name in self._names}
        whens = [set(space.parameters[name].when) for name in self._names]
        self._conditions = [set().union(*whens[depth:]) for depth in range(len(whens) + 1)]
        """The names on which the parameters from each depth on depend."""
        self._counts: dict[tuple[object, ...], int] = {}

    @property
    def size(self) -> int:
        return self._count(0, {})

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return map(self.point, range(self.size))

    def point(self, number: int) -> dict[str, Value]:
        """Return the combination with this number, from 0; the last parameter changes fastest."""
        params: dict[str, Value] = {}
        for depth, name in enumerate(self._names):
            if not self._space.is_active(name, params):
                continue
            for value in self._values[name]:
                params[name] = value
                below = self._count(depth + 1, params)
                if number < below:
                    break
                number -= below
        return params

    def _count(self, depth: int, params: Params) -> int:
        """Count the combinations of the parameters from this depth on, given the values of those before."""
        if depth == len(self._names):
            return 1
        key = depth, *((name, params[name]) for name in self._names[:depth] if self._matters(name, depth, params))
        if key not in self._counts:
            self._counts[key] = self._count_anew(depth, params)
        return self._counts[key]

    def _count_anew(self, depth: int, params: Params) -> int:
        name = self._names[depth]
        if not self._space.is_active(name, params):
            return self._count(depth + 1, params)
        if name not in self._conditions[depth + 1]:
            return len(self._values[name]) * self._count(depth + 1, params)
        return sum(self._count(depth + 1, {**params, name: value}) for value in self._values[name])

    def _matters(self, name: str, depth: int, params: Params) -> bool:
        return name in params and name in self._conditions[depth]
