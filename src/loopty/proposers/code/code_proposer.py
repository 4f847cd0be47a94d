"""A language model changes the code of the selected node.

One call gives one proposal or several; those that wait are taken one by one, from the reply as it was kept, by
whatever process comes next. A reply in which nothing can be used is answered once with the reason. What cannot be
used beside something that can, or was left by an earlier process, is refused without another call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Answer, Outage, Prompt, Reply, RoleModel
from loopty.domain.proposal import Edits, Objection, Proposal, Refusal
from loopty.engine.protocols import Ask, Selector
from loopty.proposers.code import code_prompts, code_replies
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.proposers.code.ngrams import Embed
from loopty.proposers.code.node_texts import Texts
from loopty.proposers.code.novelty import Novelty
from loopty.proposers.code.plan import Plan, planned
from loopty.proposers.code.proposal_checks import Checks
from loopty.proposers.code.reply_faults import Unfit, unreadable
from loopty.proposers.code.source_files import Sources
from loopty.proposers.code.standing import Standing
from loopty.proposers.unread_replies import Queue, Waiting
from loopty.record.node_record import Node

_CHILDREN = 16
_PER_TOKEN = 4
"""Characters."""


class Briefs(Protocol):
    """Tells a model of the task and of the search so far."""

    def text(self, ask: Ask, parent: Node, inspirations: Sequence[Node] = ()) -> str: ...


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reply with what became of its items, up to the first that can be used."""

    items: Sequence[code_replies.Item]
    read: Sequence[Edits | Unfit]

    @property
    def useless(self) -> Unfit | None:
        """What is wrong with the first item, when no item can be used."""
        first = self.read[0]
        return first if isinstance(first, Unfit) and isinstance(self.read[-1], Unfit) else None


