"""Working fakes: workspaces without git, a function as executor, a scripted proposer, a scripted role model."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from loopty.domain.access import ObjectName
from loopty.domain.errors import Exhausted, LooptyError, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Answer, Prompt, Reply, Role, Usage
from loopty.domain.objective import SCORE
from loopty.domain.proposal import Edits, Proposal, declare_after
from loopty.domain.trial import Ending, Machine, Outcome, Pool
from loopty.engine.protocols import Ask, CommittedFiles, OnMetrics, Trial
from loopty.models.purse import RunPurse
from loopty.record.history import History
from loopty.record.node_record import Node

Score = Callable[[Trial], float | Outcome]
ScriptedReply = str | Mapping[str, Any] | Reply | LooptyError
"""A text, an object to send as JSON, a whole reply, or an error to raise instead."""


def outcome_of_score(value: float) -> Outcome:
    """Make the outcome of a finished trial with this score."""
    return Outcome(Ending.FINISHED, {SCORE: value})


def object_name(text: str) -> ObjectName:
    """Return the commit or tree that a test calls by this text."""
    return ObjectName(hashlib.sha1(text.encode()).hexdigest())


class MemoryWorkspaces:
    """Workspaces in memory: commits are digests; published and concluded nodes are listed, not written."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.concluded: list[str] = []

    def commit(self, parent: Node, edits: Edits, message: str) -> CommittedFiles:  # noqa: ARG002
        if not edits:
            return CommittedFiles(parent.commit, parent.tree, parent.declared)
        digest = hashlib.sha256(repr((parent.tree, sorted(edits.items()))).encode()).hexdigest()[:40]
        declared = declare_after(parent.declared, edits)
        return CommittedFiles(ObjectName(digest), ObjectName(digest[::-1]), declared)

    def publish(self, node: Node, parent: Node | None) -> None:  # noqa: ARG002
        self.published.append(node.id)

    def conclude(self, node: Node, history: History) -> None:  # noqa: ARG002
        self.concluded.append(node.id)

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:  # noqa: ARG002
        forbidden = [path for path in proposal.edits if path.startswith("forbidden")]
        return f"may not change {forbidden[0]}" if forbidden else None


class FunctionExecutor:
    """An executor whose trials are calls of a function; `pause` lets a test keep them running."""

    def __init__(
        self, score: Score, width: int = 1, pause: Callable[[Trial], Awaitable[None]] | None = None
    ) -> None:
        self.width = width
        self.machine = Machine({})
        self.max_running = 0
        self._running = 0
        self._score = score
        self._pause = pause

    async def execute(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:  # noqa: ARG002
        self._running += 1
        self.max_running = max(self.max_running, self._running)
        try:
            await asyncio.sleep(0)
            if self._pause is not None:
                await self._pause(trial)
            if cancel.is_set():
                return Outcome(Ending.CANCELLED, reason="stopped on request")
            result = self._score(trial)
            return result if isinstance(result, Outcome) else outcome_of_score(result)
        finally:
            self._running -= 1


class ScriptedProposer:
    """Answers from a list, by position, so that a resumed run gets the same proposals."""

    name = "scripted"

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._proposals = proposals

    async def propose(self, ask: Ask) -> Proposal | None:
        if ask.position >= len(self._proposals):
            raise Exhausted(f"the script's {len(self._proposals)} proposals are used up")
        return self._proposals[ask.position]


class ScriptedRoleModel:
    """Answers with the given replies in turn, or with what a function returns for each prompt; saves its replies.

    With a purse, its calls are in the ledger like those of any role model.
    """

    model = "scripted:model"

    def __init__(
        self,
        *replies: ScriptedReply | Callable[[Prompt], ScriptedReply | Awaitable[ScriptedReply]],
        purse: RunPurse | None = None,
    ) -> None:
        self.replies = list(replies)
        """The replies that are still to come."""
        self.prompts: list[Prompt] = []
        self.operators: list[str] = []
        self.nodes: list[NodeId | None] = []
        self.archive: dict[str, Reply] = {}
        self._purse = purse

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        self.prompts.append(prompt)
        self.operators.append(operator)
        self.nodes.append(node)
        reply = await self._next_reply(prompt)
        if isinstance(reply, LooptyError):
            raise reply
        if not isinstance(reply, Reply):
            reply = Reply(reply if isinstance(reply, str) else json.dumps(reply), Usage(10, 10))
        call = hashlib.sha256(repr(prompt).encode()).hexdigest()
        if self._purse is not None:
            tokens = reply.usage.tokens
            call = self._purse.reserve(
                Role.EVOLVER,
                tokens,
                0.0,
                model=self.model,
                operator=operator,
                node=node,
                pool=pool,
                form=prompt.form,
            )
            self._purse.settle(call, tokens, 0.0, reply.usage)
        self.archive[call] = reply
        return Answer(call, reply)

    def reply_of(self, call: str) -> Reply:
        if call not in self.archive:
            raise Misuse(f"the reply of call {call} is gone: ask again")
        return self.archive[call]

    async def _next_reply(self, prompt: Prompt) -> ScriptedReply:
        if not callable(first := self.replies[0]):
            del self.replies[0]
            return first
        reply = first(prompt)
        return await reply if isinstance(reply, Awaitable) else reply
