"""Propose every combination of evenly spread values once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Proposal
from loopty.domain.space import Params, Space
from loopty.engine.protocols import Ask
from loopty.kit.option import option
from loopty.proposers.params_text import params_line
from loopty.proposers.shared_pool import parameter_parent, turn

if TYPE_CHECKING:
    from loopty.proposers.services import Services


@dataclass(frozen=True, slots=True)
class GridOptions:
    points: int = option("Values per numeric parameter, ends included.", 5, minimum=1)


class GridProposer:
    """Walks the grid in its natural order; its position is the number of answers that it has given."""

    name = "grid"
    counts_turns = True

    def __init__(self, space: Space, options: GridOptions) -> None:
        self._points = space.grid(options.points)
        self._walked: list[Params] = []

    async def propose(self, ask: Ask) -> Proposal:
        position = turn(ask, self.name)
        while len(self._walked) <= position:
            params = next(self._points, None)
            if params is None:
                raise Exhausted(f"the grid's {len(self._walked)} points are all tried")
            self._walked.append(params)
        point = self._walked[position]
        return Proposal(self.name, parameter_parent(ask).id, params_line(point), point)


def make_proposer(options: GridOptions, services: Services) -> GridProposer:
    return GridProposer(services.space, options)
