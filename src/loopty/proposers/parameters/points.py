"""Points of the parameter space without a model: every combination of evenly spread values once, and random ones
as the control.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Proposal
from loopty.domain.space import ParameterGrid, Space
from loopty.engine.protocols import Ask
from loopty.kit.tables import Table, option
from loopty.proposers.shared_pool import parameter_parent, params_line, turn

if TYPE_CHECKING:
    from loopty.proposers.services import Services


class GridOptions(Table):
    points: int = option("Values per numeric parameter, ends included.", 5, minimum=1)


class GridProposer:
    """Walks the grid in a shuffle by the run's seed; its position is the number of answers that it has given.

    In natural order, a budget smaller than the grid would see one value of the first parameters only. The shuffle
    does not depend on the budget, because a run that is given more later must go on in the same order.
    """

    name = "grid"
    counts_turns = True

    def __init__(self, space: Space, options: GridOptions) -> None:
        self._grid = ParameterGrid(space, options.points)
        self._shuffle: _Shuffle | None = None

    async def propose(self, ask: Ask) -> Proposal:
        position, size = turn(ask, self.name), self._grid.size
        if position >= size:
            raise Exhausted(f"the grid's {size} points are all tried")
        self._shuffle = self._shuffle or _Shuffle(size, ask.generator_at(0))
        point = self._grid.point(self._shuffle.number(position))
        return Proposal(self.name, parameter_parent(ask).id, params_line(point), point)


class _Shuffle:
    """The numbers below `size` in random order, shuffled only as far as they are asked for."""

    def __init__(self, size: int, rng: random.Random) -> None:
        self._size = size
        self._rng = rng
        self._order: list[int] = []
        self._swapped: dict[int, int] = {}
        """The numbers that are not at their own place in the rest."""

    def number(self, position: int) -> int:
        while len(self._order) <= position:
            here = len(self._order)
            other = self._rng.randrange(here, self._size)
            self._order.append(self._swapped.get(other, other))
            self._swapped[other] = self._swapped.pop(here, here)
        return self._order[position]


def make_grid(options: GridOptions, services: Services) -> GridProposer:
    return GridProposer(services.space, options)


class RandomProposer:
    """Draws each point independently of the others."""

    name = "random"

    def __init__(self, space: Space) -> None:
        self._space = space

    async def propose(self, ask: Ask) -> Proposal:
        params = self._space.sample(ask.rng)
        return Proposal(self.name, parameter_parent(ask).id, params_line(params), params)


def make_random(_options: object, services: Services) -> RandomProposer:
    return RandomProposer(services.space)
