"""Every combination of evenly spread values, once."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.core.errors import Exhausted
from loopty.core.parts import Ask
from loopty.core.proposal import Proposal
from loopty.core.space import Space
from loopty.kit.option import option
from loopty.proposers.wording import listed


@dataclass(frozen=True, slots=True)
class GridOptions:
    points: int = option("Values per numeric parameter, ends included.", 5, minimum=1)


class GridProposer:
    """Walks the grid in its natural order; the position is the number of answers given so far."""

    name = "grid"

    def __init__(self, space: Space, options: GridOptions) -> None:
        self._points = space.grid(options.points)
        self._walked: list[Proposal] = []

    async def propose(self, ask: Ask) -> Proposal:
        while len(self._walked) <= ask.position:
            params = next(self._points, None)
            if params is None:
                raise Exhausted(f"the grid's {len(self._walked)} points are all tried")
            self._walked.append(Proposal(self.name, ask.root.id, listed(params), params))
        return self._walked[ask.position]
