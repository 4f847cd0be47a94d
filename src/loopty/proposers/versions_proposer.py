"""Past versions of the code, one after the other, as nodes beside the baseline."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Edits, Proposal
from loopty.engine.protocols import Ask
from loopty.kit.records import Record

OPERATOR = "version"


class PastVersion(Record):
    """The files of a past version, as a change of the baseline."""

    summary: str
    """Its name and its commit: a name that moves is another version."""
    edits: Edits


class VersionsProposer:
    """Proposes each version once: what is refused, because a node has the same files, is not proposed again."""

    name = "versions"

    def __init__(self, versions: Iterable[PastVersion]) -> None:
        self._left = deque(versions)

    async def propose(self, ask: Ask) -> Proposal:
        if not self._left:
            raise Exhausted("all past versions are measured")
        version = self._left.popleft()
        reason = "a past version stands beside the baseline"
        return Proposal(OPERATOR, ask.root.id, version.summary, edits=version.edits, parent_reason=reason)
