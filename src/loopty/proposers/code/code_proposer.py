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
from loopty.domain.model import Answer, Outage, Prompt, Reply, Role, RoleModel
from loopty.domain.proposal import Edits, Objection, Proposal, Refusal
from loopty.engine.protocols import Ask, Selector
from loopty.proposers.code import code_prompts, code_replies
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.proposers.code.ngrams import Embed
from loopty.proposers.code.node_texts import TextCache
from loopty.proposers.code.novelty import Novelty
from loopty.proposers.code.plan import Plan, make_plan
from loopty.proposers.code.proposal_checks import ProposalChecks
from loopty.proposers.code.reply_faults import ProposalFault, parse_fault
from loopty.proposers.code.source_files import FileViews
from loopty.proposers.code.standing import BestNodes
from loopty.proposers.services import Services
from loopty.proposers.unread_replies import UnreadItem, UnreadReplies
from loopty.record.node_record import Node

_MAX_CHILDREN = 16
_CHARS_PER_TOKEN = 4
"""Characters."""


class ContextWriter(Protocol):
    """Tells a model of the task and of the search so far."""

    def text(self, ask: Ask, parent: Node, inspirations: Sequence[Node] = ()) -> str: ...


@dataclass(frozen=True, slots=True)
class _CheckedReply:
    """A reply with what became of its items, up to the first that can be used."""

    items: Sequence[code_replies.ReplyItem]
    results: Sequence[Edits | ProposalFault]

    @property
    def fault(self) -> ProposalFault | None:
        """What is wrong with the first item, when no item can be used."""
        first = self.results[0]
        return first if isinstance(first, ProposalFault) and isinstance(self.results[-1], ProposalFault) else None


