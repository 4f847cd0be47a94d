"""Random points of the parameter space: the honest control of every parameter search."""

from __future__ import annotations

from loopty.core.parts import Ask
from loopty.core.proposal import Proposal
from loopty.core.space import Space
from loopty.proposers.among import home
from loopty.proposers.wording import listed


class RandomProposer:
    """Each point is drawn without regard to the others."""

    name = "random"

    def __init__(self, space: Space) -> None:
        self._space = space

    async def propose(self, ask: Ask) -> Proposal:
        params = self._space.sample(ask.rng)
        return Proposal(self.name, home(ask).id, listed(params), params)
