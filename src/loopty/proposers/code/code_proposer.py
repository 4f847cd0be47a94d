"""A language model changes the code of the selected node; what its reply says becomes suggestions only after all
checks.

One call gives one proposal or several. Later questions, also of a later process, take the remaining ones from the
saved reply, one by one. When no proposal of a reply is usable, the model is asked once more, with the reason. An
unusable proposal beside a usable one, or one left by an earlier process, is refused without another call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Answer, ModelOption, Outage, Prompt, Reply, Role, RoleModel
from loopty.domain.proposal import Directions, Edits, Objection, Proposal, Refusal
from loopty.domain.task import Pools
from loopty.engine.protocols import Ask, Selector
from loopty.kit.records import Record, replace
from loopty.proposers.code import prompts, replies
from loopty.proposers.code.answer_forms import choose_form
from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.novelty import Novelty
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.proposers.code.plan import Plan, directions_due, make_plan, merge_proposal
from loopty.proposers.code.reply_edits import ProposalFault, parse_fault
from loopty.proposers.code.source_files import FileView, FileViews, TextCache, origin_of
from loopty.proposers.mutate import mutate_node
from loopty.proposers.services import MergeFiles, Services
from loopty.proposers.shared_pool import UnreadItem, UnreadReplies
from loopty.record.calls import ReplyForms
from loopty.record.node_record import Node
from loopty.record.nodes import Proposals
from loopty.record.verdicts import Incumbents

_CHARS_PER_TOKEN = 4
_DIRECTIONS = "directions"
"""The operator of a reviewer's call."""
_DECLINED = "the model knows nothing better"
_DECLINED_AGAIN = f"{_DECLINED}, asked twice"
"""Then the search ends: two answers that do not know of each other."""
_SAME_REPLY = "the same reply changed it before"


class ContextWriter(Protocol):
    """Writes the context of a prompt: the task and the search so far."""

    def text(self, ask: Ask, parent: Node) -> str: ...


