"""The rules of a task by which nodes get their verdicts."""

from __future__ import annotations

from loopty.domain.proposal import BY_HAND
from loopty.domain.task import Noise, Pools
from loopty.judge.tuning import Tuning
from loopty.kit.records import Record, replace
from loopty.record.node_record import Node

FIRST_LOOK_OF_FREE_PROPOSALS = 1.0
"""In units of the noise. Chosen by whole simulated nights (docs/research/judge.md)."""


class Judging(Record):
    """What verdicts depend on besides the history."""

    pools: Pools
    noise: Noise
    review: str = "off"
    """What happens to a winner that the verifier objects to, as in the task."""
    tuning: Tuning | None = None
    """How the parameters of a code change are tuned before its first judging trial; None where they are not."""

    def noise_for(self, node: Node) -> Noise:
        """The task's rules; where time is the limit and proposals cost none, only what promises gets pairs."""
        is_free = not node.calls and node.operator != BY_HAND and self.pools.wall_seconds is not None
        if self.noise.first_look is not None or not is_free:
            return self.noise
        return replace(self.noise, first_look=FIRST_LOOK_OF_FREE_PROPOSALS)
