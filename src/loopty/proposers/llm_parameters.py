"""A language model over the parameters: it is shown what was tried, and proposes the next points of the space."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from loopty.domain.errors import Misuse
from loopty.domain.model import Prompt, RoleModel
from loopty.domain.proposal import Objection, Proposal, Refusal, identity
from loopty.domain.space import Params, Space
from loopty.engine.protocols import Ask
from loopty.proposers.parameters.asking import objection, question
from loopty.proposers.parameters.parameter_replies import Reading, read
from loopty.proposers.parameters.parameters_options import ParametersOptions
from loopty.proposers.parameters.tried_points import Tried
from loopty.proposers.prompt_context import Briefing
from loopty.proposers.shared_pool import home
from loopty.proposers.unread_replies import Queue
from loopty.record.node_record import Node

_CHANCES = 2
"""Replies that may hold nothing of use: the second knows what was wrong with the first."""
_LONGEST_REASON, _LONGEST_ANSWER = 600, 8_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A reply, and how many of its points were taken before."""

    call: str
    text: str
    reading: Reading
    taken: int = 0
    prompt: Prompt | None = None
    """What it answers, where this process has asked."""

    @property
    def left(self) -> int:
        return max(len(self.reading.points) - self.taken, 0)

    @property
    def said(self) -> str:
        """What it said, for the model to see again: servers want no empty messages."""
        return self.text.strip()[:_LONGEST_ANSWER] or "(nothing)"


class ParametersProposer:
    """Asks for several points at once and hands them out one by one, also after a restart: a reply is paid for."""

    name = "llm-parameters"

    def __init__(
        self, space: Space, line: RoleModel, briefing: Briefing, options: ParametersOptions, width: int = 1
    ) -> None:
        self.width = width
        self._space = space
        self._line = line
        self._briefing = briefing
        self._options = options
        self._tried = Tried(options.history)
        self._one_at_a_time = asyncio.Lock()
        self._queue = Queue((self.name,))

    async def propose(self, ask: Ask) -> Proposal | Refusal:
        async with self._one_at_a_time:  # who comes second takes the next point of the same reply
            parent = home(ask)
            pages: list[_Page] = []
            try:
                while len(pages) < _CHANCES:
                    pages.append(page := await self._page(ask, parent, pages[-1] if pages else None))
                    if page.left and (page.taken or _fresh(ask, parent, page.reading)):
                        return self._taken(ask, parent, pages)
                    if page.taken:
                        break
            except BaseException:
                for page in pages:  # else nobody would ever say that they are of no use
                    self._queue.put(page.call, page.taken, 1)
                raise
            return self._refusal(ask, parent, pages)

    async def _page(self, ask: Ask, parent: Node, before: _Page | None) -> _Page:
        """A reply that waits; else a new one, to what was wrong with the one before."""
        if waiting := self._queue.take(ask):
            self._queue.close(waiting.call)  # until it is known what is left of it
            text, given = self._kept(waiting.call), ask.history[waiting.node].params
            return _Page(waiting.call, text, self._read(text, given), waiting.item)
        prompt = (before and before.prompt) or self._first_prompt(ask, parent)
        if before:
            prompt = prompt.with_reply(before.said, objection(_faults(ask, parent, before.reading)))
        answer = await self._line.ask(prompt, self.name, parent.id, ask.pool)
        text = answer.reply.text
        return _Page(answer.call, text, self._read(text, parent.params), prompt=prompt)

    def _first_prompt(self, ask: Ask, parent: Node) -> Prompt:
        tried = self._tried.text(ask, parent)
        return question(self._briefing.text(ask, parent), self._space, tried, self._options.batch)

    def _read(self, text: str, given: Params) -> Reading:
        return read(text, self._space, given, self._options.batch)

    def _kept(self, call: str) -> str:
        try:
            return self._line.saved_reply(call).text
        except Misuse:
            return ""  # it is refused as any reply without a proposal, and so forgotten

    def _taken(self, ask: Ask, parent: Node, pages: list[_Page]) -> Proposal | Refusal:
        """The next point of the last reply."""
        page, calls = pages[-1], tuple(page.call for page in pages)
        point, left = page.reading.points[page.taken], page.left - 1
        self._queue.put(page.call, page.taken + 1, left)
        if twin := _twin(ask, parent, point.params):
            return Refusal(self.name, f"the same as {twin}", Objection.DUPLICATE, calls, left, page.taken)
        return Proposal(
            self.name,
            parent.id,
            point.summary,
            point.params,
            calls=calls,
            remaining_in_reply=left,
            index_in_reply=page.taken,
        )

    def _refusal(self, ask: Ask, parent: Node, pages: list[_Page]) -> Refusal:
        reading = pages[-1].reading
        kind = Objection.DUPLICATE if reading.points else reading.objection
        faults = _faults(ask, parent, reading) or ["nothing of the reply is left"]
        reason = "; ".join(faults)[:_LONGEST_REASON]
        return Refusal(self.name, reason, kind, tuple(page.call for page in pages))


def _twin(ask: Ask, parent: Node, params: Params) -> str | None:
    return ask.history.twin(ask.run, ask.pool, identity(parent.tree, params))


def _fresh(ask: Ask, parent: Node, reading: Reading) -> bool:
    """Whether any of its points was not tried yet."""
    return any(_twin(ask, parent, point.params) is None for point in reading.points)


def _faults(ask: Ask, parent: Node, reading: Reading) -> list[str]:
    twins = [(point, _twin(ask, parent, point.params)) for point in reading.points]
    return [*reading.faults, *(f"{point.summary} is the same as {twin}" for point, twin in twins if twin)]