class CodeProposer:
    """Asks a model for changes and turns its replies into proposals."""

    name = "llm-code"

    def __init__(
        self,
        models: Mapping[ModelOption, RoleModel],
        options: CodeOptions,
        selector: Selector,
        context: ContextWriter,
        writable: Callable[[str], Sequence[str]],
        readable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
        refusal: Callable[[Node, Proposal], str | None],
        merge_files: MergeFiles,
        width: int = 1,
        pools: Pools | None = None,
        reviewer: RoleModel | None = None,
        may_add: bool = True,
    ) -> None:
        """`pools` is the budget of the run, `reviewer` whom to ask for directions when progress stops.
        `may_add` says whether a change may bring new files.

        Raises Misuse for weights that would not be used.
        """
        if fault := options.fault():
            raise Misuse(f"[proposer] {fault}")
        self.width = width
        self._models = {option.name: model for option, model in models.items()}
        self._model_options = tuple(models)
        self._options = options
        self._selector = selector
        self._merge_files = merge_files
        self._context = context
        texts = TextCache(text)
        self._file_views = FileViews(writable, readable, texts, options.file_tokens, may_add)
        self._checks = ProposalChecks(self._file_views, texts, refusal, Novelty(texts))
        self._mutate = functools.partial(mutate_node, writable=writable, text=text)
        self._unread = UnreadReplies(tuple(Operator))
        self._open_questions = 0
        self._most_items = options.batch
        self._pools = pools
        self._reviewer = reviewer

    async def propose(self, ask: Ask) -> Proposal | Refusal | Directions | None:
        if unread := self._unread.take(ask):
            return self._from_unread(ask, unread)
        if self._reviewer and not self._open_questions and directions_due(ask):
            return await self._directions(ask, self._reviewer)
        self._open_questions += 1
        try:
            return await self._from_new_call(ask)
        except Exhausted:
            # A parallel question that spent the last of the budget may have brought, or may yet bring, several.
            if unread := self._unread.take(ask):
                return self._from_unread(ask, unread)
            if self._open_questions == 1:
                raise
            return None
        finally:
            self._open_questions -= 1

    async def _directions(self, ask: Ask, reviewer: RoleModel) -> Directions:
        """Ask a reviewer what to try next. No directions, where it cannot be asked."""
        files = self._file_views.of(ask.history, ask.best)
        prompt = prompts.directions_prompt(ask.best, self._context.text(ask, ask.best), files)
        try:
            answer = await reviewer.ask(prompt, _DIRECTIONS, ask.best.id)
        except (Exhausted, Outage) as reason:
            return Directions(f"none: {reason}")
        return Directions(answer.reply.text.strip() or "none")

    async def _from_new_call(self, ask: Ask) -> Proposal | Refusal:
        """Return the first proposal of a new call."""
        proposals = Proposals.of(ask.history.runs[ask.run], ask.pool)
        has_declined = proposals.refused_in_row > 0 and proposals.last_refusal.startswith(_DECLINED)
        if has_declined and proposals.last_refusal.startswith(_DECLINED_AGAIN):
            raise Exhausted(proposals.last_refusal)
        plan = make_plan(ask, self._options, self._selector, self._model_options, self._pools)
        if plan.operator is Operator.MUTATE:
            return self._from_mutation(ask, plan)
        if plan.operator is Operator.MERGE and (merged := merge_proposal(ask, plan, self._merge_files)):
            return merged
        prompt = self._prompt(ask, plan)
        answer = await self._ask_model(ask, plan, prompt)
        calls: tuple[str, ...] = (answer.call,)
        if why := replies.no_change(answer.reply.text):
            self._unread.put(ask, answer.call, 1, 0)
            reason = f"{_DECLINED_AGAIN if has_declined else _DECLINED}: {why}"
            return Refusal(plan.operator, reason, Objection.OTHER, calls, arm_reason=plan.arm_reason)
        checked = self._check_reply(ask, plan, answer.reply)
        if fault := checked.fault:
            options, text = self._options, answer.reply.text
            # A change is at most as long as the files; the endless reply of a small model is not sent back whole.
            retry = prompts.retry_prompt(prompt, text, fault, plan.batch, _CHARS_PER_TOKEN * options.file_tokens)
            try:
                answer = await self._ask_model(ask, plan, retry)
            except Exhausted:
                return Refusal(plan.operator, fault.reason, fault.objection, calls, arm_reason=plan.arm_reason)
            except Outage:
                self._unread.put(ask, answer.call, 0, 1)  # otherwise its refusal would never be recorded
                raise
            checked = self._check_reply(ask, plan, answer.reply)
            calls = (*calls, answer.call)
        remaining = 0 if checked.fault else len(checked.items) - 1
        self._unread.put(ask, answer.call, 1, remaining)
        return make_suggestion(plan, checked.items[0], checked.results[0], calls, remaining, 0)

    def _from_mutation(self, ask: Ask, plan: Plan) -> Proposal | Refusal:
        """Make a random edit, without a call."""
        proposal = self._mutate(plan.parent, ask.rng)
        if proposal is None:
            return Refusal(
                plan.operator, "there is nothing to mutate", Objection.OTHER, arm_reason=plan.arm_reason
            )
        return replace(proposal, parent_reason=plan.parent_reason, arm_reason=plan.arm_reason)

    async def _ask_model(self, ask: Ask, plan: Plan, prompt: Prompt) -> Answer:
        return await self._models[plan.model].ask(prompt, plan.operator, plan.parent.id, ask.pool)

    def _prompt(self, ask: Ask, plan: Plan) -> Prompt:
        files = self._file_views.of(ask.history, plan.parent)
        if not files.writable:
            raise Exhausted(
                f"{self.name} found no writable file (access.write): commit one, an empty file is enough"
            )
        other_files = [
            file
            for node in plan.inspirations
            for file in self._file_views.different_files(ask.history, node, plan.parent)
        ]
        options, counts = self._options, ReplyForms.of(ask.history.runs[ask.run]).of_model(plan.model)
        form = choose_form(ask.rng, plan.operator, files, counts, options.form)
        context = self._context.text(ask, plan.parent)
        since_best = Incumbents.of(ask.history.runs[ask.run], ask.pool).since_best
        return prompts.first_prompt(plan, context, files, other_files, form, since_best)

    def _check_reply(self, ask: Ask, plan: Plan, reply: Reply) -> CheckedReply:
        items = replies.parse_items(reply.text, reply.whole, self._most_items)
        if not items:
            fault = parse_fault(
                f"the reply was cut off after {reply.usage.output_tokens:,} tokens, before a change was whole: "
                "raise max_output_tokens of the model (and context_tokens, if that is the limit)",
                "Be shorter.",
            )
            return CheckedReply([replies.EMPTY_ITEM], [fault])
        results: list[Edits | ProposalFault] = []
        for item in items:
            results.append(self._edits(ask, plan, item))
            if not isinstance(results[-1], ProposalFault):
                break
        return CheckedReply(items, results)

    def _edits(self, ask: Ask, plan: Plan, item: replies.ReplyItem) -> Edits | ProposalFault:
        try:
            return self._checks.edits(ask, plan.operator, plan.parent, item)
        except ProposalFault as fault:
            return fault

    def _from_unread(self, ask: Ask, unread: UnreadItem) -> Proposal | Refusal:
        """Return the proposal of an item of an earlier reply."""
        operator, calls = Operator(unread.operator), (unread.call,)
        try:
            reply = next(iter(self._models.values())).reply_of(unread.call)
        except Misuse as gone:
            self._unread.close(unread.call)
            return Refusal(operator, str(gone), Objection.REPLY, calls)
        items = replies.parse_items(reply.text, reply.whole, self._most_items)
        remaining = len(items) - 1 - unread.index
        if remaining <= 0:
            self._unread.close(unread.call)
        if remaining < 0:
            return Refusal(operator, "the reply has no further proposal", Objection.REPLY, calls)
        parent = ask.history[unread.node]
        inspirations = inspirations_of(ask, parent, unread.call)
        plan = Plan(operator, parent, _SAME_REPLY, inspirations, arm_reason=_SAME_REPLY)
        edits = self._edits(ask, plan, items[unread.index])
        return make_suggestion(plan, items[unread.index], edits, calls, remaining, unread.index)