class CodeProposer:
    """Asks a model for changes, and makes proposals of what it replies."""

    name = "llm-code"

    def __init__(
        self,
        line: RoleModel,
        options: CodeOptions,
        selector: Selector,
        briefing: Briefs,
        writable: Callable[[str], Sequence[str]],
        readable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
        refusal: Callable[[Node, Proposal], str | None],
        embed: Embed | None = None,
        width: int = 1,
    ) -> None:
        self.width = width
        self._line = line
        self._options = options
        self._selector = selector
        self._briefing = briefing
        texts = Texts(text)
        self._sources = Sources(writable, readable, texts, options.file_tokens)
        self._checks = Checks(self._sources, texts, refusal, Novelty(texts, embed, options.similarity))
        self._standing = Standing()
        self._queue = Queue(tuple(Operator))
        self._asking = 0

    async def propose(self, ask: Ask) -> Proposal | Refusal | None:
        if waiting := self._queue.take(ask):
            return await self._taken(ask, waiting)
        self._asking += 1
        try:
            return await self._new(ask)
        except Exhausted:
            # What was asked beside this, for the last of the money, may bring or have brought more than one.
            if waiting := self._queue.take(ask):
                return await self._taken(ask, waiting)
            if self._asking == 1:
                raise
            return None
        finally:
            self._asking -= 1

    async def _new(self, ask: Ask) -> Proposal | Refusal:
        """What another call gives."""
        plan = planned(ask, self._options, self._selector, self._standing)
        prompt = self._prompt(ask, plan)
        answer = await self._asked(ask, plan, prompt)
        reading = await self._read(ask, plan, answer.reply)
        calls: tuple[str, ...] = (answer.call,)
        if unfit := reading.useless:
            options, text = self._options, answer.reply.text
            # A change is as long as the files at the most; what a small model wrote without end is not sent again.
            objection = code_prompts.answered(prompt, text, unfit, options.batch, _PER_TOKEN * options.file_tokens)
            try:
                answer = await self._asked(ask, plan, objection)
            except Exhausted:
                return Refusal(plan.operator, unfit.reason, unfit.objection, calls)
            except Outage:
                self._queue.put(answer.call, 0, 1)  # else nobody would ever say that it is of no use
                raise
            reading = await self._read(ask, plan, answer.reply)
            calls = (*calls, answer.call)
        left = 0 if reading.useless else len(reading.items) - 1
        self._queue.put(answer.call, 1, left)
        return _suggestion(plan, reading.items[0], reading.read[0], calls, left, 0)

    async def _asked(self, ask: Ask, plan: Plan, prompt: Prompt) -> Answer:
        return await self._line.ask(prompt, plan.operator, plan.parent.id, ask.pool)

    def _prompt(self, ask: Ask, plan: Plan) -> Prompt:
        shelf = self._sources.shelf(ask.history, plan.parent)
        if not shelf.writable:
            raise Exhausted(
                f"{self.name} found no file to change (access.write): commit one, if only an empty one"
            )
        others = [
            page for node in plan.inspirations for page in self._sources.differing(ask.history, node, plan.parent)
        ]
        briefing = self._briefing.text(ask, plan.parent, plan.inspirations)
        return code_prompts.prompt_of(plan, briefing, shelf, others, self._options.batch)

    async def _read(self, ask: Ask, plan: Plan, reply: Reply) -> _Reading:
        items = code_replies.items(reply.text, reply.whole, self._options.batch)
        if not items:
            cut = unreadable("the reply was cut off before a proposal was complete", "Be shorter.")
            return _Reading([code_replies.NOTHING], [cut])
        read: list[Edits | Unfit] = []
        for item in items:
            read.append(await self._edits(ask, plan, item))
            if not isinstance(read[-1], Unfit):
                break
        return _Reading(items, read)

    async def _edits(self, ask: Ask, plan: Plan, item: code_replies.Item) -> Edits | Unfit:
        try:
            return await self._checks.edits(ask, plan.operator, plan.parent, item)
        except Unfit as unfit:
            return unfit

    async def _taken(self, ask: Ask, waiting: Waiting) -> Proposal | Refusal:
        """What an item of an earlier reply comes to."""
        operator, calls = Operator(waiting.operator), (waiting.call,)
        try:
            reply = self._line.saved_reply(waiting.call)
        except Misuse as gone:
            self._queue.close(waiting.call)
            return Refusal(operator, str(gone), Objection.REPLY, calls)
        items = code_replies.items(reply.text, reply.whole, self._options.batch)
        left = len(items) - 1 - waiting.item
        if left <= 0:
            self._queue.close(waiting.call)
        if left < 0:
            return Refusal(operator, "the reply holds no proposal any more", Objection.REPLY, calls)
        parent = ask.history[waiting.node]
        plan = Plan(operator, parent, "the same reply changed it before", _inspirations(ask, parent, waiting.call))
        edits = await self._edits(ask, plan, items[waiting.item])
        return _suggestion(plan, items[waiting.item], edits, calls, left, waiting.item)


def _suggestion(
    plan: Plan, item: code_replies.Item, edits: Edits | Unfit, calls: tuple[str, ...], left: int, number: int
) -> Proposal | Refusal:
    if isinstance(edits, Unfit):
        return Refusal(plan.operator, edits.reason, edits.objection, calls, left, number)
    return Proposal(
        plan.operator,
        plan.parent.id,
        code_replies.summary(item, edits),
        edits=edits,
        inspirations=tuple(node.id for node in plan.inspirations),
        calls=calls,
        remaining_in_reply=left,
        index_in_reply=number,
        parent_reason=plan.parent_reason,
    )


def _inspirations(ask: Ask, parent: Node, call: str) -> tuple[Node, ...]:
    """What a call was shown beside its node: found at what was made of it before."""
    newest = ask.history[parent.id].children
    for number in range(newest, max(newest - _CHILDREN, 0), -1):
        made = ask.history[parent.id.child(number)]
        if call in made.calls:
            return tuple(map(ask.history.__getitem__, made.inspirations))
    return ()
