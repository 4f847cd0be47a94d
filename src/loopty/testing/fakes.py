"""Fakes that behave: workspaces without git, an executor that calls a function, a proposer with a script."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence

from loopty.core.errors import Exhausted
from loopty.core.history import History
from loopty.core.objective import SCORE
from loopty.core.outcome import Ending, Outcome
from loopty.core.parts import Ask, Committed, Seen, Trial
from loopty.core.proposal import Edits, Proposal
from loopty.core.records import Node

Score = Callable[[Trial], float | Outcome]


def scored(value: float) -> Outcome:
    return Outcome(Ending.FINISHED, {SCORE: value})


class MemoryWorkspaces:
    """Commits are digests; what would be written to folders is remembered."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.concluded: list[str] = []

    def commit(self, parent: Node, edits: Edits, message: str) -> Committed:  # noqa: ARG002
        if not edits:
            return Committed(parent.commit, parent.tree)
        digest = hashlib.sha256(repr((parent.tree, sorted(edits.items()))).encode()).hexdigest()[:12]
        return Committed(f"commit-{digest}", f"tree-{digest}")

    def publish(self, node: Node, parent: Node | None) -> None:  # noqa: ARG002
        self.published.append(node.id)

    def conclude(self, node: Node, history: History) -> None:  # noqa: ARG002
        self.concluded.append(node.id)

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:  # noqa: ARG002
        forbidden = [path for path in proposal.edits if path.startswith("forbidden")]
        return f"may not change {forbidden[0]}" if forbidden else None


class FunctionExecutor:
    """Trials are calls of a function; `pause` lets a test hold them in flight."""

    def __init__(
        self, score: Score, width: int = 1, pause: Callable[[Trial], Awaitable[None]] | None = None
    ) -> None:
        self.width = width
        self.most_at_once = 0
        self._at_once = 0
        self._score = score
        self._pause = pause

    async def execute(self, trial: Trial, seen: Seen, cancel: asyncio.Event) -> Outcome:  # noqa: ARG002
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(0)
            if self._pause is not None:
                await self._pause(trial)
            if cancel.is_set():
                return Outcome(Ending.CANCELLED, reason="stopped on request")
            result = self._score(trial)
            return result if isinstance(result, Outcome) else scored(result)
        finally:
            self._at_once -= 1


class ScriptedProposer:
    """Answers from a list, by position: what a resumed run asks for is what it would have asked for."""

    name = "scripted"

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._proposals = proposals

    async def propose(self, ask: Ask) -> Proposal | None:
        if ask.position >= len(self._proposals):
            raise Exhausted(f"the script's {len(self._proposals)} proposals are used up")
        return self._proposals[ask.position]
