"""The grid of a space: every combination of evenly spread values, each found by its number."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.space import Params, Space, Value


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
        """The combination with this number, from 0; the last parameter changes fastest."""
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
        """How many combinations the parameters from this depth on have, given the values of those before."""
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
