"""Several searches in turn, each with its own best node, that now and then take over a neighbour's."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask, Selection
from loopty.kit.option import option
from loopty.selectors.judged_nodes import population


@dataclass(frozen=True, slots=True)
class IslandsSelector:
    """Proposals take turns: each island changes the best node that was made on one of its own turns."""

    count: int = option("How many islands there are.", 4, minimum=1)
    migration: int = option(
        "Proposals of an island before it changes its neighbour's best node; 0: never.", 10, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        turn, island = divmod(ask.position, self.count)
        home = island
        reason = f"the best of island {island + 1} of {self.count}"
        if self.migration and turn and turn % self.migration == 0:
            home = (island + 1) % self.count
            reason = f"island {island + 1} takes over the best of island {home + 1}"
        for one in population(ask):
            node = ask.history[one.id]
            if node.id.parent and node.position % self.count == home:
                return Selection(node, reason)
        return Selection(ask.root, f"the baseline: island {home + 1} has no good node yet")
