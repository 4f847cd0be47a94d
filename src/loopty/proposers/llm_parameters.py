"""A language model over the parameters: it is shown what was tried, and proposes the next points of the space."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.model import Prompt, Role, RoleModel
from loopty.domain.proposal import Objection, Proposal, Refusal, identity
from loopty.domain.space import Params, Space
from loopty.engine.protocols import Ask
from loopty.proposers.parameters.asking import configurations_prompt, retry_text
from loopty.proposers.parameters.parameter_replies import ParameterReply, parse_reply
from loopty.proposers.parameters.parameters_options import ParametersOptions
from loopty.proposers.parameters.tried_points import TriedPoints
from loopty.proposers.prompt_context import PromptContext
from loopty.proposers.shared_pool import parameter_parent
from loopty.proposers.unread_replies import UnreadReplies
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.proposers.services import Services

_MAX_REPLIES = 2
"""Replies that may hold nothing of use: the second knows what was wrong with the first."""
_LONGEST_REASON, _LONGEST_ANSWER = 600, 8_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class _OpenReply:
    """A reply, and how many of its points were taken before."""

    call: str
    text: str
    parsed: ParameterReply
    taken: int = 0
    prompt: Prompt | None = None
    """What it answers, where this process has asked."""

    @property
    def remaining(self) -> int:
        return max(len(self.parsed.points) - self.taken, 0)

    @property
    def text_to_repeat(self) -> str:
        """What it said, for the model to see again: servers want no empty messages."""
        return self.text.strip()[:_LONGEST_ANSWER] or "(nothing)"


class ParametersProposer:
    """Asks for several points at once and hands them out one by one, also after a restart: a reply is paid for."""

    name = "llm-parameters"

    def __init__(
        self, space: Space, model: RoleModel, context: PromptContext, options: ParametersOptions, width: int = 1
    ) -> None:
        self.width = width
        self._space = space
        self._model = model
        self._context = context
        self._options = options
        self._tried_points = TriedPoints(options.history)
        self._lock = asyncio.Lock()
        self._unread = UnreadReplies((self.name,))

    async def propose(self, ask: Ask) -> Proposal | Refusal:
        async with self._lock:  # who comes second takes the next point of the same reply
            parent = parameter_parent(ask)
            pages: list[_OpenReply] = []
            try:
                while len(pages) < _MAX_REPLIES:
                    pages.append(page := await self._next_reply(ask, parent, pages[-1] if pages else None))
                    if page.remaining and (page.taken or _has_new_point(ask, parent, page.parsed)):
                        return self._next_suggestion(ask, parent, pages)
                    if page.taken:
                        break
            except BaseException:
                for page in pages:  # else nobody would ever say that they are of no use
                    self._unread.put(page.call, page.taken, 1)
                raise
            return self._refusal(ask, parent, pages)

    async def _next_reply(self, ask: Ask, parent: Node, last: _OpenReply | None) -> _OpenReply:
        """A reply that waits; else a new one, to what was wrong with the one before."""
        if waiting := self._unread.take(ask):
            self._unread.close(waiting.call)  # until it is known what is left of it
            text, given = self._text_of_call(waiting.call), ask.history[waiting.node].params
            return _OpenReply(waiting.call, text, self._parse(text, given), waiting.item)
        prompt = (last and last.prompt) or self._first_prompt(ask, parent)
        if last:
            prompt = prompt.with_reply(last.text_to_repeat, retry_text(_faults(ask, parent, last.parsed)))
        answer = await self._model.ask(prompt, self.name, parent.id, ask.pool)
        text = answer.reply.text
        return _OpenReply(answer.call, text, self._parse(text, parent.params), prompt=prompt)

    def _first_prompt(self, ask: Ask, parent: Node) -> Prompt:
        tried = self._tried_points.text(ask, parent)
        return configurations_prompt(self._context.text(ask, parent), self._space, tried, self._options.batch)

    def _parse(self, text: str, defaults: Params) -> ParameterReply:
        return parse_reply(text, self._space, defaults, self._options.batch)

    def _text_of_call(self, call: str) -> str:
        try:
            return self._model.saved_reply(call).text
        except Misuse:
            return ""  # it is refused as any reply without a proposal, and so forgotten

    def _next_suggestion(self, ask: Ask, parent: Node, replies: list[_OpenReply]) -> Proposal | Refusal:
        """The next point of the last reply."""
        page, calls = replies[-1], tuple(page.call for page in replies)
        point, left = page.parsed.points[page.taken], page.remaining - 1
        self._unread.put(page.call, page.taken + 1, left)
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

    def _refusal(self, ask: Ask, parent: Node, replies: list[_OpenReply]) -> Refusal:
        reading = replies[-1].parsed
        kind = Objection.DUPLICATE if reading.points else reading.objection
        faults = _faults(ask, parent, reading) or ["nothing of the reply is left"]
        reason = "; ".join(faults)[:_LONGEST_REASON]
        return Refusal(self.name, reason, kind, tuple(page.call for page in replies))


def _twin(ask: Ask, parent: Node, params: Params) -> str | None:
    return ask.history.twin(ask.run, ask.pool, identity(parent.tree, params))


def _has_new_point(ask: Ask, parent: Node, parsed: ParameterReply) -> bool:
    """Whether any of its points was not tried yet."""
    return any(_twin(ask, parent, point.params) is None for point in parsed.points)


def _faults(ask: Ask, parent: Node, parsed: ParameterReply) -> list[str]:
    twins = [(point, _twin(ask, parent, point.params)) for point in parsed.points]
    return [*parsed.faults, *(f"{point.summary} is the same as {twin}" for point, twin in twins if twin)]


def make_proposer(options: ParametersOptions, services: Services) -> ParametersProposer:
    options = options.within(services.prompt_tokens(Role.EVOLVER))
    context = services.prompt_context(options.briefing, access=None)
    return ParametersProposer(services.space, services.role_model(Role.EVOLVER), context, options, services.width)