class CodeProposer:
    """Asks a model for changes, and makes proposals of what it replies."""

    name = "llm-code"

    def __init__(
        self,
        model: RoleModel,
        options: CodeOptions,
        selector: Selector,
        context: ContextWriter,
        writable: Callable[[str], Sequence[str]],
        readable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
        refusal: Callable[[Node, Proposal], str | None],
        embed: Embed | None = None,
        width: int = 1,
    ) -> None:
        self.width = width
        self._model = model
        self._options = options
        self._selector = selector
        self._context = context
        texts = TextCache(text)
        self._file_views = FileViews(writable, readable, texts, options.file_tokens)
        self._checks = ProposalChecks(self._file_views, texts, refusal, Novelty(texts, embed, options.similarity))
        self._best_nodes = BestNodes()
        self._unread = UnreadReplies(tuple(Operator))
        self._open_questions = 0

    async def propose(self, ask: Ask) -> Proposal | Refusal | None:
        if waiting := self._unread.take(ask):
            return await self._from_unread(ask, waiting)
        self._open_questions += 1
        try:
            return await self._from_new_call(ask)
        except Exhausted:
            # What was asked beside this, for the last of the money, may bring or have brought more than one.
            if waiting := self._unread.take(ask):
                return await self._from_unread(ask, waiting)
            if self._open_questions == 1:
                raise
            return None
        finally:
            self._open_questions -= 1

    async def _from_new_call(self, ask: Ask) -> Proposal | Refusal:
        """What another call gives."""
        plan = make_plan(ask, self._options, self._selector, self._best_nodes)
        prompt = self._prompt(ask, plan)
        answer = await self._ask_model(ask, plan, prompt)
        reading = await self._check_reply(ask, plan, answer.reply)
        calls: tuple[str, ...] = (answer.call,)
        if unfit := reading.fault:
            options, text = self._options, answer.reply.text
            # A change is as long as the files at the most; what a small model wrote without end is not sent again.
            objection = code_prompts.retry_prompt(
                prompt, text, unfit, options.batch, _CHARS_PER_TOKEN * options.file_tokens
            )
            try:
                answer = await self._ask_model(ask, plan, objection)
            except Exhausted:
                return Refusal(plan.operator, unfit.reason, unfit.objection, calls)
            except Outage:
                self._unread.put(answer.call, 0, 1)  # else nobody would ever say that it is of no use
                raise
            reading = await self._check_reply(ask, plan, answer.reply)
            calls = (*calls, answer.call)
        left = 0 if reading.fault else len(reading.items) - 1
        self._unread.put(answer.call, 1, left)
        return _suggestion(plan, reading.items[0], reading.results[0], calls, left, 0)

    async def _ask_model(self, ask: Ask, plan: Plan, prompt: Prompt) -> Answer:
        return await self._model.ask(prompt, plan.operator, plan.parent.id, ask.pool)

    def _prompt(self, ask: Ask, plan: Plan) -> Prompt:
        shelf = self._file_views.of(ask.history, plan.parent)
        if not shelf.writable:
            raise Exhausted(
                f"{self.name} found no file to change (access.write): commit one, if only an empty one"
            )
        others = [
            page
            for node in plan.inspirations
            for page in self._file_views.different_files(ask.history, node, plan.parent)
        ]
        briefing = self._context.text(ask, plan.parent, plan.inspirations)
        return code_prompts.first_prompt(plan, briefing, shelf, others, self._options.batch)

    async def _check_reply(self, ask: Ask, plan: Plan, reply: Reply) -> _CheckedReply:
        items = code_replies.parse_items(reply.text, reply.whole, self._options.batch)
        if not items:
            cut = parse_fault("the reply was cut off before a proposal was complete", "Be shorter.")
            return _CheckedReply([code_replies.EMPTY_ITEM], [cut])
        read: list[Edits | ProposalFault] = []
        for item in items:
            read.append(await self._edits(ask, plan, item))
            if not isinstance(read[-1], ProposalFault):
                break
        return _CheckedReply(items, read)

    async def _edits(self, ask: Ask, plan: Plan, item: code_replies.ReplyItem) -> Edits | ProposalFault:
        try:
            return await self._checks.edits(ask, plan.operator, plan.parent, item)
        except ProposalFault as unfit:
            return unfit

    async def _from_unread(self, ask: Ask, unread: UnreadItem) -> Proposal | Refusal:
        """What an item of an earlier reply comes to."""
        operator, calls = Operator(unread.operator), (unread.call,)
        try:
            reply = self._model.saved_reply(unread.call)
        except Misuse as gone:
            self._unread.close(unread.call)
            return Refusal(operator, str(gone), Objection.REPLY, calls)
        items = code_replies.parse_items(reply.text, reply.whole, self._options.batch)
        left = len(items) - 1 - unread.item
        if left <= 0:
            self._unread.close(unread.call)
        if left < 0:
            return Refusal(operator, "the reply holds no proposal any more", Objection.REPLY, calls)
        parent = ask.history[unread.node]
        plan = Plan(operator, parent, "the same reply changed it before", _inspirations(ask, parent, unread.call))
        edits = await self._edits(ask, plan, items[unread.item])
        return _suggestion(plan, items[unread.item], edits, calls, left, unread.item)


def _suggestion(
    plan: Plan,
    item: code_replies.ReplyItem,
    edits: Edits | ProposalFault,
    calls: tuple[str, ...],
    left: int,
    number: int,
) -> Proposal | Refusal:
    if isinstance(edits, ProposalFault):
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
    for number in range(newest, max(newest - _MAX_CHILDREN, 0), -1):
        made = ask.history[parent.id.child(number)]
        if call in made.calls:
            return tuple(map(ask.history.__getitem__, made.inspirations))
    return ()


def make_proposer(options: CodeOptions, services: Services) -> CodeProposer:
    options, files = options.within(services.prompt_tokens(Role.EVOLVER)), services.files
    return CodeProposer(
        services.role_model(Role.EVOLVER),
        options,
        services.make_selector(options.parents),
        services.prompt_context(options.briefing, services.access),
        files.writable_files,
        files.readable_files,
        files.text,
        files.refusal,
        services.embedder(options.embedding) if options.embedding else None,
        services.width,
    )