def make_proposer(options: CodeOptions, services: Services) -> CodeProposer:
    options, files = options.within(services.prompt_tokens(Role.EVOLVER)), services.files
    return CodeProposer(
        models=services.role_models(Role.EVOLVER),
        options=options,
        selector=services.make_selector(options.parents),
        context=services.prompt_context(options.briefing, services.access),
        writable=files.writable_files,
        readable=files.readable_files,
        text=files.text,
        refusal=files.refusal,
        merge_files=files.merge,
        width=services.width,
        pools=services.limits.pools,
        reviewer=services.role_model(Role.VERIFIER) if services.has_role(Role.VERIFIER) else None,
        may_add=any(set(pattern) & set("*?[") for pattern in services.access.write),
    )


class ProposalChecks:
    """Checks items against the node that they change."""

    def __init__(
        self,
        file_views: FileViews,
        texts: TextCache,
        refusal: Callable[[Node, Proposal], str | None],
        novelty: Novelty,
    ) -> None:
        self._file_views = file_views
        self._texts = texts
        self._refusal = refusal
        self._novelty = novelty

    def edits(self, ask: Ask, operator: Operator, parent: Node, item: replies.ReplyItem) -> Edits:
        """Return the item's edits of the parent's files. Raises ProposalFault with what is wrong with the item."""
        files = self._file_views.of(ask.history, parent)
        changes = replies.parse_changes(item, files.known, files.only_writable)
        origin = origin_of(ask.history, parent)

        def read(path: str) -> str | None:
            return self._texts.text(origin.commit(path), path) if path in files.known else None

        self._check_writable(parent, files, {change.path for change in changes}, read)
        edits = apply_changes(changes, read, frozenset() if operator is Operator.DRAFT else files.not_fully_shown)
        self._check_access(parent, edits)
        self._novelty.check(ask, parent, edits)
        return edits

    def _check_writable(
        self, parent: Node, files: FileView, paths: Iterable[str], read: Callable[[str], str | None]
    ) -> None:
        """Refuse files that may not be changed, before any other fault of them is reported."""
        self._check_access(parent, {path: read(path) or "" for path in paths if path not in files.writable})

    def _check_access(self, parent: Node, edits: Edits) -> None:
        if edits:
            proposal = Proposal("", parent.id, "", edits=edits)
            # Not in a thread: git answers through an open pipe, which is faster than starting a thread.
            if reason := self._refusal(parent, proposal):
                raise ProposalFault(Objection.FORBIDDEN, reason)


_MAX_CHILDREN = 16


class CheckedReply(Record):
    """The items of a reply, and the edits or fault of each up to the first usable one."""

    items: Sequence[replies.ReplyItem]
    results: Sequence[Edits | ProposalFault]

    @property
    def fault(self) -> ProposalFault | None:
        """Return the fault of the first item if no item is usable, or None."""
        first = self.results[0]
        return first if isinstance(first, ProposalFault) and isinstance(self.results[-1], ProposalFault) else None


def make_suggestion(
    plan: Plan,
    item: replies.ReplyItem,
    edits: Edits | ProposalFault,
    calls: tuple[str, ...],
    remaining: int,
    index: int,
) -> Proposal | Refusal:
    if isinstance(edits, ProposalFault):
        reason, objection = edits.reason, edits.objection
        return Refusal(
            operator=plan.operator,
            reason=reason,
            objection=objection,
            calls=calls,
            remaining_in_reply=remaining,
            index_in_reply=index,
            arm_reason=plan.arm_reason,
        )
    return Proposal(
        plan.operator,
        plan.parent.id,
        replies.summary(item, edits),
        edits=edits,
        inspirations=tuple(node.id for node in plan.inspirations),
        calls=calls,
        remaining_in_reply=remaining,
        index_in_reply=index,
        parent_reason=plan.parent_reason,
        arm_reason=plan.arm_reason,
        merged=tuple(node.id for node in plan.inspirations) if plan.operator is Operator.MERGE else (),
    )


def inspirations_of(ask: Ask, parent: Node, call: str) -> tuple[Node, ...]:
    """Return the other nodes in a call's prompt, from an earlier node of the same call; empty without one."""
    newest = ask.history[parent.id].children
    for number in range(newest, max(newest - _MAX_CHILDREN, 0), -1):
        child = ask.history[parent.id.child(number)]
        if call in child.calls:
            return tuple(map(ask.history.__getitem__, child.inspirations))
    return ()
