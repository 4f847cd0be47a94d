"""Past versions of the code, one after the other, as nodes beside the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Edits, Proposal
from loopty.engine.protocols import Ask
from loopty.kit.dataclass import dataclass

OPERATOR = "version"


@dataclass(frozen=True, slots=True)
class PastVersion:
    """The files of a past version, as a change of the baseline."""

    summary: str
    """Its name and its commit: a name that moves is another version."""
    edits: Edits


class VersionsProposer:
    """Proposes each version that is not in the run yet."""

    name = "versions"

    def __init__(self, versions: Sequence[PastVersion]) -> None:
        self._versions = versions

    async def propose(self, ask: Ask) -> Proposal:
        known = {ask.history[node].summary for node in ask.history.nodes_of_pool(ask.run, ask.pool)}
        for version in self._versions:
            if version.summary not in known:
                reason = "a past version stands beside the baseline"
                return Proposal(OPERATOR, ask.root.id, version.summary, edits=version.edits, parent_reason=reason)
        raise Exhausted("all past versions are measured")
