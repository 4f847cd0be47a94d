"""Random points of the parameter space: the control for every parameter search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopty.domain.proposal import Proposal
from loopty.domain.space import Space
from loopty.engine.protocols import Ask
from loopty.proposers.params_text import params_line
from loopty.proposers.shared_pool import parameter_parent

if TYPE_CHECKING:
    from loopty.proposers.services import Services


class RandomProposer:
    """Draws each point independently of the others."""

    name = "random"

    def __init__(self, space: Space) -> None:
        self._space = space

    async def propose(self, ask: Ask) -> Proposal:
        params = self._space.sample(ask.rng)
        return Proposal(self.name, parameter_parent(ask).id, params_line(params), params)


def make_proposer(_options: object, services: Services) -> RandomProposer:
    return RandomProposer(services.space)
