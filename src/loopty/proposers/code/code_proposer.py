"""A language model changes the code of the selected node.

One call gives one proposal or several. Later questions, also of a later process, take the remaining ones from the
saved reply, one by one. When no proposal of a reply is usable, the model is asked once more, with the reason. An
unusable proposal beside a usable one, or one left by an earlier process, is refused without another call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.model import Answer, ModelOption, Outage, Prompt, Reply, Role, RoleModel
from loopty.domain.proposal import Edits, Objection, Proposal, Refusal
from loopty.domain.search_config import SearchMove
from loopty.engine.protocols import Ask, Selector
from loopty.kit.records import replace
from loopty.proposers.code import code_prompts, code_replies
from loopty.proposers.code.arm_gradient import gain_bias
from loopty.proposers.code.code_options import CodeOptions, Operator, Policy
from loopty.proposers.code.form_choice import choose_form
from loopty.proposers.code.merges import merge_proposal
from loopty.proposers.code.node_texts import TextCache
from loopty.proposers.code.novelty import Novelty
from loopty.proposers.code.plan import Plan, make_plan
from loopty.proposers.code.proposal_checks import ProposalChecks
from loopty.proposers.code.reply_faults import ProposalFault, parse_fault
from loopty.proposers.code.reply_suggestions import CheckedReply, inspirations_of, make_suggestion
from loopty.proposers.code.search_moves import MOST_BATCH, next_move
from loopty.proposers.code.source_files import FileViews
from loopty.proposers.file_merge import MergeFiles
from loopty.proposers.mutate import mutate_node
from loopty.proposers.services import Services
from loopty.proposers.unread_replies import UnreadItem, UnreadReplies
from loopty.record.node_record import Node
from loopty.record.reply_forms import ReplyForms
from loopty.record.search_learning import SearchLearning

_CHARS_PER_TOKEN = 4
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
    ) -> None:
        self.width = width
        self._models = {option.name: model for option, model in models.items()}
        self._model_options = tuple(models)
        self._options = options
        self._selector = selector
        self._merge_files = merge_files
        self._context = context
        texts = TextCache(text)
        self._file_views = FileViews(writable, readable, texts, options.file_tokens)
        self._checks = ProposalChecks(self._file_views, texts, refusal, Novelty(texts, options.similarity))
        self._mutate = functools.partial(mutate_node, writable=writable, text=text)
        self._unread = UnreadReplies(tuple(Operator))
        self._open_questions = 0
        self._learns = options.policy is Policy.GRADIENT
        self._most_items = MOST_BATCH if self._learns else options.batch

    async def propose(self, ask: Ask) -> Proposal | Refusal | SearchMove | None:
        if unread := self._unread.take(ask):
            return self._from_unread(ask, unread)
        if self._learns and (move := next_move(ask, self._options)):
            return move
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

    async def _from_new_call(self, ask: Ask) -> Proposal | Refusal:
        """The first proposal of a new call."""
        plan = make_plan(ask, self._options, self._selector, self._model_options)
        if plan.operator is Operator.MUTATE:
            return self._from_mutation(ask, plan)
        if plan.operator is Operator.MERGE and (merged := merge_proposal(ask, plan, self._merge_files)):
            return merged
        prompt = self._prompt(ask, plan)
        answer = await self._ask_model(ask, plan, prompt)
        checked = self._check_reply(ask, plan, answer.reply)
        calls: tuple[str, ...] = (answer.call,)
        if fault := checked.fault:
            options, text = self._options, answer.reply.text
            # A change is at most as long as the files; the endless reply of a small model is not sent back whole.
            retry = code_prompts.retry_prompt(
                prompt, text, fault, plan.batch, _CHARS_PER_TOKEN * options.file_tokens
            )
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
        """A random edit, without a call."""
        gains = SearchLearning.of(ask.history.runs[ask.run], ask.pool).gains
        proposal = self._mutate(plan.parent, ask.rng, bias=functools.partial(gain_bias, gains))
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
        answer = choose_form(ask.rng, plan.operator, files, counts, options.form, options.reasons_first)
        context = self._context.text(ask, plan.parent)
        return code_prompts.first_prompt(plan, context, files, other_files, answer)

    def _check_reply(self, ask: Ask, plan: Plan, reply: Reply) -> CheckedReply:
        items = code_replies.parse_items(reply.text, reply.whole, self._most_items)
        if not items:
            fault = parse_fault(
                f"the reply was cut off after {reply.usage.output_tokens:,} tokens, before a change was whole: "
                "raise max_output_tokens of the model (and context_tokens, if that is the limit)",
                "Be shorter.",
            )
            return CheckedReply([code_replies.EMPTY_ITEM], [fault])
        results: list[Edits | ProposalFault] = []
        for item in items:
            results.append(self._edits(ask, plan, item))
            if not isinstance(results[-1], ProposalFault):
                break
        return CheckedReply(items, results)

    def _edits(self, ask: Ask, plan: Plan, item: code_replies.ReplyItem) -> Edits | ProposalFault:
        try:
            return self._checks.edits(ask, plan.operator, plan.parent, item)
        except ProposalFault as fault:
            return fault

    def _from_unread(self, ask: Ask, unread: UnreadItem) -> Proposal | Refusal:
        """The proposal of an item of an earlier reply."""
        operator, calls = Operator(unread.operator), (unread.call,)
        try:
            reply = next(iter(self._models.values())).reply_of(unread.call)
        except Misuse as gone:
            self._unread.close(unread.call)
            return Refusal(operator, str(gone), Objection.REPLY, calls)
        items = code_replies.parse_items(reply.text, reply.whole, self._most_items)
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
        services.role_models(Role.EVOLVER),
        options,
        services.make_selector(options.parents),
        services.prompt_context(options.briefing, services.access),
        files.writable_files,
        files.readable_files,
        files.text,
        files.refusal,
        files.merge,
        services.width,
    )
