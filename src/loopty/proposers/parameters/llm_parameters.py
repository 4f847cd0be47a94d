"""A language model chooses parameters: it sees the points tried so far and proposes the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.model import Prompt, Role, RoleModel
from loopty.domain.proposal import Objection, Proposal, Refusal, identity
from loopty.domain.space import Params, Space
from loopty.engine.protocols import Ask
from loopty.kit.records import Record, replace
from loopty.kit.tables import Table, option
from loopty.proposers.context.prompt_context import PromptContext, PromptContextOptions
from loopty.proposers.parameters.prompts import TriedPoints, configurations_prompt, retry_text
from loopty.proposers.parameters.replies import ParameterReply, parse_reply
from loopty.proposers.shared_pool import UnreadReplies, parameter_parent
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.proposers.services import Services


_TOKENS_PER_LINE = 60
"""One tried configuration with its result."""


class ParametersOptions(Table):
    batch: int = option(
        "How many configurations one call asks for; they are tried one after the other.", 4, minimum=1
    )
    history: int = option(
        "How many tried configurations the model sees: the best ones, then the newest ones.", 30, minimum=0
    )
    briefing: PromptContextOptions = option(
        "How much other context the model gets. Default: none.",
        PromptContextOptions(digest_tokens=0, artifacts=False),
    )

    def within(self, limit_tokens: int) -> ParametersOptions:
        """Return the same options, for a model with this limit on a prompt."""
        history = min(self.history, limit_tokens // 4 // _TOKENS_PER_LINE)
        return replace(self, history=history, briefing=self.briefing.within(limit_tokens // 3))


_MAX_REPLIES = 2
"""Replies asked for before giving up: the second prompt says what was wrong with the first reply."""
_LONGEST_REASON, _LONGEST_ANSWER = 600, 8_000
"""Characters."""


class _OpenReply(Record):
    """A reply, and how many of its points are already taken."""

    call: str
    text: str
    parsed: ParameterReply
    taken: int = 0
    prompt: Prompt | None = None
    """The prompt that it answers; None when an earlier process sent it."""

    @property
    def remaining(self) -> int:
        return max(len(self.parsed.points) - self.taken, 0)

    @property
    def text_to_repeat(self) -> str:
        """Return the reply to show to the model again; never empty, because servers reject empty messages."""
        return self.text.strip()[:_LONGEST_ANSWER] or "(nothing)"


class ParametersProposer:
    """Asks for several points at once and hands them out one by one, even after a restart: replies cost money."""

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
        import asyncio  # here: verbs that only read load the options of this file

        self._lock = asyncio.Lock()
        self._unread = UnreadReplies((self.name,))

    async def propose(self, ask: Ask) -> Proposal | Refusal:
        async with self._lock:  # a second question takes the next point of the same reply
            parent = parameter_parent(ask)
            replies: list[_OpenReply] = []
            try:
                while len(replies) < _MAX_REPLIES:
                    reply = await self._next_reply(ask, parent, replies[-1] if replies else None)
                    replies.append(reply)
                    if reply.remaining and (reply.taken or _has_new_point(ask, parent, reply.parsed)):
                        return self._next_suggestion(ask, parent, replies)
                    if reply.taken:
                        break
            except BaseException:
                for reply in replies:  # otherwise these unusable replies would never be recorded as refused
                    self._unread.put(ask, reply.call, reply.taken, 1)
                raise
            return self._refusal(ask, parent, replies)

    async def _next_reply(self, ask: Ask, parent: Node, last: _OpenReply | None) -> _OpenReply:
        """Return an unread reply if there is one; otherwise ask again with the faults of the last reply."""
        if unread := self._unread.take(ask):
            self._unread.close(unread.call)  # until it is known how many points remain
            text, defaults = self._text_of_call(unread.call), ask.history[unread.node].params
            return _OpenReply(unread.call, text, self._parse(text, defaults), unread.index)
        prompt = (last and last.prompt) or self._first_prompt(ask, parent)
        if last:
            prompt = prompt.with_reply(last.text_to_repeat, retry_text(_faults(ask, parent, last.parsed)))
        answer = await self._model.ask(prompt, self.name, parent.id, ask.pool)
        text, parsed = answer.reply.text, self._parse(answer.reply.text, parent.params)
        if not answer.reply.whole and not parsed.points:
            length = f"the reply was cut off after {answer.reply.usage.output_tokens:,} tokens"
            fault = f"{length}: raise max_output_tokens of the model (and context_tokens, if that is the limit)"
            parsed = replace(parsed, faults=(fault,))
        return _OpenReply(answer.call, text, parsed, prompt=prompt)

    def _first_prompt(self, ask: Ask, parent: Node) -> Prompt:
        tried = self._tried_points.text(ask, parent)
        return configurations_prompt(self._context.text(ask, parent), self._space, tried, self._options.batch)

    def _parse(self, text: str, defaults: Params) -> ParameterReply:
        return parse_reply(text, self._space, defaults, self._options.batch)

    def _text_of_call(self, call: str) -> str:
        try:
            return self._model.reply_of(call).text
        except Misuse:
            return ""  # refused like any reply without a proposal, and so no longer unread

    def _next_suggestion(self, ask: Ask, parent: Node, replies: list[_OpenReply]) -> Proposal | Refusal:
        """Return the next point of the last reply; a Refusal when that point was tried before."""
        reply, calls = replies[-1], tuple(reply.call for reply in replies)
        point, remaining = reply.parsed.points[reply.taken], reply.remaining - 1
        self._unread.put(ask, reply.call, reply.taken + 1, remaining)
        if twin := _twin(ask, parent, point.params):
            return Refusal(self.name, f"the same as {twin}", Objection.DUPLICATE, calls, remaining, reply.taken)
        return Proposal(
            self.name,
            parent.id,
            point.summary,
            point.params,
            calls=calls,
            remaining_in_reply=remaining,
            index_in_reply=reply.taken,
        )

    def _refusal(self, ask: Ask, parent: Node, replies: list[_OpenReply]) -> Refusal:
        parsed = replies[-1].parsed
        objection = Objection.DUPLICATE if parsed.points else parsed.objection
        faults = _faults(ask, parent, parsed) or ["the reply has no points left"]
        reason = "; ".join(faults)[:_LONGEST_REASON]
        return Refusal(self.name, reason, objection, tuple(reply.call for reply in replies))


def _twin(ask: Ask, parent: Node, params: Params) -> str | None:
    twin = ask.history.twin(ask.run, ask.pool, identity(parent.tree, params))
    return ask.history.name(twin) if twin else None


def _has_new_point(ask: Ask, parent: Node, parsed: ParameterReply) -> bool:
    """Say whether any point of the reply is still untried."""
    return any(_twin(ask, parent, point.params) is None for point in parsed.points)


def _faults(ask: Ask, parent: Node, parsed: ParameterReply) -> list[str]:
    twins = [(point, _twin(ask, parent, point.params)) for point in parsed.points]
    return [*parsed.faults, *(f"{point.summary} is the same as {twin}" for point, twin in twins if twin)]


def make_proposer(options: ParametersOptions, services: Services) -> ParametersProposer:
    options = options.within(services.prompt_tokens(Role.EVOLVER))
    context = services.prompt_context(options.briefing, access=None)
    return ParametersProposer(services.space, services.role_model(Role.EVOLVER), context, options, services.width)
